"""One forecaster over tasks: what it is asked, what it answers, and how that is scored.

References:
    scores.md, beside this file.
"""

from .evaluate import Evaluation, check_rows, evaluate, evaluate_batch
from .forecaster import BatchInfo, Forecaster, ForecasterError, per_row
from .scoring import LEVELS, METRIC_VERSION, Scores, score, score_batch

__all__ = [
    "LEVELS",
    "METRIC_VERSION",
    "BatchInfo",
    "Evaluation",
    "Forecaster",
    "ForecasterError",
    "Scores",
    "check_rows",
    "evaluate",
    "evaluate_batch",
    "per_row",
    "score",
    "score_batch",
]
