"""Scores on a stream's tasks: what forecasters are given, and skills against a hand computation."""

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import polars as pl
import pytest

from eval.run_files import ResultsError
from eval.stream import (
    ALL,
    StreamCases,
    filled,
    read_cases,
    score_cases,
    stream_tasks,
    text_of_cases,
    write_cases,
)
from whatif_jax import Task

C, H, K = 24, 6, 3


def made_task(seed, rows=5, missing=0.0):
    """Tasks of one to three covariates, with some of their histories missing and padded."""
    draw = np.random.default_rng(seed)
    k = draw.integers(1, K + 1, rows)
    mask = np.arange(K) < k[:, None]
    seen = draw.uniform(size=(rows, C)) >= missing
    seen[:, -1] = True
    ahead = np.arange(H) < draw.choice([H, H - 2], rows)[:, None]
    values = {
        "history": np.where(seen, draw.normal(10, 1, (rows, C)), 0),
        "future": np.where(ahead, draw.normal(12, 1, (rows, H)), 0),
        "future_baseline": np.where(ahead, draw.normal(10, 1, (rows, H)), 0),
        "history_covariates": np.where(mask[..., None], draw.uniform(1, 2, (rows, K, C)), 0),
        "future_covariates": np.where(mask[..., None], draw.uniform(1, 2, (rows, K, H)), 0),
    }
    arrays = {name: jnp.asarray(value, jnp.float32) for name, value in values.items()}
    masks = dict(history_mask=seen, future_mask=ahead, covariate_mask=mask)
    return Task(**arrays, **{name: jnp.asarray(value) for name, value in masks.items()})


class Batch(eqx.Module):
    task: Task


class Stand:
    """A stream of such tasks."""

    def __init__(self, missing=0.0):
        self.missing = missing

    def iterate(self, start=0, stop=None):
        step = start
        while True:
            yield Batch(made_task(step, missing=self.missing))
            step += 1

    def describe(self):
        return {"prior": 0}


CASES = StreamCases(
    {ALL: Stand(), "missing": Stand(0.4)}, {"prior": 0, "seed": 1, "tasks": 23, "buckets": []}
)


def half_way(history, covariates, horizon, levels):
    """Quantiles about halfway between the last value and 12."""
    assert np.isfinite(history).all() and covariates.shape[1] == history.shape[1] + horizon
    middle = 0.5 * (history[:, -1:, None] + 12)
    return middle + (np.asarray(levels, np.float32) - 0.5) * np.ones((1, horizon, 1), np.float32)


half_way.trained_on, half_way.informed = "randomised", "it knows where the future lies"


def test_what_is_missing_is_the_last_value_seen_or_nan():
    task = made_task(0, rows=2)
    history = np.arange(2 * C, dtype=np.float32).reshape(2, C)
    mask = np.ones((2, C), bool)
    mask[0, [0, 1, 5, 6]] = False
    mask[1] = False
    both = (jnp.asarray(history), jnp.asarray(mask))
    task = eqx.tree_at(lambda one: (one.history, one.history_mask), task, both)
    found = filled(task).history
    expected = history.copy()
    expected[0, [0, 1, 5, 6]] = [2, 2, 4, 4]
    expected[1] = 0
    np.testing.assert_array_equal(found, expected)
    given = filled(task, takes_missing=True).history
    assert np.array_equal(np.isnan(given), ~mask) and (given[mask] == history[mask]).all()
    whole = made_task(0)
    assert filled(whole) is whole


