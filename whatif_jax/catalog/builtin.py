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
    source: str | os.PathLike[str] | System, *, folder: str | os.PathLike[str] = "."
) -> System:
    """A system of the package, or one of a user's own.

    Args:
        source: a built-in name, the path of a catalog file, or a system, which is handed back.
        folder: what a relative path is relative to.

    Raises:
        CatalogError: neither a built-in name nor a file, or a file that does not hold what it
            must; names every fault.
    """
    if isinstance(source, System):
        return source
    if source in _NAMES:
        return _builtin(str(source))
    path = Path(folder) / source
    if not path.is_file():
        expected = one_of(_NAMES, str(source)) + ", or the path of a catalog file"
        raise CatalogError([Problem("catalog", "systems", "name", str(source), expected)])
    return read_system(path)


@cache
def _builtin(name: str) -> System:
    return read_system(_FOLDER / f"{name}.toml")
