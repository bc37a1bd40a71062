"""The public names, by the room that holds them; `__init__.py` loads each on first use."""

from .catalog import (
    CatalogError as CatalogError,
    System as System,
    builtin_systems as builtin_systems,
    describe as describe,
    load_system as load_system,
)
from .comparison import (
    ComparisonError as ComparisonError,
    ErrorTable as ErrorTable,
    bootstrap as bootstrap,
    error_table as error_table,
    leaderboard as leaderboard,
    pairwise_win_rates as pairwise_win_rates,
    skill_by as skill_by,
    skill_scores as skill_scores,
    win_rates as win_rates,
)
from .evaluation import (
    LEVELS as LEVELS,
    METRIC_VERSION as METRIC_VERSION,
    BatchInfo as BatchInfo,
    Evaluation as Evaluation,
    Forecaster as Forecaster,
    ForecasterError as ForecasterError,
    Scores as Scores,
    check_rows as check_rows,
    evaluate as evaluate,
    evaluate_batch as evaluate_batch,
    per_row as per_row,
    score as score,
    score_batch as score_batch,
)
from .plot import plot_task as plot_task
from .suites import (
    ManifestError as ManifestError,
    Suite as Suite,
    TaskBatch as TaskBatch,
    available_suites as available_suites,
    load_suite as load_suite,
)
from .tasks import (
    FUTURES as FUTURES,
    HARD_CASES as HARD_CASES,
    SPLITS as SPLITS,
    Bucket as Bucket,
    ForecastInputs as ForecastInputs,
    ForkedError as ForkedError,
    Prior as Prior,
    RandomisedBatch as RandomisedBatch,
    RandomisedStream as RandomisedStream,
    Sizes as Sizes,
    StreamBatch as StreamBatch,
    StreamError as StreamError,
    Systems as Systems,
    Task as Task,
    TaskSpec as TaskSpec,
    TaskStream as TaskStream,
    Verification as Verification,
    bucket_for as bucket_for,
    inputs_from as inputs_from,
    inputs_of as inputs_of,
    load_prior as load_prior,
    load_systems as load_systems,
    load_training_series as load_training_series,
    realize as realize,
    root_key as root_key,
    sample_spec as sample_spec,
    sample_task as sample_task,
    scale_inputs as scale_inputs,
    training_stream as training_stream,
    verify as verify,
    with_factors as with_factors,
)

__version__: str
