"""SUMO for real for some minutes, and its refusals on doctored detector files."""

import shutil
import sys
from itertools import islice
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

from simulators import sumo
from simulators.cache import read_baseline
from simulators.errors import SimulatorError
from simulators.isolation import run_isolated
from simulators.sumo.inputs import departures
from simulators.sumo.outputs import read_series, read_statistics

BASELINE = Path(__file__).resolve().parents[2] / "whatif_jax" / "catalog" / "sumo.parquet"


def test_twenty_minutes_of_night(sumo_run):
    recording, _ = sumo_run
    assert list(recording.columns) == list(sumo.TARGETS)
    assert len(sumo.TARGETS) == 30
    # 120 vehicles an hour enter on lane 0 and leave by either
    assert recording.columns["flow_loop_e_0_far"].tolist() == [120] * 4
    assert recording.columns["flow_loop_e_1_far"].tolist() == [0] * 4
    leaving = recording.columns["flow_loop_exit_e_0"] + recording.columns["flow_loop_exit_e_1"]
    assert 100 <= leaving.mean() <= 130  # from the opposite approach
    assert recording.record["vehicles_due"] == 4 * 40
    assert recording.record["teleports"] == 0
    assert recording.record["backlog_largest"] == 0
    assert recording.settings["interface"] == "libsumo"
    assert recording.settings["vehicle_type"]["minGap"] == 2.5


def test_network_is_the_one_of_spec_2(sumo_run):
    _, folder = sumo_run
    network = ElementTree.parse(folder / "network.net.xml").getroot()
    edges = [edge for edge in network.iter("edge") if edge.get("function") != "internal"]
    assert len(edges) == 8
    for edge in edges:
        assert [lane.get("speed") for lane in edge.iter("lane")] == ["13.89", "13.89"]
    plan = network.find("tlLogic")
    assert plan.get("type") == "static"
    assert [float(phase.get("duration")) for phase in plan] == [42, 3, 42, 3]
    for phase in plan:
        assert len(phase.get("state")) == 8


def test_run_repeats_and_starts_the_cached_series(sumo_run):
    recording, _ = sumo_run
    cached, metadata = read_baseline(BASELINE, "sumo")
    for name, values in recording.columns.items():
        assert np.array_equal(values.astype(np.float32), cached[name][:4]), name
    assert metadata["seed"] == sumo.SEED


@pytest.mark.slow
def test_traci_where_libsumo_is_missing_gives_the_same(sumo_run, write_module, tmp_path):
    write_module("libsumo", "raise ImportError('not on this machine')\n")
    recording = run_isolated("simulators.sumo", 1, tmp_path)
    assert recording.settings["interface"] == "traci"
    for name, values in recording.columns.items():
        assert values[0] == sumo_run[0].columns[name][0], name


def test_departures_are_even_within_each_period():
    day = list(islice(departures(), 6 * 120 + 6 * 2000 + 7 * 800 + 5 * 400 + 1))
    assert day[:3] == [0, 30, 60]
    assert day[720:722] == [6 * 3600, 6 * 3600 + 1.8]
    assert day[-1] == 86_400
    assert (np.diff(day) > 0).all()


@pytest.mark.slow
def test_backlog_above_its_bound_is_recorded(write_module, tmp_path):
    crowded = write_module(
        "crowded_runner",
        "from simulators import sumo\n"
        "from simulators.sumo import inputs\n"
        "inputs.PERIODS = ((0, 24, 4000),)\n"
        "sumo.BACKLOG_BOUND = 100\n"
        "simulate = sumo.simulate\n",
    )
    recording = run_isolated(crowded, 1, tmp_path)
    assert recording.record["backlog_above_bound"]
    assert recording.record["backlog_largest"] > 100
    assert recording.record["backlog_bound"] == 100
    assert any("backlog" in warning for warning in recording.warnings)


def test_teleports_above_their_bound_are_recorded(sumo_run, tmp_path, capsys):
    path = tmp_path / "statistics.xml"
    text = (sumo_run[1] / "statistics.xml").read_text()
    path.write_text(text.replace('<teleports total="0"', '<teleports total="3"'))
    record = sumo.assess(read_statistics(path), {"backlog_largest": 0})
    assert record["teleports_above_bound"]
    assert not record["backlog_above_bound"]
    assert "Warning: teleports: 3 vehicles, above the bound of 0" in capsys.readouterr().out
    path.write_text("<statistics/>")
    with pytest.raises(SimulatorError, match=r"no teleports.total"):
        read_statistics(path)
    with pytest.raises(SimulatorError, match="no such file"):
        read_statistics(tmp_path / "none.xml")


@pytest.fixture
def doctor(sumo_run, tmp_path):
    """A copy of the run's detector files, one of them changed."""

    def change(name: str, old: str, new: str, count: int = 1) -> Path:
        folder = tmp_path / "doctored"
        if not folder.exists():
            shutil.copytree(sumo_run[1], folder)
        text = (folder / name).read_text()
        assert old in text
        (folder / name).write_text(text.replace(old, new, count))
        return folder

    return change


def interval(folder: Path, name: str, detector: str, begin: int) -> str:
    """The line of one interval."""
    return next(
        line
        for line in (folder / name).read_text().splitlines()
        if f'id="{detector}"' in line and f'begin="{begin}.00"' in line
    )


