"""The runs of a report as models: one name, one style and one set of tasks each."""

import json
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from .style import Style, styles

__all__ = ["Model", "ReportError", "models_of"]


class ReportError(ValueError):
    """Runs cannot be reported together."""


class Model(NamedTuple):
    """One run as the report shows it."""

    name: str  # unique within the report
    forecaster: str
    version: str
    settings: dict[str, Any]
    scores: pa.Table
    seconds: pa.Table | None
    forecasts: pa.Table | None
    levels: tuple[float, ...]  # of its quantiles; (0.5,) for a point forecast
    point: bool
    task_ids: np.ndarray  # int64 [N], sorted
    sample: bool  # whether it lacks tasks that the suite has
    where: dict[str, list[Any]]  # values that its tasks were chosen by; empty for none
    scored: str  # "all tasks", "sample", or "part" with the conditions
    style: Style


def models_of(runs: Sequence[Any], suite: Any) -> tuple[list[Model], list[str]]:
    """Name the runs, and keep of runs that differ in their tasks alone the one with most tasks.

    Args:
        runs: `eval.results.Run`s of one suite and metric version.
        suite: the suite the runs are of.

    Returns:
        the models, in the order of the runs, and sentences about runs left out.

    Raises:
        ReportError: no run, or runs of another suite.
    """
    if not runs:
        raise ReportError("runs: none; expected at least one complete run")
    largest: dict[tuple[str, str, str], Any] = {}
    notes = []
    for run in runs:
        _check(run, suite)
        key = (run.name, run.version, json.dumps(_settings(run), sort_keys=True))
        kept = largest.get(key)
        if kept is not None:
            run, left_out = sorted((kept, run), key=_whole_first)
            notes.append(
                f"{run.name}: two runs differ in their tasks alone; the one over "
                f"{run.scores.num_rows:,} tasks is shown, not the one over "
                f"{left_out.scores.num_rows:,}."
            )
        largest[key] = run
    chosen = list(largest.values())
    names = _names(chosen)
    style = styles(names)
    whole = np.sort(suite.column("task_id"))
    found = [_model(run, name, style[name], whole) for run, name in zip(chosen, names, strict=True)]
    return found, notes


def _whole_first(run: Any) -> tuple[bool, int]:
    """Samples of the whole suite stand for it; tasks that meet conditions do not."""
    return bool(_where(run.scores)), -run.scores.num_rows


def _check(run: Any, suite: Any) -> None:
    fingerprint = _metadata(run.scores).get("fingerprint")
    expected = suite.whole.fingerprint
    if fingerprint is not None and fingerprint not in (expected, suite.fingerprint):
        raise ReportError(
            f"runs: {run.name} is of a suite with fingerprint {fingerprint[:12]}; expected "
            f"{expected[:12]} ({suite.name})"
        )


def _model(run: Any, name: str, style: Style, whole: np.ndarray) -> Model:
    scores = run.scores.sort_by("task_id")
    ids = scores.column("task_id").to_numpy()
    inside = np.isin(ids, whole)
    if not inside.all():  # the suite given is a part of the one that was run
        scores = scores.filter(pa.array(inside))
        ids = ids[inside]
    if not len(ids):
        raise ReportError(f"runs: {name} has no task of the suite given")
    metadata = _metadata(scores)
    widths = scores.column("coverage").combine_chunks().value_lengths().to_numpy()
    point = metadata.get("point", str(bool(widths.max(initial=1) <= 1))).lower() == "true"
    levels = tuple(json.loads(metadata.get("levels", "[0.1,0.2,0.3,0.4,0.5,0.6,0.7,0.8,0.9]")))
    return Model(
        name=name,
        forecaster=run.name,
        version=run.version,
        settings=_settings(run),
        scores=scores,
        seconds=run.seconds,
        forecasts=run.forecasts,
        levels=(0.5,) if point else levels,
        point=point,
        task_ids=ids,
        sample=len(ids) < len(whole),
        where=_where(run.scores),
        scored=_scored(run.scores, len(ids) < len(whole)),
        style=style,
    )


def _settings(run: Any) -> dict[str, Any]:
    settings = run.settings
    return dict(json.loads(settings) if isinstance(settings, str) else settings or {})


def _where(scores: pa.Table) -> dict[str, list[Any]]:
    return dict(_choice(scores).get("where", {}))


def _scored(scores: pa.Table, lacks: bool) -> str:
    where = _where(scores)
    if not where:
        return "sample" if lacks else "all tasks"
    conditions = "; ".join(f"{axis}={','.join(map(str, values))}" for axis, values in where.items())
    return f"{'sample of part' if 'sample' in _choice(scores) else 'part'}: {conditions}"


def _choice(scores: pa.Table) -> dict[str, Any]:
    """How the tasks of a run were chosen (`eval.sampling.choose`); empty for the whole suite."""
    text = _metadata(scores).get("tasks", "all")
    return {} if text == "all" else dict(json.loads(text))


def _metadata(scores: pa.Table) -> dict[str, str]:
    found = scores.schema.metadata or {}
    return {
        (key.decode() if isinstance(key, bytes) else key): (
            value.decode() if isinstance(value, bytes) else value
        )
        for key, value in found.items()
    }


def _names(runs: list[Any]) -> list[str]:
    """What forecasters call themselves; of the same name, what differs after it."""
    names = [str(run.name) for run in runs]
    for name in sorted({name for name in names if names.count(name) > 1}):
        same = [number for number, other in enumerate(names) if other == name]
        for number in same:
            names[number] = f"{name} ({_difference(runs[number], [runs[one] for one in same])})"
    for number, name in enumerate(names):  # settings that read alike
        if name in names[:number]:
            names[number] = f"{name} #{names[:number].count(name) + 1}"
    return names


def _difference(run: Any, others: list[Any]) -> str:
    settings = _settings(run)
    parts = [
        f"{key}={settings.get(key)}"
        for key in sorted({key for other in others for key in _settings(other)})
        if len({json.dumps(_settings(other).get(key), sort_keys=True) for other in others}) > 1
    ]
    if len({other.version for other in others}) > 1:
        parts.insert(0, f"version {run.version}")
    return ", ".join(parts) or "again"
