"""The report's figures, one function each: rows of a table's variant in, a figure out.

Skills are in percent and null where a model has no task. The comparison gives each model its style.
"""

import functools
import itertools

import numpy as np
import polars as pl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ..comparison import Comparison
from ..labels import DASH, FUTURES, MINUS, Axis, Switches
from ..style import NOVEL, REPLAY
from ..tables.table import minus
from .drawing import (
    figure,
    futures_legend,
    heat_map,
    model_lines,
    models_legend,
    title,
    zero_line,
)

__all__ = [
    "coverage_figure",
    "difference_figure",
    "fewest_most_figure",
    "gap_figure",
    "leaderboard_figure",
    "pairwise_figure",
    "replay_novel_figure",
    "skill_by_figure",
    "system_figure",
]


def leaderboard_figure(rows: pl.DataFrame, switches: Switches, comparison: Comparison) -> Figure:
    """Bars of skill with both confidence intervals; hatched where not over all tasks."""
    key = f"{switches.metric}_skill"
    rows = comparison.apart(rows.sort(key, descending=True, maintain_order=True))
    made, axes = figure(1, 1, 0.9 + 0.3 * len(rows))
    panel = axes[0, 0]
    place = np.arange(len(rows))[::-1]
    splits = [comparison.models[name].split for name in rows["model"]]
    for after, (before, here) in enumerate(itertools.pairwise(splits), start=1):
        if before != here:
            panel.axhline(len(rows) - after - 0.5, color="#444444", linewidth=0.9, linestyle=":")
    names = []
    for y, row in zip(place, rows.iter_rows(named=True), strict=True):
        model, skill = comparison.models[row["model"]], row[key]
        mark = "part" if model.where else "sample" if model.sample else ""
        names.append(f"{model.marked} ({mark})" if mark else model.marked)
        colour, hatch = comparison.styles[model.name].colour, "////" if mark else ""
        panel.barh(y, skill, 0.66, color=colour, hatch=hatch, edgecolor="white", linewidth=0)
        right = max(skill, 0)
        for by, width in (("target", 0.9), ("pair", 3.0)):
            ends = [row[f"{key}_{by}_{end}"] for end in ("low", "high")]
            if None not in ends:
                panel.plot(ends, [y, y], color="#111111", linewidth=width, solid_capstyle="butt")
                right = max(right, *ends)
        panel.text(right, y, "  " + minus(f"{skill:.1f}"), va="center", fontsize=9)
    zero_line(panel, vertical=True)
    panel.set_yticks(place, names)
    panel.grid(visible=False, axis="y")
    panel.margins(x=0.08, y=0.02)
    panel.set_xlabel(switches.skill_label)
    return made


def coverage_figure(rows: pl.DataFrame, switches: Switches, comparison: Comparison) -> Figure:
    """Share of the truth at or below each quantile against its level, Replay left, Novel right."""
    columns = {float(name[6:]): name for name in rows.columns if name.startswith("level_")}
    levels = 100 * np.array(list(columns))
    names = rows["model"].unique(maintain_order=True).to_list()
    made, axes = figure(1, 2, max(4.4, 0.7 + 0.24 * len(names)), sharey=True)
    for panel, future in zip(axes[0], FUTURES, strict=True):
        panel.plot([0, 100], [0, 100], color="#777777", linewidth=0.85)
        panel.annotate(
            "calibrated", (78, 78), (5, -4), textcoords="offset points", fontsize=8, va="top",
            color="#555555", rotation=45, rotation_mode="anchor", transform_rotates_text=True,
        )  # fmt: skip
        for row in rows.filter(future=future).iter_rows(named=True):
            shares = 100 * np.array([row[name] for name in columns.values()], float)
            model_lines(panel, comparison, row["model"], levels, shares)
        panel.set_xlim(0, 100)
        panel.set_ylim(0, 100)
        panel.set_xticks(levels, [f"{level:g}" for level in levels])
        panel.set_yticks(range(0, 101, 20))
        title(panel, future.capitalize())
        panel.set_xlabel("Level of the quantile (%)")
    axes[0, 0].set_ylabel("Truth at or below the quantile (%)")
    models_legend(made, comparison, names)
    return made


