"""Catalog errors that name the file, entry, field, value and what was expected."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

__all__ = ["CatalogError", "Problem", "nearest", "one_of"]

_LONGEST_VALUE = 100
_MOST_NAMES = 12


@dataclass(frozen=True)
class Problem:
    """One fault in one field of one entry of one file; the value is None where it is missing."""

    file: str
    entry: str
    field: str
    value: object
    expected: str

    def __str__(self) -> str:
        text = repr(self.value)
        if len(text) > _LONGEST_VALUE:
            text = text[: _LONGEST_VALUE - 3] + "..."
        value = "is missing" if self.value is None else f"= {text}"
        return f"{self.file}: {self.entry}: {self.field} {value}; expected {self.expected}"


class CatalogError(ValueError):
    """A system file is wrong, or a name is not in the catalog; ``problems`` lists each fault."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        self.problems = tuple(problems)
        if len(self.problems) == 1:
            message = str(self.problems[0])
        else:
            lines = "\n".join(f"  - {problem}" for problem in self.problems)
            message = f"{len(self.problems)} problems in the catalog:\n{lines}"
        super().__init__(message)

    def __reduce__(self) -> tuple[type["CatalogError"], tuple[tuple[Problem, ...]]]:
        return CatalogError, (self.problems,)


def nearest(given: object, names: Iterable[str]) -> str | None:
    """The name that ``given`` may be a slip of, if any."""
    import difflib

    return next(iter(difflib.get_close_matches(str(given), list(names), n=1)), None)


def one_of(names: Iterable[str], given: object = None) -> str:
    """Text that lists the accepted names, led by the one nearest to ``given`` if any is near."""
    accepted = list(names)
    if not accepted:
        return "nothing (there are none)"
    near = nearest(given, accepted) if isinstance(given, str) else None
    hint = f" (did you mean {near!r}?)" if near else ""
    listed = ", ".join(repr(name) for name in accepted[:_MOST_NAMES])
    if len(accepted) > _MOST_NAMES:
        listed += f" and {len(accepted) - _MOST_NAMES} more"
    return ("one of " if len(accepted) > 1 else "") + listed + hint
