"""Weights of systems, targets and buckets, and numbers of covariates by name.

One bucket and batch size serve all tests that draw: a program takes seconds to compile.
"""

import json
import shutil

import jax
import jax.numpy as jnp
import numpy as np
import pyarrow as pa
import pyarrow.parquet as parquet
import pytest

from tests.catalog_helpers import BREWERY
from whatif_jax import RandomisedStream, TaskStream, load_systems
from whatif_jax.tasks.stream import _make_batch
from whatif_jax.tasks.stream_rows import count_draws
from whatif_jax.tasks.stream_weights import (
    bucket_turns,
    checked_bucket_weights,
    shares_of,
    weighted,
)

TARGETS = ("cooling_power", "tank_temperature", "pressure_10", "pressure_12")
SMALL = dict(batch_size=64, buckets=[(512, 64)], event_lengths=[32], n_events=[1, 2])
WEIGHTS = dict(
    system_weights={"brewery": 3.0},
    target_weights={"cooling_power": 0, "epanet/pressure_12": 0.5, "pressure_12": 9},
    k={"brewery": (1, 2), "tank_temperature": [2], "pressure_10": (4, 1)},
)
THREE = dict(buckets=[(512, 64), (256, 32), (300, 16)], event_lengths=[32])


@pytest.fixture(scope="module")
def both(tmp_path_factory):
    """A system of two covariates and two targets beside one of more."""
    folder = tmp_path_factory.mktemp("brewery")
    shutil.copy(BREWERY, folder)
    series = (5 + np.random.default_rng(0).random(2880)).astype(np.float32)
    columns = dict.fromkeys(TARGETS[:2], series)
    parquet.write_table(pa.table(columns), folder / "brewery.parquet")
    return load_systems([folder / "brewery.toml", "epanet"], max_covariates=5)


def stream_of(both, **change) -> TaskStream:
    return TaskStream(**(dict(key=5, systems=both, targets=TARGETS) | SMALL | WEIGHTS | change))


def draws_of(stream: TaskStream) -> dict[str, int]:
    """First draws of each target, before verification, which rejects some more than others."""
    return {row["target"]: row["draws"] for row in stream.acceptance(4096).to_pylist()}


def test_targets_are_drawn_by_their_weight_times_their_systems(both):
    found = draws_of(stream_of(both))
    weights = {"tank_temperature": 3 * 1, "pressure_10": 1, "pressure_12": 0.5}
    assert set(found) == set(weights)  # what has weight 0 is never drawn
    for target, weight in weights.items():
        share = weight / 4.5
        deviation = np.sqrt(4096 * share * (1 - share))
        assert abs(found[target] - 4096 * share) < 5 * deviation, target
    assert sum(found.values()) == 4096


def test_other_weights_compile_nothing_and_numbers_of_covariates_are_each_targets_own(both):
    first = stream_of(both)
    draws_of(first)
    batches = [first.batch_at(step) for step in range(3)]
    programs = _make_batch._cache_size(), count_draws._cache_size()
    spec = [batch.spec for batch in batches]
    target = np.concatenate([np.asarray(one.target) for one in spec])
    k = np.concatenate([np.asarray(one.covariate_mask).sum(axis=1) for one in spec])
    seen = {
        both.targets[row][1]: set(k[target == row].tolist()) for row in np.unique(target).tolist()
    }
    # the name that says most goes before; a target that none names has the default
    assert seen == {
        "tank_temperature": {2}, "pressure_10": {1, 4}, "pressure_12": {1, 2, 3, 4, 5},
    }  # fmt: skip

    other = stream_of(both, system_weights={"epanet": 0}, target_weights=None, k={"epanet": [5]})
    assert set(draws_of(other)) == set(TARGETS[:2])
    mask = np.asarray(other.batch_at(0).spec.covariate_mask)
    assert set(mask.sum(axis=1).tolist()) == {1, 2}
    assert (_make_batch._cache_size(), count_draws._cache_size()) == programs


def test_the_place_of_a_share_is_that_of_its_cumulative_weight():
    """Against searchsorted in float64, away from the bounds by more than float32 rounds (1e-6)."""
    weights = np.array([0.0, 2.0, 0.0, 1.0, 1e-3, 5.0, 0.0])
    bounds = np.cumsum(weights) / weights.sum()
    share = np.random.default_rng(1).random(20_000).astype(np.float32)
    inside = np.abs(share[:, None] - bounds).min(axis=1) > 1e-6
    place = jax.vmap(weighted, in_axes=(0, None))(share, jnp.asarray(shares_of(weights)))
    expected = np.searchsorted(bounds, share.astype(np.float64), side="right")
    np.testing.assert_array_equal(np.asarray(place)[inside], expected[inside])
    # at the ends, and exactly on a bound: a place of a weight above 0
    ends = np.array([0.0, np.nextafter(np.float32(1), np.float32(0))], np.float32)
    edges = np.concatenate([ends, shares_of(weights)[:5]])
    found = jax.vmap(weighted, in_axes=(0, None))(edges, jnp.asarray(shares_of(weights)))
    assert (weights[np.asarray(found)] > 0).all()


