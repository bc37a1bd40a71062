"""What all figures of the report share: settings, saving, legends, panels and heat maps."""

import io
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from .style import NOVEL, REPLAY, Style
from .tables import DASH, minus

__all__ = ["WIDTH", "figure", "heat_map", "legend", "paired_bars", "save", "title"]

WIDTH = 10.6  # inches, shown at 100 pixels each: fits beside the contents on a laptop

_SETTINGS: Any = {
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans"],
    "font.size": 9.5,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": "#666666",
    "axes.labelcolor": "#333333",
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#e4e4e4",
    "grid.linewidth": 0.7,
    "xtick.color": "#444444",
    "ytick.color": "#222222",
    "figure.dpi": 100,
    "savefig.facecolor": "white",
    "svg.hashsalt": "whatif",  # the same figure gives the same file
}


def figure(rows: int, columns: int, height: float, **settings: Any) -> tuple[Any, Any]:
    """A figure as wide as the page with a grid of panels (always a 2-d array); no global state."""
    from matplotlib import rc_context
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    with rc_context(_SETTINGS):
        made = Figure(figsize=(WIDTH, height), layout="constrained")
        FigureCanvasAgg(made)
        axes = made.subplots(rows, columns, squeeze=False, **settings)
    return made, axes


def save(made: Any, path: Path) -> str:
    """Write PNG and SVG beside each other.

    Args:
        made: the figure.
        path: without ending.

    Returns:
        the text of the SVG.
    """
    from matplotlib import rc_context
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.backends.backend_svg import FigureCanvasSVG

    path.parent.mkdir(parents=True, exist_ok=True)
    text = io.StringIO()
    with rc_context(_SETTINGS):
        # `savefig` would lay the figure out and draw it five times for the two files.
        made.get_layout_engine().execute(made)
        made.set_layout_engine("none")
        FigureCanvasSVG(made).print_svg(text, metadata={"Date": None})
        made.dpi = 150
        png = path.with_name(path.name + ".png")
        FigureCanvasAgg(made).print_png(png, metadata={"Software": None})
    svg = text.getvalue()
    path.with_name(path.name + ".svg").write_text(svg, "utf-8")
    return svg


def title(panel: Any, text: str) -> None:
    """A heading above a panel, at its left."""
    panel.set_title(text, loc="left", fontsize=10.5, fontweight="bold")


def legend(made: Any, style: Mapping[str, Style], models: Sequence[str]) -> None:
    """Models with line and marker to the right of all panels, in the order given."""
    from matplotlib.lines import Line2D

    handles = [
        Line2D(
            [],
            [],
            color=style[name].colour,
            linestyle=style[name].linestyle,
            marker=style[name].marker,
            markersize=6,
            linewidth=1.6,
            label=name,
        )
        for name in models
    ]
    made.legend(
        handles=handles, loc="outside right upper", handlelength=3, labelspacing=0.7, frameon=False
    )


def paired_bars(
    axes: Any, names: Sequence[str], replay: Sequence[float | None], novel: Sequence[float | None]
) -> None:
    """Two horizontal bars a model: Replay above Novel, with their values at the ends."""
    place = np.arange(len(names))[::-1]
    for values, offset, colour, hatch in (
        (replay, 0.19, REPLAY, ""),
        (novel, -0.19, NOVEL, "////"),
    ):
        known = [0.0 if value is None else value for value in values]
        bars = axes.barh(
            place + offset, known, 0.36, color=colour, hatch=hatch, edgecolor="white", linewidth=0
        )
        texts = [DASH if value is None else minus(f"{value:.0f}") for value in values]
        axes.bar_label(bars, texts, padding=2, fontsize=7.5)
    axes.axvline(0, color="#666666", linewidth=0.8)
    axes.set_yticks(place, names)
    axes.grid(visible=False, axis="y")
    axes.margins(x=0.12, y=0.02)


def heat_map(
    axes: Any,
    values: np.ndarray,
    rows: Sequence[str],
    columns: Sequence[str],
    *,
    colours: str,
    low: float,
    high: float,
    texts: Sequence[Sequence[str]],
    size: float = 9.0,
) -> Any:
    """Cells with their text in black or white, whichever reads better; NaN cells are grey."""
    from matplotlib import colormaps

    colour_map = colormaps[colours].with_extremes(bad="#eeeeee")
    image = axes.imshow(
        np.ma.masked_invalid(values), cmap=colour_map, vmin=low, vmax=high, aspect="auto"
    )
    for row, column in _cells(values):
        red, green, blue, _ = colour_map(
            (values[row, column] - low) / ((high - low) or 1)
            if np.isfinite(values[row, column])
            else np.nan
        )
        dark = 0.299 * red + 0.587 * green + 0.114 * blue < 0.55
        axes.text(
            column,
            row,
            texts[row][column],
            ha="center",
            va="center",
            fontsize=size,
            linespacing=1.25,
            color="white" if dark and np.isfinite(values[row, column]) else "#111111",
        )
    axes.set_xticks(range(len(columns)), columns)
    axes.set_yticks(range(len(rows)), rows)
    axes.grid(visible=False)
    axes.tick_params(length=0)
    for spine in axes.spines.values():
        spine.set_visible(False)
    return image


def _cells(values: np.ndarray) -> Iterator[tuple[int, int]]:
    return ((row, column) for row in range(values.shape[0]) for column in range(values.shape[1]))
