"""Tables of skill: of both futures, along each axis, by system, with few and with many events."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import polars as pl

from whatif_jax.comparison import fewest_most, log2_trend

from ..comparison import KEYS, Comparison
from ..labels import AXES, DASH, FUTURES, MEAN_OVER_MODELS, MINUS, Axis
from .leaderboard import INTERVALS, RANKED_ALONE
from .table import MODEL, Column, Table, spread

__all__ = ["EVENT_RATIO", "fewest_most_table", "gap_table", "skill_tables"]

VARIANTS = ("metric", "reference")
EVENT_RATIO = 8  # the most events of a comparison are at least so many times its fewest
# Skills over fewer comparisons are left out: they follow the luck of a few tasks.
FEWEST_COMPARISONS = 30


def skill_tables(comparison: Comparison) -> list[Table]:
    """Replay against Novel, skill by each axis for both futures, and by system."""
    by_axis = [_axis_table(comparison, axis) for axis in AXES]
    return [_replay_novel_table(comparison), *by_axis, _system_table(comparison)]


def _replay_novel_table(comparison: Comparison) -> Table:
    skills = comparison.skills("future", by=["pair"])
    fields = {"": "skill", "_low": "pair_low", "_high": "pair_high", "_tasks": "tasks"}
    frame = comparison.ranked(spread(skills, KEYS, {"future": FUTURES}, fields)).with_columns(
        pl.col("replay_tasks", "novel_tasks").fill_null(0), gap=pl.col("replay") - pl.col("novel")
    )
    columns = (
        MODEL,
        Column("replay", "Replay", "percent", "Skill (%)", (("replay_low", "replay_high"),)),
        Column("novel", "Novel", "percent", "Skill (%)", (("novel_low", "novel_high"),)),
        Column("gap", "Gap", "points", f"Replay {MINUS} Novel"),
        Column("replay_tasks", "Replay", "count", "Tasks"),
        Column("novel_tasks", "Novel", "count", "Tasks"),
    )
    note = f"Gap in percentage points. {INTERVALS}"
    return Table("replay_novel", "Replay and Novel", columns, frame, note, VARIANTS)


def _axis_table(comparison: Comparison, axis: Axis) -> Table:
    places = comparison.positions(axis.column)
    skills = comparison.skills("future", axis.column)
    found = [spread(skills, KEYS, {"future": FUTURES, axis.column: places})]
    columns = [MODEL]
    for future in FUTURES:
        columns += _of_future(future, places)
        if axis.log2:
            group = columns[-1].group
            columns.append(Column(f"{future}_slope", "per doubling", "points", group))
    if axis.log2:
        slopes = _slopes(skills, axis, places)
        found.append(spread(slopes, KEYS, {"future": FUTURES}, {"_slope": "slope"}))
    note = f"{axis.label_with_unit} across the columns."
    if axis.log2:
        note += (
            " Per doubling: slope of the least-squares line of these skills on log2 of the axis."
        )
    if axis.column == "context_pair":
        steps = ", ".join(f"{pair} {place:,.0f}" for pair, place in places.items())
        note += (
            f" Steps: {steps} (where systems differ, their geometric mean over the tasks; contexts "
            "that grew to hold long events count as their pair)."
        )
    frame = comparison.ranked(*found)
    return Table(axis.table, axis.title, tuple(columns), frame, note, VARIANTS)


def _of_future(future: str, values: Iterable[str | int]) -> list[Column]:
    """Skill at some values of an axis, under one heading."""
    group = f"{future.capitalize()}: skill (%)"
    return [Column(f"{future}_{value}", str(value), "percent", group) for value in values]


def _slopes(skills: pl.DataFrame, axis: Axis, places: Mapping[str | int, float]) -> pl.DataFrame:
    """Slope a doubling of skill along an axis; null where fewer than two values have tasks."""
    rows = []
    for part in skills.partition_by(*KEYS, "future"):
        x = [places[value] for value in part[axis.column]]
        known = len(set(x)) > 1
        slope = float(log2_trend(x, part["skill"].to_numpy()).slope) if known else None
        rows.append(part.select(*KEYS, "future").head(1).with_columns(slope=slope))
    return pl.concat(rows, how="vertical_relaxed")


def _system_table(comparison: Comparison) -> Table:
    systems = comparison.systems
    both, split = comparison.skills("system"), comparison.skills("future", "system")
    frame = comparison.ranked(
        spread(both, KEYS, {"system": systems}),
        spread(split, KEYS, {"future": FUTURES, "system": systems}),
    ).rename({"skill": "all"})
    columns = (
        MODEL,
        *(Column(one, one, "percent", "Skill (%)") for one in (*systems, "all")),
        *(column for future in FUTURES for column in _of_future(future, systems)),
    )
    return Table("by_system", "Skill by system", columns, frame, "", VARIANTS)


def gap_table(comparison: Comparison, by_system: Table) -> Table:
    """Replay minus Novel skill by system, with means over systems and over models.

    The reference, whose skill is 0 everywhere, is left out.
    """
    systems = comparison.systems
    gaps = {one: pl.col(f"replay_{one}") - pl.col(f"novel_{one}") for one in systems}
    name = pl.col("model").cast(pl.String)
    frame = by_system.frame.filter(name != pl.col("reference").cast(pl.String)).select(
        *VARIANTS, name, **gaps, mean=pl.mean_horizontal(gaps.values())
    )
    ranked = pl.col("model").is_in(comparison.ranking)
    means = (
        frame.filter(ranked)
        .group_by(VARIANTS)
        .agg(pl.lit(MEAN_OVER_MODELS).alias("model"), pl.col(*systems, "mean").mean())
    )
    order = {"reference": False, "metric": False, "is_mean": False, "mean": True}
    frame = pl.concat([frame, means]).with_columns(is_mean=pl.col("model") == MEAN_OVER_MODELS)
    frame = frame.sort(
        list(order), descending=list(order.values()), nulls_last=True, maintain_order=True
    )
    group = f"Replay {MINUS} Novel (points)"
    columns = (MODEL, *(Column(one, one, "points", group) for one in (*systems, "mean")))
    note = (
        "Skill points lost from Replay to Novel futures; the last column and row are means"
        f"{RANKED_ALONE if len(comparison.splits) > 1 else ''}."
    )
    return Table("gap", f"Replay{DASH}Novel gap", columns, frame, note, VARIANTS)


def fewest_most_table(comparison: Comparison) -> Table:
    """Skill with the fewest and the most events, all else equal (the paper's tables 14 to 16).

    By system, and as "all" over all systems together.
    """
    columns = (
        MODEL,
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
        f"covariates and future whose most events are at least {EVENT_RATIO} times the fewest. "
        "Worse: targets whose skill is lower with the most events. System all: the comparisons of "
        f"all systems together. Left out: fewer than {FEWEST_COMPARISONS} comparisons."
    )
    found = _fewest_most(comparison)
    rows = sorted(found, key=lambda row: (row["model"], row["future"] != "replay"))
    return Table.of_rows("fewest_most", "Fewest and most events", columns, rows, note, VARIANTS)


def _fewest_most(comparison: Comparison) -> Iterator[dict[str, Any]]:
    """A row for every variant, model and future, and for every system and all together."""
    for metric, reference in comparison.variants:
        for group, table in comparison.against(metric, reference):
            for model in (one for one in group if one != reference):
                cells = [
                    cell
                    for axes in (("future", "system"), ("future",))
                    for cell in fewest_most(
                        table, model, reference=reference, axes=axes, ratio=EVENT_RATIO
                    )
                    if cell.cells >= FEWEST_COMPARISONS
                ]
                for cell in cells:
                    future, system = (*cell.group, "all")[:2]
                    row = {"metric": metric, "reference": reference, "model": model}
                    row |= {"future": future, "system": system}
                    row |= {end: 100 * getattr(cell, end) for end in ("fewest", "most", "change")}
                    yield row | {one: getattr(cell, one) for one in ("worse", "targets", "cells")}
