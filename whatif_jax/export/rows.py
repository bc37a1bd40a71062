"""Tasks made on the accelerator while the ones before them are written.

References:
    whatif-v1.md §8 (contents of a row).
"""

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from ..suites import Suite, TaskBatch
from ..tasks import Bucket

__all__ = [
    "Block",
    "Shard",
    "ShardRows",
    "as_lists",
    "lists",
    "nested_lists",
    "realized",
    "stacked",
]


class Shard(NamedTuple):
    """One file of an export and the rows of the suite that it holds, ordered by task id."""

    path: str  # below the export's folder, with forward slashes
    rows: np.ndarray


class Block(NamedTuple):
    """Tasks of one shard that share a context and a horizon, as NumPy arrays."""

    places: np.ndarray  # where in the shard each of the n tasks lies
    k: np.ndarray  # [n] covariates of each; rows beyond them are padding
    history: np.ndarray  # [n, context]
    future: np.ndarray  # [n, horizon]
    future_baseline: np.ndarray  # [n, horizon]
    history_covariates: np.ndarray  # [n, most covariates, context]
    future_covariates: np.ndarray  # [n, most covariates, horizon]


class ShardRows(NamedTuple):
    """What one shard holds: its part of the manifest, and the tasks' arrays in blocks."""

    shard: Shard
    manifest: pa.Table
    blocks: list[Block]


def realized(
    suite: Suite, shards: Sequence[Shard], batch_size: int, advance: Callable[[int], object]
) -> Iterator[ShardRows]:
    """Make the tasks of all shards, one shard after the other.

    Args:
        suite: where the rows of the shards count.
        shards: what to make.
        batch_size: tasks made at once; one size, so that every bucket compiles once.
        advance: called with the number of tasks made since the last call.
    """
    rows: ShardRows | None = None
    for shard, part, batch in _one_ahead(_batches(suite, shards, batch_size)):
        if rows is None or rows.shard is not shard:
            if rows is not None:
                yield rows
            rows = ShardRows(shard, part.table, [])
        rows.blocks.append(_block(part, batch))
        advance(len(rows.blocks[-1].places))
    if rows is not None:
        yield rows


def _batches(
    suite: Suite, shards: Sequence[Shard], batch_size: int
) -> Iterator[tuple[Shard, Suite, TaskBatch]]:
    """Batch by batch; a bucket's first waits for its program.

    XLA compiles without Python's lock, so the programs are compiled in threads, those first that
    are needed first, each by a batch that is dropped.
    """
    parts = [(shard, suite.take(shard.rows)) for shard in shards]
    batches = [
        (shard, part, ids, part.bucket_of(ids[0]))
        for shard, part in parts
        for ids in part.batch_ids(batch_size)
    ]
    compiled: dict[Bucket, Future] = {}

    def compile_for(ids: np.ndarray) -> None:
        suite.batch(ids[:1], batch_size)

    with ThreadPoolExecutor(os.cpu_count()) as compilers:
        try:
            for _, _, ids, bucket in batches:
                if bucket not in compiled:
                    compiled[bucket] = compilers.submit(compile_for, ids)
            for shard, part, ids, bucket in batches:
                compiled[bucket].result()
                yield shard, part, part.batch(ids, batch_size)
        finally:
            compilers.shutdown(cancel_futures=True)


def _one_ahead(items: Iterator) -> Iterator:
    """The same items; the next one is asked for before each is handed on.

    JAX returns before it has computed, so the device works on the next batch while this one is
    turned into rows.
    """
    held = next(items, None)
    while held is not None:
        following = next(items, None)
        yield held
        held = following


def _block(part: Suite, batch: TaskBatch) -> Block:
    arrays = batch.to_numpy()
    # A suite's buckets are exactly as long as their tasks: histories and futures have no padding.
    return Block(
        places=np.searchsorted(part.column("task_id"), arrays["task_id"]),
        k=arrays["covariate_mask"].sum(axis=1),
        **{
            name: np.asarray(arrays[name], np.float32)
            for name in Block._fields
            if name not in ("places", "k")
        },
    )


def _in_order(blocks: Sequence[Block], arrays: list[pa.Array]) -> pa.Array:
    places = np.concatenate([block.places for block in blocks])
    return pa.concat_arrays(arrays).take(pa.array(np.argsort(places)))


def as_lists(values: np.ndarray) -> pa.ListArray:
    """A list of equal length for every row of [n, length]."""
    count, length = values.shape
    offsets = np.arange(count + 1, dtype=np.int32) * np.int32(length)
    return pa.ListArray.from_arrays(pa.array(offsets), pa.array(values.ravel()))


def lists(blocks: Sequence[Block], name: str) -> pa.Array:
    """list<float32>: a field of shape [n, steps], in the shard's order."""
    return _in_order(blocks, [as_lists(getattr(block, name)) for block in blocks])


def nested_lists(blocks: Sequence[Block], name: str) -> pa.Array:
    """list<list<float32>>: a field of shape [n, covariates, steps] without padding, in order."""
    arrays = []
    for block in blocks:
        values = getattr(block, name)
        real = np.arange(values.shape[1]) < block.k[:, None]
        offsets = np.concatenate([[0], np.cumsum(block.k)]).astype(np.int32)
        arrays.append(pa.ListArray.from_arrays(pa.array(offsets), as_lists(values[real])))
    return _in_order(blocks, arrays)


def stacked(blocks: Sequence[Block], kind: str = "") -> np.ndarray:
    """History and future end to end, of blocks that all have one shape, in the shard's order.

    Args:
        blocks: at least one.
        kind: "" for the target, "_covariates" for the covariates.
    """
    places = np.concatenate([block.places for block in blocks])
    parts = [
        np.concatenate([getattr(block, name + kind) for block in blocks])
        for name in ("history", "future")
    ]
    return np.concatenate(parts, axis=-1)[np.argsort(places)]
