"""From errors of many models on the same tasks to skill, win rates, intervals and groups.

All of it is float64 NumPy on the host; only the draws of the bootstrap come from `jax.random`.

References:
    evaluation/scores.md.
"""

from .bootstrap import Interval, bootstrap, bootstrap_all
from .error_table import METRICS, ComparisonError, ErrorTable, error_table
from .groups import (
    FewestMost,
    GroupedSkill,
    Trend,
    fewest_most,
    log2_trend,
    nominal_contexts,
    skill_by,
)
from .leaderboard import leaderboard
from .skill import skill_differences, skill_scores
from .win_rate import pairwise_win_rates, win_rates

__all__ = [
    "METRICS",
    "ComparisonError",
    "ErrorTable",
    "FewestMost",
    "GroupedSkill",
    "Interval",
    "Trend",
    "bootstrap",
    "bootstrap_all",
    "error_table",
    "fewest_most",
    "leaderboard",
    "log2_trend",
    "nominal_contexts",
    "pairwise_win_rates",
    "skill_by",
    "skill_differences",
    "skill_scores",
    "win_rates",
]
