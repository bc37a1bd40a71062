"""Training runs: tiny real ones of each system, their settings' refusals, and the file written."""

import json
import tomllib
from pathlib import Path

import numpy as np
import pytest
from pyarrow import parquet
from typer.testing import CliRunner

from simulators.__main__ import application
from simulators.errors import SimulatorError
from simulators.gridlabd import read_recorder
from simulators.isolation import run_isolated
from simulators.recording import Recording
from simulators.training import cache
from simulators.training.cache import write_series
from simulators.training.choose import choose_series, varies
from simulators.training.demand import demand_factors
from simulators.training.epanet import WARM_UP
from simulators.training.runs import MODULES, checked_run, read_runs, run_module

pytestmark = pytest.mark.slow  # together most of a minute or more on a busy machine

SYSTEMS = tuple(MODULES)


def tiny(system: str, **changes) -> dict:
    """The first run of a system's file, shortened."""
    run = read_runs(system)[0].model_dump(mode="json")
    return {**run, **changes}


def run_tiny(system: str, data: Path, **changes) -> Recording:
    settings = tiny(system, **changes)
    return run_isolated(MODULES[system], settings["steps"], data, system=system, settings=settings)


def check(recording: Recording, settings: dict) -> None:
    assert 1 <= len(recording.columns) <= settings["columns"]
    assert recording.step_seconds == settings["step_seconds"]
    assert recording.seed == settings["seed"]
    for name, values in recording.columns.items():
        assert values.shape == (settings["steps"],)
        assert varies(values), name
        assert recording.units[name]
    json.dumps(recording.settings)


# ---- real runs ----


def test_epanet_runs_and_a_seed_means_the_same_series(tmp_path):
    changes = dict(network="Net2", steps=96, step_seconds=1800)
    first = run_tiny("epanet", tmp_path, **changes)
    check(first, tiny("epanet", **changes))
    again = run_tiny("epanet", tmp_path, **changes)
    assert list(first.columns) == list(again.columns)
    for name, values in first.columns.items():
        np.testing.assert_array_equal(values, again.columns[name])
    other = run_tiny("epanet", tmp_path, **changes, seed=1, columns=40)
    shared = set(first.columns) & set(other.columns)
    assert shared
    assert all(not np.array_equal(first.columns[name], other.columns[name]) for name in shared)


def test_epanet_demand_is_what_was_drawn(tmp_path):
    """Net2 with one group: each junction's demand is base x multiplier x factor."""
    changes = dict(network="Net2", steps=48, step_seconds=3600, groups=1, noise=0.1, columns=1)
    recording = run_tiny("epanet", tmp_path, **changes, age=False, demand_multiplier=0.5)
    (name,) = recording.columns  # demands come first in the alphabet
    assert name.startswith("demand_")
    rng = np.random.default_rng(recording.seed)
    factors = np.round(demand_factors(WARM_UP + 48, 3600, 0.1, rng), 5)[WARM_UP:]
    ratio = recording.columns[name] / factors
    np.testing.assert_allclose(ratio, ratio.mean(), rtol=2e-5)  # EPANET computes in float32


def test_gridlabd_runs(data):
    changes = dict(steps=288, step_seconds=300)
    recording = run_tiny("gridlabd", data, **changes)
    check(recording, tiny("gridlabd", **changes))
    assert len(recording.columns) >= 5
    again = run_tiny("gridlabd", data, **changes)
    for name, values in recording.columns.items():
        np.testing.assert_array_equal(values, again.columns[name])


def test_opendc_runs(data):
    recording = run_tiny("opendc", data, steps=576)
    check(recording, tiny("opendc", steps=576))
    whole = run_tiny("opendc", data, steps=576, columns=40).columns
    for name, values in recording.columns.items():
        np.testing.assert_array_equal(values, whole[name])


def test_sumo_runs(tmp_path):
    changes = dict(steps=30, step_seconds=60, day_hours=1)
    seen = []
    settings = tiny("sumo", **changes)
    recording = run_isolated(
        MODULES["sumo"],
        30,
        tmp_path,
        system="sumo",
        settings=settings,
        report=lambda done, total: seen.append(done),
    )
    check(recording, settings)
    assert seen == list(range(31))
    assert recording.record["vehicles_inserted"] > 0
    assert "lane" not in recording.units


# ---- settings ----


@pytest.mark.parametrize("system", SYSTEMS)
def test_listed_runs_are_whole_and_bounded(system):
    runs = read_runs(system)
    assert len(runs) >= 5
    assert len({run.seed for run in runs}) == len(runs)
    for run in runs:
        assert 2048 <= run.steps <= 12_000, run.name
        assert run.columns <= 24, run.name


