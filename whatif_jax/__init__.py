"""whatif_jax: does a forecaster use covariates well at values it has never seen?

The public names load on first use, so that `import whatif_jax` imports neither JAX nor pyarrow and
starts no backend.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .catalog import (
        CatalogError,
        System,
        builtin_systems,
        describe,
        load_system,
    )
    from .comparison import (
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
    from .evaluation import (
        LEVELS,
        METRIC_VERSION,
        BatchInfo,
        Evaluation,
        Forecaster,
        ForecasterError,
        Scores,
        check_rows,
        evaluate,
        evaluate_batch,
        per_row,
        score,
        score_batch,
    )
    from .suites import (
        ManifestError,
        Suite,
        TaskBatch,
        available_suites,
        load_suite,
    )
    from .tasks import (
        FUTURES,
        Bucket,
        Sizes,
        StreamBatch,
        StreamError,
        Systems,
        Task,
        TaskSpec,
        TaskStream,
        Verification,
        bucket_for,
        load_systems,
        realize,
        root_key,
        sample_spec,
        sample_task,
        verify,
    )

_ROOMS = {
    "catalog": (
        "CatalogError",
        "System",
        "builtin_systems",
        "describe",
        "load_system",
    ),
    "tasks": (
        "FUTURES",
        "Bucket",
        "Sizes",
        "StreamBatch",
        "StreamError",
        "Systems",
        "Task",
        "TaskSpec",
        "TaskStream",
        "Verification",
        "bucket_for",
        "load_systems",
        "realize",
        "root_key",
        "sample_spec",
        "sample_task",
        "verify",
    ),
    "suites": (
        "ManifestError",
        "Suite",
        "TaskBatch",
        "available_suites",
        "load_suite",
    ),
    "evaluation": (
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
    ),
    "comparison": (
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
}
_ROOM_OF = {name: room for room, names in _ROOMS.items() for name in names}

__version__ = "0.1.0"

__all__ = [
    "FUTURES",
    "LEVELS",
    "METRIC_VERSION",
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
    "Sizes",
    "StreamBatch",
    "StreamError",
    "Suite",
    "System",
    "Systems",
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
    "load_suite",
    "load_system",
    "load_systems",
    "pairwise_win_rates",
    "per_row",
    "realize",
    "root_key",
    "sample_spec",
    "sample_task",
    "score",
    "score_batch",
    "skill_by",
    "skill_scores",
    "verify",
    "win_rates",
]


def __getattr__(name: str) -> Any:
    if name not in _ROOM_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f"{__name__}.{_ROOM_OF[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
