"""Freezing a suite: from a recipe to a manifest on disk.

References:
    whatif-v1.md §6 (composition), §8 (manifest).
"""

import json
import sys
from pathlib import Path

from tqdm import tqdm

from ..catalog import load_system
from ..tasks import load_systems
from .build import candidates, compose, composition, draw_system, facts, search_seed
from .manifest import write_manifest
from .recipe import read_recipe

__all__ = ["freeze"]


def freeze(
    out: Path | None, recipe_path: Path | None = None, most_seeds: int = 1000
) -> dict[str, dict[str, int]]:
    """Draw every system of a recipe, find its seed, and write the manifest.

    Where no seed gives the composition, reports per target what seed 0 gave and writes nothing.

    Args:
        out: path of the manifest, or None to report only.
        recipe_path: the recipe; the one of whatif-v1 if None.
        most_seeds: seeds tried for each system, from 0.

    Returns:
        tasks of every target, by system.

    Raises:
        ValueError: a fault of the recipe, or a composition not found within `most_seeds`.
    """
    recipe_path = recipe_path or Path(__file__).parent / "whatif-v1.toml"
    recipe = read_recipe(recipe_path)
    systems = [load_system(entry.name, folder=recipe_path.parent) for entry in recipe.systems]
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
        }
        write_manifest(table, out, metadata)
        _say(f"{table.num_rows:,} tasks in {out}")
    return report


def _say(text: str) -> None:
    print(text, file=sys.stderr)
