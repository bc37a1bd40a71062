"""The checks that every recording passes, and baseline files."""

from pathlib import Path

import numpy as np
import pytest
from pyarrow import parquet

from simulators import cache
from simulators.catalog import SYSTEMS, runner
from simulators.errors import SimulatorError
from simulators.recording import Recording, check_recording, check_timestamps, last_seen

BASELINES = Path(__file__).resolve().parents[2] / "whatif_jax" / "catalog"


def recording(**columns: list[float]) -> Recording:
    return Recording(
        system="toy",
        columns={name: np.asarray(values, dtype=np.float64) for name, values in columns.items()},
        units=dict.fromkeys(columns, "m"),
        step_seconds=60,
        simulator="Toy",
        version="1.0",
        settings={"speed": 2.5},
        seed=7,
        attribution="ours",
        record={"teleports": 0},
        warnings=["w"],
    )


@pytest.mark.parametrize(
    ("seconds", "message"),
    [
        ([0, 60, 60, 120], r"repeated timestamp 60.0* s at row 2"),
        ([0, 60, 180], r"uneven timestamp 180.0* s at row 2.*expected rows 60 s apart"),
        ([0, 60, 30], "uneven timestamp 30"),
        ([0, 60, float("nan")], "uneven timestamp nan"),
    ],
)
def test_timestamps_are_refused(seconds, message):
    with pytest.raises(SimulatorError, match=f"toy: file: {message}"):
        check_timestamps("toy", "file", seconds, 60)


def test_even_timestamps_pass():
    check_timestamps("toy", "file", 300.0 * np.arange(9000), 300)
    check_timestamps("toy", "file", [], 300)


def test_wrong_recordings_are_refused():
    check_recording(recording(a=[1, 2], b=[3, 4]), ["a", "b"], 2)
    with pytest.raises(SimulatorError, match=r"columns: .*missing: \['b'\]"):
        check_recording(recording(a=[1, 2]), ["a", "b"], 2)
    with pytest.raises(SimulatorError, match="columns"):
        check_recording(recording(b=[1, 2], a=[1, 2]), ["a", "b"], 2)
    with pytest.raises(SimulatorError, match="toy: a: 3 rows; expected 2 rows"):
        check_recording(recording(a=[1, 2, 3]), ["a"], 2)
    with pytest.raises(SimulatorError, match=r"toy: a: nan at row 1 \(1 such rows\)"):
        check_recording(recording(a=[1, np.nan]), ["a"], 2)
    with pytest.raises(SimulatorError, match="toy: a: inf at row 0"):
        check_recording(recording(a=[np.inf, 1]), ["a"], 2)
    without_unit = recording(a=[1, 2])
    without_unit.units = {}
    with pytest.raises(SimulatorError, match="no unit"):
        check_recording(without_unit, ["a"], 2)


def test_last_seen_holds_and_starts_with_the_first_seen():
    values = np.array([-1.0, 3, -1, -1, 5, -1])
    assert last_seen(values, values < 0).tolist() == [3, 3, 3, 3, 5, 5]
    with pytest.raises(ValueError, match="absent"):
        last_seen(np.array([-1.0]), np.array([True]))


def test_baseline_round_trip(tmp_path):
    path = tmp_path / "new" / "toy.parquet"
    cache.write_baseline(recording(a=[0.1, 2], b=[0, 0]), path)
    table = parquet.read_table(path)
    assert [str(field.type) for field in table.schema] == ["float", "float"]
    columns, metadata = cache.read_baseline(path, "toy")
    assert columns["a"].tolist() == np.float32([0.1, 2]).tolist()
    assert metadata["seed"] == 7
    assert metadata["step_seconds"] == 60
    assert metadata["units"] == {"a": "m", "b": "m"}
    assert metadata["settings"] == {"speed": 2.5}
    assert (metadata["simulator"], metadata["version"]) == ("Toy", "1.0")
    assert metadata["attribution"] == "ours"
    assert list(tmp_path.rglob("*.part")) == []


def test_refused_write_leaves_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "toy.parquet"
    cache.write_baseline(recording(a=[1, 2]), path)
    before = path.read_bytes()
    with pytest.raises(SimulatorError, match=r"toy: a: 1e\+300 at row 1; expected .* float32"):
        cache.write_baseline(recording(a=[1, 1e300]), path)
    monkeypatch.setattr(cache, "LARGEST_BYTES", 10)
    with pytest.raises(SimulatorError, match="bytes; expected fewer than 10 bytes"):
        cache.write_baseline(recording(a=[1, 3]), path)
    assert path.read_bytes() == before
    assert [file.name for file in tmp_path.iterdir()] == ["toy.parquet"]


def test_compare(tmp_path):
    path = tmp_path / "toy.parquet"
    cache.write_baseline(recording(a=[1, 2, 3], b=[0, 0, 0]), path)
    assert cache.compare(recording(a=[1, 2], b=[0, 0]), path, 1e-6) == {"a": 0, "b": 0}
    near = recording(a=[1, 2 + 3e-5, 3], b=[0, 0, 0])
    assert cache.compare(near, path, 1e-5)["a"] == pytest.approx(3e-5 / 4)
    with pytest.raises(SimulatorError, match=r"toy: a: 2.00003 at row 1; expected the cached 2 wi"):
        cache.compare(near, path, 1e-6)
    assert cache.compare(near, path, 1e-6, lambda column: 1e-4)["a"] == 0
    with pytest.raises(SimulatorError, match="toy: b: 1e-09 at row 2"):
        cache.compare(recording(a=[1, 2, 3], b=[0, 0, 1e-9]), path, 1e-10)
    with pytest.raises(SimulatorError, match="4 rows; expected at most the 3 cached rows"):
        cache.compare(recording(a=[1, 2, 3, 4], b=[0, 0, 0, 0]), path, 1e-5)
    with pytest.raises(SimulatorError, match="columns"):
        cache.compare(recording(a=[1, 2, 3]), path, 1e-5)
    with pytest.raises(SimulatorError, match=r"no such file; expected .*build toy"):
        cache.compare(recording(a=[1]), tmp_path / "none.parquet", 1e-5)


@pytest.mark.parametrize(
    ("system", "steps", "seconds", "targets", "constant"),
    [
        ("opendc", 8640, 300, 22, []),
        ("gridlabd", 9000, 60, 11, ["is_COOL_on"]),
        ("epanet", 9000, 600, 37, []),
        ("sumo", 8640, 300, 30, ["flow_loop_e_1_far"]),
    ],
)
def test_cached_files_are_those_of_spec_2(system, steps, seconds, targets, constant):
    path = BASELINES / f"{system}.parquet"
    assert path.stat().st_size < 4_000_000
    columns, metadata = cache.read_baseline(path, system)
    assert list(columns) == list(runner(system).TARGETS)
    assert len(columns) == targets
    assert steps == runner(system).STEPS
    assert {(values.dtype.str, values.shape) for values in columns.values()} == {("<f4", (steps,))}
    assert all(np.isfinite(values).all() for values in columns.values())
    assert [name for name, values in columns.items() if np.ptp(values) == 0] == constant
    assert set(metadata["units"]) == set(columns)
    assert (metadata["system"], metadata["step_seconds"]) == (system, seconds)
    for key in ("simulator", "version", "attribution", "settings"):
        assert metadata[key], key


def test_every_system_has_a_runner():
    for system in SYSTEMS:
        module = runner(system)
        assert 0 < module.CHECK_STEPS <= module.STEPS
        assert 0 < module.TOLERANCE < 1e-3
        assert callable(module.simulate)
