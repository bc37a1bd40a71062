"""GridLAB-D for real for a day, with TMY2 and TMY3 weather, and its refusals."""

import sys
from pathlib import Path

import numpy as np
import pytest

from simulators import gridlabd
from simulators.cache import read_baseline
from simulators.errors import SimulatorError
from simulators.gridlabd.weather import check_weather
from simulators.isolation import run_isolated

BASELINE = Path(__file__).resolve().parents[2] / "whatif_jax" / "catalog" / "gridlabd.parquet"


def test_one_day(gridlabd_run):
    recording, _ = gridlabd_run
    assert list(recording.columns) == list(gridlabd.TARGETS)
    for name in ("is_AUX_on", "is_HEAT_on"):
        assert set(recording.columns[name]) == {1.0, 2.0}, name
        assert recording.record["switches_on"][name] > 3
    assert set(recording.columns["is_COOL_on"]) == {1.0}
    # below the lockout the auxiliary heats in place of the pump, and the load adds up
    assert recording.columns["total_load"].min() == pytest.approx(10, rel=1e-3)
    settled = recording.columns["air_temperature"][720:]
    assert 58 < settled.min() < settled.max() < 62
    assert any("TMY2" in warning for warning in recording.warnings)


def test_run_repeats_the_cached_series(gridlabd_run):
    recording, _ = gridlabd_run
    cached, metadata = read_baseline(BASELINE, "gridlabd")
    for name, values in recording.columns.items():
        assert np.array_equal(values.astype(np.float32), cached[name][:1440]), name
    assert metadata["seed"] == gridlabd.SEED
    assert metadata["settings"]["weather_station"].startswith("24233 SEATTLE WA")


def as_tmy3(tmy2: Path, tmy3: Path) -> None:
    """Rewrite the columns GridLAB-D reads from a TMY2 file as a TMY3 file."""
    fields = {0: (9, 13), 1: (13, 17), 2: (17, 21), 5: (23, 27), 8: (29, 33)}
    tenths = {29: (67, 71), 32: (73, 77), 44: (95, 98)}
    others = {35: (79, 82), 38: (84, 88), 41: (90, 93)}
    lines = [
        '727930,"SEATTLE","WA",-8.0,47.450,-122.300,122',
        "Date (MM/DD/YYYY),Time (HH:MM)",
    ]
    lines[1] += ",x" * 66
    for line in tmy2.read_text().splitlines()[1:]:
        row = ["0"] * 66
        for column, (start, end) in {**fields, **others}.items():
            row[column] = str(int(line[start:end]))
        for column, (start, end) in tenths.items():
            row[column] = str(int(line[start:end]) / 10)
        date = f"{line[3:5]}/{line[5:7]}/19{line[1:3]},{line[7:9]}:00,"
        lines.append(date + ",".join(row))
    tmy3.write_text("\n".join(lines) + "\n")


@pytest.mark.slow
def test_tmy3_weather(data, tmp_path, gridlabd_run):
    path = tmp_path / "seattle.tmy3"
    as_tmy3(gridlabd.find_weather(data), path)
    recording = run_isolated("simulators.gridlabd", 720, path)
    # the same hours, read by another reader: close to the TMY2 run's, not equal
    heat = recording.columns["heating_demand"]
    assert np.abs(heat.mean() / gridlabd_run[0].columns["heating_demand"][:720].mean() - 1) < 0.1
    assert recording.settings["weather_file"] == "seattle.tmy3"


