"""Statistics that are functions of a mean over tasks, which makes their bootstrap a matrix product.

References:
    evaluation/scores.md. Axes: N tasks, M models, F contributions of a task.
"""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from .error_table import ErrorTable, check_table

__all__ = ["MeanStatistic", "Statistic", "mean_statistic", "parts_of"]

# A function of an error table, and keyword arguments bound by `functools.partial` if it has some.
Statistic = Callable[..., np.ndarray]


class MeanStatistic(NamedTuple):
    """A statistic that depends on the tasks through means alone, in its two parts.

    `bootstrap` weighs the contributions of the tasks by how often each was drawn, and never copies
    the table.
    """

    contributions: Callable[..., np.ndarray]  # (table, **options) -> float64 [N, F]
    finish: Callable[[np.ndarray], np.ndarray]  # mean contributions [..., F], leading axes kept


_PARTS: dict[Statistic, MeanStatistic] = {}


def mean_statistic(finish: Callable[[np.ndarray], np.ndarray]) -> Callable[[Statistic], Statistic]:
    """Make the decorated function, which gives what each task contributes, a statistic.

    Args:
        finish: the statistic from mean contributions.
    """

    def decorate(contributions: Statistic) -> Statistic:
        @functools.wraps(contributions)
        def statistic(table: ErrorTable, *arguments: Any, **options: Any) -> np.ndarray:
            check_table(table)
            return finish(contributions(table, *arguments, **options).mean(axis=0))

        _PARTS[statistic] = MeanStatistic(contributions, finish)
        return statistic

    return decorate


def parts_of(statistic: Statistic) -> MeanStatistic | None:
    """The two parts of a statistic made by `mean_statistic`; None of any other function."""
    if isinstance(statistic, functools.partial):
        parts = _PARTS.get(statistic.func)
        if parts is None:
            return None
        bound = functools.partial(parts.contributions, *statistic.args, **statistic.keywords)
        return MeanStatistic(bound, parts.finish)
    return _PARTS.get(statistic)
