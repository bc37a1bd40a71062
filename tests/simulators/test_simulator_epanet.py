"""EPANET for real on Net1, and its refusals."""

import sys

import numpy as np
import pytest

from simulators import epanet
from simulators.errors import SimulatorError
from simulators.isolation import run_isolated


@pytest.fixture(scope="module")
def day(tmp_path_factory):
    return run_isolated("simulators.epanet", 288, tmp_path_factory.mktemp("data"))


def test_two_days_of_net1(day):
    assert list(day.columns) == list(epanet.TARGETS)
    assert len(epanet.TARGETS) == 37
    flow, level = day.columns["flowrate_9"], day.columns["pressure_2"] / 0.4333
    # what Net1's control says: on below 110 ft, off above 140 ft, which a step may overshoot
    assert 105 < level.min() <= 112
    assert 138 <= level.max() < 145
    assert (np.abs(flow) < 1).any()
    assert flow.max() > 1500
    # all water comes from the reservoir and all of it passes the pump
    assert np.allclose(day.columns["demand_9"], -flow, atol=0.01)
    assert day.seed is None
    assert day.units["flowrate_9"] == "GPM"


def test_velocity_is_flow_over_area_in_us_units(day):
    # 1 GPM = 0.002228 cubic feet a second; pipe 31 is 6 inches wide
    area = np.pi * (6 / 12) ** 2 / 4
    expected = np.abs(day.columns["flowrate_31"]) * 0.0022280 / area
    assert np.allclose(day.columns["velocity_31"], expected, rtol=1e-3)


def test_unbalanced_hydraulics_are_refused(tmp_path):
    model = epanet.base_model(24)
    model.options.hydraulic.trials = 1
    model.options.hydraulic.accuracy = 1e-5
    model.options.hydraulic.unbalanced = "CONTINUE"
    model.options.hydraulic.unbalanced_value = 0
    with pytest.raises(
        SimulatorError, match=r"epanet: hydraulics: WARNING.*nbalanced.*expected a bal"
    ):
        epanet.solve(model, tmp_path, 24)


def test_report_with_another_warning_is_shown_not_refused(tmp_path):
    report = tmp_path / "net1.rpt"
    report.write_text("  WARNING: Negative pressures at 1:00:00 hrs.\n  1:00:00: Balanced\n")
    assert epanet.read_report(report) == ["WARNING: Negative pressures at 1:00:00 hrs."]
    with pytest.raises(SimulatorError, match="no such file"):
        epanet.read_report(tmp_path / "none.rpt")


def test_wrong_row_count_and_step_are_refused(tmp_path):
    with pytest.raises(SimulatorError, match="24 rows; expected 25 rows"):
        epanet.solve(epanet.base_model(24), tmp_path, 25)
    model = epanet.base_model(24)
    model.options.time.report_timestep = 1200
    with pytest.raises(SimulatorError, match=r"uneven timestamp 1200.*expected rows 600 s apart"):
        epanet.solve(model, tmp_path, 12)


def test_missing_wntr_names_the_extra(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "wntr", None)
    with pytest.raises(
        SimulatorError, match=r"'wntr' cannot be imported.*pip install -e .*\[simulators\]"
    ):
        epanet.simulate(tmp_path, 24, tmp_path, lambda done, total: None)
