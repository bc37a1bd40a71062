"""Forecast the tasks of a suite and score them: one forecaster, batch by batch.

References:
    scores.md. The policy for missing and crossing forecasts is stated in `scoring`.
"""

import dataclasses
import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np
import pyarrow as pa
from tqdm import tqdm

from .._types import Array
from ..suites import Suite, TaskBatch
from .declaration import declaration_of
from .forecaster import (
    Forecaster,
    ForecasterError,
    forecast_batch,
    forecaster_identity,
    real_numbers,
)
from .scoring import LEVELS, MEDIAN, METRIC_VERSION, repair_and_score_batch

__all__ = [
    "BATCH_AXES",
    "SCORES_SCHEMA",
    "SECONDS_SCHEMA",
    "BatchScores",
    "Evaluation",
    "check_rows",
    "evaluate",
    "evaluate_batch",
    "evaluate_tasks",
    "table_metadata",
    "try_largest",
]

# Axes that the tasks of a batch share besides their bucket: `Suite.batch_ids(n, by=BATCH_AXES)`.
BATCH_AXES = ("k",)

SCORES_SCHEMA = pa.schema(
    [
        ("task_id", pa.int64()),
        ("wql", pa.float64()),
        ("wape", pa.float64()),
        ("mase", pa.float64()),
        ("rmse", pa.float64()),
        ("coverage", pa.list_(pa.float64())),
        ("direction_accuracy", pa.float64()),  # null where no step has a true effect
        ("effect_size_error", pa.float64()),
        ("imputed", pa.bool_()),
        ("crossings", pa.int32()),
    ]
)
SECONDS_SCHEMA = pa.schema([("task_id", pa.int64()), ("seconds", pa.float64())])

ROW_TOLERANCE = 1e-4  # of a row's scale, between answers in different company
CHECKED_BATCH = 8  # rows that `evaluate` checks with


class BatchScores(NamedTuple):
    """What one batch gave, rows sorted by task_id."""

    scores: pa.Table  # SCORES_SCHEMA
    seconds: pa.Table  # SECONDS_SCHEMA
    quantiles: list[np.ndarray]  # float32 [H, Q] of every row as scored: imputed, sorted by level


@dataclasses.dataclass(frozen=True)
class Evaluation:
    """Scores and seconds of every task, sorted by task_id, with what made them as metadata."""

    scores: pa.Table  # SCORES_SCHEMA
    seconds: pa.Table  # SECONDS_SCHEMA; the forecaster's own time for a row, without compilation


def evaluate_batch(
    forecaster: Forecaster,
    suite: Suite,
    task_ids: Sequence[int] | np.ndarray,
    *,
    levels: Sequence[float] = LEVELS,
    batch_size: int = 256,
    warmed: set[tuple[int, ...]] | None = None,
) -> BatchScores:
    """Forecast and score some tasks of one bucket and K: a batch of `batch_ids(by=BATCH_AXES)`.

    Args:
        forecaster: see `Forecaster`.
        suite: holds the tasks.
        task_ids: at most `batch_size` of them.
        levels: ascending quantile levels, 0.5 among them.
        batch_size: rows of the batches that are made, and given to a `fixed_batch` forecaster.
        warmed: shapes that need no warming up, see `forecast_batch`.

    Raises:
        ForecasterError: an answer of another shape than asked for.
        ValueError: levels that are none, tasks that the suite has not, that do not share a bucket
            and K, or whose truth is not finite.
    """
    return evaluate_tasks(
        forecaster, suite.batch(task_ids, batch_size), levels=levels, warmed=warmed
    )


def evaluate_tasks(
    forecaster: Forecaster,
    batch: TaskBatch,
    *,
    levels: Sequence[float] = LEVELS,
    warmed: set[tuple[int, ...]] | None = None,
) -> BatchScores:
    """Forecast and score the tasks of a batch, wherever they come from.

    Args:
        forecaster: see `Forecaster`. It is given the histories as they stand, masked steps too.
        batch: tasks of one K.
        levels: ascending quantile levels, 0.5 among them.
        warmed: as for `evaluate_batch`.

    Raises:
        ForecasterError: an answer of another shape than asked for.
        ValueError: levels that are none, or tasks of several K or whose truth is not finite.
    """
    levels = _checked_levels(levels)
    _check_truth(batch)
    answer, took = forecast_batch(forecaster, batch, levels, warmed=warmed)
    columns, quantiles = _score(batch, answer, levels)
    ids = columns["task_id"]
    order = np.argsort(ids)
    return BatchScores(
        pa.table(columns, schema=SCORES_SCHEMA).take(order),
        pa.table([ids, took], schema=SECONDS_SCHEMA).take(order),
        [quantiles[row] for row in order],
    )


def _check_truth(batch: TaskBatch) -> None:
    """Refuse tasks whose truth is not finite: no error of theirs could be right."""
    for name in ("future", "future_baseline"):
        values = np.asarray(getattr(batch.task, name))[: batch.rows]  # padding is 0
        for row, step in np.argwhere(~np.isfinite(values))[:1]:
            raise ValueError(
                f"{name}: {values[row, step]} at step {step} of task {batch.task_ids[row]}; "
                "expected a finite truth (`verify` refuses such tasks)"
            )


