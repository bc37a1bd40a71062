"""The runs of a report as models: one name and one set of tasks each."""

import dataclasses
import json
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import polars as pl
import pyarrow as pa

from whatif_jax import Suite

from ..results import Run
from .labels import INFORMED_MARK

__all__ = ["Model", "ReportError", "models_of"]


class ReportError(ValueError):
    """Runs cannot be reported together."""


class Model(NamedTuple):
    """One run as the report shows it."""

    name: str  # unique within the report
    run: Run  # with the scores of the report's tasks alone
    levels: tuple[float, ...]  # of its quantiles; (0.5,) for a point forecast
    point: bool
    sample: bool  # whether it lacks tasks that the suite has
    where: dict[str, list[Any]]  # values that its tasks were chosen by; empty for none
    scored: str  # "all tasks", "sample", or "part" with the conditions
    split: str  # one of SPLITS: how it was trained, as to the systems of its tasks

    @property
    def informed(self) -> str:
        """What it was told about the suite's responses; "" for nothing."""
        return self.run.declared.informed

    @property
    def marked(self) -> str:
        """Its name, with the mark of an informed model."""
        return f"{self.name} {INFORMED_MARK}" if self.informed else self.name

    @property
    def forecasts(self) -> str:
        """What it forecasts: points, or so many quantiles."""
        return "point" if self.point else f"{len(self.levels)} quantiles"

    @property
    def forecaster(self) -> str:
        """What the forecaster calls itself, which several models may share."""
        return self.run.name

    @property
    def kind(self) -> str:
        """What it shares with its tuned variants: xgboost, of xgboost-paired-all too."""
        return self.forecaster.partition("-paired-")[0]

    @property
    def task_ids(self) -> np.ndarray:
        """Its tasks, int64 [N], sorted."""
        return self.run.scores.column("task_id").to_numpy()

    @property
    def scores(self) -> pl.DataFrame:
        """Its scores, a row a task."""
        return pl.DataFrame(self.run.scores)


def models_of(runs: Sequence[Run], suite: Suite) -> tuple[list[Model], list[str]]:
    """Name the runs, and keep of runs that differ in their tasks alone the one with most tasks.

    Args:
        runs: of one suite and metric version.
        suite: the suite the runs are of.

    Returns:
        the models, in the order of the runs, and sentences about runs left out.

    Raises:
        ReportError: no run, or runs of another suite.
    """
    if not runs:
        raise ReportError("runs: none; expected at least one complete run")
    largest: dict[tuple[str, ...], Run] = {}
    notes = []
    for run in runs:
        _check(run, suite)
        settings = json.dumps(run.settings, sort_keys=True)
        key = (run.name, run.version, settings, _split(run, suite))
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
    names = _names(chosen, [_split(run, suite) for run in chosen])
    found = [_model(run, name, suite) for run, name in zip(chosen, names, strict=True)]
    return found, notes


def _whole_first(run: Run) -> tuple[bool, int]:
    """Samples of the whole suite stand for it; tasks that meet conditions do not."""
    return "where" in _choice(run), -run.scores.num_rows


def _check(run: Run, suite: Suite) -> None:
    fingerprint, expected = run.metadata["fingerprint"], suite.whole.fingerprint
    if fingerprint not in (expected, suite.fingerprint):
        raise ReportError(
            f"runs: {run.name} is of a suite with fingerprint {fingerprint[:12]}; expected "
            f"{expected[:12]} ({suite.name})"
        )


def _model(run: Run, name: str, suite: Suite) -> Model:
    # the suite given may be a part of the one that was run
    inside = np.isin(run.scores.column("task_id").to_numpy(), suite.column("task_id"))
    scores = run.scores.filter(pa.array(inside))
    if not scores.num_rows:
        raise ReportError(f"runs: {name} has no task of the suite given")
    point = run.metadata["point"] == "true"
    sample = scores.num_rows < len(suite)
    where = _choice(run).get("where", {})
    return Model(
        name=name,
        run=dataclasses.replace(run, scores=scores),
        levels=(0.5,) if point else tuple(json.loads(run.metadata["levels"])),
        point=point,
        sample=sample,
        where=where,
        scored=_scored(run) if where else "sample" if sample else "all tasks",
        split=_split(run, suite),
    )


def _split(run: Run, suite: Suite) -> str:
    scored = np.isin(suite.whole.column("task_id"), run.scores.column("task_id").to_numpy())
    return run.declared.split_of(set(suite.whole.column("system")[scored].tolist()))


def _scored(run: Run) -> str:
    choice = _choice(run)
    conditions = "; ".join(
        f"{axis}={','.join(map(str, values))}" for axis, values in choice["where"].items()
    )
    return f"{'sample of part' if 'sample' in choice else 'part'}: {conditions}"


def _choice(run: Run) -> dict[str, Any]:
    """How the tasks of a run were chosen (`eval.sampling.choose`); empty for the whole suite."""
    text = run.metadata["tasks"]
    return {} if text == "all" else dict(json.loads(text))


def _names(runs: list[Run], splits: list[str]) -> list[str]:
    """What forecasters call themselves and, where they have seen the catalog, what they have seen.

    Of the same name, what differs after it.
    """
    names = []
    for run, split in zip(runs, splits, strict=True):
        without = ", ".join(run.declared.training.get("left_out", ()))
        ends = {"left-out system": f", without {without}", "in distribution": ", in distribution"}
        names.append(run.name + ends.get(split, ""))
    for name in sorted({name for name in names if names.count(name) > 1}):
        same = [number for number, other in enumerate(names) if other == name]
        for number in same:
            names[number] = f"{name} ({_difference(runs[number], [runs[one] for one in same])})"
    for number, name in enumerate(names):  # settings that read alike
        if name in names[:number]:
            names[number] = f"{name} #{names[:number].count(name) + 1}"
    return names


def _difference(run: Run, others: list[Run]) -> str:
    parts = [
        f"{key}={run.settings.get(key)}"
        for key in sorted({key for other in others for key in other.settings})
        if len({json.dumps(other.settings.get(key), sort_keys=True) for other in others}) > 1
    ]
    if len({other.version for other in others}) > 1:
        parts.insert(0, f"version {run.version}")
    return ", ".join(parts) or "again"
