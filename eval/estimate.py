"""What a run would do and cost, without doing it."""

import collections
from collections.abc import Callable
from typing import Any

import numpy as np

from whatif_jax import LEVELS, BatchInfo
from whatif_jax.evaluation.forecaster import forecast_batch

from .progress import Progress
from .run import RunPlan

__all__ = ["describe_plan", "estimate_cost"]


def describe_plan(planned: RunPlan) -> list[str]:
    """Lines: tasks, batches, and how many there are of each shape."""
    suite = planned.chosen
    columns = (suite.column(name).tolist() for name in ("task_id", "context", "horizon", "k"))
    shape_of = {task: tuple(shape) for task, *shape in zip(*columns, strict=True)}
    batches: collections.Counter = collections.Counter()
    tasks: collections.Counter = collections.Counter()
    for batch in planned.batches:
        shape = shape_of[int(batch[0])]
        batches[shape] += 1
        tasks[shape] += len(batch)
    identity = planned.identity
    lines = [
        f"{identity.forecaster} {identity.version}: {len(suite):,} tasks, "
        f"{len(planned.batches):,} batches of at most {planned.sizes['batch_size']}, forecasts of "
        f"{len(planned.kept):,} tasks kept",
        f"{'context':>8} {'horizon':>8} {'k':>3} {'tasks':>7} {'batches':>8}",
    ]
    for shape in sorted(batches):
        context, horizon, k = shape
        lines.append(f"{context:>8,} {horizon:>8,} {k:>3} {tasks[shape]:>7,} {batches[shape]:>8,}")
    return lines


def estimate_cost(forecaster: Callable, planned: RunPlan, *, progress: bool = False) -> list[str]:
    """Lines: tokens and cost, where the forecaster can tell (`estimate`); else none.

    The tasks are made as for a run, since what a forecast costs depends on their numbers.
    """
    if not hasattr(forecaster, "estimate"):
        return []
    counting = _Counting(forecaster)
    size = planned.sizes["batch_size"]
    with Progress(len(planned.chosen), shown=progress) as bar:
        for task_ids in planned.batches:
            forecast_batch(counting, planned.suite.batch(task_ids, size), LEVELS)
            bar.advance(len(task_ids))
    total = counting.total
    cost = "unknown: no price is known for this model" if total.cost is None else (
        f"{total.cost:,.2f} USD"
    )  # fmt: skip
    lines = [
        f"estimate: {total.prompt_tokens:,} tokens sent, {total.completion_tokens:,} written, "
        f"cost {cost}"
    ]
    requests, cached = getattr(total, "requests", None), getattr(total, "cached", None)
    if requests is not None:
        lines.append(
            f"{requests:,} requests; {cached or 0:,} forecasts are cached and cost nothing"
        )
    note = getattr(total, "note", "")
    return [*lines, note] if note else lines


class _Counting:
    """Stands in for a forecaster, and adds up what its forecasts would take."""

    def __init__(self, forecaster: Callable):
        self._estimate: Any = forecaster.estimate  # type: ignore[attr-defined]
        self.wants_info = getattr(forecaster, "wants_info", False)
        self.total: Any = 0

    def __call__(
        self,
        history: np.ndarray,
        covariates: np.ndarray,
        horizon: int,
        levels: tuple[float, ...],
        **info: BatchInfo,
    ) -> np.ndarray:
        self.total = self.total + self._estimate(history, covariates, horizon, levels, **info)
        return np.zeros((len(history), horizon, 1), np.float32)
