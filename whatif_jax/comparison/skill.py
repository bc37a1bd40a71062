"""Skill: one minus the geometric mean of error ratios.

References:
    evaluation/scores.md; equal to fev 0.10's `leaderboard` on the same errors.
"""

import numpy as np

from ..evaluation.scoring import error_ratio
from .error_table import ErrorTable
from .statistic import mean_statistic

__all__ = ["log_ratios", "skill_differences", "skill_of", "skill_scores"]


def skill_of(mean_logs: np.ndarray) -> np.ndarray:
    """Skill from means of the logarithms of error ratios, any shape."""
    return 0.0 - np.expm1(mean_logs)


def log_ratios(table: ErrorTable, reference: str = "naive") -> np.ndarray:
    """Logarithm of every error's ratio to the reference's, clipped, float64 [N, M].

    Raises:
        ValueError: the reference is not a model of the table.
    """
    return np.log(error_ratio(table.errors, table.column(reference)[:, None]))


@mean_statistic(skill_of)
def skill_scores(table: ErrorTable, reference: str = "naive") -> np.ndarray:
    """Skill of every model against a reference model, float64 [M].

    1 - geometric mean over the tasks of the clipped error ratios: at most 0.99, at least -99; 0
    where errors equal the reference's.

    Raises:
        ValueError: the reference is not a model of the table.
    """
    return log_ratios(table, reference)


def _difference(mean_logs: np.ndarray) -> np.ndarray:
    """Skills less the one that stands last."""
    skills = skill_of(mean_logs)
    return skills[..., :-1] - skills[..., -1:]


@mean_statistic(_difference)
def skill_differences(table: ErrorTable, other: str, reference: str = "naive") -> np.ndarray:
    """Skill of every model minus that of another one on the same tasks, float64 [M].

    A bootstrap of it draws the same tasks for both, so that its interval is that of the paired
    difference: luck that both share cancels.

    Raises:
        ValueError: `other` or the reference is not a model of the table.
    """
    logs = log_ratios(table, reference)
    place = table.index(other)
    return np.concatenate([logs, logs[:, place : place + 1]], axis=1)
