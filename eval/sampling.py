"""Which tasks a run forecasts, and whose forecasts are kept for the report."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from whatif_jax import Suite
from whatif_jax.suites.sampling import ranking

__all__ = ["BROWSE_TASKS", "browse_sample", "choose"]

# Tasks whose forecasts are kept for the task browser of the report.
BROWSE_TASKS = 120


def browse_sample(
    suite: Suite, n: int = BROWSE_TASKS, *, among: np.ndarray | None = None, seed: int = 0
) -> np.ndarray:
    """Draw the tasks whose forecasts are kept for the report: both futures of a pair where it can.

    Pairs come first, by the later of their two ranks, so that runs on all tasks and on large
    samples keep much the same ones; then, for samples that hold few whole pairs, single tasks.

    Args:
        suite: the tasks, filtered as wished.
        n: tasks to draw at most.
        among: ids of the tasks of the suite that are run; None for all.
        seed: of the sample.

    Returns:
        task ids, int64 [at most n], ascending.
    """
    ids = suite.column("task_id").astype(np.int64)
    rank = np.empty(len(ids), np.int64)
    rank[ranking(suite.table, seed)] = np.arange(len(ids))
    run = np.ones(len(ids), bool) if among is None else np.isin(ids, among)
    ids, rank = ids[run], rank[run]
    _, pair, futures = np.unique(
        suite.column("pair_id")[run], return_inverse=True, return_counts=True
    )
    latest = np.zeros(len(futures), np.int64)
    np.maximum.at(latest, pair, rank)
    return np.sort(ids[np.lexsort((latest[pair], -futures[pair]))[:n]])


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
