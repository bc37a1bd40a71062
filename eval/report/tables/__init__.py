"""Every table of our own results."""

from collections.abc import Sequence

from ..comparison import Comparison
from .difference import difference_table
from .forecasts import coverage_table, effects_table
from .leaderboard import leaderboard_table, pairwise_table, runs_table
from .skills import fewest_most_table, gap_table, skill_tables
from .table import MODEL, Column, Kind, Table, shown, write_csv

__all__ = ["MODEL", "Column", "Kind", "Table", "report_tables", "shown", "write_csv"]


def report_tables(comparison: Comparison, others: Sequence[str] = ()) -> dict[str, Table]:
    """The tables by name, in the order of the page.

    Args:
        comparison: the models compared.
        others: names of models that all are set against, with a table each.
    """
    skills = skill_tables(comparison)
    found = [
        leaderboard_table(comparison),
        *(difference_table(comparison, other) for other in others),
        *skills,
        gap_table(comparison, skills[-1]),
        pairwise_table(comparison),
        fewest_most_table(comparison),
        effects_table(comparison),
        coverage_table(comparison),
        runs_table(comparison),
    ]
    return {
        table.name: table._replace(frame=comparison.apart(table.frame))
        for table in found
        if table is not None
    }
