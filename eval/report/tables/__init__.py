"""Every table of our own results."""

from ..comparison import Comparison
from .forecasts import coverage_table, effects_table
from .leaderboard import leaderboard_table, pairwise_table, runs_table
from .skills import fewest_most_table, gap_table, skill_tables
from .table import MODEL, Column, Kind, Table, shown, write_csv

__all__ = ["MODEL", "Column", "Kind", "Table", "report_tables", "shown", "write_csv"]


def report_tables(comparison: Comparison) -> dict[str, Table]:
    """The tables by name, in the order of the page."""
    skills = skill_tables(comparison)
    found = [
        leaderboard_table(comparison),
        *skills,
        gap_table(comparison, skills[-1]),
        pairwise_table(comparison),
        fewest_most_table(comparison),
        effects_table(comparison),
        coverage_table(comparison),
        runs_table(comparison),
    ]
    return {table.name: table for table in found if table is not None}