def test_no_machine_of_the_trace_is_in_two_runs():
    names = [
        name for run in read_runs("opendc") for placed in run.hosts.values() for name in placed
    ]
    assert len(set(names)) == len(names)


@pytest.mark.parametrize(
    "system, changes, says",
    [
        ("epanet", {"network": "Net1"}, r"run net2-a, network: Net1; expected .*Net2"),
        ("epanet", {"demand": 1}, r"run net2-a, demand: 1; expected Extra inputs"),
        ("epanet", {"steps": 20_000}, r"steps: 20000; expected .*12000"),
        ("gridlabd", {"start": "2001-01-03T00:00:00"}, r"start: .*January"),
        ("gridlabd", {"start": "2001-03-03T05:00:00"}, r"start: .*midnight"),
        ("opendc", {"hosts": {"host-0": ["1138", "1019"]}}, r"hosts: .*benchmark"),
        ("opendc", {"hosts": {"host-0": ["1138"], "host-1": ["1138"]}}, r"hosts: .*once"),
        ("sumo", {"lights": "none"}, r"lights: none; expected .*static"),
    ],
)
def test_faulty_settings_are_refused_by_name(system, changes, says):
    with pytest.raises(SimulatorError, match=says):
        checked_run(system, run_module(system).RUN, tiny(system, **changes))


def test_missing_setting_and_step_that_does_not_fit_are_refused(tmp_path):
    settings = tiny("epanet")
    del settings["groups"]
    with pytest.raises(SimulatorError, match="run net2-a, groups: nothing; expected Field req"):
        checked_run("epanet", run_module("epanet").RUN, settings)
    with pytest.raises(SimulatorError, match=r"step_seconds: 700; expected a divisor .* 3600"):
        run_tiny("epanet", tmp_path, steps=10, step_seconds=700)


def test_files_of_runs_are_refused(tmp_path):
    path = tmp_path / "runs.toml"
    with pytest.raises(SimulatorError, match="runs.toml.*expected a TOML file"):
        read_runs("sumo", path)
    path.write_text("[[run")
    with pytest.raises(SimulatorError, match="expected a TOML file"):
        read_runs("sumo", path)
    path.write_text("")
    with pytest.raises(SimulatorError, match=r"\[\]; expected runs, each with a name of its own"):
        read_runs("sumo", path)


# ---- which series are kept ----


def test_a_series_must_vary():
    noise = np.random.default_rng(0).normal(size=300)
    assert varies(noise)
    assert not varies(np.ones(300))
    assert not varies(1e6 + 1e-3 * noise)  # float32 rounding
    assert not varies(np.concatenate([noise[:150], np.zeros(150)]))  # rests for half the run
    assert not varies(np.where(np.arange(300) == 50, 1.0, 0.0))
    assert not varies(np.concatenate([noise, [np.nan]]))
    assert varies(np.repeat(noise[:60], 5))


def test_quantities_take_turns_and_copies_are_left_out():
    rng = np.random.default_rng(1)
    series = {f"p{index}": rng.normal(size=200) for index in range(6)}
    series |= {"q0": rng.normal(size=200), "still": np.ones(200)}
    series["copy"] = 3 - 2 * series["q0"]
    quantities = {name: name[0] for name in series}
    chosen = choose_series(series, quantities, 4, seed=0)
    assert sum(name in ("q0", "copy") for name in chosen) == 1
    assert sum(name.startswith("p") for name in chosen) == 3
    assert chosen == [name for name in series if name in chosen]
    everything = choose_series(series, quantities, 40, seed=0)
    assert len(everything) == 7 and "still" not in everything


def test_demand_without_noise_repeats_weekly_and_is_about_one():
    factors = demand_factors(24 * 14, 3600, 0.0, np.random.default_rng(3))
    assert (factors > 0).all()
    np.testing.assert_allclose(factors[: 24 * 7], factors[24 * 7 :], rtol=1e-12)
    assert 0.9 < factors.mean() < 1.1
    assert np.ptp(factors[:24]) > 0.1
    short = demand_factors(48, 900, 0.0, np.random.default_rng(3), day_seconds=6 * 3600)
    shape = short[:24] / short[:24].mean()  # a day of six hours, and the next one's weekday
    np.testing.assert_allclose(shape, short[24:] / short[24:].mean(), rtol=1e-12)


def test_demand_noise_has_the_stated_spread():
    rng = np.random.default_rng(5)
    logs = np.log(demand_factors(40_000, 600, 0.2, rng))
    days = logs[: 144 * 7 * 39].reshape(39, 144 * 7)
    noise = days - days.mean(axis=0)  # profile and weekday taken out
    # 39 weeks of correlated noise: some percent of its standard deviation
    assert noise.std() == pytest.approx(0.2, rel=0.15)


