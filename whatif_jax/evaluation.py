"""Forecast the tasks of a suite and score them: one forecaster, batch by batch.

References:
    SPEC §7. The policy for missing and crossing forecasts is stated in `scoring`.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np
import pyarrow as pa

from ._types import Array
from .forecasting import (
    Batch,
    BatchInfo,
    Forecaster,
    ForecasterError,
    check_batch_size,
    check_once,
    forecast_batch,
    forecaster_identity,
    make_batches,
    per_row,
)
from .scoring import LEVELS, METRIC_VERSION, repair_batch, score_batch
from .suites import Suite

__all__ = [
    "SCORES_SCHEMA",
    "SECONDS_SCHEMA",
    "BatchInfo",
    "BatchScores",
    "Evaluation",
    "Forecaster",
    "ForecasterError",
    "check_rows",
    "evaluate",
    "evaluate_batch",
    "forecaster_identity",
    "new_shapes",
    "per_row",
    "plan",
    "table_metadata",
]

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


class Evaluation(NamedTuple):
    """Scores and seconds of every task, sorted by task_id, with what made them as metadata."""

    scores: pa.Table  # SCORES_SCHEMA
    seconds: pa.Table  # SECONDS_SCHEMA; the forecaster's own time for a row, without compilation


def plan(suite: Suite, batch_size: int = 256) -> list[np.ndarray]:
    """Task ids of every batch of a suite: one context, horizon and K each, every task once.

    The same for every order of the suite's rows. Tasks that one compiled program makes stay
    together.

    Args:
        suite: the tasks.
        batch_size: the most tasks of a batch.

    Returns:
        int64 arrays, ascending ids within each.

    Raises:
        ValueError: a batch size below 1, or a task that the suite holds twice.
    """
    check_batch_size(batch_size)
    ids = suite.column("task_id")
    check_once(ids)
    groups: dict[tuple, list[int]] = {}
    for key, k, task_id in zip(suite._key(), suite.column("k").tolist(), ids.tolist(), strict=True):
        groups.setdefault((*key, k), []).append(task_id)
    batches = []
    for group in sorted(groups):
        members = np.sort(np.array(groups[group], np.int64))
        batches += [
            members[start : start + batch_size] for start in range(0, len(members), batch_size)
        ]
    return batches


def new_shapes(suite: Suite, batches: Sequence[np.ndarray]) -> list[bool]:
    """For each of some batches of `plan`: whether it is the first of its context, horizon and K."""
    shape_of = dict(
        zip(
            suite.column("task_id").tolist(),
            zip(
                *(suite.column(name).tolist() for name in ("context", "horizon", "k")), strict=True
            ),
            strict=True,
        )
    )
    found, seen = [], set()
    for ids in batches:
        shape = shape_of[int(ids[0])]
        found.append(shape not in seen)
        seen.add(shape)
    return found


def evaluate_batch(
    forecaster: Forecaster,
    suite: Suite,
    task_ids: Sequence[int] | np.ndarray,
    *,
    levels: Sequence[float] = LEVELS,
    batch_size: int = 256,
    warm_up: bool = False,
) -> BatchScores:
    """Forecast and score some tasks of one context, horizon and K, such as a batch of `plan`.

    Args:
        forecaster: see `Forecaster`.
        suite: holds the tasks.
        task_ids: at most `batch_size` of them.
        levels: ascending quantile levels, 0.5 among them.
        batch_size: rows of the batches that are made, and given to a `fixed_batch` forecaster.
        warm_up: call a `fixed_batch` forecaster once before, so that seconds hold no compilation.

    Raises:
        ForecasterError: an answer of another shape than asked for.
        ValueError: tasks that the suite has not, or that do not share one shape.
    """
    levels = tuple(float(level) for level in levels)
    scores, seconds = [], []
    quantiles: dict[int, np.ndarray] = {}
    for batch in make_batches(suite, task_ids, batch_size):
        answer, took = forecast_batch(forecaster, batch, levels, warm_up=warm_up)
        columns, repaired = _score(batch, answer, levels)
        scores.append(pa.table(columns, schema=SCORES_SCHEMA))
        seconds.append(pa.table([batch.task_ids, took], schema=SECONDS_SCHEMA))
        quantiles |= dict(zip(batch.task_ids.tolist(), repaired, strict=True))
    return BatchScores(
        pa.concat_tables(scores).sort_by("task_id"),
        pa.concat_tables(seconds).sort_by("task_id"),
        [quantiles[task_id] for task_id in sorted(quantiles)],
    )


def _score(
    batch: Batch, answer: Array | np.ndarray, levels: tuple[float, ...]
) -> tuple[dict[str, Any], np.ndarray]:
    """Columns of SCORES_SCHEMA, and the forecasts as they were scored, of the real rows."""
    task, rows = batch.task, batch.rows
    size = task.history.shape[0]
    padded = np.zeros((size, *answer.shape[1:]), np.float32)  # one program, however many rows
    padded[:rows] = answer
    scores = score_batch(
        task.future,
        task.future_baseline,
        task.history,
        padded,
        levels,
        task.history_mask,
        task.future_mask,
    )
    repaired = repair_batch(padded, task.history, task.history_mask, task.future_mask)
    host = jax.device_get(scores)
    columns: dict[str, Any] = {"task_id": batch.task_ids}
    for name, values in host._asdict().items():
        kind = SCORES_SCHEMA.field(name).type
        if name == "coverage":
            columns[name] = pa.array(values[:rows].astype(np.float64).tolist(), kind)
        else:  # NaN becomes null
            columns[name] = pa.array(values[:rows], kind, from_pandas=True)
    return columns, np.asarray(repaired.quantiles)[:rows]


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
        task_ids: at least two tasks of one context, horizon and K.
        levels: quantile levels asked for.
        batch_size: as for `evaluate_batch`.

    Raises:
        ForecasterError: names the tasks, the step and the difference.
        ValueError: as `evaluate_batch`.
    """
    levels = tuple(float(level) for level in levels)
    name, *_ = forecaster_identity(forecaster)
    ids = [int(task_id) for task_id in task_ids]

    def answers(chosen: list[int]) -> dict[int, tuple[np.ndarray, np.ndarray]]:
        found = {}
        for batch in make_batches(suite, chosen, batch_size):
            answer, _ = forecast_batch(forecaster, batch, levels)
            history = np.asarray(batch.task.history)
            for row, task_id in enumerate(batch.task_ids.tolist()):
                found[task_id] = np.asarray(answer[row]), history[row]
        return found

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
            if difference > getattr(forecaster, "row_tolerance", ROW_TOLERANCE) * scale:
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
        check: run `check_rows` on a few tasks first.
        progress: show a bar with tasks a second.

    Raises:
        ForecasterError: an answer of another shape than asked for, or one that depends on other
            rows.
        ValueError: an empty suite.
    """
    batches = plan(suite, batch_size)
    if not batches:
        raise ValueError("suite: no tasks; expected at least one")
    if check:
        company = next((ids for ids in batches if len(ids) > 1), None)
        if company is not None:
            check_rows(
                forecaster, suite, company[:CHECKED_BATCH], levels=levels, batch_size=batch_size
            )
    from tqdm import tqdm

    parts, shapes = [], new_shapes(suite, batches)
    with tqdm(total=len(suite), unit="task", disable=not progress) as bar:
        for task_ids, new in zip(batches, shapes, strict=True):
            parts.append(
                evaluate_batch(
                    forecaster, suite, task_ids, levels=levels, batch_size=batch_size, warm_up=new
                )._replace(quantiles=[])  # not kept: the whole suite's take gigabytes
            )
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
    whole = suite._whole
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