def test_row_counts_and_times_are_refused(doctor, sumo_run):
    line = interval(sumo_run[1], "loops.xml", "loop_e_0_near", 900)
    with pytest.raises(SimulatorError, match=r"loops.xml, loop_e_0_near: 3 intervals; expected 4"):
        read_series(doctor("loops.xml", line, ""), 4)
    doctor("loops.xml", "</detector>", line + "</detector>")
    doctor("loops.xml", "</detector>", line + "</detector>")
    with pytest.raises(SimulatorError, match=r"loop_e_0_near: repeated timestamp 900"):
        read_series(doctor("loops.xml", "</detector>", "</detector>"), 4)
    with pytest.raises(SimulatorError, match="4 intervals; expected 3 intervals"):
        read_series(sumo_run[1], 3)


def test_missing_middle_interval_is_refused(doctor, sumo_run):
    line = interval(sumo_run[1], "areas.xml", "e2_e_1", 300)
    with pytest.raises(SimulatorError, match=r"areas.xml, e2_e_1: uneven timestamp 600"):
        read_series(doctor("areas.xml", line, ""), 4)


def test_short_interval_is_refused(doctor, sumo_run):
    line = interval(sumo_run[1], "loops.xml", "loop_e_1_near", 900)
    folder = doctor("loops.xml", line, line.replace('end="1200.00"', 'end="1199.00"'))
    with pytest.raises(SimulatorError, match="interval at 900 s: 299 s long; expected 300 s"):
        read_series(folder, 4)


@pytest.mark.parametrize("new", ["", 'flow=""'])
def test_absent_value_is_refused(doctor, sumo_run, new):
    line = interval(sumo_run[1], "loops.xml", "loop_exit_e_0", 300)
    value = next(part for part in line.split() if part.startswith("flow="))
    folder = doctor("loops.xml", line, line.replace(value, new))
    with pytest.raises(SimulatorError, match="loop_exit_e_0, interval at 300 s: attribute flow is"):
        read_series(folder, 4)


def test_negative_value_that_is_no_mean_is_refused(doctor, sumo_run):
    line = interval(sumo_run[1], "loops.xml", "loop_exit_e_0", 300)
    value = next(part for part in line.split() if part.startswith("flow="))
    folder = doctor("loops.xml", line, line.replace(value, 'flow="-1.00"'))
    with pytest.raises(
        SimulatorError, match=r"flow_loop_exit_e_0: -1.0 at row 1; expected a non-n"
    ):
        read_series(folder, 4)


def test_cut_and_missing_files_are_refused(doctor, sumo_run):
    line = interval(sumo_run[1], "areas.xml", "e2_e_1", 900)
    folder = doctor("areas.xml", line, line[:40])
    with pytest.raises(SimulatorError, match=r"areas.xml: not well-formed.*expected whole XML"):
        read_series(folder, 4)
    (folder / "areas.xml").unlink()
    with pytest.raises(SimulatorError, match=r"areas.xml: no such file"):
        read_series(folder, 4)


def test_nobody_keeps_the_last_speed_and_loses_no_time(doctor, sumo_run):
    recording, folder = sumo_run
    line = interval(folder, "loops.xml", "loop_e_1_near", 600)
    speed = next(part for part in line.split() if part.startswith("speed="))
    doctor("loops.xml", line, line.replace(f" {speed}", ' speed="-1.00"'))
    line = interval(folder, "areas.xml", "e2_e_1", 0)
    speed = next(part for part in line.split() if part.startswith("meanSpeed="))
    loss = next(part for part in line.split() if part.startswith("meanTimeLoss="))
    changed = line.replace(speed, 'meanSpeed="-1.00"').replace(loss, 'meanTimeLoss="-1.00"')
    series, replaced = read_series(doctor("areas.xml", line, changed), 4)
    near, area = series["speed_loop_e_1_near"], series["meanSpeed_e2_e_1"]
    assert near[2] == near[1] == recording.columns["speed_loop_e_1_near"][1]
    assert area[0] == area[1] == recording.columns["meanSpeed_e2_e_1"][1]
    assert series["meanTimeLoss_e2_e_1"][0] == 0
    assert replaced == {
        "speed_loop_e_1_near": 1,
        "meanSpeed_e2_e_1": 1,
        "meanTimeLoss_e2_e_1": 1,
    }


def test_speed_that_is_never_seen_is_refused(doctor, sumo_run):
    for begin in (0, 300, 600, 900):
        line = interval(sumo_run[1], "areas.xml", "e2_e_0", begin)
        speed = next(part for part in line.split() if part.startswith("meanSpeed="))
        folder = doctor("areas.xml", line, line.replace(speed, 'meanSpeed="-1.00"'))
    with pytest.raises(SimulatorError, match=r"meanSpeed_e2_e_0: -1.0 at row 0"):
        read_series(folder, 4)


def test_empty_edge_emits_nothing(doctor, sumo_run):
    text = (sumo_run[1] / "emissions.xml").read_text()
    start = text.index("<edge id=")
    folder = doctor("emissions.xml", text[start : text.index("</interval>")], "")
    series, _ = read_series(folder, 4)
    assert series["CO2_abs_edge_e2c"][0] == 0
    assert series["CO2_abs_edge_e2c"][1] > 0


@pytest.mark.parametrize("blocked", [["sumo"], ["libsumo", "traci"]])
def test_missing_sumo_names_the_extra(monkeypatch, tmp_path, blocked):
    for name in blocked:
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(SimulatorError, match=r"sumo: simulator: .*pip install -e .*\[simulators\]"):
        sumo.simulate(tmp_path, 1, tmp_path, lambda done, total: None)
