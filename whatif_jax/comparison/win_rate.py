"""Win rates: how often a model's error is below another's, ties one half.

Errors are compared as they are. fev's `leaderboard` compares ratios clipped to [0.01, 100], where
two errors far from the reference tie; on all others the two agree.

References:
    evaluation/scores.md; `pairwise_win_rates` equals fev 0.10's `pairwise_comparison`.
"""

import numpy as np

from .error_table import ErrorTable
from .statistic import mean_statistic

__all__ = ["pairwise_win_rates", "win_rates"]


def _wins(errors: np.ndarray, others: np.ndarray) -> np.ndarray:
    """1 for a smaller error, one half for an equal one; two infinite errors are equal."""
    return (errors < others) + 0.5 * (errors == others)


def _matrix(means: np.ndarray) -> np.ndarray:
    """Matrices [..., M, M] from the win rates of the first of every two models, [..., pairs]."""
    models = round((1 + (1 + 8 * means.shape[-1]) ** 0.5) / 2)
    first, second = np.triu_indices(models, k=1)
    matrix = np.full((*means.shape[:-1], models, models), 0.5)
    matrix[..., first, second] = means
    matrix[..., second, first] = 1 - means
    return matrix


@mean_statistic(_matrix)
def pairwise_win_rates(table: ErrorTable) -> np.ndarray:
    """Win rate of every model (row) against every model (column), float64 [M, M], diagonal 0.5.

    Cells across the diagonal add up to 1.
    """
    first, second = np.triu_indices(len(table.models), k=1)
    return _wins(table.errors[:, first], table.errors[:, second])


@mean_statistic(lambda means: means)
def win_rates(table: ErrorTable) -> np.ndarray:
    """Mean win rate of every model against the others, float64 [M]; NaN for a single model."""
    errors = table.errors
    if errors.shape[1] == 1:
        return np.full(errors.shape, np.nan)
    wins = np.full(errors.shape, -0.5)  # the tie with itself, which is no comparison
    for other in range(errors.shape[1]):
        wins += _wins(errors, errors[:, other : other + 1])
    return wins / (errors.shape[1] - 1)
