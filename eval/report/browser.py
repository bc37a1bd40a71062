"""Series of the task browser, packed small enough to lie inside the page.

A series is held as 16-bit numbers between its smallest and largest value (an error of at most
1/130,000 of its range), as differences from step to step, high bytes before low bytes, so that
constant covariates and smooth targets deflate well. One base64 text a task, unpacked by the page
when the task is chosen.
"""

import base64
import collections
import json
import zlib
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np
import polars as pl

from whatif_jax import Suite
from whatif_jax.suites.manifest import AXES

from .labels import METRIC_LABELS
from .models import Model

__all__ = ["browser_tasks", "clarity", "pack"]

_MISSING = 65535  # the code of a value that is not finite
_LARGEST = 65534
_BATCH = 8  # rows realized at once; a bucket seldom holds more of the few kept tasks
Series = tuple[dict[str, Any], np.ndarray]  # description, and values [steps]


def pack(series: Sequence[Series]) -> str:
    """Described series as one base64 text.

    Args:
        series: description (kept as JSON) and values [steps] of each.

    Returns:
        base64 of zlib of: length of the header (uint32, little endian), header (JSON: the
        descriptions with `steps`, `low` and `scale`), high bytes of all series, low bytes.
    """
    headers, codes = [], []
    for description, values in series:
        values = np.asarray(values, np.float64)
        finite = np.isfinite(values)
        known = values[finite]
        low, high = (float(known.min()), float(known.max())) if len(known) else (0.0, 0.0)
        scale = (high - low) / _LARGEST
        quantised = np.full(values.shape, _MISSING, np.int64)
        quantised[finite] = np.rint((known - low) / (scale or 1.0)).astype(np.int64)
        headers.append({**description, "steps": len(values), "low": low, "scale": scale})
        codes.append((np.diff(quantised, prepend=0) % 65536).astype(np.uint16))
    text = json.dumps(headers, separators=(",", ":")).encode()
    together = np.concatenate(codes)
    planes = [(together >> 8).astype(np.uint8), (together & 255).astype(np.uint8)]
    content = len(text).to_bytes(4, "little") + text + b"".join(one.tobytes() for one in planes)
    return base64.b64encode(zlib.compress(content, 9)).decode("ascii")


def browser_tasks(
    models: Sequence[Model], suite: Suite, *, most: int = 120
) -> list[dict[str, Any]]:
    """What the page needs of every task whose forecasts some model kept.

    Args:
        models: models; those without kept forecasts show none.
        suite: the suite they are of.
        most: tasks embedded at most: both futures of the pairs that models kept most of.

    Returns:
        one dictionary a task, by task id: `id`, `axes` (its manifest values), `events` (their
        starts), `note` (on its class of targets), `kept` (by how many models), `clarity` (how well
        a chart of it reads), `scores` (errors and whether imputed, of each model), `data` (`pack`).
    """
    kept: collections.Counter[int] = collections.Counter()
    for model in models:
        if model.run.forecasts is not None:
            kept.update(model.run.forecasts.column("task_id").to_pylist())
    ids = _whole_pairs(suite, kept, most) if kept else []
    if not ids:
        return []
    part = suite.take(suite.rows_of(ids))
    rows = {row["task_id"]: row for row in part.table.to_pylist()}
    forecasts = [_forecasts(model, ids) for model in models]
    scores = {model.name: _scores(model, ids) for model in models}
    units: dict[tuple[str, str], str] = {}
    notes: dict[tuple[str, str], str] = {}
    for system in suite.catalog:
        notes |= {(system.name, target.name): target.class_.note for target in system.targets}
        units |= {(system.name, target.name): target.unit for target in system.targets}
        units |= {(system.name, one.name): one.unit for one in system.covariates}
    found = []
    for batch in part.batches(_BATCH):
        fields = batch.to_numpy()
        for position, number in enumerate(fields["task_id"].tolist()):
            row = rows[number]
            series = _series(row, {name: each[position] for name, each in fields.items()}, units)
            for of_model in forecasts:
                series += of_model.get(number, [])
            known = {name: of_model.get(number) for name, of_model in scores.items()}
            found.append(
                {
                    "id": number,
                    "axes": {name: row[name] for name in AXES},
                    "events": row["event_starts"],
                    "note": notes[row["system"], row["target"]],
                    "kept": kept[number],
                    "clarity": clarity(*(one for _, one in series[1:3])),
                    "scores": {name: errors for name, errors in known.items() if errors},
                    "data": pack(series),
                }
            )
    return sorted(found, key=lambda task: task["id"])