def test_weights_of_any_size_make_shares():
    for weights in ([1e308, 1e308], [5e-324, 5e-324], [0.0, 1e-300]):
        shares = shares_of(np.array(weights))
        assert np.isfinite(shares).all() and shares[-1] == 1.0


def test_no_weights_draw_as_before(both):
    """The program of a stream without weights has none of their arrays."""
    plain = stream_of(both, system_weights=None, target_weights=None, k=None)
    ((_, choices),) = plain.choices
    assert choices.target_shares is None
    np.testing.assert_array_equal(choices.k, [1, 2, 3, 4, 5])
    assert plain.turns == (0,) and plain.weights is None
    assert TaskStream(0, 4, systems=both, **THREE).turns == (0, 1, 2)
    given = {name: plain.describe()[f"{name}_weights"] for name in ("system", "target", "bucket")}
    assert given == {"system": None, "target": None, "bucket": None}


@pytest.mark.parametrize(
    "weights, turns",
    [
        ([1, 1, 1], [1, 1, 1]),
        ([0.5, 0.3, 0.2], [5, 3, 2]),
        ([1 / 3, 2 / 3], [1, 2]),
        ([0.1, 0.3], [1, 3]),
        ([0, 7], [0, 1]),
        ([1, 1000], [1, 1000]),
        (np.array([4, 2], np.float32), [2, 1]),
    ],
)
def test_a_period_of_steps_has_every_buckets_share_exactly(weights, turns):
    given = checked_bucket_weights(weights, len(turns))
    found = np.array(bucket_turns(given, len(turns)))
    assert np.bincount(found, minlength=len(turns)).tolist() == turns
    # and every beginning of it nearly: within one step a bucket
    steps = np.arange(1, len(found) + 1)
    for bucket, n in enumerate(turns):
        so_far = np.cumsum(found == bucket)
        assert np.abs(so_far - steps * n / sum(turns)).max() <= 1.0


def test_weights_without_a_short_period_are_met_to_a_thousandth_of_the_largest():
    weights = np.random.default_rng(2).random(12) + 0.01
    found = np.bincount(bucket_turns(weights.tolist(), 12))
    assert found.sum() <= 12_000
    np.testing.assert_allclose(found / found.max(), weights / weights.max(), atol=1e-3)


@pytest.mark.parametrize("make", [TaskStream, RandomisedStream])
def test_a_steps_bucket_depends_on_the_step_alone(make, both):
    """Shapes of batches, which say the bucket, without drawing them."""
    options = THREE | dict(bucket_weights=[3, 0, 1])
    if make is TaskStream:
        options |= dict(systems=both, targets=TARGETS)
    else:
        del options["event_lengths"]
    stream = make(0, 4, **options)

    def context_at(stream, step):
        return jax.eval_shape(lambda: stream.batch_at(step)).task.history.shape[1]

    period = [context_at(stream, step) for step in range(4)]
    assert sorted(period) == [300, 512, 512, 512]
    for start in (5, 2**32 - 2, 2**62):
        for step in range(start, start + 4):
            assert context_at(stream, step) == period[step % 4]
    assert context_at(make(9, 4, **options), 6) == period[2]  # of no key
    given = stream.describe()
    assert given["bucket_weights"] == [3.0, 0.0, 1.0] and json.dumps(given)


def test_acceptance_shares_its_draws_by_the_buckets_weights(both, monkeypatch):
    import whatif_jax.tasks.stream as module

    drawn = []

    def count(root, choices, systems, bucket, factor_range, draws):
        drawn.append((bucket.context, draws))
        return np.ones((len(systems.targets), 3), np.int64)

    monkeypatch.setattr(module, "count_draws", count)
    stream = TaskStream(0, 4, systems=both, targets=TARGETS, bucket_weights=[3, 0, 1], **THREE)
    stream.acceptance(4096)
    assert drawn == [(512, 9216), (300, 3072)]
    drawn.clear()
    TaskStream(0, 4, systems=both, targets=TARGETS, **THREE).acceptance(100)
    assert drawn == [(512, 128), (256, 128), (300, 128)]


