"""What all figures of the report share: settings, saving, legends, panels and heat maps."""

import contextlib
import functools
import io
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib import colormaps, style
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure
from matplotlib.image import AxesImage
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from whatif_jax.files import write_whole

from ..comparison import Comparison
from ..style import NOVEL, REPLAY

__all__ = [
    "figure",
    "futures_legend",
    "heat_map",
    "model_lines",
    "models_legend",
    "report_settings",
    "save",
    "title",
    "zero_line",
]

_MODEL = "model{}-"  # how the names of what is drawn of one model begin in the SVG
WIDTH = 10.6  # inches, shown at 100 pixels each: fits beside the contents on a laptop

_SETTINGS = {
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


def report_settings() -> contextlib.AbstractContextManager[None]:
    """Matplotlib's defaults and our settings, whatever the user's own; all drawing is in here."""
    return style.context(["default", _SETTINGS])


def figure(rows: int, columns: int, height: float, **settings: Any) -> tuple[Figure, np.ndarray]:
    """A figure as wide as the page with a grid of panels [rows, columns]; no global state."""
    made = Figure(figsize=(WIDTH, height), layout="constrained")
    FigureCanvasAgg(made)
    return made, made.subplots(rows, columns, squeeze=False, **settings)


def save(made: Figure, path: Path, hidden: Sequence[int] = ()) -> str:
    """Write PNG and SVG beside each other.

    Args:
        made: the figure.
        path: without ending.
        hidden: places of the models whose lines are not to be seen. The SVG holds them, hidden by
            its first style, which the page changes.

    Returns:
        the text of the SVG.
    """
    # `savefig` would lay the figure out and draw it five times for the two files.
    layout = made.get_layout_engine()
    if layout is not None:
        layout.execute(made)
        made.set_layout_engine("none")
    text = io.StringIO()
    FigureCanvasSVG(made).print_svg(text, metadata={"Date": None})
    svg = text.getvalue()
    if hidden:
        names = ",".join(f'[id^="{_MODEL.format(place)}"]' for place in hidden)
        style = f'<style id="hidden">{names}{{display:none}}</style>'
        svg = re.sub("(<svg .*?>)", lambda found: found[0] + style, svg, count=1, flags=re.DOTALL)
        starts = tuple(map(_MODEL.format, hidden))
        for artist in made.findobj(lambda one: (one.get_gid() or "").startswith(starts)):
            artist.set_visible(False)
    write_whole(path.with_name(f"{path.name}.svg"), lambda at: at.write_text(svg, "utf-8"))
    made.dpi = 150
    png = functools.partial(FigureCanvasAgg(made).print_png, metadata={"Software": None})
    write_whole(path.with_name(f"{path.name}.png"), png)
    return svg


def title(panel: Axes, text: str) -> None:
    """A heading above a panel, at its left."""
    panel.set_title(text, loc="left", fontsize=10.5, fontweight="bold")


def zero_line(panel: Axes, *, vertical: bool = False) -> None:
    """The line where a model is as good as the reference."""
    (panel.axvline if vertical else panel.axhline)(0, color="#777777", linewidth=0.85)


def model_lines(
    panel: Axes, comparison: Comparison, name: str, x: Any, y: Any, **settings: Any
) -> None:
    """A line of one model in its style, which `save` and the page can hide."""
    look = {**comparison.styles[name].line, "markersize": 5.5, "linewidth": 1.5, **settings}
    (line,) = panel.plot(x, y, **look)
    number = f"{panel.figure.axes.index(panel)}-{len(panel.lines)}"
    line.set_gid(_MODEL.format(comparison.order.index(name)) + number)


def models_legend(made: Figure, comparison: Comparison, names: Sequence[str]) -> None:
    """Models with line and marker to the right of all panels: those drawn at first, then others."""
    names = sorted(names, key=list(comparison.styles).index)
    handles = [
        Line2D([], [], **comparison.styles[name].line, markersize=6, linewidth=1.6, label=name)
        for name in names
    ]
    legend = made.legend(
        handles=handles, loc="outside right upper", handlelength=3, labelspacing=0.7, frameon=False
    )
    for name, line, text in zip(names, legend.get_lines(), legend.get_texts(), strict=True):
        start = _MODEL.format(comparison.order.index(name))
        line.set_gid(f"{start}line")
        text.set_gid(f"{start}name")


def futures_legend(made: Figure) -> None:
    """Replay and Novel above all panels."""
    handles = [
        Patch(facecolor=REPLAY, label="Replay"),
        Patch(facecolor=NOVEL, hatch="////", edgecolor="white", linewidth=0, label="Novel"),
    ]
    made.legend(handles=handles, loc="outside upper right", ncols=2, frameon=False)


def heat_map(
    panel: Axes,
    values: np.ndarray,
    rows: Sequence[str],
    columns: Sequence[str],
    *,
    colours: str,
    low: float,
    high: float,
    texts: Sequence[Sequence[str]],
    size: float = 9.0,
) -> AxesImage:
    """Cells with their text in black or white, whichever reads better; NaN cells are grey."""
    colour_map = colormaps[colours].with_extremes(bad="#eeeeee")
    image = panel.imshow(
        np.ma.masked_invalid(values), cmap=colour_map, vmin=low, vmax=high, aspect="auto"
    )
    brightness = image.to_rgba(np.ma.masked_invalid(values))[..., :3] @ [0.299, 0.587, 0.114]
    for row, column in np.ndindex(values.shape):
        panel.text(
            column,
            row,
            texts[row][column],
            ha="center",
            va="center",
            fontsize=size,
            linespacing=1.25,
            color="white" if brightness[row, column] < 0.55 else "#111111",
        )
    panel.set_xticks(range(len(columns)), columns)
    panel.set_yticks(range(len(rows)), rows)
    panel.grid(visible=False)
    panel.tick_params(length=0)
    for spine in panel.spines.values():
        spine.set_visible(False)
    return image
