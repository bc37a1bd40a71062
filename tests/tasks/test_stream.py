"""The stream: a pure function of (key, step), verified, on any number of devices."""

import itertools
import shutil

import jax
import jax.numpy as jnp
import numpy as np
import pyarrow as pa
import pyarrow.parquet as parquet
import pytest
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from tests.catalog_helpers import BREWERY
from whatif_jax import StreamError, TaskStream, realize, verify

SMALL = dict(batch_size=8, buckets=[(512, 64)], event_lengths=(32, 64))


@pytest.fixture(scope="module")
def stream(systems):
    return TaskStream(7, systems=systems, **SMALL)


def equal(one, other) -> bool:
    return all(
        np.array_equal(a, b)
        for a, b in zip(
            jax.tree.leaves(jax.tree.map(np.asarray, one)),
            jax.tree.leaves(jax.tree.map(np.asarray, other)),
            strict=True,
        )
    )


def test_a_step_is_a_pure_function_of_key_and_step(stream, systems):
    forward = {step: stream.batch_at(step) for step in (0, 1, 2**32, 2**32 + 1, 2**62)}
    again = TaskStream(7, systems=systems, **SMALL)
    for step in reversed(list(forward)):
        assert equal(forward[step].spec, again.batch_at(step).spec)
        assert equal(forward[step].task, again.batch_at(step).task)
    for one, other in itertools.combinations(forward.values(), 2):
        assert not equal(one.spec.factors, other.spec.factors)
    other_key = TaskStream(8, systems=systems, **SMALL).batch_at(0)
    assert not equal(other_key.spec.window_start, forward[0].spec.window_start)
    from_key = TaskStream(jax.random.key(7, impl="threefry2x32"), systems=systems, **SMALL)
    assert equal(from_key.batch_at(0).spec, forward[0].spec)


def test_a_stream_is_printed_in_one_line(stream):
    assert repr(stream) == (
        "TaskStream(8 tasks a batch of 512 + 64 steps: opendc, gridlabd, epanet, sumo)"
    )


def test_iteration_resumes_without_repeating_or_skipping(stream):
    whole = list(itertools.islice(stream.iterate(), 5))
    parts = [*stream.iterate(0, 2), *stream.iterate(2, 5)]
    assert len(parts) == 5
    for step, (one, other) in enumerate(zip(whole, parts, strict=True)):
        assert equal(one.spec, other.spec)
        assert equal(one.spec, stream.batch_at(step).spec)


def test_every_row_is_verified_and_is_its_spec(stream, systems):
    for step in range(3):
        batch = stream.batch_at(step)
        assert np.asarray(batch.verified).all()
        found = jax.jit(jax.vmap(verify, in_axes=(0, None)))(batch.spec, systems)
        assert np.asarray(found.ok).all()
        tasks = jax.jit(jax.vmap(realize, in_axes=(0, None)))(batch.spec, systems)
        np.testing.assert_allclose(tasks.history, batch.task.history, rtol=2e-6, atol=1e-6)


@pytest.mark.slow
def test_rejected_draws_are_redrawn_and_shift_no_other_row(systems):
    # velocity_10 fails most draws; the rows of the other target must not change with it there
    easy = dict(SMALL, targets=["velocity_21", "velocity_10"], n_events=(4,), systems=systems)
    easy["event_lengths"] = (32,)
    mixed = TaskStream(3, **easy)
    rows = [mixed.batch_at(step) for step in range(12)]
    assert all(np.asarray(batch.verified).all() for batch in rows)
    one_row = TaskStream(3, **(easy | {"batch_size": 1}))
    two_rows = TaskStream(3, **(easy | {"batch_size": 2}))
    for step in range(12):
        # a row's numbers do not depend on how long its companions took
        alone, pair = one_row.batch_at(step), two_rows.batch_at(step)
        for leaf, other, third in zip(
            *(jax.tree.leaves(batch.spec) for batch in (alone, pair, rows[step])), strict=True
        ):
            np.testing.assert_array_equal(leaf[0], other[0])
            np.testing.assert_array_equal(leaf[0], third[0])
    hard = systems.row("epanet", "velocity_10")
    targets = np.concatenate([np.asarray(batch.spec.target) for batch in rows])
    # drawn evenly, accepted seldom: redrawing happened
    assert (targets == hard).mean() < 0.25


def test_a_stream_that_cannot_be_verified_says_so(systems):
    # four long events over a pump that stops every day: no window without a dry step
    hopeless = TaskStream(
        0, batch_size=2, buckets=[(2048, 64)], event_lengths=(256,), n_events=(4,),
        targets=["flowrate_9"], systems=systems,
    )  # fmt: skip
    batch = hopeless.batch_at(0)
    assert not np.asarray(batch.verified).all()
    with pytest.raises(StreamError, match="failed verification in 64 draws"):
        hopeless.check(batch)
    with pytest.raises(StreamError):
        next(iter(hopeless))


