"""Exporting episodes of temporal causal worlds, as dotime's loader and others read them.

References:
    dotime 0.2.0 (`_release_io`): names of the files, the manifest, the first twelve columns.
"""

import collections
import hashlib
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from pyarrow import parquet
from tqdm import tqdm

from .. import __version__
from .._types import Int
from ..tscm import EpisodeSuite
from .card import APACHE, CARD_FILE
from .croissant import CROISSANT_FILE, croissant
from .episode_card import episode_card, summary
from .episode_rows import EPISODE_COLUMNS, rows_of
from .errors import ExportError
from .exporter import interrupted, software, write_behind
from .folder import Folder
from .formats import RecordSet, holds_tasks

__all__ = ["export_episodes"]

# Raised whenever files change for the same suite and settings, so that no export mixes layouts.
LAYOUT = 1
SHARD_ROWS = 2500
_SCHEMA = "1"  # of dotime: no observation times, no masks
_VERSION = "1.0.0"  # of the data, MAJOR.MINOR.PATCH
_SERIES = ("x_obs", "x_int", "x_counterfactual")
_KEYWORDS = ("time series", "causal inference", "interventions", "counterfactuals")


class _Folder(Folder):
    """The folder, whose manifest dotime's loader reads too."""

    items = "episodes"
    notes = ("shards", "redrawn", "software")


class _Shard(NamedTuple):
    path: str
    numbers: Int[np.ndarray, " n"]


def export_episodes(
    suite: EpisodeSuite,
    out: str | os.PathLike,
    *,
    numbers: Sequence[int] | np.ndarray | None = None,
    batch_size: int = 1024,
    progress: bool = True,
) -> Path:
    """Write episodes to a folder that dotime, pandas, DuckDB and others read.

    Files appear under their final names only when they are whole. Called again with the same
    arguments after an interruption, it goes on where it stopped; on a finished export it verifies
    every file and makes those again that are missing or were changed.

    Args:
        suite: of episodes.
        out: the folder; made if missing, else empty or holding this very export.
        numbers: of the episodes to write, in any order; None for all.
        batch_size: most episodes made at once.
        progress: show a progress bar on standard error where that is a terminal.

    Returns:
        the folder.

    Raises:
        ValueError: an argument is wrong.
        ExportError: the folder holds something else or cannot be written, or an episode left the
            prior's limit at every attempt.
    """
    suite.batches(batch_size=batch_size, numbers=numbers)  # refuses what is wrong
    _refuse_irregular(suite)
    chosen = np.arange(suite.episodes) if numbers is None else np.unique(np.asarray(numbers))
    if numbers is not None and len(chosen) < len(numbers):
        raise ValueError(f"numbers: {len(numbers)}, some twice; expected each episode once")
    shards = [
        _Shard(f"shard-{place:04d}.parquet", chosen[start : start + SHARD_ROWS])
        for place, start in enumerate(range(0, len(chosen), SHARD_ROWS))
    ]
    folder, parts = Path(out), {shard.path: shard.numbers for shard in shards}
    card, fingerprint = episode_card(suite, chosen), _fingerprint(suite, chosen)

    def recognized(path: str) -> bool | None:
        if path not in parts:
            return None
        return holds_tasks(folder / path, fingerprint, parts[path])

    paths = {*parts, CARD_FILE, CROISSANT_FILE}
    identity = _identity(suite, chosen, fingerprint)
    with _Folder(folder, identity, (CARD_FILE, card), paths, recognized) as target:
        if target.complete:
            return folder
        missing = [shard for shard in shards if shard.path not in target.finished]
        left = sum(len(shard.numbers) for shard in missing)
        try:
            with tqdm(
                total=len(chosen),
                initial=len(chosen) - left,
                unit="episode",
                disable=None if progress else True,
            ) as bar:
                made = _made(suite, missing, batch_size, bar.update)
                own = {"whatif_suite": suite.version, "whatif_suite_fingerprint": fingerprint}
                write_behind(made, lambda item: _write(target, own, *item))
        except KeyboardInterrupt:
            raise interrupted(target, parts) from None
        _describe(suite, chosen, target, card, shards)
    return folder


def _refuse_irregular(suite: EpisodeSuite) -> None:
    """The columns have steps and no times, without which irregular series cannot be read."""
    for part in suite.parts:
        irregular = [kind for kind in part.prior.time.observations if kind != "regular"]
        if part.prior.time.continuous and irregular:
            raise ValueError(
                f"suite: {suite.version}: part {part.name} is observed at times that are "
                f"{', '.join(irregular)}; expected regular ones, as the files have no times"
            )


def _fingerprint(suite: EpisodeSuite, chosen: Int[np.ndarray, " n"]) -> str:
    """Of the suite, and of what was chosen from it where that is not all."""
    if len(chosen) == suite.episodes:
        return suite.fingerprint
    return hashlib.sha256(suite.fingerprint.encode() + chosen.astype("<i8").tobytes()).hexdigest()


