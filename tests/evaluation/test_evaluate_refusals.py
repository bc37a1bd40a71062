"""`evaluate`: what it refuses, and when."""

import copy

import equinox as eqx
import numpy as np
import pytest

from eval.forecasters import make_forecaster
from tests.evaluation_helpers import BATCH, batches_of, named
from whatif_jax import ForecasterError, evaluate, evaluate_batch
from whatif_jax.tasks.systems import LEFT_PADDING


def last(history, covariates, horizon, levels):
    return np.repeat(history[:, -1:, None], horizon, axis=1)


@pytest.mark.parametrize("value", [np.inf, -np.inf, np.nan])
def test_a_truth_that_is_not_finite_is_refused(few, value):
    """Even of a suite that was not verified: its task is named, and none is scored."""
    ids = batches_of(few)[0]
    spec = few.spec(int(ids[-1]))
    broken = copy.copy(few.whole)
    step = LEFT_PADDING + int(spec.window_start) + int(spec.context) + 3
    values = few.systems.values.at[spec.target, step].set(value)
    vars(broken)["_systems"] = eqx.tree_at(lambda systems: systems.values, few.systems, values)
    part = few.take(np.arange(len(few)))
    part.whole = broken
    with pytest.raises(
        ValueError, match=r"^future.*: .* at step \d+ of task .*expected a finite truth"
    ):
        evaluate(last, part, batch_size=BATCH)


def test_what_cannot_be_evaluated_is_refused(suite, few):
    naive = make_forecaster("naive")
    ids = next(ids for ids in batches_of(few) if len(ids) > 1)
    with pytest.raises(ValueError, match=r"task_ids: \[99999\] are not among the 40 tasks"):
        evaluate_batch(naive, few, [99999])
    with pytest.raises(ValueError, match="more than once"):
        evaluate_batch(naive, few, [ids[0], ids[0]])
    with pytest.raises(ValueError, match=r"expected 1 \.\. batch_size = 1"):
        evaluate_batch(naive, few, ids, batch_size=1)
    with pytest.raises(ValueError, match=r"\(context, horizon, shapes\)"):
        evaluate_batch(naive, few, few.column("task_id"))
    with pytest.raises(ValueError, match="list of integers"):
        evaluate_batch(naive, few, [0.5])
    with pytest.raises(ValueError, match="batch_size: 0"):
        few.batch_ids(0)
    with pytest.raises(ValueError, match="more than once"):
        few.take([0, 0]).batch_ids(BATCH)
    with pytest.raises(ValueError, match="no tasks"):
        evaluate(naive, few.take([]))
    with pytest.raises(ForecasterError, match="settings of forecaster last"):
        evaluate(named(lambda *a: last(*a), name="last", settings={"x": {1}}), few)


@pytest.mark.parametrize("fixed", [False, True])
def test_the_largest_task_is_tried_before_the_first_batch(suite, fixed):
    part = suite.where(system="gridlabd", k=1, event_length=32)
    part = part.take(np.argsort(part.column("context"))[[0, 1, 2, 3, -1]])
    longest = max(part.shapes)
    seen = []

    def limited(history, covariates, horizon, levels):
        seen.append((len(history), history.shape[1], horizon))
        if history.shape[1] == longest[0]:
            raise MemoryError("too long")
        return np.zeros((len(history), horizon, 1))

    named(limited, fixed_batch=fixed)
    with pytest.raises(MemoryError, match="too long"):
        evaluate(limited, part, batch_size=3)
    assert seen[-1] == (3 if fixed else 1, *longest)
    checked = len(seen) - 1
    seen.clear()
    with pytest.raises(MemoryError, match="too long"):
        evaluate(limited, part, batch_size=3, check=False)
    assert len(seen) > 2 and seen[0][1:] == min(part.shapes) and checked > 0


def test_an_exception_of_the_forecaster_says_which_tasks(few):
    def forecast(history, covariates, horizon, levels):
        raise RuntimeError("out of memory")

    ids = batches_of(few)[0]
    with pytest.raises(RuntimeError, match="out of memory") as caught:
        evaluate_batch(forecast, few, ids, batch_size=BATCH)
    assert str(ids[0]) in caught.value.__notes__[0] and "forecast" in caught.value.__notes__[0]
