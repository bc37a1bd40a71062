"""Tables of the report: rows of plain values, for the CSV files and the page alike."""

import csv
import functools
import math
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from whatif_jax.files import write_whole

__all__ = ["DASH", "MINUS", "Column", "Table", "intervals", "minus", "shown", "write_csv"]

MINUS = "\N{MINUS SIGN}"  # as numbers are set in print
DASH = "\N{EN DASH}"  # in place of a missing value


class Column(NamedTuple):
    """One column of a table.

    `kind` says how a value is shown: "text", "count", "percent" and "points" (both are held in
    percent, points with a sign), "share" (held as 0..1, shown in percent), "number", "seconds".
    """

    key: str
    label: str
    kind: str = "text"
    group: str = ""  # heading above neighbouring columns that share it
    low: str = ""  # key of the lower end of its confidence interval, a column of the CSV alone
    high: str = ""
    wide_low: str = ""  # the same of a second interval, for a wider question
    wide_high: str = ""

    @property
    def numeric(self) -> bool:
        """Whether values are numbers, hence aligned right and sorted largest first."""
        return self.kind != "text"


class Table(NamedTuple):
    """One table. Rows hold a value for each column; None is shown as a dash.

    `variants` names keys of the rows that the page's switches choose among ("metric",
    "reference"); they are leading columns of the CSV.
    """

    name: str  # of its CSV file
    title: str
    columns: tuple[Column, ...]
    rows: list[dict[str, Any]]
    note: str = ""
    variants: tuple[str, ...] = ()

    def fields(self) -> list[str]:
        """Columns of the CSV: variants, then columns, each with its interval."""
        keys = list(self.variants)
        for column in self.columns:
            keys += [key for key in (column.key, *column[4:]) if key]
        return keys


def shown(value: Any, kind: str) -> str:
    """A value as the page shows it."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return DASH
    if kind == "text":
        return str(value)
    if isinstance(value, float) and math.isinf(value):
        return "∞" if value > 0 else f"{MINUS}∞"
    if kind == "count":
        return f"{int(value):,}"
    if kind == "percent":
        return minus(f"{value:.1f}")
    if kind == "share":
        return minus(f"{100 * value:.1f}")
    if kind == "points":
        return minus(f"{value:+.1f}")
    if kind == "seconds":
        return f"{value:.3g}" if value < 100 else f"{value:,.0f}"
    return minus(f"{value:.3f}")


def minus(text: str) -> str:
    """A typographic minus, and no sign before a zero."""
    if text[:1] in "+-" and not text.strip("+-0."):
        text = text[1:]
    return text.replace("-", MINUS)


def intervals(row: Mapping[str, Any], column: Column) -> list[str]:
    """The confidence intervals of a cell, the narrower first; none where it has none."""
    return [
        f"{shown(row[low], column.kind)} to {shown(row[high], column.kind)}"
        for low, high in ((column.low, column.high), (column.wide_low, column.wide_high))
        if low and row.get(low) is not None
    ]


def _save_csv(table: Table, path: Path) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(table.fields())
        writer.writerows([_plain(row.get(key)) for key in table.fields()] for row in table.rows)


def write_csv(tables: Iterable[Table], folder: Path) -> list[Path]:
    """One CSV file a table; numbers with six decimals more than the page shows.

    Raises:
        OSError: the folder cannot be written.
    """
    paths = []
    for table in tables:
        path = folder / f"{table.name}.csv"
        write_whole(path, functools.partial(_save_csv, table))
        paths.append(path)
    return paths


def _plain(value: Any) -> Any:
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return ""
    return round(value, 9) if isinstance(value, float) else value
