"""The files of results: what a run is keyed by, its folder, and reading finished runs.

A run lies in `<results>/<suite>-<fingerprint>/metrics-v<version>/<forecaster>-<version>-<key>/`:
`run.json` (what was run, where, and whether it is complete), `parts/` while it runs, and at the
end `scores.parquet`, `seconds.parquet` and `forecasts.parquet`. Scores of another suite or of
another version of the metrics are never mixed: they lie elsewhere and are refused by name.
"""

import dataclasses
import hashlib
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as parquet
from pydantic import BaseModel, ConfigDict, Json

from whatif_jax.evaluation.evaluate import SCORES_SCHEMA, SECONDS_SCHEMA
from whatif_jax.files import explained

__all__ = [
    "FORECASTS_SCHEMA",
    "RUN_FILE",
    "DamagedRunError",
    "Identity",
    "ResultsError",
    "Run",
    "canonical",
    "damaged",
    "load_results",
    "load_run",
    "metric_folder",
    "public_settings",
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
_SECRET = re.compile(r"(^|_)(key|token|secret|password|passwd|credentials?|authorization)$", re.I)


class ResultsError(RuntimeError):
    """Results cannot be written or continued, or are not those that were asked for."""


class DamagedRunError(ResultsError):
    """A file of a run is missing or broken: see `damaged`."""


def damaged(path: Path, fault: str) -> DamagedRunError:
    """The error that names a file and its fault, and says that there is a way out."""
    return DamagedRunError(
        f"results: {path} {fault}; running the same `python -m eval run` command once more makes "
        f"it whole"
    )


@dataclasses.dataclass(frozen=True)
class Run:
    """One finished run of a forecaster.

    Attributes:
        name: of the forecaster.
        version: of the forecaster.
        settings: of the forecaster; JSON values.
        folder: where it lies.
        scores: one row a task, sorted by `task_id`: `task_id`, `wql`, `wape`, `mase`, `rmse`,
            `coverage`, `direction_accuracy`, `effect_size_error`, `imputed`, `crossings`.
        seconds: `task_id`, `seconds` that the forecaster took a series.
        forecasts: `task_id`, `quantiles` [H][Q] of the tasks whose forecasts were kept; None
            where none were.
        metadata: schema metadata of `scores`: `suite`, `fingerprint`, `metric_version`,
            `forecaster`, `version`, `settings`, `levels`, `point`, `tasks`; values are texts.
    """

    name: str
    version: str
    settings: dict[str, Any]
    folder: Path
    scores: pa.Table
    seconds: pa.Table
    forecasts: pa.Table | None
    metadata: dict[str, str]


def canonical(value: Any) -> str:
    """A JSON value as the one text that equal values share.

    Raises:
        ResultsError: it is no JSON value.
    """
    try:
        return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)
    except (TypeError, ValueError) as error:
        raise ResultsError(f"settings: {value!r}: {error}; expected JSON values") from None


def public_settings(settings: Any) -> Any:
    """Settings without what must not be written to a file: keys, tokens, passwords."""
    if isinstance(settings, Mapping):
        return {
            str(name): public_settings(value)
            for name, value in settings.items()
            if not _SECRET.search(str(name).replace("-", "_"))
        }
    if isinstance(settings, list | tuple):
        return [public_settings(value) for value in settings]
    if isinstance(settings, str):  # a password within an address
        return re.sub(r"//[^/@\s]+@", "//", settings)
    return settings


def _file_name(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9.+_-]+", "_", text) or "_"


def metric_folder(root: Path, suite: str, fingerprint: str, metric_version: str) -> Path:
    """Where runs on one suite under one version of the metrics lie."""
    return root / f"{_file_name(suite)}-{fingerprint[:12]}" / f"metrics-v{metric_version}"


@dataclasses.dataclass(frozen=True)
class Identity:
    """What makes two runs the same one."""

    suite: str
    fingerprint: str  # of the whole suite, whatever tasks of it are run
    metric_version: str
    forecaster: str
    version: str
    settings: dict[str, Any]  # public ones, JSON values
    levels: tuple[float, ...]
    tasks: str | dict[str, Any]  # "all", or the conditions and the sample that chose them

    def metadata(self) -> dict[str, str]:
        """What every file of the run says of itself."""
        return {
            "suite": self.suite,
            "fingerprint": self.fingerprint,
            "metric_version": self.metric_version,
            "forecaster": self.forecaster,
            "version": self.version,
            "settings": canonical(self.settings),
            "levels": json.dumps(list(self.levels)),
            "tasks": self.tasks if isinstance(self.tasks, str) else canonical(self.tasks),
        }

    def folder(self, root: Path) -> Path:
        """The folder of the run below a folder of results."""
        key = hashlib.sha256(canonical([self.settings, self.tasks]).encode()).hexdigest()[:8]
        name = f"{_file_name(self.forecaster)}-{_file_name(self.version)}-{key}"
        return metric_folder(root, self.suite, self.fingerprint, self.metric_version) / name


def metadata_of(table: pa.Table) -> dict[str, str]:
    """Schema metadata as texts, without what libraries add for themselves."""
    return {
        key.decode(errors="replace"): value.decode(errors="replace")
        for key, value in (table.schema.metadata or {}).items()
        if key != b"ARROW:schema"
    }


