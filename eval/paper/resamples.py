"""Skills on resamples of a report's tasks, from which changes of skill get their intervals.

A skill is held as an array [1 + R] in percent: itself, then its value on each of R resamples. Every
set of tasks is resampled together, so that the difference of two such arrays has the interval of
the change, not of two skills that vary on their own. Resamples are NaN where they say nothing: none
of the tasks was drawn, or all are of one history.
"""

from collections.abc import Mapping, Sequence

import numpy as np
import polars as pl

from whatif_jax.comparison import ErrorTable
from whatif_jax.comparison.bootstrap import clusters, resample_counts, resampled_means
from whatif_jax.comparison.groups import CELL
from whatif_jax.comparison.skill import log_ratios, skill_of

from ..report.comparison import Comparison
from ..report.tables.skills import EVENT_RATIO

__all__ = ["Key", "decide", "ends", "resampled", "sets_of", "slope"]

Key = tuple[str | int, ...]  # of a set of tasks


def sets_of(table: ErrorTable) -> dict[Key, np.ndarray]:
    """The sets of tasks that findings compare, as row numbers of a table.

    Returns:
        by ("future", future), ("k", k) and ("n_events", number) of Novel tasks,
        ("system", system, future), and ("fewest" or "most", system, future) of the tasks behind
        `whatif_jax.comparison.fewest_most`.
    """
    tasks = pl.DataFrame(dict(table.axes)).with_row_index("row")
    novel = tasks.filter(pl.col("future") == "novel")
    events = pl.col("n_events")
    least, most = events.min().over(CELL), events.max().over(CELL)
    compared = tasks.filter(most >= EVENT_RATIO * least)
    groups = [
        ("future", tasks, ["future"]),
        ("k", novel, ["k"]),
        ("n_events", novel, ["n_events"]),
        ("system", tasks, ["system", "future"]),
        ("fewest", compared.filter(events == least), ["system", "future"]),
        ("most", compared.filter(events == most), ["system", "future"]),
    ]
    return {
        (name, *values): part["row"].to_numpy()
        for name, frame, by in groups
        for values, part in sorted(frame.partition_by(by, as_dict=True).items())
    }


def resampled(
    comparison: Comparison, table: ErrorTable, reference: str, sets: Mapping[Key, np.ndarray]
) -> dict[str, dict[Key, np.ndarray]]:
    """Skill [1 + R] of every model on several sets of tasks, on the same resamples of histories.

    Args:
        comparison: whose key and number of resamples are taken.
        table: errors of the models and of the reference.
        reference: model the skill is against.
        sets: row numbers of the table.

    Returns:
        by model, then by the keys of `sets`.
    """
    if not sets:
        return {name: {} for name in table.models}
    logs = log_ratios(table, reference)
    drawn_with = clusters(table, "pair")
    counts = resample_counts(int(drawn_with.max()) + 1, comparison.resamples, key=comparison.key)
    rows = list(sets.values())
    means = np.stack([logs[one].mean(axis=0) for one in rows])
    drawn = resampled_means(logs, drawn_with, rows, counts)
    skills = 100 * skill_of(np.concatenate([means[None], drawn]))  # [1 + R, sets, models]
    for place, one in enumerate(rows):
        if len(np.unique(drawn_with[one])) == 1:  # its resamples are all alike, and say nothing
            skills[1:, place] = np.nan
    return {
        model: {key: skills[:, place, column] for place, key in enumerate(sets)}
        for column, model in enumerate(table.models)
    }


def slope(x: Sequence[float], skills: Sequence[np.ndarray]) -> np.ndarray:
    """Slope [1 + R] of the least-squares line of skills on x."""
    centred = np.asarray(x, np.float64) - np.mean(x)
    return np.tensordot(centred / (centred @ centred), np.stack(skills), axes=1)


def ends(skill: np.ndarray) -> tuple[float | None, float | None]:
    """The 95 % interval of a skill [1 + R]; None where there is none."""
    known = skill[1:][np.isfinite(skill[1:])]
    if not len(known):
        return None, None
    low, high = np.quantile(known, [0.025, 0.975])
    return float(low), float(high)


def decide(skill: np.ndarray, low: float = -np.inf, high: float = np.inf) -> str:
    """Whether a number [1 + R] lies between two limits: "yes", "no", or "undecided".

    Undecided where its interval holds a limit that matters, or where it has none.
    """
    first, last = ends(skill)
    if first is None or last is None:
        return "undecided"
    if low < first and last < high:
        return "yes"
    return "no" if last < low or first > high else "undecided"
