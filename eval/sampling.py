"""Stratified samples of a suite: proportional over its axes, the same ids every time, nested.

Every task gets a rank that depends on the suite and the seed alone, and a sample of n tasks is the
n first ranks. So a smaller sample is part of every larger one: forecasters scored on samples of
different sizes share the tasks of the smallest.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from whatif_jax import Suite

__all__ = ["BROWSE_TASKS", "STRATA", "browse_sample", "choose", "stratified"]

# A stratum is the tasks that share all of these.
STRATA = ("system", "future", "k", "event_length", "context_pair", "setting")

# Tasks whose forecasts are kept for the task browser of the report.
BROWSE_TASKS = 120


def stratified(suite: Suite, n: int, *, seed: int = 0) -> np.ndarray:
    """Draw tasks so that every stratum has its share.

    A stratum of m among N tasks gets n m / N of them, give or take one. Its tasks are put in an
    order that the seed decides and spread evenly over [0, 1), from a start that differs between
    strata; the n tasks that come first are the sample. Uses no library's random generator, whose
    numbers may change between versions.

    Args:
        suite: the tasks, filtered as wished.
        n: tasks to draw, 1 .. len(suite).
        seed: other seeds draw other tasks.

    Returns:
        task ids, int64 [n], ascending.

    Raises:
        ValueError: n is not a whole number in 1 .. len(suite), or a task is in the suite twice.
    """
    whole = isinstance(n, int | np.integer) and not isinstance(n, bool)
    if not whole or not 1 <= n <= len(suite):
        raise ValueError(f"sample: {n!r}; expected a whole number in 1 .. {len(suite)}")
    ids = suite.column("task_id").astype(np.int64)
    if len(np.unique(ids)) < len(ids):
        raise ValueError(f"task_id: {suite.name} holds a task twice; expected every task once")
    return np.sort(ids[_ranking(suite, ids, seed)[:n]])


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
    rank[_ranking(suite, ids, seed)] = np.arange(len(ids))
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
        ids = stratified(chosen, sample, seed=seed)
        chosen = chosen.take(np.isin(chosen.column("task_id"), ids))
    tasks: dict[str, Any] = {}
    if conditions:
        tasks["where"] = conditions
    if sample is not None:
        tasks |= {"sample": int(sample), "seed": seed}
    return chosen, tasks or "all"


def _ranking(suite: Suite, ids: np.ndarray, seed: int) -> np.ndarray:
    """Row numbers, the first to draw first."""
    axes = [np.unique(suite.column(axis), return_inverse=True)[1] for axis in STRATA]
    strata, owner, sizes = np.unique(
        np.stack(axes, axis=1), axis=0, return_inverse=True, return_counts=True
    )
    owner = owner.ravel()
    mixed = _mix(ids.astype(np.uint64), seed)
    order = np.lexsort((ids, mixed, owner))
    place = np.empty(len(ids), np.int64)
    place[order] = np.arange(len(ids)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    start = _starts(len(strata), seed)
    return np.lexsort((ids, (place + start[owner]) / sizes[owner]))


def _starts(count: int, seed: int) -> np.ndarray:
    """Where each stratum begins in [0, 1): multiples of the golden ratio.

    Strata are in the order of their axes. Any run of neighbours, such as those of one system, is
    so spread evenly, and the sample holds each value of each axis near its share too: nearer than
    with random starts.
    """
    offset = float(_mix(np.zeros(1, np.uint64), seed)[0]) / 2.0**64
    return np.modf(np.arange(count) * ((5**0.5 - 1) / 2) + offset)[0]


def _mix(values: np.ndarray, seed: int) -> np.ndarray:
    """SplitMix64 (Steele, Lea and Flood, 2014): well-mixed 64 bits of every value and the seed."""
    golden = 0x9E3779B97F4A7C15
    z = values + np.uint64((golden * (2 * seed + 1)) % 2**64)  # wraps around, as it should
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))
