"""The four systems that come with the package (SPEC §2)."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from whatif_jax.catalog.errors import CatalogError, Problem, one_of
from whatif_jax.catalog.loader import load_system
from whatif_jax.catalog.schema import System

__all__ = ["builtin_systems", "system"]

_NAMES = ("opendc", "gridlabd", "epanet", "sumo")
_FOLDER = Path(__file__).parent / "systems"


def builtin_systems() -> tuple[str, ...]:
    """Names of the built-in systems, in the benchmark's order."""
    return _NAMES


@cache
def system(name: str) -> System:
    """The built-in system of that name, read once."""
    if name not in _NAMES:
        expected = one_of(_NAMES, name) + ", or load_system(path) for a file of your own"
        raise CatalogError([Problem("catalog", "built-in systems", "name", name, expected)])
    return load_system(_FOLDER / f"{name}.toml")
