"""Frozen suites: tasks as data that load without a simulator or a random generator.

References:
    whatif-v1.md §6, §8.
"""

import json
from collections.abc import Sequence
from pathlib import Path

from ..catalog import CatalogError, System, builtin_systems, load_system
from ..catalog.errors import Problem
from .checks import check_manifest
from .fingerprint import check_frozen
from .manifest import AXES, SCHEMA, ManifestError, metadata_of, read_manifest, write_manifest
from .suite import Suite, TaskBatch

__all__ = [
    "AXES",
    "SCHEMA",
    "ManifestError",
    "Suite",
    "TaskBatch",
    "available_suites",
    "definition",
    "load_suite",
    "read_manifest",
    "write_manifest",
]

_FOLDER = Path(__file__).parent


def available_suites() -> tuple[str, ...]:
    """Names of the suites that ship with the package."""
    return tuple(sorted(path.stem for path in _FOLDER.glob("*.parquet")))


def definition(name: str = "whatif-v1") -> str:
    """What a suite of the package is, rule by rule: a text in Markdown.

    Raises:
        ManifestError: the package has no suite of that name.
    """
    if name not in available_suites():
        expected = f"one of {', '.join(available_suites())}"
        if str(name).endswith(".toml") or name in builtin_systems():
            expected += f" (a system is printed by `whatif-jax describe {name}`)"
        raise ManifestError(f"suite: {name!r}; expected {expected}")
    return (_FOLDER / f"{name}.md").read_text("utf-8")


def load_suite(
    name: str | Path = "whatif-v1", *, systems: Sequence[str | Path | System] | None = None
) -> Suite:
    """Load a frozen suite. One's own is called what its recipe calls it.

    Args:
        name: a suite of the package (`available_suites`), or the path of a manifest.
        systems: catalog files or `System` objects of systems that are not built in.

    Raises:
        ManifestError: there is no such suite, its manifest is not what whatif-v1.md §8 says, or a
            system is not what the suite was frozen with.
        CatalogError: the manifest names a system that is neither built in nor given.
    """
    if not isinstance(name, str | Path):
        raise ManifestError(f"suite: {name!r}; expected a name or the path of a manifest")
    path = _FOLDER / f"{name}.parquet" if str(name) in available_suites() else Path(name)
    if not path.is_file():
        raise ManifestError(
            f"suite: {str(name)!r}; expected one of {', '.join(available_suites())} or the path "
            f"of a manifest (parquet)"
        )
    table = read_manifest(path)
    given = {system.name: system for system in map(load_system, systems or ())}
    names = dict.fromkeys(table.column("system").to_pylist())
    for missing in names.keys() - given.keys() - set(builtin_systems()):
        expected = "a system of the package, or its catalog file: --system FILE, systems=[FILE]"
        raise CatalogError([Problem(path.name, "systems", "name", missing, expected)])
    catalog = [given.get(name) or load_system(name) for name in names]
    check_manifest(table, catalog)
    kept = metadata_of(table)
    suite = Suite(kept.get("suite", path.stem), table, catalog)
    if path.parent == _FOLDER:
        # frozen before manifests kept it; as it ships, the tests hold it
        kept = json.loads(path.with_suffix(".json").read_text("utf-8")) if given else {}
    if "fingerprint" in kept:
        check_frozen(suite.name, kept, table, catalog, suite.systems)
    return suite
