"""From a system to a task: draw numbers, impose responses on a series, check them; and the stream.

Order of the modules, each needing only those before it: events, responses, response_table, systems,
spec, task, verification, keys, draw, stream_config, stream_rows, stream; and inputs and scenario,
after task. Beside them, `forked` serves all.
"""

from .draw import sample_spec, sample_task
from .forked import ForkedError
from .inputs import ForecastInputs, inputs_from, inputs_of, scale_inputs
from .keys import root_key
from .scenario import Scenario, ScenarioTask, scenario_task
from .spec import FUTURES, Bucket, Sizes, TaskSpec, bucket_for, with_factors
from .stream import StreamBatch, StreamError, TaskStream
from .systems import Systems, load_systems
from .task import Task, realize
from .verification import Verification, verify

__all__ = [
    "FUTURES",
    "Bucket",
    "ForecastInputs",
    "ForkedError",
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
    "load_systems",
    "realize",
    "root_key",
    "sample_spec",
    "sample_task",
    "scale_inputs",
    "scenario_task",
    "verify",
    "with_factors",
]
