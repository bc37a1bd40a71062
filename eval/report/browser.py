"""Series of the task browser, packed small enough to lie inside the page.

A series is held as 16-bit numbers between its smallest and largest value (an error of at most
1/130,000 of its range), as differences from step to step, high bytes before low bytes, so that
constant covariates and smooth targets deflate well. One base64 text a task, unpacked by the page
when the task is chosen.
"""

import base64
import json
import zlib
from collections.abc import Sequence
from typing import Any

import numpy as np

from .models import Model

__all__ = ["browser_tasks", "pack", "unpack"]

_MISSING = 65535  # the code of a value that is not finite
_LARGEST = 65534
_BATCH = 8  # rows realized at once; a bucket seldom holds more of the few kept tasks


def pack(series: Sequence[tuple[dict[str, Any], np.ndarray]]) -> str:
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
        low = float(values[finite].min(initial=np.inf)) if finite.any() else 0.0
        high = float(values[finite].max(initial=-np.inf)) if finite.any() else 0.0
        scale = (high - low) / _LARGEST
        quantised = np.full(values.shape, _MISSING, np.int64)
        steps = (values[finite] - low) / scale if scale > 0 else np.zeros(int(finite.sum()))
        quantised[finite] = np.rint(steps).astype(np.int64)
        headers.append({**description, "steps": len(values), "low": low, "scale": scale})
        codes.append((np.diff(quantised, prepend=0) % 65536).astype(np.uint16))
    text = json.dumps(headers, separators=(",", ":")).encode()
    together = np.concatenate(codes) if codes else np.zeros(0, np.uint16)
    planes = (together >> 8).astype(np.uint8).tobytes() + (together & 255).astype(
        np.uint8
    ).tobytes()
    content = len(text).to_bytes(4, "little") + text + planes
    return base64.b64encode(zlib.compress(content, 9)).decode("ascii")


def unpack(text: str) -> list[tuple[dict[str, Any], np.ndarray]]:
    """The series of `pack`, as the page unpacks them; for tests."""
    content = zlib.decompress(base64.b64decode(text))
    size = int.from_bytes(content[:4], "little")
    headers = json.loads(content[4 : 4 + size])
    planes = np.frombuffer(content[4 + size :], np.uint8).astype(np.int64)
    high, low = np.split(planes, 2)
    codes, series, start = high * 256 + low, [], 0
    for header in headers:
        stop = start + header["steps"]
        quantised = np.cumsum(codes[start:stop]) % 65536
        values = header["low"] + header["scale"] * quantised
        series.append((header, np.where(quantised == _MISSING, np.nan, values)))
        start = stop
    return series


def browser_tasks(
    models: Sequence[Model], suite: Any, *, most: int = 120, progress: Any = None
) -> list[dict[str, Any]]:
    """What the page needs of every task whose forecasts some model kept.

    Args:
        models: models; those without kept forecasts show none.
        suite: the suite they are of.
        most: tasks embedded at most, those that most models kept first.
        progress: called with the number of tasks done; None for silence.

    Returns:
        one dictionary a task, by task id: `id`, `axes` (its manifest values), `events` (their
        starts), `scores` (wQL and WAPE of each model) and `data` (`pack`).
    """
    kept: dict[int, int] = {}
    for model in models:
        if model.forecasts is not None:
            for number in model.forecasts.column("task_id").to_pylist():
                kept[number] = kept.get(number, 0) + 1
    known = set(suite.column("task_id").tolist())
    ids = sorted(set(kept) & known, key=lambda number: (-kept[number], number))[:most]
    if not ids:
        return []
    rows = np.flatnonzero(np.isin(suite.column("task_id"), ids))
    part = suite.take(rows)
    manifest = {row["task_id"]: row for row in part.table.to_pylist()}
    bands = {model.name: _bands(model, set(ids)) for model in models}
    scores = {model.name: _scores(model, ids) for model in models}
    units = _units(suite)
    found = []
    for batch in part.batches(_BATCH):
        fields = batch.to_numpy()
        for position, number in enumerate(fields["task_id"].tolist()):
            series = _series(manifest[number], fields, position, units)
            for model in models:
                series += bands[model.name].get(number, [])
            found.append(
                {
                    "id": number,
                    "axes": _axes(manifest[number]),
                    "events": manifest[number]["event_starts"],
                    "scores": {
                        name: of_model[number]
                        for name, of_model in scores.items()
                        if number in of_model
                    },
                    "data": pack(series),
                }
            )
        if progress is not None:
            progress(len(found))
    return sorted(found, key=lambda task: task["id"])


def _axes(row: dict[str, Any]) -> dict[str, Any]:
    names = ("system", "target", "k", "context_pair", "context", "horizon", "event_length")
    return {name: row[name] for name in (*names, "n_events", "setting", "future", "pair_id")}


def _units(suite: Any) -> dict[tuple[str, str], str]:
    return {
        (system.name, described.name): described.unit
        for system in suite.catalog
        for described in (*system.targets, *system.covariates)
    }


def _series(row: dict[str, Any], fields: dict[str, np.ndarray], position: int, units: Any) -> list:
    """Target and covariates of one task; histories are aligned right and futures left."""
    context, horizon, system = row["context"], row["horizon"], row["system"]
    past = slice(-context, None)
    unit = units.get((system, row["target"]), "")
    series = [
        ({"part": "history", "unit": unit}, fields["history"][position][past]),
        ({"part": "truth"}, fields["future"][position][:horizon]),
        ({"part": "baseline"}, fields["future_baseline"][position][:horizon]),
    ]
    for column, name in enumerate(row["covariates"]):
        values = np.concatenate(
            [
                fields["history_covariates"][position][column][past],
                fields["future_covariates"][position][column][:horizon],
            ]
        )
        unit = units.get((system, name), "")
        series.append(({"part": "covariate", "name": name, "unit": unit}, values))
    return series


def _bands(model: Model, ids: set[int]) -> dict[int, list]:
    """Lowest, median and highest kept quantile of each task; of point forecasts the median."""
    if model.forecasts is None:
        return {}
    levels = np.asarray(model.levels)
    middle = int(np.argmin(np.abs(levels - 0.5)))
    found = {}
    numbers = model.forecasts.column("task_id").to_pylist()
    for position, number in enumerate(numbers):
        if number not in ids:
            continue
        quantiles = np.array(model.forecasts.column("quantiles")[position].as_py(), np.float64)
        at = {"median": middle if quantiles.shape[1] == len(levels) else 0}
        if quantiles.shape[1] > 1:
            at |= {"low": 0, "high": quantiles.shape[1] - 1}
        found[number] = [
            ({"part": part, "model": model.name}, quantiles[:, column])
            for part, column in at.items()
        ]
    return found


def _scores(model: Model, ids: list[int]) -> dict[int, list[float | None]]:
    chosen = model.scores.filter(np.isin(model.task_ids, ids))
    columns = (chosen.column(name).to_pylist() for name in ("task_id", "wql", "wape", "imputed"))
    return {
        number: [_finite(wql), _finite(wape), bool(imputed)]
        for number, wql, wape, imputed in zip(*columns, strict=True)
    }


def _finite(value: float) -> float | None:
    return float(f"{value:.5g}") if np.isfinite(value) else None
