"""Checks of the fields that all streams have.

Every refusal is a ValueError that names field, value and expectation.
"""

import math
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import jax
import numpy as np
from jax.sharding import NamedSharding, PartitionSpec

from .._types import Array, PRNGKeyArray
from .keys import as_threefry, is_key, root_key
from .spec import is_whole
from .systems import check_window

__all__ = [
    "as_key",
    "check_batch",
    "check_step",
    "checked_buckets",
    "checked_probability",
    "halves_of",
    "iterate_ahead",
    "rows_by_device",
    "whole_numbers",
]

Batch = TypeVar("Batch")
Sums = TypeVar("Sums")


def as_key(key: int | PRNGKeyArray) -> PRNGKeyArray:
    """The key of a seed, or the key itself; ValueError for anything else."""
    if isinstance(key, int | np.integer):
        return root_key(key)
    if is_key(key):
        if key.shape == ():
            return as_threefry(key)
        raise ValueError(f"key: keys of shape {key.shape}; expected one key")
    raise ValueError(f"key: {key!r}; expected a seed in [0, 2**32) or a jax.random.key")


def check_batch(batch_size: object, sharding: object) -> None:
    """ValueError for no batch size, or a sharding that cannot share it."""
    if not is_whole(batch_size) or batch_size < 1:
        raise ValueError(f"batch_size: {batch_size!r}; expected an integer >= 1")
    if sharding is not None:
        if not isinstance(sharding, NamedSharding):
            raise ValueError(f"sharding: {sharding!r}; expected a jax NamedSharding")
        axes = tuple(sharding.spec)
        if len(axes) != 1 or axes[0] is None:
            raise ValueError(
                f"sharding: {sharding.spec}; expected one entry, the mesh axis of the "
                "batch, such as PartitionSpec('data')"
            )
        names = (axes[0],) if isinstance(axes[0], str) else axes[0]
        shards = math.prod(sharding.mesh.shape[name] for name in names)
        if batch_size % shards:
            raise ValueError(
                f"batch_size: {batch_size}; expected a multiple of the {shards} shards"
            )


def checked_buckets(buckets: object) -> tuple[tuple[int, int], ...]:
    """(context, horizon) pairs as plain integers."""
    pairs: list = list(buckets) if np.iterable(buckets) else []
    whole = all(
        isinstance(pair, tuple | list) and len(pair) == 2 and all(map(is_whole, pair))
        for pair in pairs
    )
    if not pairs or not whole:
        raise ValueError(f"buckets: {buckets!r}; expected (context, horizon) pairs >= 1")
    for pair in pairs:
        check_window("buckets", *pair)
    return tuple((int(context), int(horizon)) for context, horizon in pairs)


def checked_probability(name: str, value: Any) -> float:
    """A number in [0, 1]."""
    number = isinstance(value, int | float | np.integer | np.floating)
    if number and not isinstance(value, bool) and 0.0 <= float(value) <= 1.0:
        return float(value)
    raise ValueError(f"{name}: {value!r}; expected a probability in [0, 1]")


def whole_numbers(name: str, given: object) -> tuple[int, ...]:
    """Some whole numbers above 0."""
    values = list(given) if np.iterable(given) else []
    if not values or not all(is_whole(value) and value >= 1 for value in values):
        raise ValueError(f"{name}: {given!r}; expected some whole numbers of at least 1")
    return tuple(int(value) for value in values)


def check_step(step: int) -> int:
    """The step as a Python integer; ValueError outside [0, 2**63)."""
    if not is_whole(step) or not 0 <= int(step) < 2**63:
        raise ValueError(f"step: {step!r}; expected an integer in [0, 2**63)")
    return int(step)


def halves_of(step: int) -> Array:
    """Both halves of a step, on the device; put there by name, which transfer guards let pass."""
    return jax.device_put(np.array([step >> 32, step & 0xFFFFFFFF], np.uint32))


def iterate_ahead(
    batch_at: Callable[[int], Batch],
    sums_of: Callable[[Batch], Sums],
    checked: Callable[[Batch, Sums], Batch],
    start: int,
    stop: int | None,
) -> Iterator[Batch]:
    """Checked batches from step `start` on; keeps one step in flight on the device.

    Args:
        batch_at: makes the batch of a step; does not wait for the device.
        sums_of: what `checked` reads of a batch. It is asked for before the next batch is: a device
            that does one thing after another would make that one first.
        checked: reads the sums, and returns the batch or raises.
        start: first step.
        stop: the step after the last; None for no end.

    Raises:
        ValueError: a step that is none; and what `checked` raises.
    """
    check_step(start)
    if stop is not None:
        check_step(stop)
    ahead, step = None, start
    while stop is None or step < stop:
        batch = batch_at(step)
        made, step = (batch, sums_of(batch)), step + 1
        if ahead is not None:
            yield checked(*ahead)
        ahead = made
    if ahead is not None:
        yield checked(*ahead)


def rows_by_device(
    make: Callable[..., Batch],
    root: PRNGKeyArray,
    halves: Array,
    rows: Array,
    sharding: NamedSharding | None,
    *given: Any,
) -> Batch:
    """The rows of one step, each a function of its own key; inside a compiled function.

    Each device makes its own rows: partitioned automatically, a loop would wait for the slowest row
    of all devices.

    Args:
        make: of keys [rows] and `given`, a batch whose arrays all have the rows as leading axis.
        root: key of the stream.
        halves: of the step (`halves_of`).
        rows: their numbers, uint32.
        sharding: of the rows over devices; None for one device.
        given: what every row needs whole.
    """

    def of_rows(root: PRNGKeyArray, halves: Array, rows: Array, *given: Any) -> Batch:
        step_key = jax.random.fold_in(jax.random.fold_in(root, halves[0]), halves[1])
        return make(jax.vmap(jax.random.fold_in, in_axes=(None, 0))(step_key, rows), *given)

    if sharding is None:
        return of_rows(root, halves, rows, *given)
    axis, whole = sharding.spec, PartitionSpec()
    found: Batch = jax.shard_map(
        of_rows,
        mesh=sharding.mesh,
        in_specs=(whole, whole, axis, *[whole] * len(given)),
        out_specs=axis,
        check_vma=False,
    )(root, halves, rows, *given)
    return found