def _whole_pairs(suite: Suite, kept: Mapping[int, int], most: int) -> list[int]:
    """Ids of both futures of the pairs that models kept most forecasts of, at most so many."""
    pairs = pl.DataFrame({name: suite.column(name) for name in ("pair_id", "task_id")})
    pairs = pairs.with_columns(kept=pl.col("task_id").replace_strict(kept, default=0))
    pairs = pairs.group_by("pair_id").agg("task_id", pl.col("kept").sum(), futures=pl.len())
    pairs = pairs.filter(pl.col("kept") > 0).sort("kept", "pair_id", descending=[True, False])
    return pairs.filter(pl.col("futures").cum_sum() <= most)["task_id"].explode().to_list()


def clarity(truth: np.ndarray, baseline: np.ndarray) -> float:
    """How well a future can be read in a chart, 0..1.

    The mean effect of its event, at most the range of its values, against all the way that the
    values go up and down.
    """
    way = float(np.abs(np.diff(truth)).sum())
    effect = min(abs(float(np.mean(truth - baseline))), float(np.ptp(truth)))
    return round(effect / way, 4) if np.isfinite(effect) and way > 0 else 0.0


def _series(
    row: Mapping[str, Any], fields: Mapping[str, np.ndarray], units: Mapping[tuple[str, str], str]
) -> list[Series]:
    """Target and covariates of one task; histories are aligned right and futures left."""
    past, horizon = slice(-row["context"], None), slice(row["horizon"])

    def unit(name: str) -> str:
        return units.get((row["system"], name), "")

    series: list[Series] = [
        ({"part": "history", "unit": unit(row["target"])}, fields["history"][past]),
        ({"part": "truth"}, fields["future"][horizon]),
        ({"part": "baseline"}, fields["future_baseline"][horizon]),
    ]
    covariates = zip(fields["history_covariates"], fields["future_covariates"], strict=True)
    for name, (before, after) in zip(row["covariates"], covariates, strict=False):
        values = np.concatenate([before[past], after[horizon]])
        series.append(({"part": "covariate", "name": name, "unit": unit(name)}, values))
    return series


def _forecasts(model: Model, ids: Collection[int]) -> dict[int, list[Series]]:
    """Lowest, median and highest kept quantile of each task; of point forecasts the median."""
    if model.run.forecasts is None:
        return {}
    middle = int(np.argmin(np.abs(np.asarray(model.levels) - 0.5)))
    found = {}
    kept = pl.DataFrame(model.run.forecasts).filter(pl.col("task_id").is_in(ids))
    for number, steps in kept.select("task_id", "quantiles").iter_rows():
        quantiles = np.array(steps, np.float64)
        width = quantiles.shape[1]
        at = {"median": middle if width == len(model.levels) else 0}
        if width > 1:
            at |= {"low": 0, "high": width - 1}
        found[number] = [
            ({"part": part, "model": model.name}, quantiles[:, column])
            for part, column in at.items()
        ]
    return found


def _scores(model: Model, ids: Collection[int]) -> dict[int, dict[str, float | bool | None]]:
    chosen = model.scores.filter(pl.col("task_id").is_in(ids))
    rows = chosen.select("task_id", *METRIC_LABELS, "imputed").iter_rows(named=True)
    return {
        row["task_id"]: {name: _finite(row[name]) for name in METRIC_LABELS}
        | {"imputed": row["imputed"]}
        for row in rows
    }


def _finite(value: float) -> float | None:
    return float(f"{value:.5g}") if np.isfinite(value) else None