@pytest.mark.parametrize("devices", [2, 4])
def test_the_same_rows_on_several_devices(stream, systems, devices):
    mesh = Mesh(np.array(jax.devices()[:devices]), ("batch",))
    sharding = NamedSharding(mesh, PartitionSpec("batch"))
    sharded = TaskStream(7, systems=systems, sharding=sharding, **SMALL)
    for step in (0, 5):
        one, many = stream.batch_at(step), sharded.batch_at(step)
        assert len(many.task.history.sharding.device_set) == devices
        for name, value in vars(one.spec).items():
            if name != "bucket":
                np.testing.assert_array_equal(value, getattr(many.spec, name))
        for name, value in vars(one.task).items():
            np.testing.assert_allclose(value, getattr(many.task, name), rtol=2e-6, atol=1e-6)


@pytest.mark.slow
def test_choices_are_honoured(systems):
    stream = TaskStream(
        1, batch_size=32, buckets=[(1024, 128), (512, 64)],
        targets=["gridlabd/total_load", "pressure_10"], k=(2, 4), event_lengths=(32, 57),
        n_events=(1, 3), novel=1.0, shapes=("ramp", "half_sine"), factor_range=(0.2, 5.0),
        systems=systems,
    )  # fmt: skip
    rows = {systems.row("gridlabd", "total_load"), systems.row("epanet", "pressure_10")}
    seen = {"target": set(), "k": set(), "length": set(), "events": set(), "shapes": set()}
    for step in range(4):
        batch = stream.batch_at(step)
        context, horizon = ((1024, 128), (512, 64))[step % 2]
        assert (batch.spec.bucket.context, batch.spec.bucket.horizon) == (context, horizon)
        assert batch.task.history.shape == (32, context)
        assert batch.task.future_covariates.shape == (32, 4, horizon)
        spec = batch.spec
        assert np.asarray(spec.future == 1).all()
        seen["target"] |= set(np.asarray(spec.target).tolist())
        seen["k"] |= set(np.asarray(spec.covariate_mask.sum(1)).tolist())
        seen["length"] |= set(np.asarray(spec.event_length).tolist())
        seen["events"] |= set(np.asarray(spec.n_events).tolist())
        seen["shapes"] |= set(np.asarray(spec.shapes).ravel().tolist())
        drawn = np.asarray(spec.factors)
        assert drawn.min() >= 0.2 - 1e-6
        assert drawn.max() <= 5.0 + 1e-5
    assert seen == {
        "target": rows, "k": {2, 4}, "length": {32, 57}, "events": {1, 3}, "shapes": {2, 3},
    }  # fmt: skip


def test_one_program_per_bucket(stream, systems):
    from whatif_jax.tasks.stream import _make_batch

    stream.batch_at(0)
    count = _make_batch._cache_size()
    for step in range(1, 6):
        stream.batch_at(step)
    TaskStream(99, systems=systems, **SMALL).batch_at(3)
    assert _make_batch._cache_size() == count


@pytest.mark.parametrize(
    "field, change",
    [
        ("seed", {"key": -1}),
        ("seed", {"key": 2**32}),
        ("key", {"key": "seven"}),
        ("key", {"key": jax.numpy.zeros(2)}),
        ("batch_size", {"batch_size": 0}),
        ("batch_size", {"batch_size": True}),
        ("buckets", {"buckets": []}),
        ("buckets", {"buckets": [(9000, 128)]}),
        ("k", {"k": (0, 1)}),
        ("k", {"k": (7,)}),
        ("buckets", {"buckets": [(512, 2000)]}),
        ("event_lengths", {"event_lengths": ()}),
        ("event_lengths", {"event_lengths": (512,), "buckets": [(512, 64)]}),
        ("n_events", {"n_events": "many"}),
        ("n_events", {"n_events": (0,)}),
        ("novel", {"novel": 1.5}),
        ("novel", {"novel": "x"}),
        ("systems", {"systems": 5}),
        ("shapes", {"shapes": []}),
        ("shapes", {"shapes": ("square",)}),
        ("factor_range", {"factor_range": (1.5, 2.0)}),
        ("factor_range", {"factor_range": 5}),
        ("targets", {"targets": ["nothing"]}),
        ("targets", {"targets": []}),
        ("k", {"k": 3}),
        ("buckets", {"buckets": (512, 64)}),
        ("event_lengths", {"event_lengths": 32}),
        ("event_lengths", {"event_lengths": (32, 600)}),
        ("n_events", {"n_events": (1, 50)}),
        ("n_events", {"n_events": np.array([1.5])}),
        ("shapes", {"shapes": [["bell"]]}),
        ("targets", {"targets": ["presure_10"]}),
        ("targets", {"targets": 5}),
        ("targets", {"targets": ["is_COOL_on"]}),
        ("sharding", {"sharding": "all"}),
    ],
)
def test_bad_fields_are_refused_by_name(systems, field, change):
    with pytest.raises(ValueError, match=rf"^{field}.*expected"):
        TaskStream(**({"key": 0, "systems": systems} | SMALL | change))