def test_recorder_in_magnitude_and_degrees(tmp_path):
    path = tmp_path / "meter.csv"
    path.write_text(
        "# timestamp,voltage,current\n"
        "2001-02-05 00:00:00 PST,+119.865-0.0611658d,+3+4j\n"
        "2001-02-05 00:05:00 PST,+1.2e+02+179.5d,-6-8j\n"
    )
    read = read_recorder(path, 2, 300)
    np.testing.assert_array_equal(read["voltage"], [119.865, 120.0])
    np.testing.assert_array_equal(read["current"], [5.0, 10.0])
    with pytest.raises(SimulatorError, match="rows 60 s apart"):
        read_recorder(path, 2)


# ---- the file and the command ----


def recording(values: np.ndarray) -> Recording:
    return Recording(
        "epanet", {"a": values}, {"a": "m"}, 60, "toy", "1", {"x": 1}, 7, "of nobody", {}, []
    )


def test_file_holds_values_and_facts(tmp_path):
    path = tmp_path / "epanet.parquet"
    values = np.linspace(0, 1, 50)
    write_series([("one", recording(values)), ("two", recording(values[:20]))], path)
    table = parquet.read_table(path)
    assert table["run"].to_pylist() == ["one", "two"]
    np.testing.assert_array_equal(
        np.float32(table["values"][1].as_py()), values[:20].astype(np.float32)
    )
    runs = json.loads(table.schema.metadata[b"runs"])
    assert runs["two"]["settings"] == {"x": 1} and runs["two"]["seed"] == 7
    assert table.schema.metadata[b"attribution"] == b"of nobody"


def test_what_does_not_fit_is_refused_and_leaves_nothing(tmp_path, monkeypatch):
    path = tmp_path / "epanet.parquet"
    with pytest.raises(SimulatorError, match=r"one, a: 1e\+39 at row 1; expected a float32"):
        write_series([("one", recording(np.asarray([0, 1e39])))], path)
    monkeypatch.setattr(cache, "LARGEST_BYTES", 100)
    with pytest.raises(SimulatorError, match="bytes; expected fewer than 100 bytes"):
        write_series([("one", recording(np.arange(50.0)))], path)
    assert not list(tmp_path.iterdir())


TINY = """
[[run]]
name = "first"
network = "Net2"
steps = 48
step_seconds = 3600
seed = 1
columns = 3
groups = 2
noise = 0.1
demand_multiplier = 1.0
[[run]]
name = "second"
network = "Net3"
steps = 60
step_seconds = 1800
seed = 2
columns = 2
groups = 2
noise = 0.1
demand_multiplier = 0.8
"""


def invoke(*arguments: object):
    return CliRunner().invoke(application, ["build", *map(str, arguments)])


def test_command_writes_a_file_and_says_so(tmp_path):
    (tmp_path / "runs.toml").write_text(TINY)
    result = invoke("epanet", "--training", "--runs", tmp_path / "runs.toml", "--data", tmp_path,
                    "--series", tmp_path / "series", "--keep", tmp_path / "kept")  # fmt: skip
    assert result.exit_code == 0, result.output
    assert "epanet: first: 3 series of 48 steps in" in result.output
    assert "108/108" in result.output  # the progress bar, over both runs
    table = parquet.read_table(tmp_path / "series" / "epanet.parquet")
    assert table["run"].to_pylist() == ["first"] * 3 + ["second"] * 2
    assert (tmp_path / "kept" / "epanet" / "second" / "network.inp").is_file()


def test_a_run_that_fails_leaves_no_file(tmp_path):
    (tmp_path / "runs.toml").write_text(TINY.replace("step_seconds = 1800", "step_seconds = 1700"))
    result = invoke("epanet", "--training", "--runs", tmp_path / "runs.toml", "--data", tmp_path,
                    "--series", tmp_path / "series")  # fmt: skip
    assert result.exit_code == 1
    assert "error: epanet: run second, step_seconds: 1700" in result.output
    assert "Traceback" not in result.output
    assert not (tmp_path / "series").exists()


@pytest.mark.parametrize(
    "arguments, says",
    [
        (["opendc", "--training", "--program"], "--program is not for --training"),
        (["epanet", "--runs", "x.toml"], "--runs is for --training"),
        (["all", "--training", "--runs", "x.toml"], "--runs is for one system"),
    ],
)
def test_options_that_do_not_go_together_are_refused(arguments, says):
    result = invoke(*arguments)
    assert result.exit_code == 2
    assert says in " ".join(result.output.replace("│", " ").split())


def test_attribution_and_units_of_listed_systems():
    for system in SYSTEMS:
        text = (Path(run_module(system).__file__).parent / f"{system}.toml").read_text("utf-8")
        assert text.startswith("# Training runs of") and tomllib.loads(text)["run"]
