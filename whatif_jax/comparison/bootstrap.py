"""Percentile bootstrap: tasks are drawn with replacement, jointly for all models.

References:
    evaluation/scores.md.
    Axes: N tasks, M models, R resamples, C clusters, G groups, F contributions.
"""

import dataclasses
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from .._types import Array, PRNGKeyArray
from ..tasks.keys import as_threefry, is_key, random_words
from .error_table import ErrorTable, check_table
from .statistic import MeanStatistic, Statistic, parts_of

__all__ = [
    "By",
    "Interval",
    "bootstrap",
    "bootstrap_all",
    "clusters",
    "percentiles",
    "resample_counts",
    "resampled",
    "resampled_means",
]

By = Literal["task", "pair", "target"]

# Draws come in blocks, so that one compiled program serves tables of any size.
_BLOCK, _BLOCKS = 1024, 1024  # draws of a block, blocks of a call


@dataclasses.dataclass(frozen=True)
class Interval:
    """A statistic and its percentile interval, three arrays of the statistic's shape.

    Bounds are NaN where there is one cluster only: its resamples are all alike, and say nothing.
    """

    estimate: np.ndarray
    lower: np.ndarray
    upper: np.ndarray


def bootstrap(
    table: ErrorTable,
    statistic: Statistic,
    *,
    key: PRNGKeyArray,
    resamples: int = 1000,
    by: By = "task",
    level: float = 0.95,
) -> Interval:
    """A statistic with its percentile bootstrap interval.

    Args:
        table: errors of M models on N tasks; every resample draws the same tasks for all models.
        statistic: `skill_scores`, `win_rates`, `pairwise_skill_scores` or `pairwise_win_rates`,
            which cost a matrix product; or any function of an `ErrorTable` that returns an array,
            which is called once a resample and is slow. `functools.partial` binds arguments, such
            as another reference.
        key: `whatif_jax.root_key(seed)`. Resample r folds r into it.
        resamples: R.
        by: what is drawn with replacement. "task"; "pair": both futures of a history together;
            "target": all tasks of a (system, target) together. Tasks that share a history or a
            baseline are not independent, so intervals by task are too narrow.
        level: of the interval.

    Raises:
        ValueError: an unknown `by`, fewer than 1 resample, a level outside (0, 1), no key.
    """
    found = bootstrap_all(table, {"": statistic}, key=key, resamples=resamples, by=by, level=level)
    return found[""]


def bootstrap_all(
    table: ErrorTable,
    statistics: Mapping[str, Statistic],
    *,
    key: PRNGKeyArray,
    resamples: int = 1000,
    by: By = "task",
    level: float = 0.95,
) -> dict[str, Interval]:
    """Several statistics on the same resamples, which are drawn once. See `bootstrap`."""
    check_table(table)
    check_level(level)
    groups = clusters(table, by)
    drawn = resample_counts(int(groups.max()) + 1, resamples, key=key)
    values = resampled(table, statistics, drawn, groups)
    single = groups.max() == 0
    found = {}
    for name, statistic in statistics.items():
        estimate = np.asarray(statistic(table), np.float64)
        lower, upper = percentiles(values[name], level)
        if single:
            lower, upper = np.full_like(lower, np.nan), np.full_like(upper, np.nan)
        found[name] = Interval(estimate, lower, upper)
    return found


def check_level(level: float) -> None:
    """Refuse a level outside (0, 1)."""
    if not 0 < level < 1:
        raise ValueError(f"level: {level!r}; expected a number in (0, 1)")


def clusters(table: ErrorTable, by: By) -> np.ndarray:
    """Number 0 .. C - 1 of the cluster each task is drawn with, int64 [N].

    Raises:
        ValueError: an unknown `by`.
    """
    if by == "task":
        return np.arange(len(table))
    if by == "pair":
        return np.unique(table.axis("pair_id"), return_inverse=True)[1]
    if by == "target":
        system = np.unique(table.axis("system"), return_inverse=True)[1]
        names, target = np.unique(table.axis("target"), return_inverse=True)
        return np.unique(system * len(names) + target, return_inverse=True)[1]
    raise ValueError(f"by: {by!r}; expected 'task', 'pair' or 'target'")


def resample_counts(count: int, resamples: int, *, key: PRNGKeyArray) -> Iterator[np.ndarray]:
    """How often each of `count` clusters was drawn, float64 [some of R, count] until R are done.

    Resample r takes its draws, in blocks b of 1,024, from `fold_in(fold_in(key, r), b)`; so they
    depend neither on R nor on how many resamples are held at once.

    Raises:
        ValueError: fewer than 1 resample, or a key that is not one.
    """
    if isinstance(resamples, bool) or not isinstance(resamples, int) or resamples < 1:
        raise ValueError(f"resamples: {resamples!r}; expected a whole number of at least 1")
    if not is_key(key) or key.shape:
        raise ValueError(f"key: {key!r}; expected a key, whatif_jax.root_key(seed)")
    return _counts(count, resamples, as_threefry(key))


