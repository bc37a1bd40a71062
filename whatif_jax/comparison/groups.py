"""Grouping tasks by any axes of the manifest: skill of each group, trends, fewest against most.

References:
    whatif-v1.md §5, evaluation/scores.md; paper, §4 (figures 4 to 7) and appendix E (tables 14 to
    16, figure 15).
    Axes: N tasks, M models, G groups.
"""

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from .._types import PRNGKeyArray
from ..catalog.errors import one_of
from .bootstrap import By, check_level, clusters, percentiles, resample_counts, resampled_means
from .error_table import ErrorTable, check_table
from .skill import log_ratios, skill_of

__all__ = [
    "FewestMost",
    "GroupedSkill",
    "Trend",
    "fewest_most",
    "log2_trend",
    "nominal_contexts",
    "skill_by",
]

# Tasks that differ in nothing but the number of events share these (paper, table 14).
CELL = ("system", "target", "event_length", "context_pair", "k", "future")

_MOST_RESAMPLED = 2**26  # resampled skills held at once: 512 MiB


def _members(
    table: ErrorTable, axes: Sequence[str]
) -> tuple[list[tuple[Any, ...]], list[np.ndarray]]:
    """Groups present, sorted, and the row numbers of each, in order."""
    code = np.zeros(len(table), np.int64)
    levels = []
    for name in axes:
        values, inverse = np.unique(table.axis(name), return_inverse=True)
        levels.append(values.tolist())
        code = code * len(values) + inverse
    present, inverse = np.unique(code, return_inverse=True)
    rows = np.split(np.argsort(inverse, kind="stable"), np.cumsum(np.bincount(inverse))[:-1])
    groups = []
    for number in present.tolist():
        group = []
        for values in reversed(levels):
            number, position = divmod(number, len(values))
            group.append(values[position])
        groups.append(tuple(reversed(group)))
    return groups, rows


def _names(axes: str | Sequence[str]) -> tuple[str, ...]:
    return (axes,) if isinstance(axes, str) else tuple(axes)


@dataclasses.dataclass(frozen=True)
class GroupedSkill:
    """Skill of M models on G groups of tasks."""

    axes: tuple[str, ...]
    groups: list[tuple[Any, ...]]  # [G], one value an axis
    tasks: np.ndarray  # int64 [G], number of tasks
    models: tuple[str, ...]
    estimate: np.ndarray  # float64 [G, M]
    lower: np.ndarray | None  # [G, M]; None without a key, NaN where a group is one cluster
    upper: np.ndarray | None

    def of(self, model: str) -> np.ndarray:
        """Skill of one model, [G]."""
        if model not in self.models:
            raise ValueError(f"model {model!r}; expected {one_of(self.models, model)}")
        return self.estimate[:, self.models.index(model)]

    def rows(self) -> Iterator[dict[str, Any]]:
        """One dictionary a group and model: axes, tasks, model, skill, skill_lower, skill_upper."""
        for row, group in enumerate(self.groups):
            for column, model in enumerate(self.models):
                yield {
                    **dict(zip(self.axes, group, strict=True)),
                    "tasks": int(self.tasks[row]),
                    "model": model,
                    "skill": float(self.estimate[row, column]),
                    "skill_lower": _cell(self.lower, row, column),
                    "skill_upper": _cell(self.upper, row, column),
                }


def _cell(values: np.ndarray | None, row: int, column: int) -> float | None:
    return None if values is None else float(values[row, column])


def skill_by(
    table: ErrorTable,
    axes: str | Sequence[str],
    reference: str = "naive",
    *,
    key: PRNGKeyArray | None = None,
    resamples: int = 1000,
    by: By = "task",
    level: float = 0.95,
) -> GroupedSkill:
    """Skill of every model on every group of tasks.

    Args:
        table: errors of M models on N tasks.
        axes: one axis or several; groups are the combinations that occur.
        reference: model whose skill is 0.
        key: for intervals; all tasks are drawn at once, so the groups share their resamples.
        resamples: see `bootstrap`.
        by: see `bootstrap`.
        level: see `bootstrap`.

    Raises:
        ValueError: no such axis or model, or bad options; with a key, so many groups that their
            resampled skills would not fit into memory.
    """
    check_table(table)
    names = _names(axes)
    groups, members = _members(table, names)
    logs = log_ratios(table, reference)
    estimate = np.stack([skill_of(logs[rows].mean(axis=0)) for rows in members])
    lower = upper = None
    if key is not None:
        check_level(level)
        drawn_with = clusters(table, by)
        counts = resample_counts(int(drawn_with.max()) + 1, resamples, key=key)
        most = _MOST_RESAMPLED // (resamples * logs.shape[1])
        if len(members) > most:
            raise ValueError(
                f"groups: {len(members)} with {resamples} resamples of {logs.shape[1]} models; "
                f"expected at most {most} groups"
            )
        drawn = skill_of(resampled_means(logs, drawn_with, members, counts))
        lower, upper = percentiles(drawn, level)
        # resamples of one cluster are all alike: an interval of no width would claim certainty
        single = np.array([len(np.unique(drawn_with[rows])) == 1 for rows in members])
        lower[single] = upper[single] = np.nan
    sizes = np.array([len(rows) for rows in members])
    return GroupedSkill(names, groups, sizes, table.models, estimate, lower, upper)


