"""The frozen suite: its composition, its rows, its values, and how it iterates."""

import json
import subprocess
import sys
from pathlib import Path

import jax
import numpy as np
import pyarrow as pa
import pyarrow.parquet as parquet
import pytest

import whatif_jax.catalog
import whatif_jax.suites
from tests.oracle.drawn_numbers import check_drawn_numbers, check_pair
from tests.oracle.reference import reference_task, verify
from tests.rows import assert_close, realized
from whatif_jax import ManifestError, available_suites, load_suite, load_system
from whatif_jax.suites import SCHEMA, write_manifest
from whatif_jax.suites.fingerprint import frozen_values
from whatif_jax.tasks.task import realize_batch


def test_published_composition(suite):
    # whatif-v1.md §6 [P]
    assert available_suites() == ("whatif-v1",)
    assert len(suite) == 37_665
    assert suite.count("system") == {
        "opendc": 8_800, "gridlabd": 4_000, "epanet": 13_265, "sumo": 11_600,
    }  # fmt: skip


def test_composition_per_target(suite):
    partial = {"demand_9", "flowrate_10", "flowrate_9", "velocity_10"}
    epanet = suite.where(system="epanet")
    counts = epanet.count("target")
    assert len(counts) == 37
    assert {name for name, count in counts.items() if count != 400} == partial
    assert sum(counts[name] for name in partial) == 65
    assert epanet.where(target=sorted(partial)).column("n_events").max() <= 2
    for system, targets in (("opendc", 22), ("gridlabd", 10), ("sumo", 29)):
        counts = suite.where(system=system).count("target")
        assert set(counts.values()) == {400}
        assert len(counts) == targets
    names = set(suite.column("target"))
    assert not names & {"is_COOL_on", "flow_loop_e_1_far"}


def test_every_row_is_what_the_spec_allows(suite):
    rows = suite.table.to_pylist()
    problems = [(row["task_id"], found) for row in rows if (found := check_drawn_numbers(row))]
    assert problems == []
    pairs: dict[int, list[dict]] = {}
    for row in rows:
        pairs.setdefault(row["pair_id"], []).append(row)
    whole = [pair for pair in pairs.values() if len(pair) == 2]
    assert len(whole) > 18_500
    assert list(filter(None, (check_pair(*pair) for pair in whole))) == []
    assert sorted(pairs) == list(range(len(pairs)))
    metadata = suite.metadata
    assert metadata["suite"] == "whatif-v1"
    assert set(json.loads(metadata["seeds"])) == {"opendc", "gridlabd", "epanet", "sumo"}


@pytest.mark.slow
def test_a_sample_equals_the_oracle_and_passes_its_verification(suite):
    # whatif-v1.md §8: rtol 1e-4, atol 1e-4 of the target's mean. 300 tasks over all shapes; the
    # effect threshold is exact in float32 only to 2e-4
    sample = np.sort(np.random.default_rng(5).choice(len(suite), 300, replace=False))
    part = suite.take(sample)
    found = realized(part)
    assert sorted(found) == sample.tolist()
    for row in part.table.to_pylist():
        series = suite.systems.series(suite.systems.row(row["system"], row["target"]))
        series = series.astype(np.float64)
        assert_close(
            found[row["task_id"]], reference_task(row, series), np.abs(series).mean(), 1e-4, 1e-4,
            (row["task_id"], row["system"], row["target"]),
        )  # fmt: skip
        history_ok, future_ok, effects = verify(row, series)
        assert (history_ok and future_ok) or min(effects) > 0.1 - 2e-4


@pytest.mark.slow
def test_iterating_the_whole_suite_compiles_at_most_forty_programs():
    # counted where XLA compiles, in a process of its own: every program, whoever asks for it
    script = """
import json
import shutil
import jax
from whatif_jax import load_suite
programs = []
def listen(event, duration, **details):
    if event.endswith("backend_compile_duration"):
        programs.append(details.get("fun_name"))
jax.monitoring.register_event_duration_secs_listener(listen)
seen = []
for batch in load_suite("whatif-v1").batches(256):
    seen += batch.task_ids[batch.mask].tolist()
    assert batch.task.history.shape[0] == 256
assert sorted(seen) == list(range(37_665))
print(json.dumps(programs))
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    programs = json.loads(done.stdout)
    assert 8 <= len(programs) <= 40, programs


def test_programs_do_not_depend_on_the_filter(suite):
    part = suite.where(system="gridlabd", context_pair="C1", event_length=[32, 64])
    list(part.batches(64))
    count = realize_batch._cache_size()
    for axes in ({"k": 1}, {"future": "novel"}, {"target": "total_load"}, {"event_length": 32}):
        list(part.where(**axes).batches(64))
    assert realize_batch._cache_size() == count


def test_loading_draws_nothing_and_needs_no_simulator():
    # a process in which JAX's generator raises and no simulator can be imported
    script = """
