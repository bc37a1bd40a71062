"""Seconds of a series: of one row, padding counted, told by the forecaster, without compilation."""

import collections
import itertools

import numpy as np
import pytest

from tests.evaluation_helpers import BATCH, batches_of, named
from whatif_jax import ForecasterError, evaluate, evaluate_batch


def ticking(monkeypatch) -> None:
    """A clock that moves by a second whenever it is read."""
    ticks = itertools.count()
    monkeypatch.setattr(
        "whatif_jax.evaluation.forecaster.time.perf_counter", lambda: float(next(ticks))
    )


def test_seconds_are_of_one_row_padding_counted(few, monkeypatch):
    """A forecaster that is given 16 rows, 3 of them real, took a 16th of its time for each."""
    ids = next(ids for ids in batches_of(few) if len(ids) >= 3)[:3]
    ticking(monkeypatch)

    def forecast(history, covariates, horizon, levels):
        return np.zeros((len(history), horizon, 1))

    for fixed, rows in ((False, 3), (True, 16)):
        found = evaluate_batch(named(forecast, fixed_batch=fixed), few, ids, batch_size=16)
        assert found.seconds.column("seconds").to_pylist() == [1 / rows] * 3


def test_a_forecaster_may_tell_the_seconds_of_its_rows(few):
    ids = next(ids for ids in batches_of(few) if len(ids) >= 3)[:3]

    class Own:
        point = True
        tells = 1.0

        def __call__(self, history, covariates, horizon, levels):
            self.row_seconds = np.arange(len(history)) + self.tells
            return np.zeros((len(history), horizon, 1))

    found = evaluate_batch(Own(), few, ids, batch_size=BATCH)
    assert found.seconds.column("seconds").to_pylist() == [1.0, 2.0, 3.0]
    wrong = Own()
    wrong.tells = -1.0
    with pytest.raises(ForecasterError, match=r"row_seconds .*; expected 3 numbers >= 0"):
        evaluate_batch(wrong, few, ids, batch_size=BATCH)


def test_the_first_call_of_a_shape_is_not_timed(few, monkeypatch):
    """A compiling forecaster is called once more for every shape, another one is not."""
    shapes = collections.Counter()

    def forecast(history, covariates, horizon, levels):
        shapes[history.shape[1], horizon, covariates.shape[2]] += 1
        return np.zeros((len(history), horizon, 1))

    evaluate(forecast, few, batch_size=4, check=False)
    once = dict(shapes)
    shapes.clear()
    evaluate(named(forecast, fixed_batch=True), few, batch_size=4, check=False)
    assert shapes == {shape: count + 1 for shape, count in once.items()}
    assert max(once.values()) > 1