def test_a_batch_that_devices_cannot_share_is_refused(systems):
    mesh = Mesh(np.array(jax.devices()[:4]), ("batch",))
    sharding = NamedSharding(mesh, PartitionSpec("batch"))
    with pytest.raises(ValueError, match="^batch_size: 6; expected a multiple of the 4 shards"):
        TaskStream(0, 6, systems=systems, sharding=sharding)


def test_systems_that_are_none_are_refused():
    with pytest.raises(ValueError, match=r"systems: name = 5; expected one of .*path of a catalog"):
        TaskStream(0, 2, systems=[5])


def test_a_misspelt_target_is_told_the_nearest(systems):
    with pytest.raises(ValueError, match=r"did you mean 'pressure_10'\?"):
        TaskStream(0, 2, systems=systems, targets=["presure_10"])


def test_every_target_has_all_the_covariates_it_can_have(tmp_path):
    """A system of two covariates beside one of more caps only its own tasks."""
    shutil.copy(BREWERY, tmp_path)
    series = (5 + np.random.default_rng(0).random(2880)).astype(np.float32)
    columns = dict.fromkeys(("cooling_power", "tank_temperature"), series)
    parquet.write_table(pa.table(columns), tmp_path / "brewery.parquet")
    both = TaskStream(
        0, 128, [(512, 64)], [tmp_path / "brewery.toml", "epanet"], event_lengths=[32],
        targets=["cooling_power", "pressure_10", "pressure_12"],
    )  # fmt: skip
    spec = both.batch_at(0).spec
    own = np.asarray(spec.target) < 2
    k = np.asarray(spec.covariate_mask).sum(axis=1)
    assert set(k[own].tolist()) == {1, 2} and set(k[~own].tolist()) == {1, 2, 3, 4, 5}


def test_a_mesh_of_more_axes_shares_the_batch_over_one(stream, systems):
    mesh = Mesh(np.array(jax.devices()[:4]).reshape(2, 2), ("data", "model"))
    sharding = NamedSharding(mesh, PartitionSpec("data"))
    sharded = TaskStream(7, systems=systems, sharding=sharding, **SMALL)
    one, many = stream.batch_at(1), sharded.batch_at(1)
    np.testing.assert_array_equal(one.spec.target, many.spec.target)
    np.testing.assert_allclose(one.task.future, many.task.future, rtol=2e-6, atol=1e-6)
    assert many.task.future.sharding.is_equivalent_to(sharding, 2)
    for spec in (PartitionSpec(), PartitionSpec(None, "data"), PartitionSpec("data", "model")):
        with pytest.raises(ValueError, match="^sharding: .*expected one entry"):
            TaskStream(7, 4, systems=systems, sharding=NamedSharding(mesh, spec))


def test_a_training_loop_moves_nothing_by_itself(stream):
    """`transfer_guard("disallow")` refuses what goes to a device without being asked to."""
    list(stream.iterate(0, 2))
    with jax.transfer_guard("disallow"):
        assert len(list(stream.iterate(2, 4))) == 2


@pytest.mark.parametrize("step", [-1, 2**63, 1.5, True, "0"])
def test_bad_steps_are_refused(stream, step):
    with pytest.raises(ValueError, match="^step: .*expected"):
        stream.batch_at(step)
    with pytest.raises(ValueError, match="^step: .*expected"):
        next(stream.iterate(0, step))


def test_the_numbers_are_spread_as_said(stream):
    # 400 rows: every share within 5 standard deviations of its probability
    batches = [stream.batch_at(step) for step in range(50)]
    novel = np.concatenate([np.asarray(batch.spec.future) for batch in batches])
    k = np.concatenate([np.asarray(batch.spec.covariate_mask.sum(1)) for batch in batches])
    assert abs(novel.mean() - 0.5) < 5 * 0.5 / np.sqrt(400)
    for count in range(1, 6):
        assert abs((k == count).mean() - 0.2) < 5 * 0.4 / np.sqrt(400)
    assert len({int(jnp.sum(batch.spec.window_start)) for batch in batches}) == 50