import sys
for name in ("wntr", "traci", "libsumo", "sumo", "gridlabd"):
    sys.modules[name] = None
import jax
def refuse(*args, **kwargs):
    raise AssertionError("a random number was drawn")
for name in ("key", "uniform", "bits", "split", "fold_in", "randint", "bernoulli"):
    setattr(jax.random, name, refuse)
import numpy
numpy.random.default_rng = refuse
from whatif_jax import load_suite
suite = load_suite("whatif-v1").where(system="opendc", context_pair="C1", k=1).take(range(3))
print(sum(int(batch.mask.sum()) for batch in suite.batches(4)))
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.stdout == "3\n", done.stderr


def test_shapes_count_every_context_and_horizon(suite):
    shapes = suite.shapes
    assert sum(shapes.values()) == len(suite) and list(shapes) == sorted(shapes)
    assert {(1876, 128), (7504, 864), (8192, 512)} <= set(shapes)
    assert len(suite.where(context=7504, horizon=864)) == shapes[7504, 864] == 220
    assert suite.where(context=1876).shapes == {(1876, 128): shapes[1876, 128]}


def test_arrays_that_are_handed_out_are_the_callers_own(suite):
    part = suite.where(system="gridlabd", context=1024).take(range(3))
    batch = next(part.batches(4))
    before = np.array(batch.task.history)
    for name, values in batch.to_numpy().items():
        assert values.flags.owndata and values.flags.writeable, name
        values[...] = 0
    np.testing.assert_array_equal(batch.task.history, before)
    assert batch.task_ids[:3].tolist() == part.column("task_id").tolist()
    for name in ("task_id", "k", "system", "window_start"):
        column = part.column(name)
        assert column.flags.owndata and column.flags.writeable, name
        column[:] = column[0]
    series = part.systems.series(0)
    series[:] = 0
    assert part.column("task_id").tolist() == [*batch.task_ids[:3]]
    assert part.systems.series(0).any()


def test_where_filters_by_any_axis(suite):
    part = suite.where(system="epanet", k=[1, 5], future="novel")
    assert set(part.column("system")) == {"epanet"}
    assert set(part.column("k").tolist()) == {1, 5}
    assert set(part.column("future")) == {"novel"}
    assert len(part) == sum(
        row["system"] == "epanet" and row["k"] in (1, 5) and row["future"] == "novel"
        for row in suite.table.select(["system", "k", "future"]).to_pylist()
    )
    assert len(suite.where(task_id=[5, 7]).where(task_id=5)) == 1
    assert len(part.where(system="sumo")) == 0
    assert "epanet" in repr(part)


@pytest.mark.parametrize(
    "axes, message",
    [
        ({"systems": "epanet"}, "axis 'systems'; expected one of 'system', 'target'"),
        ({"system": "epnet"}, r"system='epnet'; expected one of 'epanet'.*\(did you mean 'epanet'"),
        ({"k": 6}, "k=6; expected one of"),
    ],
)
def test_where_names_what_it_cannot_find(suite, axes, message):
    with pytest.raises(ValueError, match=message):
        suite.where(**axes)


def test_batches_cover_each_task_once_with_padding_masked(suite):
    part = suite.where(system="gridlabd", context_pair="C1", event_length=[64, 512])
    part = part.take(range(0, len(part), 5))
    ids, shapes = [], set()
    for batch in part.batches(16):
        assert batch.mask.shape == batch.task_ids.shape == (16,)
        assert (batch.task_ids[~batch.mask] == -1).all()
        ids.append(batch.task_ids[batch.mask])
        shapes.add(batch.task.history.shape)
        fields = batch.to_numpy()
        assert len(fields["task_id"]) == len(fields["history"]) == batch.mask.sum()
    assert sorted(np.concatenate(ids)) == sorted(part.column("task_id"))
    assert shapes == {(16, 1024), (16, 1876)}
    with pytest.raises(ValueError, match="^batch_size: 0; expected"):
        next(part.batches(0))