def test_batches_hold_each_task_once_with_its_own_covariates_and_horizon():
    by_number = {}
    for batch in stream_tasks(Stand(), 23, most=4):
        task = batch.task
        assert len(task.history) == 4 and task.future_mask.all()
        assert len({int(one) for one in task.covariate_mask.sum(axis=1)}) == 1
        for row in range(batch.rows):
            by_number[int(batch.task_ids[row])] = (task, row)
    assert sorted(by_number) == list(range(23))
    for number, (task, row) in by_number.items():
        origin, at = made_task(number // 5), number % 5
        k, steps = int(origin.covariate_mask[at].sum()), int(origin.future_mask[at].sum())
        assert task.future.shape[1] == steps and task.covariate_mask[row].sum() == k
        for name in ("history", "history_covariates"):
            np.testing.assert_array_equal(getattr(task, name)[row], getattr(origin, name)[at])
        np.testing.assert_array_equal(task.future[row], origin.future[at, :steps])
        np.testing.assert_array_equal(
            task.future_covariates[row], origin.future_covariates[at, :, :steps]
        )


@pytest.fixture(scope="module")
def rows():
    return score_cases(half_way, CASES)


@pytest.mark.parametrize("case, missing", [(ALL, 0.0), ("missing", 0.4)])
def test_skill_against_naive_equals_a_hand_computation(rows, case, missing):
    """Float64 NumPy; 0.01 points, as errors are made in float32."""
    levels, logs, inside = np.arange(1, 10) / 10, [], []
    for number in range(23):
        task, at = made_task(number // 5, missing=missing), number % 5
        steps = int(task.future_mask[at].sum())
        truth = np.asarray(task.future)[at, :steps].astype(float)
        last = float(np.asarray(task.history)[at][np.asarray(task.history_mask)[at]][-1])
        quantiles = 0.5 * (last + 12) + levels - 0.5
        over = truth[:, None] <= quantiles
        loss = 2 * np.abs((truth[:, None] - quantiles) * (over - levels)).sum(axis=0).mean()
        logs.append(np.log(np.clip(loss / np.abs(truth - last).sum(), 0.01, 100)))
        inside.append(np.mean((truth > quantiles[0]) & (truth <= quantiles[-1])))
    (row,) = [one for one in rows if one["case"] == case]
    expected = 100 * (1 - np.exp(np.mean(logs)))
    assert row["tasks"] == 23 and row["skill"] == pytest.approx(expected, abs=1e-2)
    assert row["skill_low"] < row["skill"] < row["skill_high"]
    assert row["interval"] == pytest.approx(np.mean(inside), abs=1e-6)
    assert row["imputed"] == 0 and row["trained_on"] == "randomised"


def test_a_forecaster_that_takes_missing_values_is_given_nan():
    seen = []

    def forecast(history, covariates, horizon, levels):
        seen.append(np.isnan(history).mean())
        return np.full((len(history), horizon, 1), 12.0)

    forecast.takes_missing = True
    score_cases(forecast, StreamCases({ALL: Stand(0.4)}, {"tasks": 8}))
    assert 0.2 < np.mean(seen) < 0.6


def test_rows_are_written_and_shown_with_those_scored_alike(rows, tmp_path):
    path = write_cases(rows, CASES.about, tmp_path)
    again = [{**row, "model": "other", "informed": "", "skill": row["skill"] + 1} for row in rows]
    write_cases(again, CASES.about, tmp_path)
    assert pl.read_csv(path)["case"].to_list() == [ALL, "missing"]
    text = (path.parent / "hard_cases.md").read_text()
    assert text == text_of_cases(read_cases(path.parent), CASES.about)
    lines = [line for line in text.splitlines() if line.startswith("| ")]
    assert lines[0] == "| forecaster | trained on | all | missing |"
    assert lines[2].startswith("| other | randomised | ")
    assert lines[3].startswith("| half_way † | ")
    assert "† half_way: informed: it knows where the future lies." in text and "23 tasks" in text
    elsewhere = write_cases(rows, {**CASES.about, "seed": 2}, tmp_path)
    assert elsewhere.parent != path.parent
    (path.parent / "more.csv").write_text("a,b\n1,x\n")
    with pytest.raises(
        ResultsError, match="more.csv.*expected what `python -m eval stream` writes"
    ):
        read_cases(path.parent)
