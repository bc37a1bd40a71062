"""Stratified samples of a suite: proportional over its axes, the same ids every time, nested.

Every task gets a rank that depends on the suite and the seed alone, and a sample of n tasks is the
n first ranks. So a smaller sample is part of every larger one: forecasters scored on samples of
different sizes share the tasks of the smallest.
"""

import numpy as np
import pyarrow as pa

__all__ = ["STRATA", "ranking", "stratified"]

# A stratum is the tasks that share all of these.
STRATA = ("system", "future", "k", "event_length", "context_pair", "setting")


def stratified(table: pa.Table, n: int, seed: int) -> np.ndarray:
    """Draw rows of a manifest so that every stratum has its share.

    A stratum of m among N tasks gets n m / N of them, give or take one. Its tasks are put in an
    order that the seed decides and spread evenly over [0, 1), from a start that differs between
    strata; the n tasks that come first are the sample. Uses no library's random generator, whose
    numbers may change between versions.

    Args:
        table: the tasks, each once.
        n: tasks to draw, 1 .. rows of the table.
        seed: other seeds draw other tasks.

    Returns:
        row numbers, int64 [n], ascending.
    """
    return np.sort(ranking(table, seed)[:n])


def ranking(table: pa.Table, seed: int) -> np.ndarray:
    """Row numbers, the first to draw first."""
    ids = table.column("task_id").to_numpy()
    axes = [np.unique(table.column(axis).to_numpy(), return_inverse=True)[1] for axis in STRATA]
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
