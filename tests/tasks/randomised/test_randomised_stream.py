"""The randomised stream: a pure function of (key, step), finite, and what its numbers say.

One batch size, bucket and width serve all tests that are not slow: a program takes half a minute to
compile.
"""

import jax
import numpy as np
import pytest
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from tests.tasks.randomised import oracle
from whatif_jax import HARD_CASES, RandomisedStream, StreamError, inputs_of
from whatif_jax.tasks.randomised import pool_of
from whatif_jax.tasks.randomised.stream import _make_batch

SMALL = dict(batch_size=16, buckets=[(256, 32)])


@pytest.fixture(scope="module")
def stream():
    return RandomisedStream(7, **SMALL)


def equal(one, other):
    pairs = zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True)
    return all(np.array_equal(np.asarray(a), np.asarray(b)) for a, b in pairs)


def test_a_step_is_a_pure_function_of_key_and_step(stream):
    steps = (0, 1, 2**32, 2**62)
    found = {step: stream.batch_at(step) for step in steps}
    again = RandomisedStream(7, **SMALL)
    for step in reversed(steps):
        assert equal(found[step], again.batch_at(step))
    assert not equal(found[0].task, found[1].task)
    assert not equal(found[0].task, RandomisedStream(8, **SMALL).batch_at(0).task)


@pytest.mark.slow
def test_a_row_depends_on_its_own_number_alone(stream):
    few = RandomisedStream(7, **(SMALL | {"batch_size": 4})).batch_at(3)
    many = stream.batch_at(3)
    for one, other in zip(jax.tree.leaves(few), jax.tree.leaves(many), strict=True):
        one, other = np.asarray(one), np.asarray(other)[:4]
        if one.dtype.kind == "f":  # other batch sizes are fused otherwise
            np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5 * np.abs(other).max())
        else:
            np.testing.assert_array_equal(one, other)


def test_iteration_resumes_without_repeating_or_skipping(stream):
    parts = [*stream.iterate(0, 2), *stream.iterate(2, 4)]
    for step, batch in enumerate(parts):
        assert equal(batch, stream.batch_at(step))
    assert len(parts) == 4
    assert equal(next(iter(stream)), parts[0])


@pytest.mark.slow
def test_one_program_a_bucket():
    """Other keys, shares and futures compile nothing."""
    buckets = [(256, 32), (200, 16)]
    both = RandomisedStream(7, 16, buckets)
    both.batch_at(0)
    before = _make_batch._cache_size()
    both.batch_at(1)
    assert _make_batch._cache_size() == before + 1
    for step in range(2, 6):
        both.batch_at(step)
    for change in (
        dict(key=9), dict(novel=1.0), dict(hard_cases={"regime": 1.0}), dict(hard_cases={}),
    ):  # fmt: skip
        RandomisedStream(**(dict(key=7, batch_size=16, buckets=buckets) | change)).batch_at(0)
    assert _make_batch._cache_size() == before + 1


@pytest.mark.slow
def test_devices_share_a_batch(stream):
    mesh = Mesh(np.array(jax.devices()[:4]), ("data",))
    sharding = NamedSharding(mesh, PartitionSpec("data"))
    many = RandomisedStream(7, **SMALL, sharding=sharding).batch_at(1)
    one = stream.batch_at(1)
    np.testing.assert_array_equal(one.drawn.events.starts, many.drawn.events.starts)
    size = np.abs(np.asarray(one.task.future)).max(axis=1, keepdims=True) + 1e-30
    np.testing.assert_allclose(one.task.future / size, many.task.future / size, atol=1e-4)
    assert many.task.future.sharding.is_equivalent_to(sharding, 2)


def test_every_draw_is_finite_and_most_effects_are_seen(stream):
    """3,200 draws; log ratios of mean magnitudes: the middle half lies between 0.02 and 3."""
    sizes, verified = [], []
    for step in range(200):
        batch = stream.check(stream.batch_at(step))
        verified.append(np.asarray(batch.verified))
        leaves = [np.asarray(leaf) for leaf in jax.tree.leaves(batch.task)]
        assert all(np.isfinite(leaf).all() for leaf in leaves)
        moved, free = (
            np.abs(np.asarray(value, np.float64)).mean(axis=1)
            for value in (batch.task.future, batch.task.future_baseline)
        )
        real = free > 1e-6 * np.abs(np.asarray(batch.drawn.baseline)).max(axis=1)
        sizes.append(np.abs(np.log(np.maximum(moved[real], 1e-30) / free[real])))
    assert np.concatenate(verified).all()
    low, middle, high = np.quantile(np.concatenate(sizes), [0.25, 0.5, 0.75])
    assert 0.02 < low < middle < high < 3.0
    assert 0.1 < middle < 1.0


