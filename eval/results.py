"""Results: what a run is keyed by, its folder, and reading finished runs.

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

import numpy as np
import pyarrow as pa

from whatif_jax.evaluation.declaration import Declaration
from whatif_jax.evaluation.evaluate import SCORES_SCHEMA, SECONDS_SCHEMA

from .run_files import (
    FORECASTS_FILE,
    FORECASTS_SCHEMA,
    RUN_FILE,
    SCORES_FILE,
    SECONDS_FILE,
    DamagedRunError,
    ResultsError,
    broken_rows,
    declared_in,
    metadata_of,
    read_run_file,
    read_table,
    refuse_other,
)

__all__ = [
    "Identity",
    "Run",
    "canonical",
    "load_results",
    "load_run",
    "metric_folder",
    "public_settings",
]

_SECRET = re.compile(r"(^|_)(key|token|secret|password|passwd|credentials?|authorization)$", re.I)


UNKNOWN = Declaration()  # of a run whose forecaster was not asked


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
        declared: what the forecaster says that it was trained on and told.
    """

    name: str
    version: str
    settings: dict[str, Any]
    folder: Path
    scores: pa.Table
    seconds: pa.Table
    forecasts: pa.Table | None
    metadata: dict[str, str]
    declared: Declaration = UNKNOWN


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
            raise DamagedRunError(folder / name, rows)
        for row in np.flatnonzero(broken_rows(tables[name]))[:1].tolist():
            task = tables[name].column("task_id")[row]
            raise DamagedRunError(folder / name, f"holds values of task {task} that no run writes")
    scores = tables[SCORES_FILE]
    for name, table in tables.items():
        if not np.isin(table.column("task_id"), scores.column("task_id")).all():
            raise DamagedRunError(folder / name, f"holds other tasks than {SCORES_FILE}")
    return Run(
        name=metadata["forecaster"],
        version=metadata["version"],
        settings=json.loads(metadata["settings"]),
        folder=folder,
        scores=scores,
        seconds=tables[SECONDS_FILE],
        forecasts=tables.get(FORECASTS_FILE),
        metadata=metadata_of(scores),
        declared=declared_in(about),
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
