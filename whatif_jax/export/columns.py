"""What every exported column is: name, type and meaning, for schemas, Croissant and the card.

References:
    whatif-v1.md §8.
"""

from collections.abc import Iterable
from typing import NamedTuple

import pyarrow as pa

from ..suites import SCHEMA

__all__ = ["ARRAYS", "KIND", "MANIFEST", "Column", "from_manifest", "schema_of"]


class Column(NamedTuple):
    """One column of an exported table."""

    name: str
    type: pa.DataType
    description: str


_MEANING = {
    "task_id": "number of the task in its suite, from 0",
    "pair_id": "the Replay and the Novel task of one history share it",
    "system": "system the series comes from",
    "target": "name of the target within its system",
    "k": "number of covariates that the events act on",
    "context_pair": "name of its pair of context and horizon lengths",
    "context": "steps of the history",
    "horizon": "steps of the future",
    "event_length": "steps of every event in the history",
    "n_events": "events in the history",
    "setting": "fewest or most events that the context is made for",
    "future": "replay (factors of a past event) or novel (factors beyond all past ones)",
    "window_start": "baseline step of the first step of the history",
    "event_starts": "first step of every event, counted from the start of the history",
    "covariates": "names of the covariates, primary first",
    "factors": "factor of each covariate in each event of the history [n_events][k]",
    "future_factors": "factor of each covariate in the future [k]",
}

# The manifest's `future` is the kind of future; in a row that name is the array's.
KIND = "future_kind"

# The columns of a suite's manifest, under their exported names.
MANIFEST = tuple(
    Column(KIND if field.name == "future" else field.name, field.type, _MEANING[field.name])
    for field in SCHEMA
)

_FLOATS = pa.list_(pa.float32())

# The arrays of a task.
ARRAYS = (
    Column("history", _FLOATS, "the target with its past events, in its own unit [context]"),
    Column("future", _FLOATS, "the target under the future event: what to forecast [horizon]"),
    Column(
        "future_baseline",
        _FLOATS,
        "what the target would have been without the future event; never an input [horizon]",
    ),
    Column(
        "history_covariates",
        pa.list_(_FLOATS),
        "base value x factor of each covariate, in its own unit [k][context]",
    ),
    Column(
        "future_covariates",
        pa.list_(_FLOATS),
        "base value x factor of each covariate, in its own unit [k][horizon]",
    ),
)


def schema_of(columns: Iterable[Column]) -> pa.Schema:
    """The Arrow schema of some columns."""
    return pa.schema([(column.name, column.type) for column in columns])


def from_manifest(table: pa.Table, column: Column) -> pa.ChunkedArray:
    """A column of a manifest by its exported name."""
    return table.column({KIND: "future", "target_name": "target"}.get(column.name, column.name))