@pytest.mark.parametrize(
    "case", [None, "irrelevant", "correlated", "saturation", "overlapping", "delayed", "regime"]
)
def test_a_task_is_what_its_numbers_say(case):
    """Against float64 NumPy: covariates to 3e-6 of their largest, targets to 1e-4 of theirs."""
    shares = {} if case is None else {case: 1.0}
    batch = RandomisedStream(3, **SMALL, hard_cases=shares).batch_at(1)
    applied = 0
    for row in range(6):
        drawn, task = oracle.row_of(batch.drawn, row), oracle.row_of(batch.task, row)
        shown, felt, y = oracle.deviations(drawn, 288, 256)
        if drawn.follower.any():
            centred = y - y.mean()
            column = int(np.flatnonzero(drawn.follower)[0])
            seen = task.history_covariates[column] / drawn.base[column] / (1 + shown[column, :256])
            if np.ptp(centred):
                assert abs(np.corrcoef(seen, centred[:256])[0, 1]) > 0.9999
            shown[column, :256] = seen * (1 + shown[column, :256]) - 1
            assert not drawn.response.active[column]
        values = np.concatenate([task.history_covariates, task.future_covariates], axis=1)
        expected = drawn.base[:, None] * (1 + shown) * task.covariate_mask[:, None]
        size = np.abs(expected).max(axis=1, keepdims=True) + 1e-30
        np.testing.assert_allclose(values / size, expected / size, atol=3e-6)
        wanted = oracle.target(drawn.response, felt, y)
        found = np.concatenate([task.history, task.future])
        scale = np.abs(wanted).max() + 1e-30
        np.testing.assert_allclose(found / scale, wanted / scale, atol=1e-4)
        np.testing.assert_array_equal(task.future_baseline, drawn.baseline[256:])
        applied += case is not None and bool(np.asarray(getattr(batch.hard_cases, case))[row])
    assert case is None or applied >= 3


def test_a_hard_case_alone_is_flagged_and_does_what_it_says():
    for case in HARD_CASES:
        batch = RandomisedStream(5, **SMALL, hard_cases={case: 1.0}).batch_at(0)
        flags = {name: np.asarray(value) for name, value in vars(batch.hard_cases).items()}
        assert flags[case].mean() > 0.6, case
        assert not any(value.any() for name, value in flags.items() if name != case)
        task, drawn = batch.task, batch.drawn
        k = np.asarray(task.covariate_mask).sum(axis=1)
        active = np.asarray(drawn.response.active)
        if case in ("irrelevant", "correlated"):
            on = flags[case]
            assert (active[on].sum(axis=1) < k[on]).all() and (active.sum(axis=1) >= 1).all()
        lost = ~np.asarray(task.history_mask)
        assert (lost.any(axis=1) == flags["missing"]).all() and not lost[:, 0].any()
        assert (np.asarray(task.history)[lost] == 0.0).all()
        noise = np.asarray(task.future_baseline) != np.asarray(drawn.baseline)[:, 256:]
        assert noise.any(axis=1).sum() == flags["noise"].sum() or case == "noise"
        if case == "saturation":
            assert np.isfinite(np.asarray(drawn.response.clip_high)).any()
            high = np.asarray(drawn.response.clip_high)[:, None]
            assert (np.asarray(task.history) <= high).all()
        if case == "wandering":
            values = np.asarray(task.history_covariates) / np.asarray(drawn.base)[:, :, None]
            first = values[np.asarray(task.covariate_mask)][:, 0]
            np.testing.assert_allclose(first, 1.0, rtol=1e-6)
            moves = np.ptp(values[np.asarray(task.covariate_mask)][:, :20], axis=1)
            assert (moves > 0).all() and (moves < 0.6).all()


