"""Figures from the report's tables: each variant drawn, saved as PNG and SVG, kept for the page."""

import functools
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

import polars as pl
from matplotlib.figure import Figure

from ..comparison import Comparison
from ..labels import AXES, Switches
from ..tables import Table
from .charts import (
    coverage_figure,
    difference_figure,
    fewest_most_figure,
    gap_figure,
    leaderboard_figure,
    pairwise_figure,
    replay_novel_figure,
    skill_by_figure,
    system_figure,
)
from .drawing import report_settings, save

__all__ = ["Picture", "draw_figures"]

# Charts of a line a model: all of them at once are a blur, so that the page draws a few at first.
_LINES = ("fewest_most", *(axis.table for axis in AXES))
_TRENDS = (
    " Points are skills (set a little apart sideways), lines their least-squares trends on log2 of "
    "the axis."
)
# By the table that is drawn: how, and what stands below.
_CHARTS: dict[str, tuple[Callable[[pl.DataFrame, Switches, Comparison], Figure], str]] = {
    "leaderboard": (
        leaderboard_figure,
        "Skill over each model's own tasks with 95 % bootstrap intervals: thick for this suite's "
        "targets, thin for other targets of these kinds. Hatched bars are samples or parts; dotted "
        "lines part what is not ranked together.",
    ),
    "replay_novel": (replay_novel_figure, "Skill on Replay and Novel futures, sorted by Replay."),
    **{
        axis.table: (
            functools.partial(skill_by_figure, axis=axis),
            f"{axis.title}.{_TRENDS if axis.log2 else ''}",
        )
        for axis in AXES
    },
    "by_system": (
        system_figure,
        "Skill on Replay and Novel futures of each system, sorted by Replay.",
    ),
    "gap": (gap_figure, "Replay skill minus Novel skill; last column and row are means."),
    "pairwise": (
        pairwise_figure,
        "Win rate (%) of the row's model against the column's, with its 95 % bootstrap interval; "
        "sorted by mean win rate.",
    ),
    "fewest_most": (
        fewest_most_figure,
        "Skill with the fewest and the most events, all else equal.",
    ),
    "coverage": (
        coverage_figure,
        "Share of the truth at or below each quantile against the quantile's level. On the "
        "diagonal a model is calibrated; below it its quantiles lie too low, above it too high. A "
        "line that is flatter than the diagonal has quantiles too close together.",
    ),
}
_DIFFERENCE = (
    difference_figure,
    "Skill minus that of the chosen model on the tasks of both, with 95 % bootstrap intervals of "
    "the difference: thick for this suite's targets, thin for other targets of these kinds.",
)


class Picture(NamedTuple):
    """A figure: what stands below it, and its SVG for every choice of the page's switches."""

    caption: str
    variants: dict[Switches, str]
    lines: bool = False  # whether it has a line a model, some of them hidden


def draw_figures(
    comparison: Comparison,
    tables: Mapping[str, Table],
    folder: Path,
    progress: Callable[[str], object],
) -> dict[str, Picture]:
    """Draw every figure for every metric and reference; by the names of the tables.

    Charts of lines show the comparison's few models, in the files and until the page is asked for
    others.

    Raises:
        OSError: the folder cannot be written.
    """
    found = {}
    few = [name in comparison.drawn for name in comparison.order]
    hidden = [place for place, drawn in enumerate(few) if not drawn]
    with report_settings():
        charts = _CHARTS | {name: _DIFFERENCE for name in tables if name.startswith("difference_")}
        for name in (name for name in charts if name in tables):
            draw, caption = charts[name]
            lines = name in _LINES and bool(hidden)
            variants = {}
            for switches in tables[name].choices(comparison.variants):
                rows = tables[name].where(*switches)
                if not rows.is_empty():
                    stem = "_".join(filter(None, (name, *switches)))
                    made = draw(rows, switches, comparison)
                    variants[switches] = save(made, folder / stem, hidden if lines else ())
                    progress(f"figure {stem}")
            if variants:
                found[name] = Picture(caption, variants, lines)
    return found
