"""Samples: every stratum has its share, and the ids are the same every time."""

import collections
import hashlib
import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eval.sampling import BROWSE_TASKS, STRATA, browse_sample, choose, stratified
from whatif_jax import Suite, load_suite

# Of the ids of `stratified(whatif-v1, 2000)`, int64 little-endian.
DIGEST = "1098372102ed500ec6e69898fadc119ff0f65e4c7d3b2b03000b118162656c57"


@pytest.fixture(scope="module")
def suite() -> Suite:
    return load_suite("whatif-v1")


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
    ids = stratified(suite, n, seed=seed)
    assert ids.dtype == np.int64 and len(ids) == n and np.all(np.diff(ids) > 0)
    drawn, share = shares(suite, ids)
    assert np.abs(drawn - share).max() < 1
    assert np.all(drawn[share >= 1] >= 1)


@pytest.mark.parametrize("axis", STRATA)
def test_every_value_of_an_axis_has_its_share(suite, axis):
    sample = suite.take(stratified(suite, 2000))  # ids are row numbers of the whole suite
    counts = sample.count(axis)
    for value, count in suite.count(axis).items():
        assert counts[value] == pytest.approx(count * 2000 / len(suite), abs=10)


def test_the_ids_are_the_same_on_every_machine_and_in_every_order(suite):
    ids = stratified(suite, 2000)
    digest = hashlib.sha256(ids.astype("<i8").tobytes()).hexdigest()
    assert digest == DIGEST
    shuffled = suite.take(np.random.default_rng(0).permutation(len(suite)))
    assert np.array_equal(stratified(shuffled, 2000), ids)
    assert not np.array_equal(stratified(suite, 2000, seed=1), ids)


def test_a_smaller_sample_is_part_of_a_larger_one(suite):
    samples = [stratified(suite, n) for n in (5, 120, 2000, len(suite))]
    for small, large in itertools.pairwise(samples):
        assert np.isin(small, large).all()
    assert np.array_equal(samples[-1], np.sort(suite.column("task_id")))


def futures_by_pair(suite: Suite, ids: np.ndarray) -> collections.Counter[int]:
    return collections.Counter(suite.column("pair_id")[np.isin(suite.column("task_id"), ids)])


def test_forecasts_are_kept_for_whole_pairs(suite):
    kept = browse_sample(suite)
    assert len(kept) == BROWSE_TASKS == 120 and np.all(np.diff(kept) > 0)
    assert set(futures_by_pair(suite, kept).values()) == {2}
    assert set(browse_sample(suite, 40)) <= set(kept) and not len(browse_sample(suite, 0))
    shuffled = suite.take(np.random.default_rng(0).permutation(len(suite)))
    assert np.array_equal(browse_sample(shuffled), kept)


def test_a_sample_keeps_its_whole_pairs_first_and_those_of_the_whole_suite(suite):
    sample = stratified(suite, 2000)
    found = browse_sample(suite, among=sample)
    assert len(found) == 120 and np.isin(found, sample).all()
    pairs = futures_by_pair(suite, found)
    whole = [pair for pair, count in futures_by_pair(suite, sample).items() if count == 2]
    assert len(whole) < 60 and all(pairs[pair] == 2 for pair in whole)
    assert set(whole) <= set(futures_by_pair(suite, browse_sample(suite)))
    novel = suite.where(future="novel")
    assert np.array_equal(browse_sample(novel, 50), stratified(novel, 50))


@settings(max_examples=30, deadline=None)
@given(st.lists(st.integers(0, 37_664), min_size=1, max_size=300, unique=True), st.data())
def test_any_part_of_the_suite(suite, rows, data):
    part = suite.take(rows)
    n = data.draw(st.integers(1, len(rows)))
    ids = stratified(part, n)
    assert len(set(ids.tolist())) == n and set(ids.tolist()) <= set(rows)
    drawn, share = shares(part, ids)
    assert np.abs(drawn - share).max() < 2


@pytest.mark.parametrize("n", [0, -1, 37_666, 2.0, True])
def test_refuses_more_than_there_are(suite, n):
    with pytest.raises(ValueError, match=r"sample: .*expected a whole number in 1 \.\. 37665"):
        stratified(suite, n)


def test_refuses_a_task_twice(suite):
    with pytest.raises(ValueError, match="expected every task once"):
        stratified(suite.take([0, 0]), 1)


def test_the_same_choice_is_written_down_alike(suite):
    assert choose(suite)[1] == "all"
    chosen, tasks = choose(suite, {"system": "epanet", "k": [5, 1, 5]}, 40)
    assert tasks == {"where": {"k": [1, 5], "system": ["epanet"]}, "sample": 40, "seed": 0}
    again, same = choose(suite, {"k": np.array([1, 5]), "system": ["epanet"]}, 40)
    assert same == tasks
    assert np.array_equal(chosen.column("task_id"), again.column("task_id"))
    assert len(chosen) == 40 and set(chosen.count("k")) == {1, 5}
    with pytest.raises(ValueError, match="where: .*some task meets"):
        choose(suite, {"context_pair": "C1", "context": 8192})
