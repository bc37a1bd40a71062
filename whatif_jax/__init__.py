"""whatif_jax: does a forecaster use covariates well at values it has never seen?

The public names load on first use, so that `import whatif_jax` imports neither JAX nor pyarrow and
starts no backend.
"""

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .aggregation import (
        ComparisonError,
        ErrorTable,
        bootstrap,
        error_table,
        leaderboard,
        pairwise_win_rates,
        skill_by,
        skill_scores,
        win_rates,
    )
    from .baselines import BaselineError, Baselines, load_baselines
    from .catalog import CatalogError, System, builtin_systems, describe, load_system, system
    from .evaluation import Evaluation, check_rows, evaluate, evaluate_batch, plan
    from .forecasting import BatchInfo, Forecaster, ForecasterError, per_row
    from .sampling import bucket_for, root_key, sample_spec
    from .scoring import LEVELS, METRIC_VERSION, Scores, score, score_batch
    from .stream import StreamBatch, StreamError, TaskStream
    from .suites import ManifestError, Suite, TaskBatch, available_suites, load_suite
    from .tasks import FUTURES, Bucket, Task, TaskSpec, realize
    from .verification import Verification, verify

_HOMES = {
    "aggregation": (
        "ComparisonError",
        "ErrorTable",
        "bootstrap",
        "error_table",
        "leaderboard",
        "pairwise_win_rates",
        "skill_by",
        "skill_scores",
        "win_rates",
    ),
    "baselines": ("BaselineError", "Baselines", "load_baselines"),
    "catalog": (
        "CatalogError",
        "System",
        "builtin_systems",
        "describe",
        "load_system",
        "system",
    ),
    "evaluation": ("Evaluation", "check_rows", "evaluate", "evaluate_batch", "plan"),
    "forecasting": ("BatchInfo", "Forecaster", "ForecasterError", "per_row"),
    "sampling": ("bucket_for", "root_key", "sample_spec"),
    "scoring": ("LEVELS", "METRIC_VERSION", "Scores", "score", "score_batch"),
    "stream": ("StreamBatch", "StreamError", "TaskStream"),
    "suites": ("ManifestError", "Suite", "TaskBatch", "available_suites", "load_suite"),
    "tasks": ("FUTURES", "Bucket", "Task", "TaskSpec", "realize"),
    "verification": ("Verification", "verify"),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

__version__ = "0.1.0"

__all__ = [
    "FUTURES",
    "LEVELS",
    "METRIC_VERSION",
    "BaselineError",
    "Baselines",
    "BatchInfo",
    "Bucket",
    "CatalogError",
    "ComparisonError",
    "ErrorTable",
    "Evaluation",
    "Forecaster",
    "ForecasterError",
    "ManifestError",
    "Scores",
    "StreamBatch",
    "StreamError",
    "Suite",
    "System",
    "Task",
    "TaskBatch",
    "TaskSpec",
    "TaskStream",
    "Verification",
    "__version__",
    "available_suites",
    "bootstrap",
    "bucket_for",
    "builtin_systems",
    "check_rows",
    "describe",
    "error_table",
    "evaluate",
    "evaluate_batch",
    "leaderboard",
    "load_baselines",
    "load_suite",
    "load_system",
    "pairwise_win_rates",
    "per_row",
    "plan",
    "realize",
    "root_key",
    "sample_spec",
    "score",
    "score_batch",
    "skill_by",
    "skill_scores",
    "system",
    "verify",
    "win_rates",
]


def __getattr__(name: str):
    if name not in _HOME_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f"{__name__}.{_HOME_OF[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