def difference_figure(rows: pl.DataFrame, switches: Switches, comparison: Comparison) -> Figure:
    """Differences in skill with both confidence intervals, the row's order kept."""
    made, axes = figure(1, 1, 0.9 + 0.3 * len(rows))
    panel = axes[0, 0]
    place = np.arange(len(rows))[::-1]
    for y, row in zip(place, rows.iter_rows(named=True), strict=True):
        colour = comparison.styles[row["model"]].colour
        panel.plot(row["difference"], y, "o", color=colour, markersize=6)
        for by, width in (("target", 0.9), ("pair", 3.0)):
            ends = [row[f"difference_{by}_{end}"] for end in ("low", "high")]
            if None not in ends:
                panel.plot(ends, [y, y], color=colour, linewidth=width, solid_capstyle="butt")
    zero_line(panel, vertical=True)
    panel.set_yticks(place, [comparison.models[name].marked for name in rows["model"]])
    panel.grid(visible=False, axis="y")
    panel.margins(x=0.08, y=0.06)
    panel.set_xlabel(f"Difference in skill, {switches.label} (points)")
    return made


def replay_novel_figure(rows: pl.DataFrame, switches: Switches, comparison: Comparison) -> Figure:
    """Two bars a model, sorted by Replay skill."""
    made, axes = figure(1, 1, 1.2 + 0.42 * len(rows))
    _paired_bars(axes[0, 0], rows, "replay", "novel")
    axes[0, 0].set_xlabel(switches.skill_label)
    futures_legend(made)
    return made


