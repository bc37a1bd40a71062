"""From errors of many models on the same tasks to skill, win rates, intervals and groups.

All of it is float64 NumPy on the host; only the draws of the bootstrap come from `jax.random`.

References:
    SPEC §7.
"""

from .bootstrap import Interval, bootstrap, bootstrap_all
from .groups import (
    FewestMost,
    GroupedSkill,
    Trend,
    fewest_most,
    group_by,
    log2_trend,
    nominal_contexts,
    replay_novel_gap,
    skill_by,
)
from .leaderboard import leaderboard
from .skill import PairwiseSkill, Skill, pairwise_skill_scores, skill_score, skill_scores
from .statistic import MeanStatistic
from .table import METRICS, ComparisonError, ErrorTable, error_table
from .win_rate import PairwiseWinRate, WinRate, pairwise_win_rates, win_rates

__all__ = [
    "METRICS",
    "ComparisonError",
    "ErrorTable",
    "FewestMost",
    "GroupedSkill",
    "Interval",
    "MeanStatistic",
    "PairwiseSkill",
    "PairwiseWinRate",
    "Skill",
    "Trend",
    "WinRate",
    "bootstrap",
    "bootstrap_all",
    "error_table",
    "fewest_most",
    "group_by",
    "leaderboard",
    "log2_trend",
    "nominal_contexts",
    "pairwise_skill_scores",
    "pairwise_win_rates",
    "replay_novel_gap",
    "skill_by",
    "skill_score",
    "skill_scores",
    "win_rates",
]
