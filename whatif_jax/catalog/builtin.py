"""Systems by name or by file: the one place where a name or a path becomes a system."""

import os
from functools import cache
from pathlib import Path

from .errors import CatalogError, Problem, one_of
from .reader import read_system
from .system import System

__all__ = ["builtin_systems", "load_system"]

_NAMES = ("opendc", "gridlabd", "epanet", "sumo")
_FOLDER = Path(__file__).parent


def builtin_systems() -> tuple[str, ...]:
    """Names of the built-in systems, in the benchmark's order."""
    return _NAMES


def load_system(
    source: str | os.PathLike[str] | System,
    *,
    folder: str | os.PathLike[str] = ".",
    with_baseline: bool = False,
) -> System:
    """A system of the package, or one of a user's own.

    Args:
        source: a built-in name, the path of a catalog file, or a system, which is handed back.
        folder: what a relative path is relative to.
        with_baseline: whether to check the parquet of a file of the user's own too, which else is
            not opened.

    Raises:
        CatalogError: neither a built-in name nor a file, or a file that does not hold what it
            must, such as a name that a built-in system has; names every fault.
    """
    if isinstance(source, System):
        return source
    if source in _NAMES:
        return _builtin(str(source))
    try:
        path = Path(folder) / source
    except TypeError:  # no text and no path
        expected = one_of(_NAMES) + ", the path of a catalog file, or a loaded system"
        raise CatalogError([Problem("catalog", "systems", "name", source, expected)]) from None
    if not path.is_file():
        expected = one_of(_NAMES, str(source)) + ", or the path of a catalog file"
        raise CatalogError([Problem("catalog", "systems", "name", str(source), expected)])
    reserved = () if path.resolve().parent == _FOLDER.resolve() else _NAMES
    return read_system(path, reserved=reserved, with_baseline=with_baseline)


@cache
def _builtin(name: str) -> System:
    return read_system(_FOLDER / f"{name}.toml")
