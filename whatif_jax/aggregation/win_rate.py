"""Win rates: how often a model's error is below another's, ties one half.

References:
    SPEC §7; equal to fev 0.10 (`leaderboard`, `pairwise_comparison`) on the same errors.
"""

import dataclasses

import numpy as np

from ..scoring import error_ratio
from .statistic import MeanStatistic
from .table import ErrorTable

__all__ = [
    "PairwiseWinRate",
    "WinRate",
    "from_pairs",
    "pairwise_win_rates",
    "upper_pairs",
    "win_rates",
]


def upper_pairs(models: int) -> tuple[np.ndarray, np.ndarray]:
    """Columns of every two models, first before second."""
    return np.triu_indices(models, k=1)


def from_pairs(upper: np.ndarray, lower: np.ndarray, diagonal: float) -> np.ndarray:
    """Matrices [..., M, M] from both triangles as `upper_pairs` orders them, [..., pairs]."""
    models = round((1 + (1 + 8 * upper.shape[-1]) ** 0.5) / 2)
    first, second = upper_pairs(models)
    matrix = np.full((*upper.shape[:-1], models, models), diagonal)
    matrix[..., first, second] = upper
    matrix[..., second, first] = lower
    return matrix


def _wins(errors: np.ndarray, others: np.ndarray) -> np.ndarray:
    """1 for a smaller error, one half for an equal one; two infinite errors are equal."""
    return (errors < others) + 0.5 * (errors == others)


@dataclasses.dataclass(frozen=True)
class PairwiseWinRate(MeanStatistic):
    """Win rate of every model (row) against every model (column), [M, M]."""

    def contributions(self, table: ErrorTable) -> np.ndarray:
        """Wins of the first of every two models, [N, M (M - 1) / 2]."""
        first, second = upper_pairs(len(table.models))
        return _wins(table.errors[:, first], table.errors[:, second])

    def finish(self, means: np.ndarray) -> np.ndarray:
        """The matrix: cells across the diagonal add up to 1."""
        return from_pairs(means, 1 - means, 0.5)


@dataclasses.dataclass(frozen=True)
class WinRate(MeanStatistic):
    """Mean win rate of every model against the others, [M].

    Attributes:
        reference: None compares the errors. A model's name compares clipped error ratios to that
            model, as fev's `leaderboard` does: errors that both fall outside the clip then tie.
    """

    reference: str | None = None

    def contributions(self, table: ErrorTable) -> np.ndarray:
        """Mean over the other models of each task's wins, [N, M]; NaN where there is no other."""
        errors = table.errors
        if errors.shape[1] == 1:
            return np.full(errors.shape, np.nan)
        if self.reference is not None:
            errors = error_ratio(errors, table.column(self.reference)[:, None])
        wins = np.full(errors.shape, -0.5)  # the tie with itself, which is no comparison
        for other in range(errors.shape[1]):
            wins += _wins(errors, errors[:, other : other + 1])
        return wins / (errors.shape[1] - 1)

    def finish(self, means: np.ndarray) -> np.ndarray:
        """The means themselves."""
        return means


def win_rates(table: ErrorTable, *, reference: str | None = None) -> np.ndarray:
    """Mean win rate of every model against the others, float64 [M]; NaN for a single model.

    Args:
        table: errors of M models.
        reference: see `WinRate`.

    Raises:
        ValueError: the reference is not a model of the table.
    """
    return WinRate(reference)(table)


def pairwise_win_rates(table: ErrorTable) -> np.ndarray:
    """Win rate of every model (row) against every model (column), float64 [M, M], diagonal 0.5."""
    return PairwiseWinRate()(table)
