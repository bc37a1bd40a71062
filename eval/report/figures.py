"""The report's figures, one function each; numbers in, a matplotlib figure out.

Skills are in percent and may be None where a model has no task. `style` gives each model its
colour, line and marker.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from .drawing import figure, heat_map, legend, paired_bars, title
from .style import NOVEL, REPLAY, Style
from .tables import DASH, MINUS, minus

__all__ = [
    "Line",
    "fewest_most_figure",
    "gap_figure",
    "leaderboard_figure",
    "pairwise_figure",
    "replay_novel_figure",
    "skill_by_figure",
    "system_figure",
]


class Line(NamedTuple):
    """One model's skill along an axis, and its least-squares line on log2 (None: no line)."""

    x: Sequence[float]
    skill: Sequence[float]  # percent
    trend: tuple[float, float] | None  # slope a doubling, intercept


def leaderboard_figure(
    rows: Sequence[tuple[Any, ...]],
    style: Mapping[str, Style],
    label: str,
) -> Any:
    """Bars of skill with confidence intervals.

    Args:
        rows: model, skill, ends of the narrower and of the wider interval (None: no interval), and
            "sample", "part" or nothing.
        style: by model.
        label: of the horizontal axis.
    """
    rows = sorted(rows, key=lambda row: -row[1])
    made, axes = figure(1, 1, 0.9 + 0.3 * len(rows))
    panel = axes[0, 0]
    place = np.arange(len(rows))[::-1]
    for y, (name, skill, *ends, mark) in zip(place, rows, strict=True):
        panel.barh(
            y,
            skill,
            0.66,
            color=style[name].colour,
            hatch="////" if mark else "",
            edgecolor="white",
            linewidth=0,
        )
        for pair, width in ((ends[2:], 0.9), (ends[:2], 3.0)):
            if None not in pair:
                panel.plot(pair, [y, y], color="#111111", linewidth=width, solid_capstyle="butt")
        right = max(skill, 0, *(end for end in ends if end is not None))
        panel.text(right, y, "  " + minus(f"{skill:.1f}"), va="center", fontsize=9)
    panel.axvline(0, color="#666666", linewidth=0.8)
    panel.set_yticks(place, [row[0] + (f" ({row[-1]})" if row[-1] else "") for row in rows])
    panel.grid(visible=False, axis="y")
    panel.margins(x=0.08, y=0.02)
    panel.set_xlabel(label)
    return made


def replay_novel_figure(rows: Sequence[tuple[str, float | None, float | None]], label: str) -> Any:
    """Two bars a model, sorted by Replay skill; rows are (model, replay, novel)."""
    rows = sorted(rows, key=lambda row: -_or_low(row[1]))
    made, axes = figure(1, 1, 1.2 + 0.42 * len(rows))
    paired_bars(axes[0, 0], *(list(column) for column in zip(*rows, strict=True)))
    axes[0, 0].set_xlabel(label)
    _futures_legend(made)
    return made