def test_weather_is_refused(data, tmp_path):
    weather = gridlabd.find_weather(data)
    assert check_weather(weather, 9000 * 60) == 8760
    lines = weather.read_text().splitlines()
    short = tmp_path / "short.tmy2"
    short.write_text("\n".join(lines[:101]))
    with pytest.raises(SimulatorError, match=r"short.tmy2: 100 hours; expected 151 hours or more"):
        check_weather(short, 9000 * 60)
    with pytest.raises(SimulatorError, match=r"short.tmy2: 100 hours; expected 151 hours or more"):
        run_isolated("simulators.gridlabd", 9000, short)
    short.write_text("\n".join([*lines[:50], *lines[51:]]))
    with pytest.raises(SimulatorError, match=r"\(1, 3, 3\) at data row 50; expected \(1, 3, 2\)"):
        check_weather(short, 9000 * 60)
    short.write_text("\n".join([*lines[:50], "", "garbage", *lines[51:]]))
    with pytest.raises(SimulatorError, match="data row 50 has no date"):
        check_weather(short, 9000 * 60)
    other = tmp_path / "weather.csv"
    other.write_text("x")
    with pytest.raises(SimulatorError, match=r"weather.csv; expected a .tmy2 or .tmy3 file"):
        check_weather(other, 60)
    with pytest.raises(SimulatorError, match="does not exist"):
        check_weather(tmp_path / "none.tmy2", 60)
    with pytest.raises(SimulatorError, match="expected one TMY2 or TMY3 file"):
        gridlabd.find_weather(tmp_path)


@pytest.fixture
def doctor(gridlabd_run, tmp_path):
    """The house recorder's lines, changed and written again."""
    lines = (gridlabd_run[1] / "house.csv").read_text().splitlines()

    def change(edit) -> Path:
        path = tmp_path / "house.csv"
        path.write_text("\n".join(edit(list(lines))) + "\n")
        return path

    return change


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (
            lambda lines: [line for line in lines if line[0] == "#"],
            "house.csv: only a header",
        ),
        (lambda lines: lines[:-3], "1437 rows; expected 1440 rows"),
        (
            lambda lines: [*lines[:-1], lines[-1][:30]],
            "row 1439: 1 values; expected 10",
        ),
        (
            lambda lines: [*lines[:-1], "20"],
            r"row 1439: \['20'\] .*expected a time and numbers",
        ),
        (
            lambda lines: [*lines, lines[-1]],
            r"house.csv: repeated timestamp 86340.0* s at row 1440",
        ),
        (lambda lines: [*lines[:99], *lines[100:]], "house.csv: uneven timestamp 5460"),
        (
            lambda lines: [*lines[:-1], lines[-1].replace("+0,", "fault,", 1)],
            "could not convert string to float: 'fault'",
        ),
        (lambda lines: [], "only a header"),
    ],
)
def test_recorder_is_refused(doctor, edit, message):
    with pytest.raises(SimulatorError, match=message):
        gridlabd.read_recorder(doctor(edit), 1440)


def test_recorder_with_the_stop_time_too_loses_that_row(doctor, gridlabd_run):
    path = doctor(lambda lines: lines)
    series = gridlabd.read_recorder(path, 1439)
    assert len(series["total_load"]) == 1439
    assert series["total_load"][0] == gridlabd_run[0].columns["total_load"][0]
    with pytest.raises(SimulatorError, match="no such file"):
        gridlabd.read_recorder(path.with_name("none.csv"), 1440)


def test_complex_power_is_its_magnitude(doctor):
    path = doctor(lambda lines: [line.replace(",+0+0j,", ",+3-4j,") for line in lines])
    values = gridlabd.read_recorder(path, 1440)["hvac_power"]
    assert (values == 5).any()
    assert (values >= 0).all()


def test_non_finite_value_is_kept_for_the_check(doctor):
    path = doctor(lambda lines: [*lines[:-1], lines[-1].replace("+0,", "nan,", 1)])
    assert any(np.isnan(values[-1]) for values in gridlabd.read_recorder(path, 1440).values())


def test_model_that_does_not_load_is_refused(tmp_path):
    with pytest.raises(SimulatorError, match=r"(?s)gridlabd: run: exit 1: .*expected success"):
        gridlabd.run_model("object house {\n  no_such_property 3;\n}\n", tmp_path)


def test_missing_gridlabd_names_the_extra(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "gridlabd", None)
    with pytest.raises(SimulatorError, match=r"'gridlabd' cannot.*pip install -e .*\[simulators\]"):
        gridlabd.run_model("", tmp_path)
