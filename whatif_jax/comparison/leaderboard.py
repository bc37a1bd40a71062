"""The leaderboard: skill and win rate of every model with their intervals.

References:
    evaluation/scores.md; paper, tables 3, 18 and 20. Skill equals that of fev 0.10's
    `leaderboard`; on win rates see `win_rate`.
"""

import functools
from typing import Any

import numpy as np

from .._types import PRNGKeyArray
from .bootstrap import By, bootstrap_all
from .error_table import ErrorTable
from .skill import skill_scores
from .statistic import Statistic
from .win_rate import win_rates

__all__ = ["leaderboard"]


def leaderboard(
    table: ErrorTable,
    *,
    reference: str = "naive",
    key: PRNGKeyArray | None = None,
    resamples: int = 1000,
    by: By = "task",
    level: float = 0.95,
) -> list[dict[str, Any]]:
    """One row a model, highest skill first.

    Args:
        table: errors of M models on N tasks.
        reference: model whose skill is 0.
        key: for intervals, see `bootstrap`.
        resamples: see `bootstrap`.
        by: see `bootstrap`.
        level: see `bootstrap`.

    Returns:
        Rows of `model`, `skill`, `skill_lower`, `skill_upper`, `win_rate`, `win_rate_lower`,
        `win_rate_upper`, `imputed` (tasks where naive replaced its forecast, None if unknown) and
        `tasks`. Bounds are None without a key.

    Raises:
        ValueError: the reference is not a model of the table, or bad options.
    """
    statistics: dict[str, Statistic] = {
        "skill": functools.partial(skill_scores, reference=reference),
        "win_rate": win_rates,
    }
    columns: dict[str, np.ndarray] = {}
    if key is None:
        columns = {name: statistic(table) for name, statistic in statistics.items()}
    else:
        intervals = bootstrap_all(
            table, statistics, key=key, resamples=resamples, by=by, level=level
        )
        for name, interval in intervals.items():
            columns[name] = interval.estimate
            columns[f"{name}_lower"] = interval.lower
            columns[f"{name}_upper"] = interval.upper
    rows = []
    for position, model in enumerate(table.models):
        row: dict[str, Any] = {"model": model}
        for name in statistics:
            for field in (name, f"{name}_lower", f"{name}_upper"):
                row[field] = float(columns[field][position]) if field in columns else None
        row["imputed"] = None if table.imputed is None else int(table.imputed[:, position].sum())
        row["tasks"] = len(table)
        rows.append(row)
    return sorted(rows, key=lambda row: -row["skill"])
