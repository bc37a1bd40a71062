"""Which tasks a run forecasts, and whose forecasts are kept for the report."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from whatif_jax import Suite

__all__ = ["BROWSE_TASKS", "browse_sample", "choose"]

# Tasks whose forecasts are kept for the task browser of the report.
BROWSE_TASKS = 120


def browse_sample(suite: Suite, n: int = BROWSE_TASKS, *, seed: int = 0) -> np.ndarray:
    """Task ids whose forecasts are kept for the report: int64 [at most n], ascending.

    The same for every forecaster, and part of every `Suite.sample` of n tasks or more of the same
    suite.
    """
    if n == 0 or not len(suite):
        return np.zeros(0, np.int64)
    return np.sort(suite.sample(min(n, len(suite)), seed=seed).column("task_id"))


def choose(
    suite: Suite, where: Mapping[str, Any] | None = None, sample: int | None = None, seed: int = 0
) -> tuple[Suite, str | dict[str, Any]]:
    """The tasks of a run, and what is written down about the choice.

    Args:
        suite: the whole suite.
        where: values by axis, as `Suite.where` takes them.
        sample: of the tasks so kept, a stratified sample of that many.
        seed: of the sample.

    Returns:
        the chosen tasks; and "all", or a JSON value that is the same for the same choice.

    Raises:
        ValueError: an axis or value that does not exist, conditions that no task meets, or a
            sample of more tasks than there are.
    """
    conditions = {
        axis: sorted({value.item() if isinstance(value, np.generic) else value for value in (
            [values] if isinstance(values, str) or not np.iterable(values) else values
        )})
        for axis, values in sorted((where or {}).items())
    }  # fmt: skip
    chosen = suite.where(**conditions)
    if not len(chosen):
        raise ValueError(f"where: {conditions}; expected conditions that some task meets")
    if sample is not None:
        chosen = chosen.sample(sample, seed=seed)
    tasks: dict[str, Any] = {}
    if conditions:
        tasks["where"] = conditions
    if sample is not None:
        tasks |= {"sample": int(sample), "seed": seed}
    return chosen, tasks or "all"