def _checked_levels(levels: Sequence[float]) -> tuple[float, ...]:
    """Quantile levels as floats; ValueError where they are none."""
    found = real_numbers(levels, "levels", ValueError).astype(float)
    ascending = found.ndim == 1 and np.all(np.diff(found, prepend=0.0, append=1.0) > 0)
    if not ascending or MEDIAN not in found:
        raise ValueError(
            f"levels: {str(levels)[:200]}; expected ascending numbers within (0, 1), {MEDIAN} "
            "among them"
        )
    return tuple(found.tolist())


def _score(
    batch: TaskBatch, answer: Array | np.ndarray, levels: tuple[float, ...]
) -> tuple[dict[str, Any], np.ndarray]:
    """Columns of SCORES_SCHEMA, and the forecasts as they were scored, of the real rows."""
    rows = batch.rows
    size = batch.task.history.shape[0]
    padded = np.zeros((size, *answer.shape[1:]), np.float32)  # one program, however many rows
    padded[:rows] = answer
    # NaN says that a forecast is missing, or that a score has no value: no fault to stop at
    with jax.debug_nans(False):
        repaired, scores = repair_and_score_batch(batch.task, jax.device_put(padded), levels)
    columns: dict[str, Any] = {"task_id": batch.task_ids[:rows]}
    for name, values in vars(jax.device_get(scores)).items():
        kind = SCORES_SCHEMA.field(name).type
        if name == "coverage":
            columns[name] = pa.array(values[:rows].astype(np.float64).tolist(), kind)
        else:  # NaN becomes null
            columns[name] = pa.array(values[:rows], kind, from_pandas=True)
    return columns, np.array(repaired.quantiles)[:rows]


def check_rows(
    forecaster: Forecaster,
    suite: Suite,
    task_ids: Sequence[int] | np.ndarray,
    *,
    levels: Sequence[float] = LEVELS,
    batch_size: int = 256,
) -> None:
    """Refuse a forecaster whose answer for a row depends on the rows beside it.

    Forecasts the tasks together; then the first and the last of them alone; then both among fewer
    companions, in reverse order. Random draws without a seed fail as well.

    Args:
        forecaster: its attribute `row_tolerance` overrides the tolerance, 1e-4 of the largest
            absolute value of the row's history and forecast.
        suite: holds the tasks.
        task_ids: at least two tasks of one bucket and K.
        levels: quantile levels asked for.
        batch_size: as for `evaluate_batch`.

    Raises:
        ForecasterError: names the tasks, the step and the difference.
        ValueError: as `evaluate_batch`.
    """
    levels = _checked_levels(levels)
    name, *_ = forecaster_identity(forecaster)
    tolerance = getattr(forecaster, "row_tolerance", ROW_TOLERANCE)
    if not np.all(real_numbers(tolerance, f"forecaster {name}: row_tolerance") >= 0):
        raise ForecasterError(f"forecaster {name}: row_tolerance {tolerance}; expected at least 0")
    ids = [int(task_id) for task_id in task_ids]

    def answers(chosen: list[int]) -> dict[int, tuple[np.ndarray, np.ndarray]]:
        batch = suite.batch(chosen, batch_size)
        answer, _ = forecast_batch(forecaster, batch, levels)
        history = np.asarray(batch.task.history)
        return {
            task_id: (np.asarray(answer[row]), history[row]) for row, task_id in enumerate(chosen)
        }

    together = answers(ids)
    checked = list(dict.fromkeys((ids[0], ids[-1])))
    companies = [[task_id] for task_id in checked]
    companies.append(list(dict.fromkeys([*checked, *ids[1:-1:2]]))[::-1])
    for company in companies:
        for task_id, (answer, history) in answers(company).items():
            if task_id not in checked:
                continue
            before = together[task_id][0]
            step, difference = _largest_difference(before, answer)
            finite = before[np.isfinite(before)]
            scale = float(np.abs(np.concatenate([history, finite.ravel()])).max(initial=0.0))
            if difference > tolerance * scale:
                raise ForecasterError(
                    f"forecaster {name}: its forecast of task {task_id} changes by "
                    f"{difference:.3g} (row scale {scale:.3g}) at step {step} when it is batched "
                    f"with tasks {company} instead of {ids}; expected an answer that depends on "
                    "the row alone, with any random draws seeded by task"
                )


def _largest_difference(before: np.ndarray, after: np.ndarray) -> tuple[int, float]:
    """Step and size of the largest difference; infinite where only one of them is finite."""
    if before.shape != after.shape:
        return 0, np.inf
    finite = np.isfinite(before) & np.isfinite(after)
    apart = np.abs(np.where(finite, before, 0.0) - np.where(finite, after, 0.0))
    apart = np.where(np.isfinite(before) != np.isfinite(after), np.inf, apart)
    step = int(np.argmax(apart.max(axis=-1)))
    return step, float(apart.max())


