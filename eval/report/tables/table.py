"""What a table of the report is: a data frame, and how its columns are shown."""

import functools
import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

import polars as pl
from polars import selectors

from whatif_jax.files import write_whole

from ..labels import DASH, MINUS, Switches

__all__ = ["MODEL", "Column", "Kind", "Table", "minus", "shown", "spread", "write_csv"]

# "percent" and "points" are held in percent, points shown with a sign; "share" is held as 0..1 and
# shown in percent.
Kind = Literal["text", "count", "percent", "points", "share", "number", "seconds"]

_TYPES: dict[Kind, type[pl.DataType]] = {"text": pl.String, "count": pl.Int64}  # else Float64

_FORMATS: dict[Kind, str] = {
    "count": "{:,.0f}",
    "percent": "{:.1f}",
    "points": "{:+.1f}",
    "share": "{:.1f}",
    "number": "{:.3f}",
    "seconds": "{:.3g}",
}


class Column(NamedTuple):
    """One column of a table."""

    key: str  # of the data frame
    label: str
    kind: Kind = "text"
    group: str = ""  # heading above neighbouring columns that share it
    # Columns of the CSV alone: both ends of its confidence intervals, the narrowest first.
    intervals: tuple[tuple[str, str], ...] = ()

    @property
    def numeric(self) -> bool:
        """Whether values are numbers, hence aligned right and sorted largest first."""
        return self.kind != "text"

    @property
    def keys(self) -> list[str]:
        """Its columns of the CSV: itself and its intervals."""
        return [self.key, *(end for ends in self.intervals for end in ends)]

    def ends(self, row: Mapping[str, Any]) -> list[str]:
        """The confidence intervals of a cell as the page shows them; none where it has none."""
        return [
            f"{shown(row[low], self.kind)} to {shown(row[high], self.kind)}"
            for low, high in self.intervals
            if row[low] is not None
        ]


MODEL = Column("model", "Model")


class Table(NamedTuple):
    """One table; null is shown as a dash."""

    name: str  # of its CSV file
    title: str
    columns: tuple[Column, ...]
    frame: pl.DataFrame
    note: str = ""
    # Columns that the page's switches choose rows by; they lead the CSV.
    variants: tuple[str, ...] = ()

    @classmethod
    def of_rows(
        cls,
        name: str,
        title: str,
        columns: Sequence[Column],
        rows: Iterable[Mapping[str, Any]],
        note: str = "",
        variants: tuple[str, ...] = (),
    ) -> "Table":
        """A table of plain values, which has its columns even without a row."""
        schema: dict[str, type[pl.DataType]] = dict.fromkeys(variants, pl.String)
        for column in columns:
            kind = _TYPES.get(column.kind, pl.Float64)
            schema |= dict.fromkeys(column.keys, kind)
        frame = pl.DataFrame(list(rows), schema).fill_nan(None)
        return cls(name, title, tuple(columns), frame, note, variants)

    @property
    def fields(self) -> list[str]:
        """Columns of the CSV: variants, then columns, each with its intervals."""
        return [*self.variants, *(key for column in self.columns for key in column.keys)]

    def where(self, metric: str = "", reference: str = "") -> pl.DataFrame:
        """The rows of one variant; what the table has no variants of is ignored."""
        values = {"metric": metric, "reference": reference}
        wanted = [pl.col(name) == value for name, value in values.items() if name in self.variants]
        return self.frame.filter(wanted) if wanted else self.frame

    def choices(self, switches: Iterable[Switches]) -> list[Switches]:
        """What the page's switches choose among for this table; one empty choice for none."""
        if not self.variants:
            return [Switches("")]
        whole = "reference" in self.variants
        return list(dict.fromkeys(one if whole else Switches(one.metric) for one in switches))

    @property
    def heads(self) -> list[tuple[str, int]]:
        """Headings above the columns with the number of columns each spans; empty for none."""
        groups = itertools.groupby(column.group for column in self.columns)
        found = [(group, len(list(columns))) for group, columns in groups]
        return found if any(group for group, _ in found) else []


def spread(
    frame: pl.DataFrame,
    index: Sequence[str],
    by: Mapping[str, Iterable[str | int]],
    columns: Mapping[str, str] = {"": "skill"},
) -> pl.DataFrame:
    """Lay rows beside each other: one row for each `index`, one column for each value of `by`.

    Args:
        frame: has at most one row for each value of `index` and `by`.
        index: columns that stay.
        by: columns with their values, which joined by `_` are the names of the new columns; null
            where the frame has no such row.
        columns: suffix of a new column's name -> column that it takes its values from.
    """
    name = pl.concat_str(list(by), separator="_")
    cells = []
    for values in itertools.product(*by.values()):
        value = "_".join(map(str, values))
        for suffix, column in columns.items():
            cells.append(pl.col(column).filter(name == value).first().alias(f"{value}{suffix}"))
    return frame.group_by(index).agg(cells)


def shown(value: Any, kind: Kind) -> str:
    """A value as the page shows it."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return DASH
    if kind == "text":
        return str(value)
    if math.isinf(value):
        return "∞" if value > 0 else f"{MINUS}∞"
    if kind == "share":
        value = 100 * value
    if kind == "seconds" and value >= 100:
        kind = "count"
    return minus(_FORMATS[kind].format(value))


def minus(text: str) -> str:
    """A typographic minus, and no sign before a zero."""
    if text[:1] in "+-" and not text.strip("+-0."):
        text = text[1:]
    return text.replace("-", MINUS)


def write_csv(table: Table, folder: Path) -> Path:
    """Write a table's CSV file; numbers with nine decimals.

    Raises:
        OSError: the folder cannot be written.
    """
    path = folder / f"{table.name}.csv"
    plain = table.frame.select(table.fields)
    plain = plain.with_columns(selectors.float().fill_nan(None).round(9))
    write_whole(path, functools.partial(plain.write_csv, line_terminator="\r\n"))
    return path
