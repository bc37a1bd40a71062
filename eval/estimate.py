"""What a run would do and cost, without doing it."""

import collections
from collections.abc import Callable

import numpy as np
from tqdm import tqdm

from whatif_jax import LEVELS, BatchInfo
from whatif_jax.evaluation.forecaster import Forecaster, forecast_batch

from .forecasters.base import Estimate
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


def estimate_cost(forecaster: Forecaster, planned: RunPlan, *, progress: bool = False) -> list[str]:
    """Lines: tokens and cost, where the forecaster can tell (`Estimate`); else none.

    The tasks are made as for a run, since what a forecast costs depends on their numbers.
    """
    if not hasattr(forecaster, "estimate"):
        return []
    counting = _Counting(forecaster.estimate, getattr(forecaster, "wants_info", False))
    size = planned.sizes["batch_size"]
    with tqdm(total=len(planned.chosen), unit="task", disable=not progress) as bar:
        for task_ids in planned.batches:
            forecast_batch(counting, planned.suite.batch(task_ids, size), LEVELS)
            bar.update(len(task_ids))
    sent, written, costs, requests, cached, notes = zip(*counting.found, strict=True)
    known = [cost for cost in costs if cost is not None]
    cost = f"{sum(known):,.2f} USD"
    if len(known) < len(costs):
        cost = "unknown: no price is known for this model"
    lines = [f"estimate: {sum(sent):,} tokens sent, {sum(written):,} written, cost {cost}"]
    if any(requests + cached):
        lines.append(
            f"{sum(requests):,} requests; {sum(cached):,} forecasts are cached and cost nothing"
        )
    return [*lines, *filter(None, notes[:1])]


class _Counting:
    """Stands in for a forecaster, and keeps what its forecasts would take."""

    def __init__(self, estimate: Callable[..., Estimate], wants_info: bool):
        self._estimate, self.wants_info = estimate, wants_info
        self.found: list[Estimate] = []

    def __call__(
        self,
        history: np.ndarray,
        covariates: np.ndarray,
        horizon: int,
        levels: tuple[float, ...],
        **info: BatchInfo,
    ) -> np.ndarray:
        self.found.append(self._estimate(history, covariates, horizon, levels, **info))
        return np.zeros((len(history), horizon, 1), np.float32)
