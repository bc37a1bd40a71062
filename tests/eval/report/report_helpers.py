"""Made-up results for tests of the report: score tables whose numbers follow from the task ids."""

import base64
import dataclasses
import json
import time
import zlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from eval.report.comparison import Comparison
from eval.report.models import models_of
from eval.report.tables import Table
from eval.results import Run
from whatif_jax import Suite, root_key
from whatif_jax.evaluation import Declaration

WINDOW = {"width": 1366, "height": 768, "deviceScaleFactor": 1, "mobile": False}  # of the page
FITTED = Declaration("nothing")
LEVELS = tuple(round(0.1 * number, 1) for number in range(1, 10))


def made_run(
    suite: Suite,
    name: str,
    *,
    quality: float,
    rows: np.ndarray | None = None,
    point: bool = False,
    kept: tuple[int, ...] = (),
    settings: dict[str, Any] | None = None,
    seed: int = 0,
    metric_version: str = "1",
    tasks: str = "all",
    declared: Declaration = FITTED,
) -> Run:
    """A run with random errors: better on Replay, worse with K, better with events.

    Args:
        suite: of the tasks.
        name: of the forecaster.
        quality: how much of naive's error is taken away, 0..1.
        rows: rows of the suite that were scored; None for all.
        point: whether forecasts have no quantiles.
        kept: ids of tasks whose forecasts are kept; they are the truth with an error.
        settings: of the forecaster.
        seed: of the random errors.
        metric_version: of the metadata.
        tasks: of the metadata: how the rows were chosen.
        declared: what the forecaster was trained on and told.
    """
    part = suite if rows is None else suite.take(rows)
    part = part.take(np.argsort(part.column("task_id")))
    ids, count = part.column("task_id"), len(part)
    # the same noise on a task in every run of one seed, whichever tasks are scored
    noise = np.random.default_rng(seed).lognormal(0, 0.35, int(suite.whole.table.num_rows))[ids]
    base = np.random.default_rng(99).lognormal(-1, 0.6, int(suite.whole.table.num_rows))[ids]
    novel = part.column("future") == "novel"
    shrink = 1 - quality * np.where(novel, 0.55, 1.0)
    if quality > 0:
        shrink = shrink * np.where(novel, 1 + 0.12 * (part.column("k") - 1), 1.0)
        shrink = shrink * np.where(novel, 1 - 0.07 * np.log2(part.column("n_events")), 1.0)
    wql = base * shrink * (noise if quality > 0 else 1.0)
    width = 1 if point else 9
    coverage = np.clip(np.tile(np.array([0.5] if point else LEVELS), (count, 1)) + 0.03, 0, 1)
    direction = np.where(ids % 7 == 0, np.nan, np.clip(quality + 0.1 * np.sin(ids), 0, 1))
    metadata = {
        "suite": suite.name,
        "fingerprint": suite.whole.fingerprint,
        "metric_version": metric_version,
        "forecaster": name,
        "version": "1",
        "settings": json.dumps(settings or {}),
        "levels": json.dumps(LEVELS),
        "point": str(point).lower(),
        "tasks": tasks,
    }
    scores = pa.table(
        {
            "task_id": pa.array(ids, pa.int64()),
            "wql": wql,
            "wape": wql * 1.1,
            "mase": wql * 2,
            "rmse": wql * 3,
            "coverage": pa.array(coverage.tolist(), pa.list_(pa.float64())),
            "direction_accuracy": pa.array(direction, from_pandas=True),
            "effect_size_error": np.abs(1 - quality * noise),
            "imputed": ids % 50 == 0 if quality > 0.5 else np.zeros(count, bool),
            "crossings": pa.array((ids % 3 == 0).astype(np.int32) * (width > 1)),
        }
    ).replace_schema_metadata(metadata)
    seconds = pa.table(
        {"task_id": pa.array(ids, pa.int64()), "seconds": 0.001 + 0.01 * quality * noise}
    ).replace_schema_metadata(metadata)
    forecasts = _forecasts(suite, [one for one in kept if one in set(ids.tolist())], quality, width)
    return Run(
        name, "1", settings or {}, Path(name), scores, seconds, forecasts, metadata, declared
    )


_FUTURES: dict[int, np.ndarray] = {}  # of whatif-v1 by task id: making them takes a second or two


def futures(suite: Suite, ids: tuple[int, ...]) -> dict[int, np.ndarray]:
    """What happened over the horizon of some tasks."""
    wanted = [number for number in ids if number not in _FUTURES]
    if wanted:
        rows = np.flatnonzero(np.isin(suite.column("task_id"), wanted))
        for batch in suite.take(rows).batches(8):
            fields = batch.to_numpy()
            for number, future in zip(fields["task_id"].tolist(), fields["future"], strict=True):
                _FUTURES[number] = np.asarray(future)
    return {number: _FUTURES[number] for number in ids}


def _forecasts(suite: Suite, ids: list[int], quality: float, width: int) -> pa.Table | None:
    if not ids:
        return None
    truths = futures(suite, tuple(ids))
    quantiles = []
    for number in ids:
        truth = truths[number]
        spread = (1.05 - quality) * (np.abs(truth).mean() + 1e-3)
        offsets = np.linspace(-1, 1, width) if width > 1 else np.array([0.1])
        quantiles.append((truth[:, None] + spread * (0.3 + offsets)[None]).tolist())
    return pa.table(
        {
            "task_id": pa.array(ids, pa.int64()),
            "quantiles": pa.array(quantiles, pa.list_(pa.list_(pa.float32()))),
        }
    )


def with_wql(run: Run, wql: np.ndarray) -> Run:
    """The run with other errors."""
    return dataclasses.replace(run, scores=run.scores.set_column(1, "wql", pa.array(wql)))


def compare(runs: Iterable[Run], suite: Suite, reference: str = "naive") -> Comparison:
    """The runs as the report compares them, with few resamples."""
    models, _ = models_of(list(runs), suite)
    return Comparison(models, suite, reference=reference, resamples=60, key=root_key(0))


def one_row(table: Table, **wanted: Any) -> dict[str, Any]:
    """The only row of a table with some values."""
    found = table.frame.filter(**wanted).to_dicts()
    assert len(found) == 1, found
    return found[0]


def hand_skill(run: Run, reference: Run, ids: Iterable[int], metric: str = "wql") -> float:
    """Skill in percent on some tasks, task by task."""
    errors, others = (
        dict(zip(one.scores["task_id"].to_pylist(), one.scores[metric].to_pylist(), strict=True))
        for one in (run, reference)
    )
    ratios = [min(max(errors[one] / others[one], 0.01), 100.0) for one in ids]
    return 100 * (1 - float(np.exp(np.mean(np.log(ratios)))))


def unpack(text: str) -> list[tuple[dict[str, Any], np.ndarray]]:
    """The series that `eval.report.browser.pack` packed, as the page unpacks them."""
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
        series.append((header, np.where(quantised == 65535, np.nan, values)))
        start = stop
    return series


def wait(browser: Any, script: str, *arguments: Any) -> None:
    """Until a script of the page returns something true."""
    end = time.monotonic() + 20
    while not browser.execute_script(script, *arguments):
        assert time.monotonic() < end, script
        time.sleep(0.05)
