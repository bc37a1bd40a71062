"""The tasks of a run, and those whose forecasts are kept."""

import collections

import numpy as np
import pytest

from eval.sampling import BROWSE_TASKS, browse_sample, choose
from whatif_jax import Suite


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
    sample = suite.sample(2000).column("task_id")
    found = browse_sample(suite, among=sample)
    assert len(found) == 120 and np.isin(found, sample).all()
    pairs = futures_by_pair(suite, found)
    whole = [pair for pair, count in futures_by_pair(suite, sample).items() if count == 2]
    assert len(whole) < 60 and all(pairs[pair] == 2 for pair in whole)
    assert set(whole) <= set(futures_by_pair(suite, browse_sample(suite)))
    novel = suite.where(future="novel")
    assert np.array_equal(browse_sample(novel, 50), novel.sample(50).column("task_id"))


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
