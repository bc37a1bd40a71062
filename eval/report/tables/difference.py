"""The paired difference of every model to a chosen one: on the same tasks, the same draws."""

import functools
import re
from collections.abc import Iterator
from typing import Any

from whatif_jax.comparison import bootstrap_all, pairwise_win_rates, skill_differences, skill_scores

from ..comparison import Comparison
from ..labels import MINUS
from .leaderboard import BY
from .table import MODEL, Column, Table

__all__ = ["difference_table"]

VARIANTS = ("metric", "reference")


def difference_table(comparison: Comparison, other: str) -> Table:
    """Skill of every model minus that of another, each on the tasks that both were scored on.

    Args:
        comparison: the models compared.
        other: name of the one that all are set against.
    """
    group = "Skill on the tasks of both (%)"
    ends = tuple((f"difference_{by}_low", f"difference_{by}_high") for by in BY)
    columns = (
        MODEL,
        Column("trained_on", "Trained on"),
        Column("tasks", "Tasks", "count"),
        Column("skill", "model", "percent", group),
        Column("other_skill", other, "percent", group),
        Column("difference", "Difference", "points", group, ends),
        Column("better", "Better on (% of tasks)", "percent"),
    )
    note = (
        f"Difference: skill of the row's model {MINUS} skill of {other}, in points, over the tasks "
        "that both were scored on. Below it, 95 % bootstrap intervals of the difference itself, "
        "the same tasks drawn for both: for other histories of this suite's targets, and in "
        "italics for other targets of these kinds. An interval that does not hold 0 tells the two "
        f"apart. Better on: share of tasks with a smaller error than {other}, ties one half."
    )
    rows = sorted(_rows(comparison, other), key=lambda row: (-row["difference"], row["model"]))
    name = f"difference_to_{re.sub(r'[^A-Za-z0-9]+', '_', other).strip('_').lower()}"
    return Table.of_rows(name, f"Difference to {other}", columns, rows, note, VARIANTS)


def _rows(comparison: Comparison, other: str) -> Iterator[dict[str, Any]]:
    """A row for every variant and model but the other one."""
    for metric, reference in comparison.variants:
        difference = functools.partial(skill_differences, other=other, reference=reference)
        for names, table in comparison.against(metric, reference, other):
            skills = 100 * skill_scores(table, reference)
            wins = 100 * pairwise_win_rates(table)
            found = {
                by: bootstrap_all(
                    table,
                    {"difference": difference},
                    key=comparison.key,
                    resamples=comparison.resamples,
                    by=by,
                )["difference"]
                for by in BY
            }
            for name in (one for one in names if one != other):
                place, others = table.index(name), table.index(other)
                row: dict[str, Any] = {"metric": metric, "reference": reference, "model": name}
                row |= {"trained_on": comparison.models[name].split, "tasks": len(table)}
                row |= {"skill": skills[place], "other_skill": skills[others]}
                row |= {"difference": 100 * found[BY[0]].estimate[place]}
                for by, one in found.items():
                    row[f"difference_{by}_low"] = 100 * one.lower[place]
                    row[f"difference_{by}_high"] = 100 * one.upper[place]
                yield row | {"better": wins[place, others]}
