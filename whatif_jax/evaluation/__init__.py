"""One forecaster over tasks: what it is asked, what it answers, and how that is scored.

References:
    scores.md, beside this file.
"""

from .declaration import TRAINED_ON, Declaration, DeclarationError, declaration_of
from .evaluate import Evaluation, check_rows, evaluate, evaluate_batch
from .forecaster import BatchInfo, Forecaster, ForecasterError, per_row
from .quantile_loss import quantile_loss
from .scoring import LEVELS, METRIC_VERSION, Scores, score, score_batch
from .trained import TrainedForecaster

__all__ = [
    "LEVELS",
    "METRIC_VERSION",
    "TRAINED_ON",
    "BatchInfo",
    "Declaration",
    "DeclarationError",
    "Evaluation",
    "Forecaster",
    "ForecasterError",
    "Scores",
    "TrainedForecaster",
    "check_rows",
    "declaration_of",
    "evaluate",
    "evaluate_batch",
    "per_row",
    "quantile_loss",
    "score",
    "score_batch",
]
