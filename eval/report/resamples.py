"""Skills on resamples of a report's tasks, from which changes of skill get their intervals.

Every set of tasks is resampled together, so that a change between two sets has the interval of
the change, not of two skills that vary on their own.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from whatif_jax.comparison import ErrorTable
from whatif_jax.comparison.groups import CELL

from .comparison import Comparison, Drawn

__all__ = ["decide", "difference", "ends", "fewest_most_rows", "mean", "resampled", "slope"]

RATIO = 8  # the most events of a comparison are at least so many times its fewest


def resampled(comparison: Comparison, metric: str, reference: str) -> dict[str, dict[Any, Drawn]]:
    """Skill of every model on the sets of tasks that findings compare, with its resamples.

    Returns:
        by model, then by ("future", future), ("k", k) and ("n_events", number) of Novel tasks,
        ("system", system, future), and ("fewest" or "most", system, future).
    """
    found: dict[str, dict[Any, Drawn]] = {}
    for group, table in comparison.against(metric, reference):
        drawn = comparison.drawn(table, reference, _members(table))
        found |= {name: drawn[name] for name in group}
    return found


def _members(table: ErrorTable) -> dict[Any, np.ndarray]:
    future, system = table.axis("future"), table.axis("system")
    members: dict[Any, np.ndarray] = {}
    for name in ("replay", "novel"):
        members["future", name] = np.flatnonzero(future == name)
        for one in np.unique(system).tolist():
            members["system", one, name] = np.flatnonzero((future == name) & (system == one))
    for axis in ("k", "n_events"):
        values = table.axis(axis)
        for value in np.unique(values).tolist():
            members[axis, value] = np.flatnonzero((future == "novel") & (values == value))
    members |= fewest_most_rows(table)
    return {key: rows for key, rows in members.items() if len(rows)}


def fewest_most_rows(table: ErrorTable) -> dict[tuple[str, str, str], np.ndarray]:
    """Rows behind `whatif_jax.comparison.fewest_most`: ("fewest" or "most", system, future)."""
    codes = [np.unique(table.axis(name), return_inverse=True)[1] for name in CELL]
    cell = np.unique(np.stack(codes), axis=1, return_inverse=True)[1].ravel()
    events = table.axis("n_events")
    least = np.full(cell.max() + 1, events.max())
    most = np.zeros(cell.max() + 1, events.dtype)
    np.minimum.at(least, cell, events)
    np.maximum.at(most, cell, events)
    compared = (most >= RATIO * least)[cell]
    system, future = table.axis("system"), table.axis("future")
    return {
        (name, one, two): np.flatnonzero(
            compared & (events == end[cell]) & (system == one) & (future == two)
        )
        for name, end in (("fewest", least), ("most", most))
        for one in np.unique(system).tolist()
        for two in np.unique(future).tolist()
    }


def difference(first: Drawn, second: Drawn) -> Drawn:
    """How much the second is above the first."""
    return Drawn(second.skill - first.skill, second.resampled - first.resampled)


def mean(parts: Sequence[Drawn]) -> Drawn:
    """The mean of several skills, each with the same weight."""
    resamples = np.mean([one.resampled for one in parts], axis=0)
    return Drawn(float(np.mean([one.skill for one in parts])), resamples)


def slope(x: Sequence[float], parts: Sequence[Drawn]) -> Drawn:
    """Slope of the least-squares line of skill on x."""
    centred = np.asarray(x, np.float64) - np.mean(x)
    weights = centred / (centred @ centred)
    resamples = np.tensordot(weights, np.stack([one.resampled for one in parts]), axes=1)
    return Drawn(float(weights @ [one.skill for one in parts]), resamples)


def ends(one: Drawn) -> tuple[float | None, float | None]:
    """The 95 % interval; None where there is none."""
    known = one.resampled[np.isfinite(one.resampled)]
    if not len(known):
        return None, None
    low, high = np.quantile(known, [0.025, 0.975])
    return float(low), float(high)


def decide(one: Drawn, low: float = -np.inf, high: float = np.inf) -> str:
    """Whether a number lies between two limits: "yes", "no", or "undecided".

    Undecided where its interval holds a limit that matters, or where it has none.
    """
    first, last = ends(one)
    if first is None or last is None:
        return "undecided"
    if low < first and last < high:
        return "yes"
    return "no" if last < low or first > high else "undecided"
