"""The training series: what is loaded, what is refused, and that none is a benchmark series.

Tolerances: none for values; correlations are computed in float64 and bounded as each test says.
"""

import json
import shutil
from functools import cache

import jax
import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from whatif_jax.catalog import builtin_systems, load_system
from whatif_jax.catalog.errors import CatalogError
from whatif_jax.catalog.series import read_series
from whatif_jax.tasks.randomised import load_training_series, training_series

SYSTEMS = builtin_systems()
FOLDER = training_series._FOLDER


@cache
def table(system: str) -> pa.Table:
    return parquet.read_table(FOLDER / f"{system}.parquet")


@cache
def metadata(system: str) -> dict:
    return {key.decode(): value.decode() for key, value in table(system).schema.metadata.items()}


@cache
def training(system: str) -> list[np.ndarray]:
    return [np.asarray(values, np.float32) for values in table(system)["values"].to_pylist()]


@cache
def benchmark(system: str) -> dict[str, np.ndarray]:
    return read_series(load_system(system))


# ---- what is loaded ----


@pytest.fixture(scope="module")
def loaded():
    return load_training_series()


def test_rows_are_the_files_series_between_their_start_and_zeros(loaded):
    assert loaded.values.dtype == np.float32
    row = 0
    for system in SYSTEMS:
        for index, values in enumerate(training(system)):
            assert (loaded.systems[row], loaded.names[row]) == (
                system,
                table(system)["name"][index].as_py(),
            )
            assert int(loaded.step_seconds[row]) == table(system)["step_seconds"][index].as_py()
            np.testing.assert_array_equal(loaded.series(row), values)
            assert not np.asarray(loaded.values[row, len(values) :]).any()
            row += 1
    assert row == len(loaded.values) == len(loaded.units) == len(loaded.runs)


def test_there_is_enough_and_it_stays_small(loaded):
    assert sum((FOLDER / f"{system}.parquet").stat().st_size for system in SYSTEMS) < 12_000_000
    assert loaded.values.nbytes < 40_000_000
    lengths = np.asarray(loaded.length)
    assert lengths.min() >= 2048 and lengths.max() <= 12_000
    for system in SYSTEMS:
        assert loaded.systems.count(system) >= 80, system


def test_every_series_is_finite_and_varies(loaded):
    for row in range(len(loaded.values)):
        values = loaded.series(row)
        assert np.isfinite(values).all()
        assert all(np.ptp(half) > 0 for half in np.array_split(values, 2)), (
            loaded.runs[row],
            loaded.names[row],
        )


def test_names_are_unique_within_a_run(loaded):
    rows = list(zip(loaded.systems, loaded.runs, loaded.names, strict=True))
    assert len(set(rows)) == len(rows)


def test_systems_are_chosen_in_the_order_named():
    chosen = load_training_series(["opendc", "gridlabd"])
    count = len(training("opendc"))
    assert chosen.systems[:count] == ("opendc",) * count
    assert set(chosen.systems[count:]) == {"gridlabd"}
    one = load_training_series("gridlabd")
    assert set(one.systems) == {"gridlabd"}
    jax.tree.map(np.asarray, one)


@pytest.mark.parametrize(
    "systems, says",
    [
        ("epanot", "systems: 'epanot'; expected one of .*did you mean 'epanet'"),
        (["sumo", "sumo"], "expected at least one, and distinct names"),
        ([], "expected at least one"),
    ],
)
def test_unknown_and_repeated_systems_are_refused(systems, says):
    with pytest.raises(ValueError, match=says):
        load_training_series(systems)


@pytest.fixture
def damaged(tmp_path, monkeypatch):
    """Load opendc's file after a change of its table."""
    shutil.copy(FOLDER / "opendc.parquet", tmp_path)
    monkeypatch.setattr(training_series, "_FOLDER", tmp_path)
    return tmp_path / "opendc.parquet"


def with_values(change) -> pa.Table:
    values = [list(row) for row in table("opendc")["values"].to_pylist()]
    change(values)
    column = pa.array(values, pa.list_(pa.float32()))
    index = table("opendc").column_names.index("values")
    return table("opendc").set_column(index, "values", column)


def test_damaged_files_are_refused_by_name(damaged):
    def refused(changed: pa.Table, says: str) -> None:
        parquet.write_table(changed, damaged)
        with pytest.raises(CatalogError, match=says):
            load_training_series("opendc")

    refused(table("opendc").drop_columns("unit"), r"opendc.parquet: file: column 'unit' is missing")
    refused(table("opendc").slice(0, 0), "rows = 0; expected one or more")
    refused(with_values(lambda rows: rows[3].__setitem__(5, np.nan)), "row 3'; expected .* finite")
    refused(with_values(lambda rows: rows[2].clear()), "row 2'; expected two or more")
    index = table("opendc").column_names.index("values")
    doubles = table("opendc")["values"].cast(pa.list_(pa.float64()))
    refused(table("opendc").set_column(index, "values", doubles), "column 'values'.*float>")
    damaged.write_bytes(b"not a parquet file")
    with pytest.raises(CatalogError, match="content .*; expected a parquet file"):
        load_training_series("opendc")
    damaged.unlink()
    with pytest.raises(CatalogError, match="python -m simulators build --training opendc"):
        load_training_series("opendc")