def _counts(count: int, resamples: int, key: PRNGKeyArray) -> Iterator[np.ndarray]:
    blocks = -(-count // _BLOCK)
    rows = max(1, _BLOCKS // blocks)  # 8 MiB of counts, about what a cache holds
    offsets = np.arange(rows)[:, None] * count
    for start in range(0, resamples, rows):
        bits = _blocks(key, np.arange(start, start + rows), blocks)[:, :count]
        # the high half of 32 bits times the count is a whole number below the count
        drawn = ((bits.astype(np.uint64) * np.uint64(count)) >> np.uint64(32)).astype(np.int64)
        drawn += offsets
        counts = np.bincount(drawn.ravel(), minlength=rows * count).reshape(rows, count)
        yield counts[: resamples - start].astype(np.float64)


def _blocks(key: PRNGKeyArray, resamples: np.ndarray, blocks: int) -> np.ndarray:
    """Random bits of some resamples, uint32 [resamples, blocks * _BLOCK]."""
    resample = np.repeat(resamples, blocks).astype(np.uint32)
    block = np.tile(np.arange(blocks, dtype=np.uint32), len(resamples))
    missing = -len(block) % _BLOCKS
    resample, block = np.pad(resample, (0, missing)), np.pad(block, (0, missing))
    parts = [
        np.asarray(_bits(key, resample[part : part + _BLOCKS], block[part : part + _BLOCKS]))
        for part in range(0, len(block), _BLOCKS)
    ]
    bits = np.concatenate(parts) if len(parts) > 1 else parts[0]
    return bits[: len(bits) - missing].reshape(len(resamples), blocks * _BLOCK)


@jax.jit
def _bits(key: PRNGKeyArray, resamples: Array, blocks: Array) -> Array:
    def draw(resample: Array, block: Array) -> Array:
        own = jax.random.fold_in(jax.random.fold_in(key, resample), block)
        low = jnp.arange(_BLOCK, dtype=jnp.uint32)
        return random_words(own, jnp.zeros_like(low), low)

    return jax.vmap(draw)(resamples, blocks)


def resampled(
    table: ErrorTable,
    statistics: Mapping[str, Statistic],
    counts: Iterable[np.ndarray],
    groups: np.ndarray,
) -> dict[str, np.ndarray]:
    """Statistics of given resamples, each [R, ...].

    Args:
        table: errors of M models on N tasks.
        statistics: by name, see `bootstrap`.
        counts: how often each cluster was drawn, chunks [some of R, C].
        groups: cluster of each task [N].
    """
    fast: dict[str, MeanStatistic] = {}
    slow: dict[str, Statistic] = {}
    for name, statistic in statistics.items():
        known = parts_of(statistic)
        if known is None:
            slow[name] = statistic
        else:
            fast[name] = known
    parts = {name: statistic.contributions(table) for name, statistic in fast.items()}
    sums = _ClusterSums.of(np.concatenate([*parts.values(), np.empty((len(table), 0))], 1), groups)
    means: list[np.ndarray] = []
    values: dict[str, list[np.ndarray]] = {name: [] for name in slow}
    for chunk in counts:
        means.append(sums.means(chunk))
        if slow:
            for row in chunk.astype(np.int64):
                drawn = table.take(np.repeat(np.arange(len(table)), row[groups]))
                for name, function in slow.items():
                    values[name].append(np.asarray(function(drawn), np.float64))
    edges = np.cumsum([part.shape[1] for part in parts.values()])[:-1]
    split = np.split(np.concatenate(means), edges, axis=1)
    found = {name: np.stack(rows) for name, rows in values.items()}
    for (name, parts_), part in zip(fast.items(), split, strict=False):
        found[name] = parts_.finish(part)
    return found


class _ClusterSums(NamedTuple):
    """What a mean over drawn tasks needs of a set of tasks, C' of all C clusters among them."""

    present: np.ndarray  # int64 [C'], sorted
    sums: np.ndarray  # [C', F]
    sizes: np.ndarray  # [C']

    @classmethod
    def of(cls, contributions: np.ndarray, groups: np.ndarray) -> "_ClusterSums":
        """From contributions [n, F] and the clusters [n] of some tasks."""
        present, inverse = np.unique(groups, return_inverse=True)
        if len(present) == len(groups):  # tasks are their own clusters
            sums = contributions[np.argsort(groups, kind="stable")]
            sizes = np.ones(len(present))
        else:
            order = np.argsort(inverse, kind="stable")
            sizes = np.bincount(inverse).astype(np.float64)
            starts = np.concatenate([[0], np.cumsum(sizes)[:-1]]).astype(np.int64)
            sums = np.add.reduceat(contributions[order], starts, axis=0)
        return cls(present, np.ascontiguousarray(sums), sizes)

    def means(self, counts: np.ndarray) -> np.ndarray:
        """Mean contributions [R', F] for counts [R', C]; NaN where none of the tasks was drawn."""
        if len(self.present) != counts.shape[1]:
            counts = counts[:, self.present]
        with np.errstate(invalid="ignore"):
            return (counts @ self.sums) / (counts @ self.sizes)[:, None]


def resampled_means(
    contributions: np.ndarray,
    groups: np.ndarray,
    members: Sequence[np.ndarray],
    counts: Iterable[np.ndarray],
) -> np.ndarray:
    """Mean contributions of several sets of tasks on the same resamples, float64 [R, G, F].

    Args:
        contributions: [N, F].
        groups: cluster of each task [N].
        members: row numbers of each of G sets of tasks.
        counts: how often each cluster was drawn, chunks [some of R, C].
    """
    sums = [_ClusterSums.of(contributions[rows], groups[rows]) for rows in members]
    return np.concatenate(
        [np.stack([part.means(chunk) for part in sums], axis=1) for chunk in counts]
    )


def percentiles(values: np.ndarray, level: float) -> tuple[np.ndarray, np.ndarray]:
    """Both bounds of the central interval over axis 0, resamples that are NaN left out."""
    tail = (1 - level) / 2
    with_nan = bool(np.isnan(values).any())
    if with_nan:
        empty = np.isnan(values).all(axis=0)
        values = np.where(empty, 0.0, values)
        lower, upper = np.nanquantile(values, [tail, 1 - tail], axis=0)
        return np.where(empty, math.nan, lower), np.where(empty, math.nan, upper)
    lower, upper = np.quantile(values, [tail, 1 - tail], axis=0)
    return lower, upper
