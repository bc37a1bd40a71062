"""The files of a run: their names, reading them, and telling which are damaged."""

import json
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as compute
import pyarrow.parquet as parquet
from pydantic import BaseModel, ConfigDict, Json

from whatif_jax.evaluation.declaration import Declaration, declaration_of
from whatif_jax.files import explained

__all__ = [
    "FORECASTS_FILE",
    "FORECASTS_SCHEMA",
    "LAYOUT",
    "PARTS",
    "RUN_FILE",
    "SCORES_FILE",
    "SECONDS_FILE",
    "DamagedRunError",
    "ResultsError",
    "broken_rows",
    "declared_in",
    "metadata_of",
    "read_run_file",
    "read_table",
    "refuse_folder",
    "refuse_other",
]

RUN_FILE = "run.json"
SCORES_FILE = "scores.parquet"
SECONDS_FILE = "seconds.parquet"
FORECASTS_FILE = "forecasts.parquet"
PARTS = "parts"
# Raised whenever these files change for the same scores.
LAYOUT = 2
FORECASTS_SCHEMA = pa.schema(
    [("task_id", pa.int64()), ("quantiles", pa.list_(pa.list_(pa.float32())))]
)


class ResultsError(RuntimeError):
    """Results cannot be written or continued, or are not those that were asked for."""


class DamagedRunError(ResultsError):
    """A file of a run is missing or broken. The message says that there is a way out.

    Args:
        path: the file.
        fault: what is wrong with it, to follow its name.
    """

    def __init__(self, path: Path, fault: str):
        super().__init__(
            f"results: {path} {fault}; running the same `python -m eval run` command once more "
            f"makes it whole"
        )
        self.path = path


def metadata_of(table: pa.Table) -> dict[str, str]:
    """Schema metadata as texts, without what libraries add for themselves."""
    return {
        key.decode(errors="replace"): value.decode(errors="replace")
        for key, value in (table.schema.metadata or {}).items()
        if key != b"ARROW:schema"
    }


def refuse_folder(path: Path) -> None:
    """Refuse a folder where a file of a run lies: no other run can replace it.

    Raises:
        ResultsError: it is a folder.
    """
    if path.is_dir():
        raise ResultsError(
            f"results: {path} is a folder; expected a file: remove it and run the same command "
            f"again"
        )


def read_table(path: Path, schema: pa.Schema) -> pa.Table:
    """Read a parquet file of a run. Its values are left to `broken_rows`.

    Raises:
        DamagedRunError: missing, no parquet file, of other columns, or tasks not in order.
        ResultsError: a folder, or the operating system does not let it be read.
    """
    refuse_folder(path)
    if not path.is_file():
        raise DamagedRunError(path, "is missing")
    try:
        table = parquet.read_table(path, partitioning=None, page_checksum_verification=True)
    except (pa.ArrowException, OSError, ValueError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            with explained(ResultsError, "results", path):
                raise
        said = " ".join(str(error).split())
        raise DamagedRunError(path, f"is not a parquet file that can be read ({said})") from None
    if not table.schema.remove_metadata().equals(schema):
        columns = ", ".join(f"{field.name} {field.type}" for field in schema)
        raise DamagedRunError(path, f"holds other columns than {columns}")
    table = table.combine_chunks()
    ids = table.column("task_id").to_numpy()
    if not (np.diff(ids) > 0).all() or table.column("task_id").null_count:
        raise DamagedRunError(path, "does not hold each task once, by ascending task_id")
    return table


def broken_rows(table: pa.Table) -> np.ndarray:
    """Which rows [n] of a file of a run hold a value that no run writes.

    Nothing is NaN or null but a direction accuracy without steps; nothing but forecasts is below 0.
    Infinite errors are whole.
    """
    broken = np.zeros(len(table), bool)
    for name in table.column_names:
        column = table.column(name).combine_chunks()
        if name == "direction_accuracy":
            column = column.fill_null(0.0)
        broken |= _broken(column, signed=name == "quantiles")
    return broken


def _broken(values: pa.Array, *, signed: bool) -> np.ndarray:
    broken = values.is_null(nan_is_null=True).to_numpy(zero_copy_only=False)
    if pa.types.is_list(values.type):
        lengths = values.value_lengths().fill_null(0).to_numpy(zero_copy_only=False)
        inner = compute.list_flatten(values)
        # lists of numbers are as long as the levels, in all rows
        longest = 1 if pa.types.is_list(inner.type) else lengths.max(initial=1)
        broken = broken | (lengths < longest)
        owners = compute.list_parent_indices(values).to_numpy(zero_copy_only=False)
        broken[owners[_broken(inner, signed=signed)]] = True
    elif not signed and not pa.types.is_boolean(values.type):
        broken = broken | compute.less(values, 0).fill_null(True).to_numpy(zero_copy_only=False)
    return broken


class _Record(BaseModel):
    model_config = ConfigDict(strict=True, extra="allow")


class _Metadata(_Record):
    suite: str
    fingerprint: str
    metric_version: str
    forecaster: str
    version: str
    settings: Json[dict[str, Any]]
    levels: Json[list[float]]
    tasks: Literal["all"] | Json[dict[str, Any]]


class _Declared(_Record):
    trained_on: str
    training: dict[str, Any]
    informed: str


class _RunFile(_Record):
    """What is read of `run.json`; the rest is for people."""

    metadata: _Metadata
    declared: _Declared | None = None  # runs of before did not ask
    batch_size: int
    keep_forecasts: int
    batches: int
    task_count: int
    forecast_count: int
    complete: bool


def read_run_file(folder: Path) -> dict[str, Any]:
    """Read `run.json` of a folder.

    Raises:
        DamagedRunError: missing, or not what a run writes there.
        ResultsError: another version of this program wrote it, it is a folder, or it cannot be
            read.
    """
    path = folder / RUN_FILE
    refuse_folder(path)
    if not path.is_file():
        raise DamagedRunError(path, "is missing")
    try:
        with explained(ResultsError, "results", path):
            found = json.loads(path.read_text("utf-8"))
        layout = found["layout"]
        if layout == LAYOUT:
            _RunFile.model_validate(found)
            declared_in(found)
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        said = " ".join(str(error).split())[:200]
        raise DamagedRunError(path, f"is not what a run writes there ({said})") from error
    if layout != LAYOUT:
        raise ResultsError(
            f"layout: {path} has {layout!r}; expected {LAYOUT}: written by another version of "
            f"this program"
        )
    return found


def declared_in(about: Mapping[str, Any]) -> Declaration:
    """What the forecaster of a run declared, by its `run.json`; unknown where it was not asked.

    Raises:
        DeclarationError: what no forecaster may declare.
    """
    return declaration_of(SimpleNamespace(**(about.get("declared") or {})))


def refuse_other(path: Path, found: Mapping[str, str], expected: Mapping[str, str | None]) -> None:
    """Refuse results that are not of the expected suite, metric version, and so on.

    Args:
        path: what was read.
        found: what it says of itself.
        expected: names and values; None is any.

    Raises:
        DamagedRunError: it lacks an expected name: another program wrote the file again.
        ResultsError: names the file, the first name that differs, and both values.
    """
    asked = {name: value for name, value in expected.items() if value is not None}
    for name, value in asked.items():
        if found.get(name, value) != value:
            raise ResultsError(
                f"{name}: {path} holds results of {found[name]!r}; expected {value!r}"
            )
    for name in asked:
        if name not in found:
            raise DamagedRunError(path, f"does not say its {name}")