# ---- nothing of the benchmark is in them ----


@pytest.mark.parametrize("system", SYSTEMS)
def test_metadata_says_where_each_run_is_from(system):
    facts = metadata(system)
    assert facts["system"] == system and facts["attribution"]
    runs = json.loads(facts["runs"])
    assert set(runs) == set(table(system)["run"].to_pylist())
    for run in runs.values():
        assert {"simulator", "version", "settings", "seed", "attribution", "step_seconds"} <= set(
            run
        )


def test_settings_differ_from_the_benchmarks():
    runs = {system: json.loads(metadata(system)["runs"]) for system in SYSTEMS}
    for run in runs["epanet"].values():
        assert "Net1" not in run["settings"]["network"]
    for run in runs["gridlabd"].values():
        settings = run["settings"]
        assert settings["start"][:7] not in ("2001-01", "2002-01")
        assert settings["floor_area"] != 1550
        assert tuple(settings["heating_setpoint"]) != (60, 60)
        assert tuple(settings["cooling_setpoint"]) != (77, 77)
    for run in runs["sumo"].values():
        settings = run["settings"]
        # the benchmark's: one junction, two lanes, a plan of 90 s, seed 42, steps of 300 s
        assert (settings["grid"], settings["lanes"], settings["cycle"]) != ([1, 1], 2, 90)
        assert run["seed"] != 42 and run["step_seconds"] != 300


def test_virtual_machines_are_not_the_benchmarks():
    schema = parquet.read_schema(load_system("opendc").baseline)
    placement = json.loads(schema.metadata[b"settings"])["placement"]
    theirs = {name for placed in placement.values() for name in placed}
    assert theirs == {"1019", "1023", "1026", "1052"}
    ours = [
        name
        for run in json.loads(metadata("opendc")["runs"]).values()
        for placed in run["settings"]["hosts"].values()
        for name in placed
    ]
    assert len(set(ours)) == len(ours) >= 30
    assert not theirs & set(ours)


STRETCH = 16
FEWEST_VALUES = 6  # distinct ones: a machine that is off looks the same everywhere


def stretches(values: np.ndarray) -> set[bytes]:
    """Every stretch of 16 values with at least six distinct, by its bytes."""
    windows = np.lib.stride_tricks.sliding_window_view(values, STRETCH)
    changes = (np.diff(np.sort(windows, axis=1), axis=1) != 0).sum(axis=1) + 1
    return {window.tobytes() for window in windows[changes >= FEWEST_VALUES]}


@pytest.mark.parametrize("system", SYSTEMS)
def test_no_stretch_of_values_is_the_benchmarks_at_any_lag(system):
    theirs = set().union(*(stretches(values) for values in benchmark(system).values()))
    sample = next(iter(benchmark(system).values()))
    assert theirs & stretches(sample[100:4000])  # the test can fail
    for row, values in enumerate(training(system)):
        assert not theirs & stretches(values), table(system)["name"][row]


def correlations(values: np.ndarray, others: np.ndarray) -> np.ndarray:
    """Magnitudes of the correlations over the last axis; 0 where either is constant."""
    values = values - values.mean(axis=-1, keepdims=True)
    others = others - others.mean(axis=-1, keepdims=True)
    scale = np.sqrt((values**2).sum(axis=-1) * (others**2).sum(axis=-1))
    return np.abs((values * others).sum(axis=-1)) / np.where(scale > 1e-9, scale, np.inf)


WINDOW = 512
# By chance smooth or daily series move together for one window; the same series gives 1.
HIGHEST_WHOLE, HIGHEST_WINDOW = 0.9, 0.998
HIGHEST_OF_MACHINES = (
    0.8  # of one trace at the same hours: what runs the same jobs has 0.93 to 0.99
)


@pytest.mark.parametrize("system", SYSTEMS)
def test_no_series_moves_as_a_benchmark_series_does(system):
    theirs = np.stack(list(benchmark(system).values())).astype(np.float64)
    assert correlations(2 * theirs[0] + 1, theirs)[0] > HIGHEST_WINDOW  # the test can fail
    highest = HIGHEST_OF_MACHINES if system == "opendc" else HIGHEST_WINDOW
    for row, stored in enumerate(training(system)):
        count = min(len(stored), theirs.shape[1]) // WINDOW
        ours = stored[: count * WINDOW].astype(np.float64)
        same = theirs[:, : count * WINDOW]
        name = table(system)["name"][row]
        assert correlations(ours, same).max() < HIGHEST_WHOLE, name
        windows = correlations(ours.reshape(count, WINDOW), same.reshape(len(same), count, WINDOW))
        assert windows.max() < highest, name