def test_batch_ids_cut_a_suite_into_batches_of_one_bucket(suite):
    part = suite.where(system="opendc", context_pair="C1", k=[1, 2]).take(range(0, 400, 7))
    batches = part.batch_ids(8, by=("k", "future"))
    assert sorted(np.concatenate(batches)) == sorted(part.column("task_id"))
    for ids in batches:
        assert 1 <= len(ids) <= 8 and (np.diff(ids) > 0).all()
        rows = part.rows_of(ids)
        assert len(set(part.column("k")[rows])) == len(set(part.column("future")[rows])) == 1
        assert part.specs(rows).target.shape == (len(ids),)
    again = part.take(np.random.default_rng(0).permutation(len(part))).batch_ids(
        8, by=("k", "future")
    )
    assert all(np.array_equal(one, other) for one, other in zip(batches, again, strict=True))
    with pytest.raises(ValueError, match="^column: 'colour'; expected"):
        part.batch_ids(8, by=("colour",))


def test_a_batch_is_the_tasks_asked_for_in_their_order(suite):
    ids = next(ids for ids in suite.batch_ids(6) if len(ids) == 6)[[3, 0, 5]]
    batch = suite.batch(ids, 5)
    assert batch.task_ids.tolist() == [*ids, -1, -1]
    assert batch.mask.tolist() == [True] * 3 + [False] * 2
    assert (batch.step_seconds == batch.step_seconds[0]).all()
    for row, task_id in enumerate(ids.tolist()):
        np.testing.assert_allclose(
            batch.task.history[row], suite.task(task_id).history, rtol=2e-6, atol=1e-6
        )
    np.testing.assert_array_equal(batch.task.history[4], batch.task.history[2])
    assert suite.batch(ids).mask.tolist() == [True] * 3


def test_a_filtered_suite_knows_the_whole(suite):
    part = suite.where(system="sumo").take(range(5))
    assert part.whole is suite.where(k=1).whole is suite is suite.whole
    assert part.systems is suite.systems
    assert part.buckets == suite.buckets


def test_any_batch_size_gives_the_same_tasks(suite):
    part = suite.where(system="sumo", context_pair="C1", event_length=64).take(range(30))
    one, other = realized(part, 7), realized(part.take(np.arange(30)[::-1]), 16)
    assert list(one) == list(other)  # whatever the order of the rows
    for task_id, task in one.items():
        for name, value in task.items():
            np.testing.assert_allclose(value, other[task_id][name], rtol=2e-6, atol=1e-6)


def test_batches_on_four_devices(suite):
    mesh = jax.sharding.Mesh(np.array(jax.devices()[:4]), ("batch",))
    sharding = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("batch"))
    part = suite.where(system="sumo", context_pair="C1", event_length=64).take(range(12))
    for one, many in zip(part.batches(8), part.batches(8, sharding=sharding), strict=True):
        assert len(many.task.history.sharding.device_set) == 4
        np.testing.assert_array_equal(one.task_ids, many.task_ids)
        np.testing.assert_allclose(one.task.history, many.task.history, rtol=2e-6, atol=1e-6)


def test_single_task_equals_its_batch(suite):
    part = suite.where(system="sumo", context_pair="C1", event_length=64).take(range(3))
    task_id = int(part.column("task_id")[1])
    batch = next(part.batches(8))
    np.testing.assert_allclose(
        suite.task(task_id).future, batch.task.future[1], rtol=2e-6, atol=1e-6
    )
    with pytest.raises(ValueError, match=r"task_ids: \[-5\] are not among"):
        suite.spec(-5)


def test_fingerprint_is_of_values_not_of_bytes(suite, tmp_path):
    other = tmp_path / "whatif-v1.parquet"
    parquet.write_table(suite.table, other, compression="none", row_group_size=1000)
    own = Path(whatif_jax.suites.__file__).parent / "whatif-v1.parquet"
    assert other.read_bytes() != own.read_bytes()
    assert load_suite(other).fingerprint == suite.fingerprint
    part = suite.where(system="gridlabd").take(range(4))
    assert part.fingerprint != suite.where(system="gridlabd").take(range(5)).fingerprint
    assert part.fingerprint != suite.where(system="gridlabd").take([0, 1, 3, 2]).fingerprint
    factors = part.table.column("future_factors").to_pylist()
    factors[2][0] = float(np.nextafter(np.float32(factors[2][0]), np.float32(100)))
    column = SCHEMA.get_field_index("future_factors")
    field = SCHEMA.field(column)
    changed = part.table.set_column(column, field, pa.array(factors, field.type))
    assert type(part)("x", changed, part.catalog).fingerprint != part.fingerprint