def test_no_hard_case_and_a_future_of_one_kind(stream):
    none = SMALL | {"k": (2, 8), "hard_cases": {}}
    batch = RandomisedStream(2, **none, novel=1.0).batch_at(0)
    assert not any(np.asarray(value).any() for value in vars(batch.hard_cases).values())
    assert set(np.asarray(batch.task.covariate_mask).sum(axis=1).tolist()) == {2, 8}
    factors = np.asarray(batch.drawn.events.shown)  # [B, E+1, K]
    past, future = factors[:, :-1], factors[:, -1]
    above, below = np.maximum(past.max(axis=1), 1.0), np.minimum(past.min(axis=1), 1.0)
    assert ((future > above) | (future < below)).all()
    again = RandomisedStream(2, **none, novel=0.0).batch_at(0)
    past, future = (np.asarray(again.drawn.events.shown)[:, part] for part in (slice(0, -1), -1))
    assert (np.abs(past - future[:, None]).max(axis=2).min(axis=1) == 0).all()


@pytest.mark.slow
def test_real_series_are_drawn_from_a_pool_of_ones_own():
    """Windows of a pool of one steep line keep its shape where no augmentation bends it."""
    line = np.linspace(1.0, 9.0, 500).astype(np.float32)
    pool = pool_of([line, np.ones(100, np.float32)])
    with_pool = RandomisedStream(1, 64, [(256, 32)], hard_cases={}, pool=pool)
    y = np.asarray(with_pool.check(with_pool.batch_at(0)).drawn.baseline)
    corners = np.abs(np.corrcoef(np.vstack([np.arange(288), y]))[0, 1:])
    assert (corners > 0.99).mean() > 0.1
    assert with_pool.describe()["series"] == 2
    with pytest.raises(ValueError, match="^pool: series of at most 500 steps; expected .*1056"):
        RandomisedStream(1, 2, [(1024, 32)], pool=pool)
    with pytest.raises(ValueError, match="^pool: list; expected"):
        RandomisedStream(1, 2, pool=[line])


def test_a_pool_of_ones_own_is_not_said_to_be_free_of_the_benchmark():
    pool = pool_of([np.linspace(1.0, 9.0, 500).astype(np.float32)])
    found = RandomisedStream(1, 2, [(256, 32)], pool=pool).describe()
    assert found["trained_on"] == "unknown" and found["trains_on_the_suite"] is None
    assert "of the benchmark" not in found["holds"]


def test_its_batches_are_what_forecasters_take(stream):
    inputs = inputs_of(stream.batch_at(0).task)
    assert inputs.covariates.shape == (16, 288, 8) and inputs.horizon == 32


def test_it_describes_itself(stream):
    found = stream.describe()
    assert found["split"] == found["trained_on"] == "randomised"
    assert found["systems"] == found["targets"] == [] and not found["trains_on_the_suite"]
    assert found["prior"] == 1 and found["buckets"] == [[256, 32]]
    assert set(found["hard_cases"]) == set(HARD_CASES)
    assert repr(stream) == (
        "RandomisedStream(16 tasks a batch of 256 + 32 steps: prior 1, synthetic series)"
    )


def test_a_training_loop_moves_nothing_by_itself(stream):
    list(stream.iterate(0, 2))
    with jax.transfer_guard("disallow"):
        assert len(list(stream.iterate(2, 4))) == 2


@pytest.mark.parametrize(
    "field, change",
    [
        ("seed", {"key": -1}),
        ("key", {"key": "seven"}),
        ("batch_size", {"batch_size": 0}),
        ("buckets", {"buckets": []}),
        ("k", {"k": (0,)}),
        ("k", {"k": (65,)}),
        ("novel", {"novel": 1.5}),
        ("novel", {"novel": float("nan")}),
        ("hard_cases", {"hard_cases": {"weather": 0.1}}),
        ("hard_cases: noise", {"hard_cases": {"noise": 2}}),
        ("hard_cases", {"hard_cases": ["noise"]}),
        ("prior", {"prior": 3}),
        ("prior", {"prior": "nowhere.toml"}),
        ("sharding", {"sharding": "all"}),
    ],
)
def test_bad_fields_are_refused_by_name(field, change):
    with pytest.raises(ValueError, match=rf"^{field}.*expected"):
        RandomisedStream(**(dict(key=0) | SMALL | change))


def test_a_row_that_is_not_finite_is_refused(stream):
    import dataclasses

    batch = dataclasses.replace(stream.batch_at(0), verified=np.zeros(16, bool))
    with pytest.raises(StreamError, match="16 of 16 rows are not finite"):
        stream.check(batch)
