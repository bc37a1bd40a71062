"""Typed reading of one table of a system's file; faults are gathered, not raised."""

import math
from collections.abc import Iterable, Mapping
from typing import Any

from .errors import MISSING, CatalogError, Problem, one_of
from .schema import FrozenMapping

__all__ = ["Entry", "Faults"]

_REQUIRED = MISSING


class Faults:
    """The problems found so far in one file, and the provenance legend of the file."""

    def __init__(self, file: str) -> None:
        self.file = file
        self.legend: Mapping[str, str] = {}
        self.default_provenance: str | None = None
        self.problems: list[Problem] = []

    def add(
        self, entry: str, field: str, value: object, expected: str, *, once: bool = False
    ) -> None:
        """Note one problem; with ``once``, not again for the same field and value elsewhere."""
        problem = Problem(self.file, entry, field, value, expected)
        known = any(each.field == field and each.value == value for each in self.problems)
        if problem not in self.problems and not (once and known):
            self.problems.append(problem)

    def stop_if_any(self) -> None:
        """Raise everything found so far."""
        if self.problems:
            raise CatalogError(self.problems)


class Entry:
    """One table: fields are taken one by one, then :meth:`finish` names the unknown ones."""

    def __init__(self, faults: Faults, label: str, table: object, prefix: str = "") -> None:
        self.faults = faults
        self.label = label
        self.prefix = prefix
        self.taken: dict[str, None] = {}
        self.table: Mapping[str, Any] = {}
        if isinstance(table, dict):
            self.table = table
        else:
            faults.add(label, prefix.rstrip(".") or "entry", table, "a table of fields")

    def has(self, field: str) -> bool:
        """Whether the table holds the field."""
        return field in self.table

    def fault(self, field: str, value: object, expected: str) -> None:
        """Note a problem in a field of this table."""
        self.faults.add(self.label, self.prefix + field, value, expected)

    def raw(self, field: str, default: Any = _REQUIRED, expected: str = "a value") -> Any:
        """The field as TOML gives it, or the default; a missing required one is a fault."""
        self.taken[field] = None
        if field in self.table:
            return self.table[field]
        if default is _REQUIRED:
            self.fault(field, MISSING, expected)
            return MISSING
        return default

    def text(self, field: str, default: Any = _REQUIRED, choices: Iterable[str] = ()) -> str:
        """A string, one of ``choices`` where they are given."""
        accepted = tuple(choices)
        value: Any = self.raw(field, default, one_of(accepted) if accepted else "a string")
        if value is MISSING:
            return ""
        if not isinstance(value, str):
            self.fault(field, value, "a string")
            return ""
        if accepted and value not in accepted:
            self.fault(field, value, one_of(accepted, value))
        elif not value and default is _REQUIRED:
            self.fault(field, value, "a string that is not empty")
        return str(value)

    def flag(self, field: str, default: bool) -> bool:
        """true or false."""
        value = self.raw(field, default)
        if not isinstance(value, bool):
            self.fault(field, value, "true or false")
            return default
        return value

    def number(
        self,
        field: str,
        default: Any = _REQUIRED,
        *,
        above: float | None = None,
        least: float | None = None,
        below: float | None = None,
    ) -> float:
        """A finite number, within bounds where they are given."""
        expected = "a finite number" + _bounds(above, least, below)
        value = self.raw(field, default, expected)
        if value is MISSING:
            return math.nan
        if not is_number(value) or _outside(value, above, least, below):
            self.fault(field, value, expected)
            return math.nan
        return float(value)

    def whole(self, field: str, default: Any = _REQUIRED, *, least: int = 1) -> int:
        """A whole number."""
        expected = f"a whole number, {least} or more"
        value = self.raw(field, default, expected)
        if value is MISSING:
            return least
        if not _is_whole(value) or value < least:
            self.fault(field, value, expected)
            return least
        return int(value)

    def listed(self, field: str, default: Any = _REQUIRED, expected: str = "a list") -> list[Any]:
        """A list of anything."""
        value = self.raw(field, default, expected)
        if value is MISSING:
            return []
        if not isinstance(value, list):
            self.fault(field, value, expected)
            return []
        return value

    def texts(self, field: str, default: Any = _REQUIRED) -> tuple[str, ...]:
        """A list of strings."""
        values = self.listed(field, default, "a list of strings")
        for value in values:
            if not isinstance(value, str) or not value:
                self.fault(field, value, "a list of strings that are not empty")
                return ()
        return tuple(values)

    def wholes(self, field: str, *, least: int = 1) -> tuple[int, ...]:
        """A list, not empty, of rising whole numbers."""
        values = self.listed(field)
        good = all(_is_whole(value) and value >= least for value in values)
        if self.has(field) and not (good and values and values == sorted(set(values))):
            self.fault(field, values, f"rising whole numbers, each {least} or more")
            return ()
        return tuple(values)

    def numbers(self, field: str) -> tuple[float, ...]:
        """A list of finite numbers."""
        values = self.listed(field, expected="a list of numbers")
        if not all(is_number(value) for value in values):
            self.fault(field, values, "a list of finite numbers")
            return ()
        return tuple(float(value) for value in values)

    def named_tables(self, field: str, kind: str, name_field: str = "name") -> "list[Entry]":
        """A list of tables, each labelled by its kind and its name."""
        entries = []
        for index, table in enumerate(self.listed(field, expected=f"a list of {kind} tables")):
            name = table.get(name_field) if isinstance(table, dict) else None
            label = f"{kind} {name!r}" if isinstance(name, str) else f"{kind} number {index + 1}"
            entries.append(Entry(self.faults, label, table))
        return entries

    def child(self, field: str, default: Any = _REQUIRED) -> "Entry":
        """The table under a field, its faults named ``field.inner``."""
        value = self.raw(field, default, "a table of fields")
        return Entry(
            self.faults,
            self.label,
            {} if value is MISSING else value,
            f"{self.prefix}{field}.",
        )

    def provenance(self, *fields: str) -> FrozenMapping[str]:
        """Origin of each of the fields: one letter for all, or a table with a ``default``."""
        legend = self.faults.legend
        given = self.raw("provenance", self.faults.default_provenance)
        table = given if isinstance(given, dict) else {"default": given}
        fallback = table.get("default", self.faults.default_provenance)
        expected = "one of the legend's " + ", ".join(f"{k!r} ({v})" for k, v in legend.items())
        found: dict[str, str] = {}
        missing = []
        for field in fields:
            letter = table.get(field, fallback)
            if letter is None:
                missing.append(field)
            elif isinstance(letter, str) and letter in legend:
                found[field] = letter
            else:
                self.fault(f"provenance of {field}", letter, expected)
        if missing:
            self.fault(f"provenance of {', '.join(missing)}", MISSING, expected)
        for key in table:
            if key != "default" and key not in fields:
                self.fault(f"provenance.{key}", table[key], "no such key: " + one_of(fields, key))
        return FrozenMapping(found)

    def finish(self) -> None:
        """Name every field that nothing asked for."""
        for field, value in self.table.items():
            if field not in self.taken:
                self.fault(field, value, "no such field here: " + one_of(self.taken, field))


def is_number(value: object) -> bool:
    """Whether it is a finite int or float, and no bool."""
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _is_whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _bounds(above: float | None, least: float | None, below: float | None) -> str:
    parts = []
    if above is not None:
        parts.append(f"above {above:g}")
    if least is not None:
        parts.append(f"{least:g} or more")
    if below is not None:
        parts.append(f"below {below:g}")
    return " " + " and ".join(parts) if parts else ""


def _outside(value: float, above: float | None, least: float | None, below: float | None) -> bool:
    return (
        (above is not None and value <= above)
        or (least is not None and value < least)
        or (below is not None and value >= below)
    )
