"""Skill: one minus the geometric mean of error ratios.

References:
    evaluation/scores.md; equal to fev 0.10's `leaderboard` on the same errors.
"""

import numpy as np

from ..evaluation.scoring import error_ratio
from .error_table import ErrorTable
from .statistic import mean_statistic

__all__ = ["log_ratios", "skill_of", "skill_scores"]


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