def try_largest(
    forecaster: Forecaster,
    suite: Suite,
    *,
    levels: Sequence[float] = LEVELS,
    batch_size: int = 256,
    warmed: set[tuple[int, ...]] | None = None,
) -> None:
    """Forecast one task of the longest context, so that what cannot take it fails at once.

    Args:
        forecaster: called with one row, one of `fixed_batch` with `batch_size` of them.
        suite: at least one task; of those of the longest context the one with the longest horizon
            and the most covariates.
        levels: quantile levels asked for.
        batch_size: as for `evaluate_batch`.
        warmed: as for `evaluate_batch`.

    Raises:
        ForecasterError: an answer of another shape than asked for.
        Exception: whatever the forecaster raises.
    """
    sizes = [suite.column(name) for name in ("task_id", "k", "horizon", "context")]
    largest = suite.column("task_id")[np.lexsort(sizes)[-1:]]
    batch = suite.batch(largest, batch_size)
    forecast_batch(forecaster, batch, _checked_levels(levels), warmed=warmed)


def evaluate(
    forecaster: Forecaster,
    suite: Suite,
    *,
    levels: Sequence[float] = LEVELS,
    batch_size: int = 256,
    check: bool = True,
    progress: bool = False,
) -> Evaluation:
    """Forecast and score every task of a suite.

    The scores do not depend on the order of the suite's tasks, nor, for a forecaster that passes
    `check_rows`, on `batch_size` beyond the rounding that its `row_tolerance` allows.

    Args:
        forecaster: see `Forecaster`.
        suite: the tasks; filter it first to evaluate fewer.
        levels: ascending quantile levels, 0.5 among them.
        batch_size: rows of a batch.
        check: run `check_rows` on a few tasks first, and `try_largest`.
        progress: show a bar with tasks a second.

    Raises:
        ForecasterError: an answer of another shape than asked for, or one that depends on other
            rows.
        DeclarationError: what it says that it was trained on cannot be.
        ValueError: an empty suite, levels that are none, or a batch size below 1.
    """
    levels = _checked_levels(levels)
    declaration_of(forecaster)
    batches = suite.batch_ids(batch_size, by=BATCH_AXES)
    if not batches:
        raise ValueError("suite: no tasks; expected at least one")
    warmed: set[tuple[int, ...]] = set()
    if check:
        company = next((ids for ids in batches if len(ids) > 1), None)
        if company is not None:
            check_rows(
                forecaster, suite, company[:CHECKED_BATCH], levels=levels, batch_size=batch_size
            )
        try_largest(forecaster, suite, levels=levels, batch_size=batch_size, warmed=warmed)
    parts: list[BatchScores] = []
    with tqdm(total=len(suite), unit="task", disable=not progress) as bar:
        for task_ids in batches:
            part = evaluate_batch(
                forecaster, suite, task_ids, levels=levels, batch_size=batch_size, warmed=warmed
            )
            parts.append(part._replace(quantiles=[]))  # the whole suite's take gigabytes
            bar.update(len(task_ids))
    scores = pa.concat_tables([part.scores for part in parts]).sort_by("task_id")
    widths = set(scores.column("coverage").combine_chunks().value_lengths().to_pylist())
    if len(widths) > 1:
        name, *_ = forecaster_identity(forecaster)
        raise ForecasterError(
            f"forecaster {name}: forecasts with {sorted(widths)} columns; expected the same number "
            "for every task (a point forecaster says so by its attribute `point`)"
        )
    metadata = table_metadata(forecaster, suite, levels=levels, point=widths == {1})
    return Evaluation(
        scores.replace_schema_metadata(metadata),
        pa.concat_tables([part.seconds for part in parts])
        .sort_by("task_id")
        .replace_schema_metadata(metadata),
    )


def table_metadata(
    forecaster: Forecaster,
    suite: Suite,
    *,
    levels: Sequence[float] = LEVELS,
    point: bool,
    tasks: str | None = None,
) -> Mapping[str, str]:
    """Schema metadata of a table of scores: what it holds, and what made it.

    Args:
        forecaster: gives name, version and settings.
        suite: the tasks; `fingerprint` is that of the whole suite they were chosen from.
        levels: quantile levels asked for.
        point: whether the forecasts are point forecasts.
        tasks: how the tasks were chosen; default "all", or their number as JSON.
    """
    whole = suite.whole
    if tasks is None:
        tasks = "all" if len(suite) == len(whole) else json.dumps({"count": len(suite)})
    name, version, settings = forecaster_identity(forecaster)
    return {
        "suite": suite.name,
        "fingerprint": whole.fingerprint,
        "metric_version": METRIC_VERSION,
        "forecaster": name,
        "version": version,
        "settings": settings,
        "levels": json.dumps([float(level) for level in levels]),
        "point": json.dumps(bool(point)),
        "tasks": tasks,
    }
