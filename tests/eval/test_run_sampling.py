"""The tasks of a run, and those whose forecasts are kept."""

import numpy as np
import pytest

from eval.sampling import BROWSE_TASKS, browse_sample, choose


def test_forecasts_are_kept_of_a_sample(suite):
    assert BROWSE_TASKS == 120
    assert np.array_equal(browse_sample(suite), suite.sample(120).column("task_id"))
    few = suite.take([2, 0, 1])
    assert browse_sample(few).tolist() == [0, 1, 2] and not len(browse_sample(few, 0))


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
