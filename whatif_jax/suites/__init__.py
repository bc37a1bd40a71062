"""Frozen suites: tasks as data that load without a simulator or a random generator.

References:
    SPEC §6, §8.
"""

from collections.abc import Sequence
from pathlib import Path

from ..catalog import System, builtin_systems, load_system, system
from .build import candidates, compose, draw_system, search_seed
from .checks import check_rows
from .manifest import AXES, SCHEMA, ManifestError, read_manifest, write_manifest
from .suite import Suite, TaskBatch, suite_path

__all__ = [
    "AXES",
    "SCHEMA",
    "ManifestError",
    "Suite",
    "TaskBatch",
    "available_suites",
    "candidates",
    "compose",
    "draw_system",
    "load_suite",
    "read_manifest",
    "search_seed",
    "write_manifest",
]


def available_suites() -> tuple[str, ...]:
    """Names of the suites that ship with the package."""
    return tuple(sorted(path.stem for path in Path(__file__).parent.glob("*.parquet")))


def load_suite(
    name: str | Path = "whatif-v1", *, systems: Sequence[str | Path | System] | None = None
) -> Suite:
    """Load a frozen suite.

    Args:
        name: a suite of the package (`available_suites`), or the path of a manifest.
        systems: catalog files or `System` objects of systems that are not built in.

    Raises:
        ManifestError: there is no such suite, or its manifest is not what SPEC §8 says.
        CatalogError: the manifest names a system that is neither built in nor given.
    """
    if not isinstance(name, str | Path):
        raise ManifestError(f"suite: {name!r}; expected a name or the path of a manifest")
    if str(name) in available_suites():
        path = suite_path(str(name))
    else:
        path = Path(name)
        if not path.is_file():
            raise ManifestError(
                f"suite: {str(name)!r}; expected one of {', '.join(available_suites())} or the "
                f"path of a manifest (parquet)"
            )
    table = read_manifest(path)
    known = {}
    for item in systems or ():
        item = item if isinstance(item, System) else _load(item)
        known[item.name] = item
    names = list(dict.fromkeys(table.column("system").to_pylist()))
    found = [known.get(name) or system(name) for name in names]
    check_rows(table, found)
    return Suite(path.stem, table, found)


def _load(item: str | Path) -> System:
    return system(item) if item in builtin_systems() else load_system(item)
