"""From a system to a task: draw numbers, impose responses on a series, check them; and the stream.

Order of the modules, each needing only those before it: events, responses, response_table, systems,
spec, task, verification, keys, draw, stream_fields, stream_config, stream_rows, stream, the package
`randomised`, training_stream; and inputs and scenario, after task. For other loaders:
stream_arrays, then torch_source and grain_source. Beside them, `forked` serves all.
"""

from .draw import sample_spec, sample_task
from .forked import ForkedError
from .inputs import ForecastInputs, inputs_from, inputs_of, scale_inputs
from .keys import root_key
from .randomised import (
    HARD_CASES,
    Prior,
    RandomisedBatch,
    RandomisedStream,
    load_prior,
    load_training_series,
)
from .scenario import Scenario, ScenarioTask, scenario_task
from .spec import FUTURES, Bucket, Sizes, TaskSpec, bucket_for, with_factors
from .stream import StreamBatch, StreamError, TaskStream
from .systems import Systems, load_systems
from .task import Task, realize
from .training_stream import SPLITS, training_stream
from .verification import Verification, verify

__all__ = [
    "FUTURES",
    "HARD_CASES",
    "SPLITS",
    "Bucket",
    "ForecastInputs",
    "ForkedError",
    "Prior",
    "RandomisedBatch",
    "RandomisedStream",
    "Scenario",
    "ScenarioTask",
    "Sizes",
    "StreamBatch",
    "StreamError",
    "Systems",
    "Task",
    "TaskSpec",
    "TaskStream",
    "Verification",
    "bucket_for",
    "inputs_from",
    "inputs_of",
    "load_prior",
    "load_systems",
    "load_training_series",
    "realize",
    "root_key",
    "sample_spec",
    "sample_task",
    "scale_inputs",
    "scenario_task",
    "training_stream",
    "verify",
    "with_factors",
]
