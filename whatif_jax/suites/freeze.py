"""Freezing a suite: from a recipe to a manifest on disk.

References:
    whatif-v1.md §6 (composition), §8 (manifest).
"""

import errno
import json
import os
import sys
import tempfile
from pathlib import Path

from tqdm import tqdm

from ..catalog import System, load_system
from ..files import explained
from ..tasks import load_systems
from ..tasks.spec import is_whole
from .build import candidates, compose, composition, draw_system, facts, search_seed
from .fingerprint import frozen_values
from .manifest import write_manifest
from .recipe import SystemRecipe, read_recipe

__all__ = ["freeze"]


def freeze(
    out: Path | None, recipe_path: Path | None = None, most_seeds: int = 1000
) -> dict[str, dict[str, int]]:
    """Draw every system of a recipe, find its seed, and write the manifest.

    Where no seed gives the composition, reports per target what seed 0 gave and writes nothing.

    Args:
        out: path of the manifest, or None to report only; its folder is made if missing.
        recipe_path: the recipe; the one of whatif-v1 if None.
        most_seeds: seeds tried for each system, from 0.

    Returns:
        tasks of every target, by system.

    Raises:
        ValueError: an argument, a fault of the recipe or of a system, before anything is drawn; or
            a composition not found within `most_seeds`.
    """
    if not is_whole(most_seeds) or most_seeds < 1:
        raise ValueError(f"most_seeds: {most_seeds!r}; expected a whole number of at least 1")
    recipe_path = recipe_path or Path(__file__).parent / "whatif-v1.toml"
    recipe = read_recipe(recipe_path)
    systems = [load_system(entry.name, folder=recipe_path.parent) for entry in recipe.systems]
    together = load_systems(systems)  # refuses a name that comes twice, and a broken baseline
    for item, entry in zip(systems, recipe.systems, strict=True):
        _refuse_impossible(item, entry, recipe_path)
    if out is not None:
        _refuse_place(out)
    draws, report, missing = {}, {}, []
    for item, entry in zip(systems, recipe.systems, strict=True):
        loaded = load_systems([item])
        with tqdm(total=len(candidates(item)), unit="pair", desc=item.name, disable=None) as bar:

            def seed_changed(seed: int, bar: tqdm = bar, name: str = item.name) -> None:
                bar.reset()
                bar.set_description(f"{name} seed {seed}")

            try:
                draw = search_seed(
                    item,
                    loaded,
                    full_targets=entry.full_targets,
                    partial_tasks=entry.partial_tasks,
                    seeds=range(most_seeds),
                    progress=seed_changed,
                    pairs_done=bar.update,
                )
            except ValueError as error:
                missing.append(str(error))
                draw = draw_system(item, loaded, 0, progress=bar.update)
        draws[item.name] = draw
        report[item.name] = composition(item, draw)
    for item in systems:
        counts = report[item.name]
        full, partial = facts(item, counts)
        _say(
            f"{item.name}: seed {draws[item.name].seed}, {sum(counts.values()):,} tasks, "
            f"{full} full targets, {partial} tasks of partial targets"
        )
        whole = 2 * len(candidates(item)) // len(item.targets)
        for name, count in counts.items():
            if count != whole:
                _say(f"  {name}: {count} of {whole}")
    if missing:
        raise ValueError("; ".join(missing))
    if out is not None:
        table = compose(draws, {item.name: item for item in systems})
        metadata = {
            "suite": recipe.name,
            "seeds": json.dumps({name: draw.seed for name, draw in draws.items()}),
            "composition": json.dumps(report),
            **frozen_values(table, systems, together),
        }
        write_manifest(table, out, metadata)
        _say(f"{table.num_rows:,} tasks in {out}")
    return report


def _refuse_impossible(system: System, entry: SystemRecipe, recipe: Path) -> None:
    """Refuse a composition that no seed can give."""
    full = sum(not target.partial for target in system.targets)
    partial = 2 * len(candidates(system)) // len(system.targets) * (len(system.targets) - full)
    for field, value, most in (
        ("full_targets", entry.full_targets, full),
        ("partial_tasks", entry.partial_tasks, partial),
    ):
        if value > most:
            raise ValueError(
                f"{recipe}: {field} of {system.name}: {value}; expected at most {most}"
            )


def _refuse_place(out: Path) -> None:
    """Refuse a place where no manifest can be written, before the work is done."""
    above = next(each for each in out.absolute().parents if each.exists())
    with explained(ValueError, "out", out):
        if out.is_dir():
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        if not above.is_dir():
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))
        with tempfile.TemporaryFile(dir=above):
            pass


def _say(text: str) -> None:
    print(text, file=sys.stderr)
