"""Which tasks of a suite share a bucket, and with it a compiled program."""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from ..catalog import System
from ..tasks import Bucket
from ..tasks.events import SHAPES
from ..tasks.spec import positions_for
from .manifest import flat_values

__all__ = ["Key", "bucket_keys", "buckets_of", "event_shapes"]

Key = tuple[int, int, tuple[str, ...]]  # context, horizon, event shapes: one bucket each


def event_shapes(table: pa.Table, catalog: Sequence[System]) -> tuple[str, ...]:
    """Event shapes of any task of a manifest, a step first."""
    held = set(_shapes(table, catalog))
    return tuple(name for name in SHAPES if name == SHAPES[0] or name in held)


def bucket_keys(table: pa.Table, catalog: Sequence[System], every: tuple[str, ...]) -> list[Key]:
    """What decides the bucket of each row of a manifest.

    Args:
        table: the rows.
        catalog: the systems that they name.
        every: the shapes that the bucket of a task evaluates which holds others than steps.
    """
    if not table.num_rows:
        return []
    k = table.column("k").to_numpy()
    steps = np.array([shape == SHAPES[0] for shape in _shapes(table, catalog)])
    only_steps = np.logical_and.reduceat(steps, np.cumsum(k) - k)
    shapes = [SHAPES[:1] if only else every for only in only_steps.tolist()]
    columns = (table.column(name).to_pylist() for name in ("context", "horizon"))
    return list(zip(*columns, shapes, strict=True))


def buckets_of(table: pa.Table, keys: Sequence[Key], covariates: int) -> dict[Key, Bucket]:
    """The smallest bucket for all rows of each key.

    Args:
        table: the rows of a whole suite.
        keys: of each row.
        covariates: of every bucket.
    """
    events, lengths = (table.column(name).to_pylist() for name in ("n_events", "event_length"))
    sizes: dict[Key, tuple[int, int]] = {}
    for key, n_events, length in zip(keys, events, lengths, strict=True):
        positions, most = sizes.get(key, (0, 0))
        needed = positions_for(length, n_events, key[2] != SHAPES[:1])
        sizes[key] = (max(positions, needed), max(most, n_events))
    return {
        (context, horizon, shapes): Bucket(
            context, horizon, covariates, events=most, positions=positions, shapes=shapes
        )
        for (context, horizon, shapes), (positions, most) in sorted(sizes.items())
    }


def _shapes(table: pa.Table, catalog: Sequence[System]) -> list[str | None]:
    """Event shape of every covariate of every task, tasks laid end to end."""
    shape_of = {
        (system.name, covariate.name): covariate.shape
        for system in catalog
        for covariate in system.covariates
    }
    owners = np.repeat(table.column("system").to_numpy(), table.column("k").to_numpy())
    names = flat_values(table, "covariates")
    return [shape_of.get(key) for key in zip(owners.tolist(), names.tolist(), strict=True)]