def test_manifests_that_are_not_one_are_refused(suite, tmp_path):
    with pytest.raises(ManifestError, match="'whatif-v9'; expected one of whatif-v1"):
        load_suite("whatif-v9")
    part = suite.take(range(3)).table
    parquet.write_table(part.drop_columns(["k"]), tmp_path / "a.parquet")
    with pytest.raises(ManifestError, match="column k missing"):
        load_suite(tmp_path / "a.parquet")
    parquet.write_table(part.set_column(4, "k", pa.array(["1", "2", "3"])), tmp_path / "b.parquet")
    with pytest.raises(ManifestError, match="column k is string; expected int32"):
        load_suite(tmp_path / "b.parquet")
    parquet.write_table(part.take([1, 2]), tmp_path / "c.parquet")
    with pytest.raises(ManifestError, match="not dense"):
        load_suite(tmp_path / "c.parquet")
    rows = part.to_pylist()
    rows[0]["event_starts"] = [-3 + 40 * i for i in range(rows[0]["n_events"])]
    write_manifest(pa.Table.from_pylist(rows, schema=SCHEMA), tmp_path / "d.parquet", {})
    with pytest.raises(ManifestError, match="event_starts: task 0"):
        list(load_suite(tmp_path / "d.parquet").batches(4))
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".")]


def test_take_wants_row_numbers_or_a_mask(suite):
    part = suite.take(range(10))
    mask = np.zeros(10, bool)
    mask[7] = True
    assert part.take(mask).column("task_id").tolist() == [7]
    assert len(part.take([])) == 0
    for rows in (mask[:3], [1.5], [10], [-1], 3, [[0, 1]], "a", None):
        with pytest.raises(ValueError, match="^rows: .*expected row numbers in 0 .. 9"):
            part.take(rows)


def test_a_batch_is_no_larger_than_the_largest_bucket(suite):
    part = suite.where(system="gridlabd", context_pair="C1", event_length=32).take(range(5))
    largest = max(map(len, suite.batch_ids(10**6)))
    batch = next(part.batches(10**6))
    assert batch.task.history.shape[0] == largest
    assert batch.rows <= 5


def test_what_is_no_manifest_is_refused(tmp_path):
    (tmp_path / "manifest.json").write_text("{}")
    with pytest.raises(ManifestError, match="is not a parquet file"):
        load_suite(tmp_path / "manifest.json")
    with pytest.raises(ManifestError, match="^suite: 5; expected"):
        load_suite(5)


@pytest.mark.parametrize(
    "column, change, expected",
    [
        ("window_start", lambda row: 8600, "a window inside the baseline"),
        ("window_start", lambda row: -500, "a window inside the baseline"),
        ("covariates", lambda row: ["nothing"] * row["k"], "distinct covariates"),
        ("covariates", lambda row: row["covariates"][::-1], "its primary first"),
        ("covariates", lambda row: row["covariates"][:1] * row["k"], "distinct covariates"),
        ("future_factors", lambda row: [float("nan")] * row["k"], "finite factors above 0"),
        ("future_factors", lambda row: [2.0] * (row["k"] + 1), "one value an event or cov"),
        ("factors", lambda row: [[0.0] * row["k"]] * row["n_events"], "finite factors above 0"),
        ("factors", lambda row: [[2.0]] * row["n_events"], "one value a covariate in every event"),
        ("event_length", lambda row: 0, "at least 1"),
        ("event_starts", lambda row: [], "one value an event"),
    ],
)
def test_rows_that_are_no_tasks_are_refused(suite, tmp_path, column, change, expected):
    rows = suite.where(k=2, system="opendc").take(range(3)).table.to_pylist()
    for number, row in enumerate(rows):
        row["task_id"] = number
    rows[1][column] = change(rows[1])
    write_manifest(pa.Table.from_pylist(rows, schema=SCHEMA), tmp_path / "a.parquet", {})
    with pytest.raises(ManifestError, match=f"^task 1: {column} is .*{expected}"):
        load_suite(tmp_path / "a.parquet")


def test_the_package_keeps_what_its_suite_was_frozen_with(suite):
    path = Path(whatif_jax.suites.__file__).parent / "whatif-v1.json"
    kept = frozen_values(suite.table, suite.catalog, suite.systems)
    assert json.loads(path.read_text("utf-8")) == kept
    assert kept["fingerprint"] == suite.fingerprint


def test_a_changed_system_of_a_built_in_name_is_no_part_of_the_frozen_suite(suite):
    system = load_system("gridlabd")
    assert load_suite(systems=[system]).fingerprint == suite.fingerprint
    first, *others = system.covariates
    first = first.model_copy(update={"base": 1.1 * first.base})
    changed = system.model_copy(update={"covariates": (first, *others)})
    message = f"frozen with {suite.fingerprint}.* since the constants of gridlabd changed"
    with pytest.raises(ManifestError, match=message):
        load_suite(systems=[changed])
