"""One forecaster over tasks: what it is asked, what it answers, and how that is scored.

Also the search of scenarios, at which its error is largest or a task meets a goal.

References:
    scores.md, beside this file.
"""

from .declaration import TRAINED_ON, Declaration, DeclarationError, declaration_of
from .evaluate import Evaluation, check_rows, evaluate, evaluate_batch
from .forecaster import BatchInfo, Forecaster, ForecasterError, per_row
from .objectives import forecast_error, reach_path, stay_above, stay_below
from .quantile_loss import quantile_loss
from .scenario import ScenarioPaths, ScenarioSearch, search_scenario
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
    "ScenarioPaths",
    "ScenarioSearch",
    "Scores",
    "TrainedForecaster",
    "check_rows",
    "declaration_of",
    "evaluate",
    "evaluate_batch",
    "forecast_error",
    "per_row",
    "quantile_loss",
    "reach_path",
    "score",
    "score_batch",
    "search_scenario",
    "stay_above",
    "stay_below",
]
