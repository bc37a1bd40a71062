"""Exporting a suite: plan, make, write, describe.

References:
    whatif-v1.md §8.
"""

import importlib.metadata
import os
from collections.abc import Callable, Collection, Iterable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

from tqdm import tqdm

from .. import __version__
from ..suites import Suite
from ..suites.suite import check_batch_size, check_once
from .card import CARD_FILE, about, card
from .croissant import CROISSANT_FILE, croissant
from .fev import Fev
from .folder import Folder
from .formats import Format, holds_tasks
from .gluonts import Gluonts
from .parquet import Parquet
from .rows import Shard, ShardRows, realized

__all__ = ["FORMATS", "export", "interrupted", "software", "write_behind"]

Item = TypeVar("Item")

_FORMATS: dict[str, Format] = {form.name: form for form in (Parquet(), Fev(), Gluonts())}

FORMATS = tuple(_FORMATS)

# Raised whenever files change for the same suite and settings, so that no export mixes layouts.
LAYOUT = 3


def export(
    suite: Suite,
    out: str | os.PathLike,
    *,
    format: str = "parquet",
    batch_size: int = 128,
    progress: bool = True,
) -> Path:
    """Write the tasks of a suite to a folder that other libraries read.

    Files appear under their final names only when they are whole. Called again with the same
    arguments after an interruption, it goes on where it stopped; on a finished export it verifies
    every file and makes those again that are missing or were changed, with a line in the log.

    Args:
        suite: the tasks, filtered as wished (`Suite.where`, `Suite.take`); written in the order of
            their ids.
        out: the folder; made if missing, else empty or holding this very export.
        format: one of `FORMATS`.
        batch_size: tasks made at once. Memory grows with it.
        progress: show a progress bar on standard error where that is a terminal.

    Returns:
        the folder.

    Raises:
        ValueError: an argument is wrong.
        ExportError: the folder holds something else or cannot be written.
    """
    form = _check(suite, format, batch_size)
    folder = Path(out)
    shards = form.shards(suite)
    identity = {
        "layout": LAYOUT,
        "format": form.name,
        "suite": {
            "name": suite.name,
            "chosen": suite.chosen,
            "fingerprint": suite.fingerprint,
            "tasks": len(suite),
        },
        "settings": {"batch_size": int(batch_size)},
    }
    about_it, sides = card(suite, form), form.side_files(suite)
    parts = {shard.path: suite.column("task_id")[shard.rows] for shard in shards}

    def recognized(path: str) -> bool | None:
        return holds_tasks(folder / path, suite.fingerprint, parts[path]) if path in parts else None

    paths = {*parts, *sides, CARD_FILE, CROISSANT_FILE}
    with Folder(folder, identity, (CARD_FILE, about_it), paths, recognized) as target:
        if target.complete:
            return folder
        missing = [shard for shard in shards if shard.path not in target.finished]
        done = len(suite) - sum(len(shard.rows) for shard in missing)
        # None: a bar only where standard error is a terminal
        hidden = None if progress else True
        try:
            with tqdm(total=len(suite), initial=done, unit="task", disable=hidden) as bar:
                _write_shards(suite, form, target, missing, batch_size, bar.update)
        except KeyboardInterrupt:
            raise interrupted(target, parts) from None
        _describe(suite, form, target, {**sides, CARD_FILE: about_it})
    return folder


def software() -> dict[str, str]:
    """Versions of what makes an export, by package."""
    names = ("jax", "jaxlib", "numpy", "pyarrow")
    return {"whatif_jax": __version__} | {name: importlib.metadata.version(name) for name in names}


def _check(suite: Suite, name: str, batch_size: int) -> Format:
    if name not in _FORMATS:
        raise ValueError(f"format: {name!r}; expected one of {', '.join(FORMATS)}")
    check_batch_size(batch_size)
    if not len(suite):
        raise ValueError(f"suite: {suite.name} holds no tasks; expected at least one")
    check_once(suite.column("task_id"))
    return _FORMATS[name]


def _write_shards(
    suite: Suite,
    form: Format,
    target: Folder,
    shards: list[Shard],
    batch_size: int,
    advance: Callable[[int], object],
) -> None:
    """Make shards and write them."""

    def write(rows: ShardRows) -> None:
        table = form.table(suite, rows)
        target.add(rows.shard.path, lambda path: form.save(table, path), len(rows.shard.rows))

    write_behind(realized(suite, shards, batch_size, advance), write)


def write_behind(items: Iterable[Item], write: Callable[[Item], object]) -> None:
    """Make items here while one other thread writes the one before.

    At most one item waits, so that memory holds three: being made, waiting, being written.
    """
    with ThreadPoolExecutor(1) as writer:
        pending: Future | None = None
        for item in items:
            if pending is not None:
                pending.result()
            pending = writer.submit(write, item)
        if pending is not None:
            pending.result()


def interrupted(target: Folder, paths: Collection[str]) -> KeyboardInterrupt:
    """What an export raises that was stopped.

    Args:
        target: its folder.
        paths: of all its parts.
    """
    kept = sum(path in target.finished for path in paths)
    return KeyboardInterrupt(
        f"stopped: {kept} of {len(paths)} parts are kept in {target.path}; the same command goes on"
    )


def _describe(suite: Suite, form: Format, target: Folder, texts: Mapping[str, str]) -> None:
    """The files about the export, its card among them; the manifest comes last."""
    for path, text in texts.items():
        target.add_text(path, text)
    files = [entry for path, entry in sorted(target.finished.items()) if path != CROISSANT_FILE]
    target.add_text(
        CROISSANT_FILE,
        croissant(
            **about(suite), version=__version__, record_sets=form.record_sets(suite), files=files
        ),
    )
    target.finish(software=software())