def _identity(
    suite: EpisodeSuite, chosen: Int[np.ndarray, " n"], fingerprint: str
) -> dict[str, Any]:
    """What the manifest says of the export; dotime's loader and its users read the flat part."""
    names = dict.fromkeys(part.structure for part in suite.parts if part.structure)
    return {
        "layout": LAYOUT,
        "suite": {
            "name": suite.version,
            "fingerprint": fingerprint,
            "episodes": len(chosen),
        },
        "name": suite.version,
        "version": _VERSION,
        "schema_version": _SCHEMA,
        "package_version": f"whatif_jax {__version__}",
        "seed": suite.seed,
        "n_episodes": len(chosen),
        "structures": list(names),
        "license": "Apache-2.0",
        "query_time_encoding": "step",
    }


def _made(
    suite: EpisodeSuite,
    shards: Sequence[_Shard],
    batch_size: int,
    advance: Callable[[int], object],
) -> Iterator[tuple[_Shard, pa.Table]]:
    """Every shard and its rows; batches are cut where a shard is full."""
    if not shards:
        return
    waiting, held, left = list(shards), [], 0
    numbers = np.concatenate([shard.numbers for shard in shards])
    for part, some, episode in suite.batches(batch_size=batch_size, numbers=numbers):
        if not np.all(np.asarray(episode.finite)):
            failed = some[~np.asarray(episode.finite)]
            raise ExportError(
                f"{suite.version}: episodes {failed[:5].tolist()} left the limit at every attempt; "
                f"expected a prior of smaller weights"
            )
        held.append(rows_of(part, some, episode))
        left += len(some)
        advance(len(some))
        while waiting and left >= len(waiting[0].numbers):
            shard, table = waiting.pop(0), pa.concat_tables(held)
            own, rest = table.slice(0, len(shard.numbers)), table.slice(len(shard.numbers))
            held, left = [rest], rest.num_rows
            yield shard, own


def _write(target: Folder, own: Mapping[str, str], shard: _Shard, table: pa.Table) -> None:
    table = table.replace_schema_metadata(own)
    target.add(shard.path, lambda path: _save(table, path), len(shard.numbers))


def _save(table: pa.Table, path: Path) -> None:
    """Doubles byte by byte: they hold float32, so that half of the bytes compress to nothing."""
    scalars = [field.name for field in table.schema if not pa.types.is_list(field.type)]
    parquet.write_table(
        table,
        path,
        row_group_size=1024,
        compression="zstd",
        compression_level=1,
        use_dictionary=["structure", "part", "variables.list.element", "metadata_json"],
        column_encoding={f"{name}.list.element": "BYTE_STREAM_SPLIT" for name in _SERIES},
        write_statistics=scalars,
    )


def _describe(
    suite: EpisodeSuite,
    chosen: Int[np.ndarray, " n"],
    target: Folder,
    card: str,
    shards: Sequence[_Shard],
) -> None:
    """The files about the export; the manifest comes last."""
    target.add_text(CARD_FILE, card)
    files = [entry for path, entry in sorted(target.finished.items()) if path != CROISSANT_FILE]
    records = RecordSet("episodes", "One record an episode.", ("shard-*.parquet",), EPISODE_COLUMNS)
    target.add_text(
        CROISSANT_FILE,
        croissant(
            name=suite.version,
            description=summary(suite, chosen),
            licence=APACHE,
            cite_as="DoTime (arXiv:2607.27263)",
            version=_VERSION,
            record_sets=[records],
            files=files,
            keywords=_KEYWORDS,
        ),
    )
    target.finish(
        shards=[
            {
                "file": shard.path,
                "n_episodes": len(shard.numbers),
                "md5": _md5(target.path / shard.path),
            }
            for shard in shards
        ],
        redrawn=_redrawn([target.path / shard.path for shard in shards]),
        software=software(),
    )


def _md5(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "md5").hexdigest()


def _redrawn(paths: Sequence[Path]) -> Mapping[str, Mapping[str, int]]:
    """By part: episodes, how many of them were drawn again, and attempts that left the limit."""
    found: dict[str, collections.Counter] = {}
    for path in paths:
        table = parquet.read_table(path, columns=["part", "redraws"])
        redraws = table.column("redraws").to_numpy()
        names = np.asarray(table.column("part").to_pylist())
        for name in dict.fromkeys(names.tolist()):
            own = redraws[names == name]
            counts = {"episodes": len(own), "redrawn": int((own > 0).sum()), "redraws": own.sum()}
            found.setdefault(name, collections.Counter()).update(counts)
    return {name: {key: int(value) for key, value in one.items()} for name, one in found.items()}
