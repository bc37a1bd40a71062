"""Skill: one minus the geometric mean of error ratios.

References:
    SPEC §7; equal to fev 0.10 (`leaderboard`, `pairwise_comparison`) on the same errors.
"""

import dataclasses

import numpy as np

from ..scoring import error_ratio
from .statistic import MeanStatistic
from .table import ErrorTable
from .win_rate import from_pairs, upper_pairs

__all__ = ["PairwiseSkill", "Skill", "pairwise_skill_scores", "skill_score", "skill_scores"]


@dataclasses.dataclass(frozen=True)
class Skill(MeanStatistic):
    """Skill of every model against a reference model, [M]."""

    reference: str = "naive"

    def contributions(self, table: ErrorTable) -> np.ndarray:
        """Logarithm of each error ratio, [N, M]."""
        return np.log(error_ratio(table.errors, table.column(self.reference)[:, None]))

    def finish(self, means: np.ndarray) -> np.ndarray:
        """Skill from mean log ratios."""
        return 0.0 - np.expm1(means)


@dataclasses.dataclass(frozen=True)
class PairwiseSkill(MeanStatistic):
    """Skill of every model (row) against every other as reference (column), [M, M]."""

    def contributions(self, table: ErrorTable) -> np.ndarray:
        """Logarithm of the error ratio of every two models, [N, M (M - 1) / 2]."""
        first, second = upper_pairs(len(table.models))
        return np.log(error_ratio(table.errors[:, first], table.errors[:, second]))

    def finish(self, means: np.ndarray) -> np.ndarray:
        """The matrix; the ratio's clip is symmetric, so the other triangle is the reciprocal."""
        return 0.0 - np.expm1(from_pairs(means, -means, 0.0))


def skill_score(errors: np.ndarray, reference: np.ndarray) -> float:
    """Skill of one model: 1 - geometric mean of its clipped error ratios.

    Args:
        errors: [N], at least 0, possibly infinite.
        reference: [N], the same tasks in the same order.

    Returns:
        At most 0.99, at least -99; 0 where errors equal the reference.

    Raises:
        ValueError: no task, shapes that differ, or a NaN.
    """
    errors, reference = np.asarray(errors, np.float64), np.asarray(reference, np.float64)
    if errors.ndim != 1 or errors.shape != reference.shape or not errors.size:
        raise ValueError(
            f"errors: {list(errors.shape)} against a reference of {list(reference.shape)}; "
            "expected the same [N], N at least 1"
        )
    return float(0.0 - np.expm1(np.log(error_ratio(errors, reference)).mean()))


def skill_scores(table: ErrorTable, reference: str = "naive") -> np.ndarray:
    """Skill of every model against a reference model, float64 [M].

    Raises:
        ValueError: the reference is not a model of the table.
    """
    return Skill(reference)(table)


def pairwise_skill_scores(table: ErrorTable) -> np.ndarray:
    """Skill of every model (row) against every other (column), float64 [M, M], diagonal 0."""
    return PairwiseSkill()(table)
