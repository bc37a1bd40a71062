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
from typing import Any

import pyarrow as pa
import pyarrow.parquet as parquet

from whatif_jax.files import explained

__all__ = [
    "RUN_FILE",
    "Identity",
    "ResultsError",
    "Run",
    "canonical",
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
LAYOUT = 1
_SECRET = re.compile(r"(^|_)(key|token|secret|password|passwd|credentials?|authorization)$", re.I)


class ResultsError(RuntimeError):
    """Results cannot be written or continued, or are not those that were asked for."""


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
    found = table.schema.metadata or {}
    return {key.decode(): value.decode() for key, value in found.items() if key != b"ARROW:schema"}


def read_table(path: Path) -> pa.Table:
    """Read a parquet file of a run.

    Raises:
        ResultsError: missing, or not a parquet file.
    """
    if not path.is_file():
        raise ResultsError(f"results: {path} is missing")
    with explained(ResultsError, "results", path):
        try:
            return parquet.read_table(path, partitioning=None).combine_chunks()
        except pa.ArrowException as error:
            raise ResultsError(f"results: {path} is not a parquet file: {error}") from None


def read_run_file(folder: Path) -> dict[str, Any]:
    """Read `run.json` of a folder.

    Raises:
        ResultsError: missing, or not what a run writes there.
    """
    path = folder / RUN_FILE
    try:
        with explained(ResultsError, "results", path):
            found = json.loads(path.read_text("utf-8"))
        if found["layout"] != LAYOUT:
            raise ResultsError(
                f"layout: {path} has {found['layout']!r}; expected {LAYOUT}: written by another "
                f"version of this program"
            )
        found["metadata"] = {str(k): str(v) for k, v in found["metadata"].items()}
        found["complete"] = bool(found["complete"])
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise ResultsError(f"results: {path}: not what a run writes there ({error!r})") from error
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
        ResultsError: not a finished run, or one whose files do not belong together.
    """
    folder = Path(folder)
    about = read_run_file(folder)
    if not about["complete"]:
        raise ResultsError(f"results: {folder} is not complete; run it again to go on")
    scores, seconds = read_table(folder / SCORES_FILE), read_table(folder / SECONDS_FILE)
    forecasts = None
    if (folder / FORECASTS_FILE).is_file():
        forecasts = read_table(folder / FORECASTS_FILE)
    metadata = about["metadata"]
    for name, table in (
        (SCORES_FILE, scores),
        (SECONDS_FILE, seconds),
        (FORECASTS_FILE, forecasts),
    ):
        if table is not None:
            refuse_other(folder / name, metadata_of(table), metadata)
    if scores.column("task_id") != seconds.column("task_id"):
        raise ResultsError(f"results: {folder}: {SCORES_FILE} and {SECONDS_FILE} hold other tasks")
    return Run(
        name=metadata["forecaster"],
        version=metadata["version"],
        settings=json.loads(metadata["settings"]),
        folder=folder,
        scores=scores,
        seconds=seconds,
        forecasts=forecasts,
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
