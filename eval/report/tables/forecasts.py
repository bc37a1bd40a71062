"""Tables of the forecasts themselves: the effect they predict, and their quantiles."""

import polars as pl

from ..comparison import Comparison
from ..labels import MINUS
from ..models import Model
from .table import MODEL, Column, Table

__all__ = ["coverage_table", "effects_table", "inside"]

INTERVAL = (0.1, 0.9)  # quantiles that the interval lies between


def effects_table(comparison: Comparison) -> Table:
    """How well models forecast the effect itself: what the event changes against no event."""
    futures = comparison.tasks.select("task_id", "future")
    direction, size = (
        pl.col(name).fill_nan(None) for name in ("direction_accuracy", "effect_size_error")
    )
    parts = [
        model.scores.join(futures, on="task_id")
        .group_by("future")
        .agg(
            pl.lit(name).alias("model"),
            tasks=pl.len(),
            direction=direction.mean(),
            direction_tasks=direction.count(),
            size=size.median(),
            # of infinite errors too, where interpolation between two infinities would be NaN
            size_low=size.quantile(0.25, "lower"),
            size_high=size.quantile(0.75, "lower"),
            size_tasks=size.count(),
        )
        .sort("future")
        for name, model in comparison.models.items()
    ]
    columns = (
        MODEL,
        Column("future", "Future"),
        Column("tasks", "Tasks", "count"),
        Column("direction", "Mean (%)", "share", "Direction accuracy"),
        Column("direction_tasks", "Tasks", "count", "Direction accuracy"),
        Column("size", "Median", "number", "Effect size error", (("size_low", "size_high"),)),
        Column("size_tasks", "Tasks", "count", "Effect size error"),
    )
    note = (
        "The effect of an event is the series minus what it would have been without the event. "
        "Direction accuracy: share of steps whose forecast effect has the right sign; steps whose "
        "true effect is within 1 % of the mean magnitude without the event are left out, and a "
        "forecast effect within it counts as wrong. Effect size error: |mean forecast effect "
        f"{MINUS} mean true effect| / |mean true effect|; below it, its quartiles over tasks."
    )
    return Table("effects", "Effects", columns, pl.concat(parts), note)


def inside(model: Model) -> float | None:
    """Share of steps within the 80 % interval, mean over tasks; None where there is no such one."""
    if not set(INTERVAL) <= set(model.levels):
        return None
    low, high = (model.levels.index(level) for level in INTERVAL)
    coverage = pl.col("coverage").list
    share = coverage.get(high, null_on_oob=True) - coverage.get(low, null_on_oob=True)
    return model.scores.select(share.fill_nan(None).mean()).item()


def coverage_table(comparison: Comparison) -> Table | None:
    """Share of steps below each quantile; None where every forecast is a point."""
    quantile_models = [model for model in comparison.models.values() if not model.point]
    if not quantile_models:
        return None
    levels = quantile_models[0].levels
    names = {level: f"level_{level:g}" for level in levels}
    futures = comparison.tasks.select("task_id", "future")
    coverage = pl.col("coverage").list
    means = [
        coverage.get(place, null_on_oob=True).fill_nan(None).mean().alias(name)
        for place, name in enumerate(names.values())
    ]
    deviations = [(pl.col(name) - level).abs() for level, name in names.items()]
    known = set(INTERVAL) <= set(levels)
    low, high = (names[level] for level in INTERVAL) if known else (None, None)
    interval = pl.col(high) - pl.col(low) if low and high else pl.lit(None, pl.Float64)
    parts = [
        model.scores.join(futures, on="task_id")
        .group_by("future")
        .agg(
            pl.lit(model.name).alias("model"),
            pl.lit(model.forecasts).alias("forecasts"),
            *means,
            tasks=pl.len(),
            # other levels would not fit the columns
            fits=(coverage.len() == len(levels)).all() & (model.levels == levels),
        )
        .filter("fits")
        .with_columns(interval=interval, deviation=pl.mean_horizontal(deviations))
        .sort("future")
        for model in sorted(quantile_models, key=lambda one: comparison.order.index(one.name))
    ]
    frame = pl.concat(parts)
    if frame.is_empty():
        return None
    group = "Truth at or below the quantile of level (%)"
    columns = (
        MODEL,
        Column("future", "Future"),
        Column("tasks", "Tasks", "count"),
        Column("forecasts", "Forecasts"),
        *(Column(name, f"{100 * level:.0f}", "share", group) for level, name in names.items()),
        Column("interval", "80 %", "share", "Interval holds (%)"),
        Column("deviation", "mean", "share", "Deviation (points)"),
    )
    points = [model.name for model in comparison.models.values() if model.point]
    note = (
        "Shares of the steps of a task, mean over tasks. A calibrated model shows in each column "
        "the number at its head: less says that its quantiles lie too low, more that they lie too "
        "high; more at low levels and less at high ones, that they lie too close together. "
        "Interval holds: above the 10 % and not above the 90 % quantile. Deviation: from the "
        "levels, whatever the sign."
        + (f" Point forecasts, which have no quantiles: {', '.join(points)}." if points else "")
    )
    return Table("coverage", "Quantile coverage", columns, frame, note)