def test_a_stream_says_its_weights_and_what_they_leave_out(both, systems):
    given = stream_of(both).describe()
    assert given["system_weights"] == {"brewery": 3.0}
    assert given["target_weights"] == WEIGHTS["target_weights"]
    assert given["k"] == {"brewery": [1, 2], "tank_temperature": [2], "pressure_10": [4, 1]}
    assert "brewery/cooling_power" not in given["targets"] and len(given["targets"]) == 3
    assert json.dumps(given)
    left = TaskStream(0, 4, systems=systems, event_lengths=[32], system_weights={"sumo": 0})
    given = left.describe()
    assert given["split"] == "leave-one-system-out" and given["left_out"] == ["sumo"]
    assert "sumo" not in given["systems"] and "sumo" not in given["holds"]
    assert not any(target.startswith("sumo/") for target in given["targets"])


@pytest.mark.parametrize(
    "words, change",
    [
        ("system_weights: 5; expected weights by name", dict(system_weights=5)),
        ("system_weights: 'foo'; expected one of 'brewery', 'epanet'", dict(
            system_weights={"foo": 1})),
        (r"system_weights: 'epanett'; .*did you mean 'epanet'", dict(
            system_weights={"epanett": 1})),
        ("system_weights: 'epanet' = -1; expected a finite number", dict(
            system_weights={"epanet": -1})),
        ("system_weights: 'epanet' = nan; expected", dict(system_weights={"epanet": np.nan})),
        ("system_weights: 'epanet' = inf; expected", dict(system_weights={"epanet": np.inf})),
        ("system_weights: 'epanet' = True; expected", dict(system_weights={"epanet": True})),
        ("system_weights: 'epanet' = '1'; expected", dict(system_weights={"epanet": "1"})),
        ("system_weights: .* expected at least one above 0", dict(
            system_weights={"epanet": 0, "brewery": 0.0})),
        (r"target_weights: 'presure_10'; .*did you mean 'pressure_10'", dict(
            target_weights={"presure_10": 1})),
        (r"target_weights: 'epanet/presure_10'; .*did you mean 'epanet/pressure_10'", dict(
            target_weights={"epanet/presure_10": 1})),
        ("target_weights: 'pressure_21'; expected .*what the stream draws from", dict(
            target_weights={"pressure_21": 1})),
        ("target_weights: 'pressure_10' = -0.5; expected", dict(
            target_weights={"pressure_10": -0.5})),
        ("target_weights: .* expected at least one above 0", dict(
            target_weights=dict.fromkeys(TARGETS, 0))),
        ("target_weights: .* leaves no target of the systems", dict(
            system_weights={"epanet": 0}, target_weights=dict.fromkeys(TARGETS[:2], 0))),
        ("k: {}; expected whole numbers by name", dict(k={})),
        ("k: 'epanett'; .*did you mean 'epanet'", dict(k={"epanett": [1]})),
        (r"k: 'epanet': \[0\]; expected some whole numbers", dict(k={"epanet": [0]})),
        ("k: 'brewery': 3; expected at most 2, the covariates of brewery/", dict(
            k={"brewery": [3]})),
        ("k: 3; expected at most 2, .*, or numbers by target", dict(k=[3], target_weights=None)),
        ("bucket_weights: 2; expected 1 weights, one a bucket", dict(bucket_weights=2)),
        (r"bucket_weights: \[1, 2\]; expected 1 weights", dict(bucket_weights=[1, 2])),
        ("bucket_weights: nan of bucket 0; expected a finite", dict(bucket_weights=[np.nan])),
        (r"bucket_weights: \[0\]; expected at least one above 0", dict(bucket_weights=[0])),
        ("bucket_weights: 1e-06; expected 0, or at least 1/1000", dict(
            buckets=[(512, 64), (256, 32)], bucket_weights=[1, 1e-6])),
    ],
)  # fmt: skip
def test_bad_weights_are_refused_by_name(both, words, change):
    with pytest.raises(ValueError, match=rf"^{words}"):
        stream_of(both, **change)


def test_a_bucket_that_weights_leave_empty_is_refused(both):
    """Of 2,880 steps in the brewery; epanet's series are longer."""
    steps = dict(zip(both.systems, np.asarray(both.length)[[0, -1]].tolist(), strict=True))
    assert steps["epanet"] > steps["brewery"] + 64
    with pytest.raises(ValueError, match=r"^buckets: .* longer than every target that has a w"):
        stream_of(both, buckets=[(steps["brewery"], 64)], system_weights={"epanet": 0})


def test_numbers_of_covariates_that_weights_leave_out_bound_nothing(both):
    stream = stream_of(both, k=[5], system_weights={"brewery": 0}, target_weights=None)
    assert stream.k == (5,)


def test_every_system_may_have_the_same_share(both):
    """Of one target and of two."""
    stream = stream_of(
        both, targets=TARGETS[:3], k=None, target_weights=None,
        system_weights={"brewery": 1 / 2, "epanet": 1},
    )  # fmt: skip
    ((_, choices),) = stream.choices
    np.testing.assert_allclose(choices.target_shares, [0.25, 0.5, 1.0], rtol=1e-6)
