"""Tasks against the float64 oracle, and properties of random specs."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.oracle.drawn_numbers import draw_row
from tests.oracle.reference import reference_task
from tests.rows import FIELDS, as_suite, assert_close, random_rows, realized
from whatif_jax import (
    FUTURES,
    Bucket,
    Sizes,
    TaskStream,
    bucket_for,
    load_systems,
    realize,
    root_key,
    sample_spec,
    sample_task,
)
from whatif_jax.catalog import load_system
from whatif_jax.catalog.series import read_series
from whatif_jax.tasks.events import SHAPES

BUCKET = Bucket(1024, 128, 5, 8, 256)
make = jax.jit(realize)


@jax.jit
def draw(systems, number, target, k, event_length, n_events, future):
    key = jax.random.fold_in(root_key(0), number)
    return sample_spec(Sizes(target, k, event_length, n_events, future), systems, BUCKET, key=key)


# (event length, events) that fit a context of 1024
EVENTS = [(32, 1), (32, 8), (64, 4), (128, 2), (256, 2), (512, 1), (57, 3)]

specs = st.tuples(
    st.integers(0, 2**31 - 1),
    st.integers(0, 99),
    st.integers(1, 5),
    st.sampled_from(EVENTS),
    st.integers(0, 1),
)


def drawn(systems, case):
    number, target, k, (length, n_events), future = case
    target = target % len(systems.targets)
    return draw(systems, number, target, k, length, n_events, future)


def event_steps(spec) -> np.ndarray:
    """Bool [context]: steps at which an event of the history holds."""
    held = np.zeros(spec.bucket.context, bool)
    for start in np.asarray(spec.event_starts)[: int(spec.n_events)]:
        held[start : start + int(spec.event_length)] = True
    return held


@pytest.mark.parametrize("pair, count", [("C1", 160), ("C2", 80), ("C4", 40)])
def test_equals_the_oracle(pair, count):
    # whatif-v1.md §8: rtol 1e-4, atol 1e-4 of the target's mean
    rows = random_rows(1, count, context_pair=pair)
    suite = as_suite(rows)
    found = realized(suite)
    assert len(found) == count
    for row in rows:
        series = read_series(load_system(row["system"]))[row["target"]].astype(np.float64)
        what = (row["system"], row["target"], row["k"], row["future"])
        assert_close(
            found[row["task_id"]], reference_task(row, series), np.abs(series).mean(), 1e-4, 1e-4,
            what,
        )  # fmt: skip


def test_equals_the_oracle_to_rounding_in_float64():
    # the same formulas in 64 bits agree to accumulated rounding, so the 1e-4 hides no formula
    rows = random_rows(2, 60, context_pair="C1", event_length=64)
    with jax.enable_x64(True):
        suite = as_suite(rows)
        vars(suite)["_systems"] = load_systems(suite.catalog, dtype=np.float64)
        found = realized(suite)
    for row in rows:
        series = read_series(load_system(row["system"]))[row["target"]].astype(np.float64)
        # factors are kept in float32, so the oracle must read the same numbers
        exact = reference_task(_in_float32(row), series)
        assert_close(found[row["task_id"]], exact, np.abs(series).mean(), 1e-9, 1e-9, row["target"])


def _in_float32(row: dict) -> dict:
    kept = {name: np.asarray(row[name], np.float32).tolist()
            for name in ("factors", "future_factors")}  # fmt: skip
    return row | kept


@settings(max_examples=60, deadline=None)
@given(specs)
def test_outside_events_the_target_is_its_baseline(systems, case):
    spec = drawn(systems, case)
    task = make(spec, systems)
    start = int(spec.window_start)
    series = systems.series(int(spec.target))
    outside = ~event_steps(spec)
    np.testing.assert_array_equal(
        np.asarray(task.history)[outside], series[start : start + 1024][outside]
    )
    np.testing.assert_array_equal(task.future_baseline, series[start + 1024 : start + 1152])
    base = np.asarray(systems.base[spec.target, spec.covariates])
    mask = np.asarray(spec.covariate_mask)
    covariates = np.asarray(task.history_covariates)
    np.testing.assert_array_equal(
        covariates[mask][:, outside], np.broadcast_to(base[mask, None], (mask.sum(), outside.sum()))
    )
    assert not covariates[~mask].any()
    assert np.isfinite(jax.tree.leaves(jax.tree.map(np.sum, task))).all()


@settings(max_examples=40, deadline=None)
@given(specs)
def test_factors_of_one_change_nothing(systems, case):
    spec = drawn(systems, case)
    spec = eqx.tree_at(
        lambda s: (s.factors, s.future_factors),
        spec,
        (jnp.ones_like(spec.factors), jnp.ones_like(spec.future_factors)),
    )
    task = make(spec, systems)
    start = int(spec.window_start)
    series = systems.series(int(spec.target))[start : start + 1152]
    np.testing.assert_array_equal(np.concatenate([task.history, task.future]), series)


@settings(max_examples=40, deadline=None)
@given(specs)
def test_replay_and_novel_share_a_history(systems, case):
    replay, novel = (drawn(systems, (*case[:4], future)) for future in range(2))
    one, other = make(replay, systems), make(novel, systems)
    np.testing.assert_array_equal(one.history, other.history)
    np.testing.assert_array_equal(one.history_covariates, other.history_covariates)
    factors = np.asarray(replay.factors)[: int(replay.n_events)]
    mask = np.asarray(replay.covariate_mask)
    assert any(np.array_equal(event, replay.future_factors) for event in factors)
    direct = np.asarray(systems.direct[replay.target, replay.covariates])[mask]
    beyond = np.asarray(novel.future_factors)[mask]
    assert (beyond[direct] > np.maximum(1, factors.max(0))[mask][direct] + 4.99).all()
    assert (beyond[~direct] < np.minimum(1, factors.min(0))[mask][~direct] * 0.501).all()


@settings(max_examples=60, deadline=None)
@given(specs, st.floats(1.02, 3.0))
def test_the_target_is_monotone_in_its_primary_factor(systems, case, growth):
    # every step of the future of a task with one covariate, over the factors a task can draw
    spec = drawn(systems, (*case[:2], 1, *case[3:]))
    value = float(spec.future_factors[0])

    def future(factor):
        factors = spec.future_factors.at[0].set(factor)
        changed = eqx.tree_at(lambda s: s.future_factors, spec, factors)
        return np.asarray(make(changed, systems).future, np.float64)

    low, high = future(value), future(value * growth)
    y = np.asarray(make(spec, systems).future_baseline, np.float64)
    direct = bool(systems.direct[spec.target, spec.covariates[0]])
    # a factor of y moves |y|: a negative flow falls where a positive one rises
    offset = systems.responses.offset_scale[spec.target] != 0
    sign = 1.0 if offset else np.where(y < 0, -1.0, 1.0)
    moved = (high - low) * sign * (1 if direct else -1)
    assert (moved >= -4e-6 * np.maximum(np.abs(low), np.abs(high)) - 1e-30).all()


def test_a_batched_row_equals_the_single_row_in_any_order(systems):
    cases = [(i, 7 * i % len(systems.targets), 1 + i % 5, EVENTS[i % 7], i % 2) for i in range(16)]
    one_by_one = [drawn(systems, case) for case in cases]
    order = np.random.default_rng(0).permutation(len(cases))
    batch = jax.tree.map(lambda *rows: jnp.stack(rows), *[one_by_one[i] for i in order])
    together = jax.jit(jax.vmap(realize, in_axes=(0, None)))(batch, systems)
    for place, number in enumerate(order):
        single = make(one_by_one[number], systems)
        row = jax.tree.map(lambda leaf, place=place: leaf[place], together)
        # Equal values, not bits: XLA may contract multiply-add differently per batch shape.
        for found, expected in zip(jax.tree.leaves(row), jax.tree.leaves(single), strict=True):
            np.testing.assert_allclose(found, expected, rtol=2e-6, atol=1e-6)


def test_a_smaller_task_in_a_larger_bucket_is_the_same_task(systems):
    sizes = Sizes(systems.row("opendc", "cpu_demand_host-1"), 3, 57, 3, "novel", 900, 100)
    key = jax.random.key(3)
    exact = sample_spec(sizes, systems, Bucket(900, 100, 5, 8, 87), key=key)
    padded = sample_spec(sizes, systems, BUCKET, key=key)
    small, large = make(exact, systems), make(padded, systems)
    assert large.history_mask.sum() == 900
    assert large.future_mask.sum() == 100
    for name in ("history", "history_covariates"):
        np.testing.assert_allclose(
            getattr(large, name)[..., 124:], getattr(small, name), rtol=2e-6, atol=1e-6
        )
        assert not np.any(getattr(large, name)[..., :124])
    for name in ("future", "future_baseline", "future_covariates"):
        np.testing.assert_allclose(
            getattr(large, name)[..., :100], getattr(small, name), rtol=2e-6, atol=1e-6
        )
        assert not np.any(getattr(large, name)[..., 100:])


def test_event_shapes_reach_the_covariates(systems):
    target = systems.row("opendc", "cpu_demand_host-0")
    for number in range(len(SHAPES)):
        sizes = Sizes(target, 1, 64, 1, "replay", shapes=jnp.full(5, number))
        spec = sample_spec(sizes, systems, BUCKET, key=jax.random.key(1))
        covariate = np.asarray(make(spec, systems).history_covariates[0])
        window = covariate[409 : 409 + 64] / 3000.0 - 1.0
        np.testing.assert_allclose(window, window[::-1], atol=1e-5)
        step = np.arange(64)
        expected = {
            "step": np.ones(64),
            "bell": np.exp(-0.5 * ((step - 31.5) / (64 / 6)) ** 2),
            "ramp": np.minimum(1, (np.minimum(step, 63 - step) + 1) / 16),
            "half_sine": np.sin(np.pi * (step + 0.5) / 64),
        }[SHAPES[number]]
        full = float(spec.factors[0, 0]) - 1.0
        np.testing.assert_allclose(window, full * expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    "field, change",
    [
        ("k", {"k": 6}),
        ("n_events", {"n_events": 9}),
        ("n_events", {"event_length": 512, "n_events": 2, "bucket": Bucket(1024, 128, 5, 8, 512)}),
        ("context", {"context": 2000}),
        ("horizon", {"horizon": 129}),
        ("bucket", {"event_length": 256, "n_events": 2, "bucket": Bucket(1024, 128, 5, 8, 100)}),
        ("target", {"target": 100}),
        ("future", {"future": 2}),
        ("future", {"future": "next"}),
        ("target", {"target": "pressure_10"}),
        ("k", {"k": 1.5}),
        ("k", {"k": True}),
        ("factor_range", {"factor_range": 5}),
        ("factor_range", {"factor_range": (0.5, float("inf"))}),
        ("key", {"key": 0}),
        ("k", {"k": np.int64(6)}),
        ("n_events", {"n_events": np.int64(9)}),
        ("max_covariates", {"k": 6, "bucket": Bucket(1024, 128, 6, 8, 256)}),
        ("bucket", {"bucket": Bucket(1024, 128, 5, 8, 64, ("step",)), "k": 2}),
        ("bucket", {"bucket": Bucket(1024, 128, 5, 8, 1, ("step",)), "n_events": 2}),
    ],
)
def test_sizes_that_do_not_fit_are_refused_by_name(systems, field, change):
    sizes = dict(target=0, k=1, event_length=32, n_events=1, future="replay") | change
    bucket, key = sizes.pop("bucket", BUCKET), sizes.pop("key", jax.random.key(0))
    with pytest.raises(ValueError, match=f"^{field}: .*expected"):
        sample_spec(Sizes(**sizes), systems, bucket, key=key)


@pytest.mark.parametrize("sizes", [(8193, 128), (1024, 1025), (0, 128)])
def test_a_bucket_beyond_the_padding_is_refused(sizes):
    with pytest.raises(ValueError, match="^(bucket|context): .*expected"):
        Bucket(*sizes, 5, 8, 256)


@pytest.mark.parametrize("shapes", [("bell",), (), ("step", "step"), ("step", "square")])
def test_a_bucket_whose_padding_has_no_shape_is_refused(shapes):
    with pytest.raises(ValueError, match="^bucket: .*expected 'step' first"):
        Bucket(1024, 128, 5, 8, 64, shapes)


@pytest.mark.parametrize("name", ["covariates", "events", "positions"])
@pytest.mark.parametrize("value", [0, -1, True])
def test_a_bucket_of_no_size_is_refused(name, value):
    sizes = dict(context=512, horizon=64, covariates=2, events=2, positions=32) | {name: value}
    with pytest.raises(ValueError, match=f"^{name}: .*expected a whole number"):
        Bucket(**sizes)


def test_shapes_that_do_not_fit_are_refused(systems):
    sizes = Sizes(0, 2, 32, 2, "novel", 512, 64, shapes=jnp.zeros(3, jnp.int32))
    with pytest.raises(ValueError, match="^shapes: .*expected one for each"):
        sample_spec(sizes, systems, Bucket(512, 64, 2, 2, 32), key=jax.random.key(0))


def test_one_line_makes_a_verified_task(systems):
    task = sample_task(systems, "epanet", "pressure_10", k=2, key=root_key(0))
    assert task.history.shape == (1024,)
    assert task.future_covariates.shape == (2, 128)
    assert task.history_mask.all() and task.future_mask.all() and task.covariate_mask.all()
    change = np.abs(task.future - task.future_baseline) / np.abs(task.future_baseline)
    assert np.minimum(change, 1).mean() >= 0.1
    again = sample_task(systems, "epanet", "pressure_10", k=2, key=root_key(0))
    np.testing.assert_array_equal(again.history, task.history)
    replay = sample_task(systems, "epanet", "pressure_10", k=2, future="replay", key=root_key(0))
    np.testing.assert_array_equal(replay.history, task.history)
    with pytest.raises(KeyError, match="target: 'nothing'; expected one of 'pressure_10'"):
        sample_task(systems, "epanet", "nothing", key=root_key(0))
    with pytest.raises(ValueError, match="^n_events: .*expected"):
        sample_task(systems, "epanet", "pressure_10", n_events=99, key=root_key(0))
    with pytest.raises(ValueError, match="^target: none of 64 draws"):
        sample_task(systems, "epanet", "flowrate_9", context=2048, horizon=64, event_length=256,
                    n_events=4, key=root_key(0))  # fmt: skip


def test_the_smallest_bucket_holds_its_sizes():
    assert bucket_for(Sizes(0, 2, 33, 3, "novel", 600, 64)) == Bucket(600, 64, 2, 3, 51)
    with pytest.raises(ValueError, match="^context: None; expected"):
        bucket_for(Sizes(0, 2, 33, 3, "novel"))


def test_tasks_of_one_bucket_compile_once(systems):
    own = jax.jit(lambda spec, systems: realize(spec, systems))  # `make` holds other buckets
    for number in range(6):
        length, n_events = EVENTS[number]
        own(drawn(systems, (number, number, 1 + number % 5, (length, n_events), 0)), systems)
    assert own._cache_size() == 1


def test_futures_are_named():
    assert FUTURES == ("replay", "novel")


def test_a_subset_of_systems_gives_the_same_tasks(systems):
    alone = load_systems(["gridlabd"])
    name = ("gridlabd", "air_temperature")

    def task(loaded):
        sizes = Sizes(loaded.row(*name), 4, 64, 4, "novel")
        return realize(sample_spec(sizes, loaded, BUCKET, key=jax.random.key(5)), loaded)

    for leaf, other in zip(*map(jax.tree.leaves, (task(alone), task(systems))), strict=True):
        np.testing.assert_allclose(leaf, other, rtol=2e-6, atol=1e-6)


def test_more_covariates_than_the_systems_were_loaded_for_are_refused():
    # a table loaded for one covariate has no terms for the others
    narrow = load_systems(["opendc"], max_covariates=1)
    key = jax.random.key(0)
    spec = sample_spec(Sizes(0, 1, 32, 1, "replay"), narrow, Bucket(1024, 128, 1, 8, 256), key=key)
    assert spec.covariates.shape == (1,)
    wide = sample_spec(Sizes(0, 2, 32, 1, "replay"), load_systems(["opendc"]), BUCKET, key=key)
    with pytest.raises(ValueError, match="^max_covariates: 5 .*expected at most 1"):
        realize(wide, narrow)
    with pytest.raises(ValueError, match="^max_covariates: 5"):
        TaskStream(0, 4, k=(5,), systems=narrow)
    assert TaskStream(0, 4, systems=narrow).k == (1,)


def test_more_covariates_than_the_benchmark_has_equal_the_oracle():
    # eight at once, where a task of the benchmark has five at most
    loaded, generator = load_systems(["gridlabd"], max_covariates=8), np.random.default_rng(3)
    for target in ("total_load", "air_temperature"):
        row = draw_row(
            generator, "gridlabd", target, k=8, context_pair="C1", event_length=64,
            setting="fewest", future="novel",
        )  # fmt: skip
        number = loaded.row("gridlabd", target)
        sizes, bucket = Sizes(number, 8, 64, 1, "novel"), Bucket(1024, 128, 8, 1, 32)
        spec = sample_spec(sizes, loaded, bucket, key=jax.random.key(0))
        spec = eqx.tree_at(
            lambda s: (s.factors, s.future_factors, s.window_start),
            spec,
            (
                jnp.asarray(row["factors"], jnp.float32),
                jnp.asarray(row["future_factors"], jnp.float32),
                jnp.asarray(row["window_start"], jnp.int32),
            ),
        )
        series = loaded.series(number).astype(np.float64)
        task = make(spec, loaded)
        found = {name: getattr(task, name) for name in FIELDS}
        expected = reference_task(_in_float32(row), series)
        assert_close(found, expected, np.abs(series).mean(), 1e-4, 1e-4, target)
