"""Tables beside skill: few against many events, effects, coverage, and what was run."""

import json
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from whatif_jax.comparison import fewest_most

from .comparison import Comparison
from .models import Model
from .numbers import FUTURES, variants
from .tables import MINUS, Column, Table

__all__ = ["coverage_table", "effects_table", "fewest_most_table", "runs_table"]


# Skills over fewer comparisons are left out: they follow the luck of a few tasks.
FEWEST_COMPARISONS = 30


def fewest_most_table(comparison: Comparison) -> Table:
    """Skill with the fewest and the most events, all else equal (the paper's tables 14 to 16).

    By system, and as "all" over all systems together.
    """
    rows = []
    for metric, reference in variants(comparison):
        for group, table in comparison.against(metric, reference):
            for name in group:
                if name == reference:
                    continue
                found = fewest_most(table, name, reference=reference)
                found += fewest_most(table, name, reference=reference, axes="future")
                for cell in found:
                    if cell.cells < FEWEST_COMPARISONS:
                        continue
                    *system, future = cell.group
                    rows.append(
                        {
                            "metric": metric,
                            "reference": reference,
                            "model": name,
                            "future": future,
                            "system": system[0] if system else "all",
                            "fewest": 100 * float(cell.fewest),
                            "most": 100 * float(cell.most),
                            "change": 100 * float(cell.change),
                            "worse": int(cell.worse),
                            "targets": int(cell.targets),
                            "cells": int(cell.cells),
                        }
                    )
    rows.sort(key=lambda row: (row["model"], row["future"] != "replay"))
    columns = (
        Column("model", "Model"),
        Column("future", "Future"),
        Column("system", "System"),
        Column("fewest", "Fewest", "percent", "Skill (%)"),
        Column("most", "Most", "percent", "Skill (%)"),
        Column("change", "Change", "points", "Skill (%)"),
        Column("worse", "Worse", "count", "Targets"),
        Column("targets", "Compared", "count", "Targets"),
        Column("cells", "Comparisons", "count"),
    )
    note = (
        "Each comparison holds the tasks of one target, event length, context pair, number of "
        "covariates and future whose most events are at least eight times the fewest. Worse: "
        "targets whose skill is lower with the most events. System all: the comparisons of all "
        f"systems together. Left out: fewer than {FEWEST_COMPARISONS} comparisons."
    )
    return Table(
        "fewest_most", "Fewest and most events", columns, rows, note, ("metric", "reference")
    )


def effects_table(comparison: Comparison) -> Table:
    """How well models forecast the effect itself: what the event changes against no event."""
    rows = []
    for name, model in comparison.models.items():
        futures = _futures(model, comparison.suite)
        for future in FUTURES:
            chosen = model.scores.filter(pa.array(futures == future))
            if not chosen.num_rows:
                continue
            direction = _floats(chosen, "direction_accuracy")
            size = _floats(chosen, "effect_size_error")
            known = direction[~np.isnan(direction)]
            sized = size[~np.isnan(size)]
            rows.append(
                {
                    "model": name,
                    "future": future,
                    "tasks": chosen.num_rows,
                    "direction": float(known.mean()) if len(known) else None,
                    "direction_tasks": len(known),
                    "size": float(np.median(sized)) if len(sized) else None,
                    "size_low": float(_quantile(sized, 0.25)) if len(sized) else None,
                    "size_high": float(_quantile(sized, 0.75)) if len(sized) else None,
                    "size_tasks": len(sized),
                }
            )
    columns = (
        Column("model", "Model"),
        Column("future", "Future"),
        Column("tasks", "Tasks", "count"),
        Column("direction", "Mean (%)", "share", "Direction accuracy"),
        Column("direction_tasks", "Tasks", "count", "Direction accuracy"),
        Column("size", "Median", "number", "Effect size error", "size_low", "size_high"),
        Column("size_tasks", "Tasks", "count", "Effect size error"),
    )
    note = (
        "The effect of an event is the series minus what it would have been without the event. "
        "Direction accuracy: share of steps whose forecast effect has the right sign; steps whose "
        "true effect is within 1 % of the mean magnitude without the event are left out, and a "
        "forecast effect within it counts as wrong. Effect size error: |mean forecast effect "
        f"{MINUS} mean true effect| / |mean true effect|; below it, its quartiles over tasks."
    )
    return Table("effects", "Effects against the intervention-free future", columns, rows, note)


def coverage_table(comparison: Comparison) -> Table | None:
    """Share of steps below each quantile; None where every forecast is a point."""
    levels: tuple[float, ...] = ()
    rows = []
    for name, model in comparison.models.items():
        if model.point:
            continue
        levels = levels or model.levels
        futures = _futures(model, comparison.suite)
        for future in FUTURES:
            keep = np.flatnonzero(futures == future)
            lists = model.scores.column("coverage").combine_chunks().take(pa.array(keep))
            values = lists.flatten().to_numpy(zero_copy_only=False)
            if model.levels != levels or len(values) != len(keep) * len(levels) or not len(keep):
                continue  # imputed tasks have all levels; other levels would not fit the columns
            mean = np.nanmean(values.reshape(len(keep), len(levels)), axis=0)
            row: dict[str, Any] = {"model": name, "future": future, "tasks": len(keep)}
            row |= {f"level_{level:g}": float(one) for level, one in zip(levels, mean, strict=True)}
            row["deviation"] = float(np.abs(mean - np.asarray(levels)).mean())
            rows.append(row)
    if not rows:
        return None
    columns = (
        Column("model", "Model"),
        Column("future", "Future"),
        Column("tasks", "Tasks", "count"),
        *(
            Column(
                f"level_{level:g}", f"{100 * level:.0f}", "share", "Steps below the quantile (%)"
            )
            for level in levels
        ),
        Column("deviation", "Mean deviation (points)", "share"),
    )
    note = "Mean over tasks. A calibrated model shows in each column the number at its head."
    return Table("coverage", "Quantile coverage", columns, rows, note)


def runs_table(models: Sequence[Model]) -> Table:
    """What was run: version, settings, tasks."""
    rows = [
        {
            "model": model.name,
            "forecaster": model.forecaster,
            "version": model.version,
            "settings": json.dumps(model.settings, sort_keys=True) if model.settings else "",
            "forecasts": "point" if model.point else f"{len(model.levels)} quantiles",
            "tasks": len(model.task_ids),
            "kept": model.forecasts.num_rows if model.forecasts is not None else 0,
        }
        for model in models
    ]
    columns = (
        Column("model", "Model"),
        Column("forecaster", "Forecaster"),
        Column("version", "Version"),
        Column("settings", "Settings"),
        Column("forecasts", "Forecasts"),
        Column("tasks", "Tasks", "count"),
        Column("kept", "Kept for the browser", "count"),
    )
    return Table("runs", "Runs", columns, rows)


def _quantile(values: np.ndarray, level: float) -> float:
    # of infinite errors too, where interpolation between two infinities would be NaN
    return np.quantile(values, level, method="lower")


def _floats(table: pa.Table, name: str) -> np.ndarray:
    return table.column(name).to_numpy().astype(np.float64)  # null becomes NaN


def _futures(model: Model, suite: Any) -> np.ndarray:
    ids = suite.column("task_id")
    order = np.argsort(ids)
    return suite.column("future")[order[np.searchsorted(ids, model.task_ids, sorter=order)]]