def system_figure(
    systems: Mapping[str, Sequence[tuple[str, float | None, float | None]]], label: str
) -> Any:
    """The same bars, one panel a system, all on one horizontal axis."""
    most = max(len(rows) for rows in systems.values())
    columns = min(2, len(systems))
    lines = -(-len(systems) // columns)
    made, axes = figure(lines, columns, lines * (0.8 + 0.34 * most) + 0.4, sharex=True)
    for panel, (system, rows) in zip(axes.flat, systems.items(), strict=False):
        rows = sorted(rows, key=lambda row: -_or_low(row[1]))
        paired_bars(panel, *(list(column) for column in zip(*rows, strict=True)))
        title(panel, system)
        panel.tick_params(labelbottom=True)
    for panel in list(axes.flat)[len(systems) :]:
        panel.set_visible(False)
    made.supxlabel(label, fontsize=9.5)
    _futures_legend(made)
    return made


def skill_by_figure(
    lines: Mapping[str, Mapping[str, Line]],
    style: Mapping[str, Style],
    label: str,
    axis_label: str,
    ticks: Sequence[tuple[float, str]],
    *,
    log2: bool,
) -> Any:
    """Skill along an axis, Replay left and Novel right, sharing the vertical axis.

    Args:
        lines: by future, then by model.
        style: by model.
        label: of the vertical axis.
        axis_label: of the horizontal axis.
        ticks: value and text of each.
        log2: whether the horizontal axis is logarithmic; then points stand alone and lines are
            the trends.
    """
    first = next(iter(lines.values()))
    made, axes = figure(1, 2, max(4.2, 0.7 + 0.24 * len(first)), sharey=True)
    for panel, (future, of_model) in zip(axes[0], lines.items(), strict=False):
        spread = np.linspace(-0.045, 0.045, len(of_model)) if log2 else np.zeros(len(of_model))
        for (name, line), shift in zip(of_model.items(), spread, strict=True):
            one = style[name]
            x = np.asarray(line.x, float)
            # Markers of many models at few values lie beside each other instead of on top.
            at = x * 2**shift if log2 else x
            panel.plot(
                at,
                line.skill,
                color=one.colour,
                marker=one.marker,
                markersize=5.5,
                linestyle="" if log2 else one.linestyle,
                linewidth=1.5,
                alpha=0.95,
            )
            if line.trend is not None and len(x) > 1:
                ends = np.array([x.min(), x.max()])
                slope, intercept = line.trend
                panel.plot(
                    ends,
                    slope * np.log2(ends) + intercept,
                    color=one.colour,
                    linestyle=one.linestyle,
                    linewidth=1.5,
                )
        if log2:
            panel.set_xscale("log", base=2)
        panel.set_xticks([value for value, _ in ticks], [text for _, text in ticks])
        panel.minorticks_off()
        panel.axhline(0, color="#888888", linewidth=0.9)
        title(panel, future.capitalize())
        panel.set_xlabel(axis_label)
    axes[0, 0].set_ylabel(label)
    ranked = sorted(first, key=lambda name: -float(np.mean(first[name].skill or [-np.inf])))
    legend(made, style, ranked)
    return made


def gap_figure(models: Sequence[str], systems: Sequence[str], gaps: np.ndarray) -> Any:
    """Heat map of Replay minus Novel skill; last row and column are means. Points [M+1, S+1]."""
    made, axes = figure(1, 1, 1.0 + 0.34 * (len(models) + 1))
    texts = [[DASH if np.isnan(one) else minus(f"{one:.1f}") for one in row] for row in gaps]
    image = heat_map(
        axes[0, 0],
        gaps,
        [*models, "mean"],
        [*systems, "mean"],
        colours="YlGnBu",
        low=min(0.0, float(np.nanmin(gaps, initial=0.0))),
        high=max(1.0, float(np.nanmax(gaps, initial=1.0))),
        texts=texts,
    )
    for place, line in ((len(models) - 0.5, "axhline"), (len(systems) - 0.5, "axvline")):
        getattr(axes[0, 0], line)(place, color="white", linewidth=4)
    made.colorbar(
        image, ax=axes[0, 0], label=f"Replay skill {MINUS} Novel skill (points)", aspect=30
    )
    return made


def pairwise_figure(
    models: Sequence[str], rates: np.ndarray, low: np.ndarray, high: np.ndarray
) -> Any:
    """Heat map of win rates, percent [M, M], of the row against the column, with intervals."""
    count = len(models)
    made, axes = figure(1, 1, max(2.2, 1.4 + 0.46 * count))
    texts = []
    for row in range(count):
        texts.append(
            [
                ""
                if row == column
                else f"{rates[row, column]:.1f}\n{_span(low, high, row, column)}"
                for column in range(count)
            ]
        )
    shown = rates.astype(float).copy()
    np.fill_diagonal(shown, np.nan)
    image = heat_map(
        axes[0, 0],
        shown,
        models,
        models,
        colours="RdBu",
        low=0.0,
        high=100.0,
        texts=texts,
        size=8.5 if count <= 10 else 6.6,
    )
    axes[0, 0].xaxis.tick_top()
    axes[0, 0].tick_params(axis="x", rotation=0 if count <= 6 else 40)
    if count > 6:
        for text in axes[0, 0].get_xticklabels():
            text.set_ha("left")
            text.set_rotation_mode("anchor")
    made.colorbar(image, ax=axes[0, 0], label="win rate of the row's model (%)", aspect=30)
    return made


def fewest_most_figure(
    cells: Mapping[tuple[str, str], Mapping[str, tuple[float, float]]],
    systems: Sequence[str],
    style: Mapping[str, Style],
    label: str,
) -> Any:
    """Skill with the fewest and the most events; by (future, system), then by model."""
    futures = ("replay", "novel")
    made, axes = figure(2, len(systems), 5.6, sharey="row", sharex=True)
    models: dict[str, float] = {}
    for row, future in enumerate(futures):
        for column, system in enumerate(systems):
            panel = axes[row, column]
            for name, ends in cells.get((future, system), {}).items():
                models.setdefault(name, ends[1])
                one = style[name]
                panel.plot(
                    [0, 1],
                    ends,
                    color=one.colour,
                    linestyle=one.linestyle,
                    marker=one.marker,
                    markersize=5.5,
                    linewidth=1.5,
                )
            panel.set_xticks([0, 1], ["fewest", "most"])
            panel.set_xlim(-0.25, 1.25)
            panel.axhline(0, color="#888888", linewidth=0.9)
            title(panel, f"{system}, {future.capitalize()}")
    made.supylabel(label, fontsize=9.5)
    legend(made, style, sorted(models, key=lambda name: -models[name]))
    return made


def _span(low: np.ndarray, high: np.ndarray, row: int, column: int) -> str:
    return f"{low[row, column]:.1f}{DASH}{high[row, column]:.1f}"


def _or_low(value: float | None) -> float:
    return -np.inf if value is None else value


def _futures_legend(made: Any) -> None:
    from matplotlib.patches import Patch

    handles = [
        Patch(facecolor=REPLAY, label="Replay"),
        Patch(facecolor=NOVEL, hatch="////", edgecolor="white", linewidth=0, label="Novel"),
    ]
    made.legend(handles=handles, loc="outside upper right", ncols=2, frameon=False)