def system_figure(rows: pl.DataFrame, switches: Switches, comparison: Comparison) -> Figure:
    """The same bars, one panel a system, all on one horizontal axis."""
    systems = comparison.systems
    columns = min(2, len(systems))
    lines = -(-len(systems) // columns)
    made, axes = figure(lines, columns, lines * (0.8 + 0.34 * len(rows)) + 0.4, sharex=True)
    for panel in axes.flat[len(systems) :]:
        panel.set_visible(False)
    for panel, system in zip(axes.flat, systems, strict=False):
        _paired_bars(panel, rows, f"replay_{system}", f"novel_{system}")
        title(panel, system)
        panel.tick_params(labelbottom=True)
    made.supxlabel(switches.skill_label, fontsize=9.5)
    futures_legend(made)
    return made


def _paired_bars(panel: Axes, rows: pl.DataFrame, replay: str, novel: str) -> None:
    """Two horizontal bars a model: Replay above Novel, with their values at the ends."""
    rows = rows.sort(replay, descending=True, nulls_last=True, maintain_order=True)
    place = np.arange(len(rows))[::-1]
    bars = ((replay, 0.19, REPLAY, ""), (novel, -0.19, NOVEL, "////"))
    for name, offset, colour, hatch in bars:
        drawn = panel.barh(
            place + offset, rows[name].fill_null(0.0), 0.36, color=colour, hatch=hatch,
            edgecolor="white", linewidth=0,
        )  # fmt: skip
        texts = [DASH if value is None else minus(f"{value:.0f}") for value in rows[name]]
        panel.bar_label(drawn, texts, padding=2, fontsize=7.5)
    zero_line(panel, vertical=True)
    panel.set_yticks(place, rows["model"].to_list())
    panel.grid(visible=False, axis="y")
    panel.margins(x=0.12, y=0.02)


def skill_by_figure(
    rows: pl.DataFrame, switches: Switches, comparison: Comparison, *, axis: Axis
) -> Figure:
    """Skill along an axis, Replay left and Novel right, sharing the vertical axis.

    On a logarithmic axis, points stand alone and lines are the trends.
    """
    places = comparison.positions(axis.column)
    made, axes = figure(1, 2, max(4.2, 0.7 + 0.24 * len(rows)), sharey=True)
    # Markers of many models at few values lie beside each other instead of on top.
    shifts = np.linspace(-0.045, 0.045, len(rows)) if axis.log2 else np.zeros(len(rows))
    for panel, future in zip(axes[0], FUTURES, strict=True):
        for row, shift in zip(rows.iter_rows(named=True), shifts, strict=True):
            known = [value for value in places if row[f"{future}_{value}"] is not None]
            x = np.array([places[value] for value in known])
            skill = np.array([row[f"{future}_{value}"] for value in known])
            draw = functools.partial(model_lines, panel, comparison, row["model"])
            points = {"linestyle": ""} if axis.log2 else {}
            draw(x * 2**shift, skill, **points, alpha=0.95)
            slope = row.get(f"{future}_slope")
            if slope is not None:  # the least-squares line goes through the mean point
                ends = np.array([x.min(), x.max()])
                trend = skill.mean() + slope * (np.log2(ends) - np.log2(x).mean())
                draw(ends, trend, marker="")
        if axis.log2:
            panel.set_xscale("log", base=2)
        panel.set_xticks(list(places.values()), [_tick(*item) for item in places.items()])
        panel.minorticks_off()
        zero_line(panel)
        title(panel, future.capitalize())
        panel.set_xlabel(axis.label_with_unit)
    axes[0, 0].set_ylabel(switches.skill_label)
    models_legend(made, comparison, rows["model"].to_list())
    return made


def _tick(value: str | int, place: float) -> str:
    return f"{value}\n{place:,.0f}" if isinstance(value, str) else f"{value:,}"


def gap_figure(rows: pl.DataFrame, switches: Switches, comparison: Comparison) -> Figure:
    """Heat map of Replay minus Novel skill; last row and column are means."""
    systems = comparison.systems
    gaps = rows.select(*systems, "mean").to_numpy().astype(np.float64)  # null becomes NaN
    made, axes = figure(1, 1, 1.0 + 0.34 * len(rows))
    texts = [[DASH if np.isnan(one) else minus(f"{one:.1f}") for one in row] for row in gaps]
    panel = axes[0, 0]
    image = heat_map(
        panel,
        gaps,
        [*rows["model"][:-1], "mean"],
        [*systems, "mean"],
        colours="YlGnBu",
        low=min(0.0, float(np.nanmin(gaps, initial=0.0))),
        high=max(1.0, float(np.nanmax(gaps, initial=1.0))),
        texts=texts,
    )
    panel.axhline(len(rows) - 1.5, color="white", linewidth=4)
    panel.axvline(len(systems) - 0.5, color="white", linewidth=4)
    made.colorbar(image, ax=panel, label=f"Replay skill {MINUS} Novel skill (points)", aspect=30)
    return made


def pairwise_figure(rows: pl.DataFrame, switches: Switches, comparison: Comparison) -> Figure:
    """Heat map of win rates, percent, of the row against the column, with intervals."""
    names = rows["model"].to_list()
    count = len(names)
    made, axes = figure(1, 1, max(2.2, 1.4 + 0.46 * count))
    panel = axes[0, 0]
    texts = [
        [
            ""
            if name == row["model"]
            else f"{row[name]:.1f}\n{row[f'{name}_low']:.1f}{DASH}{row[f'{name}_high']:.1f}"
            for name in names
        ]
        for row in rows.fill_null(np.nan).iter_rows(named=True)
    ]
    image = heat_map(
        panel,
        rows.select(names).to_numpy().astype(np.float64),
        names,
        names,
        colours="RdBu",
        low=0.0,
        high=100.0,
        texts=texts,
        size=8.5 if count <= 10 else 6.6,
    )
    panel.xaxis.tick_top()
    panel.tick_params(axis="x", rotation=0 if count <= 6 else 40)
    if count > 6:
        for text in panel.get_xticklabels():
            text.set_ha("left")
            text.set_rotation_mode("anchor")
    made.colorbar(image, ax=panel, label="win rate of the row's model (%)", aspect=30)
    return made


def fewest_most_figure(rows: pl.DataFrame, switches: Switches, comparison: Comparison) -> Figure:
    """Skill with the fewest and the most events, one panel a future and system, "all" last."""
    systems = sorted(rows["system"].unique(), key=lambda one: (one == "all", one))
    made, axes = figure(2, len(systems), 5.6, sharey="row", sharex=True)
    for panels, future in zip(axes, FUTURES, strict=True):
        for panel, system in zip(panels, systems, strict=True):
            drawn = rows.filter(future=future, system=system).select("model", "fewest", "most")
            for name, *ends in drawn.iter_rows():
                model_lines(panel, comparison, name, [0, 1], ends)
            panel.set_xticks([0, 1], ["fewest", "most"])
            panel.set_xlim(-0.25, 1.25)
            zero_line(panel)
            title(panel, f"{system}, {future.capitalize()}")
    made.supylabel(switches.skill_label, fontsize=9.5)
    models_legend(made, comparison, rows["model"].unique(maintain_order=True).to_list())
    return made
