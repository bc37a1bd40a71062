"""From a catalog file to a system, or to an error that names every fault of the file."""

import tomllib
from collections.abc import Sequence
from pathlib import Path

from pydantic import ValidationError

from .entry import KINDS, Legend, Table, listed, names_of
from .errors import CatalogError, Problem
from .system import System, SystemTable, resolve_system

__all__ = ["read_system"]


def read_system(path: Path, *, reserved: Sequence[str] = (), with_baseline: bool = False) -> System:
    """Read and check one system's file.

    Args:
        path: the file.
        reserved: names that the system may not have.
        with_baseline: whether to check the baseline beside it too, which else is not opened.

    Raises:
        CatalogError: the file cannot be read, or has faults: all of them.
    """
    document = _parse(path)
    problems: list[Problem] = []
    try:
        table = SystemTable.model_validate(document, context=_legend(document))
    except ValidationError as error:
        for line in error.errors(include_url=False):
            entry, field = _place(line["loc"], document)
            expected = str(line["ctx"]["error"])
            problems.append(Problem(path.name, entry, field, line["input"], expected))
    name, baseline = document.get("name"), document.get("baseline")
    if name in reserved:
        expected = "a name that no built-in system has"
        problems.append(Problem(path.name, "file", "name", name, expected))
    if with_baseline and isinstance(baseline, str) and Path(baseline).name:
        from .series import read_columns  # which imports pyarrow

        targets = [name for each in listed(document, "targets") for name in names_of(each)]
        names, at = list(dict.fromkeys(targets)), path.parent / baseline
        steps = None if any(each.field == "steps" for each in problems) else document.get("steps")
        length = steps if isinstance(steps, int) else None
        problems += read_columns(path.name, at, names, length)[1]
    if problems:
        raise CatalogError(problems)
    return resolve_system(table, path)


def _parse(path: Path) -> Table:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError:
        problem = Problem(path.name, "file", "text", str(path), "a readable TOML file")
    except (ValueError, RecursionError) as error:
        problem = Problem(path.name, "file", "text", str(error), "valid TOML (UTF-8)")
    raise CatalogError([problem])


def _legend(document: Table) -> Legend:
    """The file's letters; one that is not there as a default is a fault of that field alone."""
    meanings, default = document.get("legend"), document.get("default_provenance")
    if not isinstance(meanings, dict) or not meanings:
        return Legend()
    if isinstance(default, str) and default in meanings:
        return Legend(meanings, default)
    return Legend(meanings, None if default is None else next(iter(meanings)))


def _place(path: tuple[str | int, ...], document: object) -> tuple[str, str]:
    """The entry and the field that a fault's path leads to."""
    if "response" in path:  # in a file its fields stand beside it
        path = (*path[: path.index("response")], path[-1])
    entry, field = "file", ""
    for part in path:
        document = _at(document, part)
        if isinstance(part, int) and field in KINDS:
            name = _at(document, "names") or _at(document, "name")
            known = isinstance(name, str | list) and name
            entry = f"{KINDS[field]} {repr(name) if known else f'number {part + 1}'}"
            field = ""
        elif isinstance(part, int):
            field += f"[{part}]"
        elif part == "axes" and len(path) > 1:
            entry = part
        elif field.endswith("provenance"):
            field += f" of {part}"
        else:
            field += f".{part}" if field else part
    return entry, field or "entry"


def _at(document: object, part: str | int) -> object:
    if isinstance(document, dict):
        return document.get(part)
    if isinstance(document, list) and isinstance(part, int):
        return document[part]
    return None