@dataclasses.dataclass(frozen=True)
class Trend:
    """A line: skill = intercept + slope * log2(x). Fields have shape [] or [M]."""

    slope: np.ndarray
    intercept: np.ndarray

    def at(self, x: np.ndarray) -> np.ndarray:
        """The line at x [P], shape [P] or [P, M]."""
        return self.intercept + np.multiply.outer(np.log2(np.asarray(x, np.float64)), self.slope)


def log2_trend(x: np.ndarray | Sequence[float], skill: np.ndarray) -> Trend:
    """Least-squares line of skill on log2(x), as drawn in the paper's figures 5 to 7.

    Args:
        x: [G], above 0: events, event lengths, contexts.
        skill: [G] or [G, M], every group with the same weight.

    Raises:
        ValueError: x not above 0, fewer than two distinct x, or sizes that differ.
    """
    x, skill = np.asarray(x, np.float64), np.asarray(skill, np.float64)
    if x.ndim != 1 or skill.shape[:1] != x.shape:
        raise ValueError(f"skill: {list(skill.shape)} at x {list(x.shape)}; expected [G] of both")
    if not np.all(x > 0) or len(np.unique(x)) < 2:
        raise ValueError(f"x: {x.tolist()}; expected two or more distinct numbers above 0")
    logs = np.log2(x)
    centred = logs - logs.mean()
    slope = np.tensordot(centred, skill - skill.mean(axis=0), axes=1) / (centred @ centred)
    return Trend(slope, skill.mean(axis=0) - slope * logs.mean())


def nominal_contexts(table: ErrorTable) -> dict[str, float]:
    """Steps of each context pair, leaving out what the longest events add (paper, figure 7).

    A system's nominal context is its smallest of that pair; where systems differ (C4), the
    geometric mean over the tasks stands for all.
    """
    context = table.axis("context").astype(np.float64)
    nominal = np.empty(len(table))
    for rows in _members(table, ("system", "context_pair"))[1]:
        nominal[rows] = context[rows].min()
    groups, members = _members(table, ("context_pair",))
    return {
        group[0]: float(np.exp2(np.log2(nominal[rows]).mean()))
        for group, rows in zip(groups, members, strict=True)
    }


@dataclasses.dataclass(frozen=True)
class FewestMost:
    """Skill with the fewest and with the most events, all else equal."""

    group: tuple[Any, ...]  # one value an axis
    fewest: float  # skill
    most: float
    change: float  # most - fewest
    worse: int  # targets whose skill is lower with the most events
    targets: int  # targets with at least one comparison
    cells: int  # comparisons


def fewest_most(
    table: ErrorTable,
    model: str,
    *,
    reference: str = "naive",
    axes: str | Sequence[str] = ("system", "future"),
    ratio: float = 8.0,
) -> list[FewestMost]:
    """Compare tasks that differ in their number of events alone (paper, tables 14 to 16).

    A cell holds the tasks that share system, target, event length, context pair, K and future. It
    is compared where its most events are at least `ratio` times its fewest.

    Args:
        table: errors of M models on N tasks.
        model: whose skill.
        reference: model whose skill is 0.
        axes: how the comparisons are grouped, among the axes of a cell; () pools all.
        ratio: see above.

    Returns:
        One entry a group with a comparison, in sorted order.

    Raises:
        ValueError: no such model, or an axis that tasks of a cell do not share.
    """
    check_table(table)
    names = _names(axes)
    for name in names:
        if name not in CELL:
            raise ValueError(f"axes: {name!r}; expected among {', '.join(CELL)}")
    if not ratio > 1:
        raise ValueError(f"ratio: {ratio!r}; expected a number above 1")
    logs = log_ratios(table, reference)[:, table.index(model)]
    events = table.axis("n_events")
    target_column = CELL.index("target"), CELL.index("system")
    compared: dict[tuple, list[tuple[tuple, np.ndarray, np.ndarray]]] = {}
    for cell, rows in zip(*_members(table, CELL), strict=True):
        counts = events[rows]
        if counts.max() < ratio * counts.min():
            continue
        group = tuple(cell[CELL.index(name)] for name in names)
        target = tuple(cell[column] for column in target_column)
        few, many = rows[counts == counts.min()], rows[counts == counts.max()]
        compared.setdefault(group, []).append((target, few, many))

    def skill(parts: list[np.ndarray]) -> float:
        return float(skill_of(logs[np.concatenate(parts)].mean()))

    found = []
    for group in sorted(compared):
        by_target: dict[tuple, tuple[list, list]] = {}
        for target, few, many in compared[group]:
            both = by_target.setdefault(target, ([], []))
            both[0].append(few)
            both[1].append(many)
        fewest = skill([few for _, few, _ in compared[group]])
        most = skill([many for _, _, many in compared[group]])
        worse = sum(skill(many) < skill(few) for few, many in by_target.values())
        found.append(
            FewestMost(
                group, fewest, most, most - fewest, worse, len(by_target), len(compared[group])
            )
        )
    return found
