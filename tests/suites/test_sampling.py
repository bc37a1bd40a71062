"""Samples: every stratum has its share, and the ids are the same every time."""

import collections
import hashlib
import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from whatif_jax import Suite
from whatif_jax.suites.sampling import STRATA

# Of the ids of a sample of 2,000 of whatif-v1, int64 little-endian.
DIGEST = "1098372102ed500ec6e69898fadc119ff0f65e4c7d3b2b03000b118162656c57"


def ids_of(suite: Suite, n: int, seed: int = 0) -> np.ndarray:
    return suite.sample(n, seed=seed).column("task_id")


def shares(suite: Suite, ids: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Tasks drawn of every stratum, and its exact share of the sample."""
    rows = list(zip(*(suite.column(axis).tolist() for axis in STRATA), strict=True))
    chosen = np.isin(suite.column("task_id"), ids).tolist()
    counts = collections.Counter(rows)
    drawn = collections.Counter(row for row, keep in zip(rows, chosen, strict=True) if keep)
    return (
        np.array([drawn[row] for row in counts]),
        np.array(list(counts.values())) * len(ids) / len(suite),
    )


@pytest.mark.parametrize("n", [1, 120, 2000, 10_000])
@pytest.mark.parametrize("seed", [0, 7])
def test_every_stratum_has_its_share(suite, n, seed):
    ids = ids_of(suite, n, seed)
    assert len(ids) == n and np.all(np.diff(ids) > 0)
    drawn, share = shares(suite, ids)
    assert np.abs(drawn - share).max() < 1
    assert np.all(drawn[share >= 1] >= 1)


@pytest.mark.parametrize("axis", STRATA)
def test_every_value_of_an_axis_has_its_share(suite, axis):
    counts = suite.sample(2000).count(axis)
    for value, count in suite.count(axis).items():
        assert counts[value] == pytest.approx(count * 2000 / len(suite), abs=10)


def test_the_ids_are_the_same_on_every_machine_and_in_every_order(suite):
    ids = ids_of(suite, 2000)
    digest = hashlib.sha256(ids.astype("<i8").tobytes()).hexdigest()
    assert digest == DIGEST
    order = np.random.default_rng(0).permutation(len(suite))
    shuffled = suite.take(order)
    assert np.array_equal(np.sort(ids_of(shuffled, 2000)), ids)
    assert np.array_equal(ids_of(shuffled, 2000), order[np.isin(order, ids)]), "the order here"
    assert not np.array_equal(ids_of(suite, 2000, seed=1), ids)


def test_a_smaller_sample_is_part_of_a_larger_one(suite):
    samples = [ids_of(suite, n) for n in (5, 120, 2000, len(suite))]
    for small, large in itertools.pairwise(samples):
        assert np.isin(small, large).all()
    assert np.array_equal(samples[-1], suite.column("task_id"))


@settings(max_examples=30, deadline=None)
@given(st.lists(st.integers(0, 37_664), min_size=1, max_size=300, unique=True), st.data())
def test_any_part_of_the_suite(suite, rows, data):
    part = suite.take(rows)
    n = data.draw(st.integers(1, len(rows)))
    ids = ids_of(part, n)
    assert len(set(ids.tolist())) == n and set(ids.tolist()) <= set(rows)
    drawn, share = shares(part, ids)
    assert np.abs(drawn - share).max() < 2


@pytest.mark.parametrize("n", [0, -1, 37_666, 2.0, True, "2"])
def test_refuses_more_than_there_are(suite, n):
    with pytest.raises(ValueError, match=r"sample: .*expected a whole number in 1 \.\. 37665"):
        suite.sample(n)


def test_refuses_a_task_twice_and_a_seed_that_is_none(suite):
    with pytest.raises(ValueError, match="expected each task once"):
        suite.take([0, 0]).sample(1)
    with pytest.raises(ValueError, match="^seed: 0.5; expected a whole number"):
        suite.sample(1, seed=0.5)