def read_table(path: Path, schema: pa.Schema) -> pa.Table:
    """Read a parquet file of a run.

    Raises:
        DamagedRunError: missing, no parquet file, of other columns, or tasks not in order.
        ResultsError: the operating system does not let it be read.
    """
    if not path.is_file():
        raise damaged(path, "is missing")
    try:
        table = parquet.read_table(path, partitioning=None, page_checksum_verification=True)
    except (pa.ArrowException, OSError, ValueError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            with explained(ResultsError, "results", path):
                raise
        said = " ".join(str(error).split())
        raise damaged(path, f"is not a parquet file that can be read ({said})") from None
    if not table.schema.remove_metadata().equals(schema):
        columns = ", ".join(f"{field.name} {field.type}" for field in schema)
        raise damaged(path, f"holds other columns than {columns}")
    table = table.combine_chunks()
    ids = table.column("task_id").to_numpy()
    if not (np.diff(ids) > 0).all() or table.column("task_id").null_count:
        raise damaged(path, "does not hold each task once, by ascending task_id")
    return table


class _Record(BaseModel):
    model_config = ConfigDict(strict=True, extra="allow")


class _Metadata(_Record):
    suite: str
    fingerprint: str
    metric_version: str
    forecaster: str
    version: str
    settings: Json[dict[str, Any]]
    tasks: Literal["all"] | Json[dict[str, Any]]


class _RunFile(_Record):
    """What is read of `run.json`; the rest is for people."""

    metadata: _Metadata
    batches: int
    task_count: int
    forecast_count: int
    complete: bool


def read_run_file(folder: Path) -> dict[str, Any]:
    """Read `run.json` of a folder.

    Raises:
        DamagedRunError: missing, or not what a run writes there.
        ResultsError: another version of this program wrote it, or it cannot be read.
    """
    path = folder / RUN_FILE
    if not path.is_file():
        raise damaged(path, "is missing")
    try:
        with explained(ResultsError, "results", path):
            found = json.loads(path.read_text("utf-8"))
        layout = found["layout"]
        if layout == LAYOUT:
            _RunFile.model_validate(found)
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        said = " ".join(str(error).split())[:200]
        raise damaged(path, f"is not what a run writes there ({said})") from error
    if layout != LAYOUT:
        raise ResultsError(
            f"layout: {path} has {layout!r}; expected {LAYOUT}: written by another version of "
            f"this program"
        )
    return found


def refuse_other(path: Path, found: Mapping[str, str], expected: Mapping[str, str | None]) -> None:
    """Refuse results that are not of the expected suite, metric version, and so on.

    Args:
        path: what was read.
        found: what it says of itself.
        expected: names and values; None is any.

    Raises:
        ResultsError: names the file, the first name that differs, and both values.
    """
    for name, value in expected.items():
        if value is not None and found.get(name) != value:
            raise ResultsError(
                f"{name}: {path} holds results of {found.get(name)!r}; expected {value!r}"
            )


def load_run(folder: str | Path) -> Run:
    """Read one finished run.

    Raises:
        DamagedRunError: a file is missing or broken, or holds other rows than `run.json` says.
        ResultsError: not a finished run, or one whose files do not belong together.
    """
    folder = Path(folder)
    about = read_run_file(folder)
    if not about["complete"]:
        raise ResultsError(f"results: {folder} is not complete; run it again to go on")
    tables, metadata = {}, about["metadata"]
    for name, schema, count in (
        (SCORES_FILE, SCORES_SCHEMA, about["task_count"]),
        (SECONDS_FILE, SECONDS_SCHEMA, about["task_count"]),
        (FORECASTS_FILE, FORECASTS_SCHEMA, about["forecast_count"]),
    ):
        if name == FORECASTS_FILE and not count:
            continue
        tables[name] = read_table(folder / name, schema)
        refuse_other(folder / name, metadata_of(tables[name]), metadata)
        if len(tables[name]) != count:
            rows = f"holds {len(tables[name]):,} rows; expected {count:,} as {RUN_FILE} says"
            raise damaged(folder / name, rows)
    scores = tables[SCORES_FILE]
    for name, table in tables.items():
        if not np.isin(table.column("task_id"), scores.column("task_id")).all():
            raise damaged(folder / name, f"holds other tasks than {SCORES_FILE}")
    return Run(
        name=metadata["forecaster"],
        version=metadata["version"],
        settings=json.loads(metadata["settings"]),
        folder=folder,
        scores=scores,
        seconds=tables[SECONDS_FILE],
        forecasts=tables.get(FORECASTS_FILE),
        metadata=metadata_of(scores),
    )


def load_results(
    folder: str | Path,
    *,
    suite: str | None = None,
    fingerprint: str | None = None,
    metric_version: str | None = None,
) -> list[Run]:
    """Read every finished run below a folder, sorted by name; unfinished ones are left out.

    Args:
        folder: a folder of results, or one below it.
        suite: name of the suite that is expected; None takes that of the first run.
        fingerprint: fingerprint of the whole suite that is expected; None as above.
        metric_version: version of the metrics that is expected; None as above.

    Where all three are given and `folder` has the sub-folder that they name, only that is read.

    Raises:
        ResultsError: there is no such folder; a run is of another suite or metric version (named);
            or its files do not belong together.
    """
    folder = Path(folder)
    if not folder.is_dir():
        raise ResultsError(
            f"results: {folder} is no folder; expected one that `python -m eval run` wrote"
        )
    if suite is not None and fingerprint is not None and metric_version is not None:
        inner = metric_folder(folder, suite, fingerprint, metric_version)
        folder = inner if inner.is_dir() else folder
    expected = {"suite": suite, "fingerprint": fingerprint, "metric_version": metric_version}
    runs = []
    for path in sorted(folder.rglob(RUN_FILE)):
        about = read_run_file(path.parent)
        refuse_other(path, about["metadata"], expected)
        expected = {name: about["metadata"].get(name) for name in expected}
        if about["complete"]:
            runs.append(load_run(path.parent))
    return sorted(runs, key=lambda run: (run.name, run.version, str(run.folder)))
