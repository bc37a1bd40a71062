"""How models look in figures and on the page: a colour, a line and a marker each.

Colours are those of Okabe and Ito, "Color Universal Design" (2008), which readers with any common
form of colour blindness can tell apart. There are seven besides black, so that from the eighth
model on a colour comes back with another line and another marker: no two of 21 models share both.
"""

from typing import Any, NamedTuple

__all__ = ["NOVEL", "REPLAY", "Style", "styles"]

_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#8C7A00")
_DASHES = ("", "6 3", "2 2")  # SVG's stroke-dasharray, in multiples of a point
_MARKERS = (
    ("o", "s", "^", "D", "v", "P", "X"),
    ("^", "D", "o", "s", "X", "v", "P"),
    ("s", "o", "D", "^", "P", "X", "v"),
)
_BLACK = "#000000"

REPLAY = "#0072B2"
NOVEL = "#E69F00"


class Style(NamedTuple):
    """Colour, dashes (empty for a solid line) and matplotlib marker of one model."""

    colour: str
    dashes: str
    marker: str

    @property
    def line(self) -> dict[str, Any]:
        """Colour, dashes and marker as matplotlib takes them."""
        dashes = tuple(float(part) for part in self.dashes.split())
        linestyle = (0, dashes) if dashes else "-"
        return {"color": self.colour, "linestyle": linestyle, "marker": self.marker}


def styles(models: list[str]) -> dict[str, Style]:
    """A style for each model, in the order given; naive is black whatever its place.

    Okabe and Ito's yellow is hard to see on white, so it is darkened to an olive of its hue.
    """
    found: dict[str, Style] = {}
    number = 0
    for model in models:
        if model == "naive":
            found[model] = Style(_BLACK, "1 2", "x")
            continue
        turn, place = divmod(number, len(_COLOURS))
        markers = _MARKERS[turn % len(_MARKERS)]
        found[model] = Style(
            _COLOURS[place], _DASHES[turn % len(_DASHES)], markers[place % len(markers)]
        )
        number += 1
    return found
