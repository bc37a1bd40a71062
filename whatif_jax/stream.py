"""The infinite stream: synthetic tasks as a pure function of (key, step).

References:
    SPEC §4-6.
"""

import dataclasses
import functools
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import NamedSharding, PartitionSpec

from ._types import Array, PRNGKeyArray
from .baselines import Baselines, load_baselines
from .sampling import below, sample_spec
from .stream_choices import (
    Choices,
    Sizes,
    as_key,
    bucket_choices,
    check_fields,
    check_step,
    target_rows,
)
from .tasks import FUTURES, Bucket, Task, TaskSpec, realize
from .verification import verify

__all__ = ["StreamBatch", "StreamError", "TaskStream"]

# Draws of one row before the stream gives up on it. A row that fails draws target and sizes anew,
# so only a stream whose every choice fails verification gets here.
ATTEMPTS = 64
DEFAULT_MOST = 5  # covariates of a task, as in the frozen suite


class StreamError(RuntimeError):
    """No draw of a row passed verification."""


class StreamBatch(NamedTuple):
    """Tasks of one step; every array has a leading axis B."""

    task: Task
    spec: TaskSpec  # what was drawn: target rows, factors, event starts, ...
    verified: Array  # bool [B]: False where no draw passed (see `TaskStream.batch_at`)


@dataclasses.dataclass(frozen=True, eq=False)
class TaskStream:
    """Verified tasks without end, made on the accelerator.

    Row r of step s is drawn from fold_in(fold_in(fold_in(key, s // 2**32), s % 2**32), r): any
    step can be had at once, in any order and on any devices, and the stream's whole state is the
    key and a step. A draw that verification rejects is drawn again from the row's own key, so it
    never shifts another task. The same key gives the same tasks for the same configuration.

    Args:
        key: a seed in [0, 2**32) or a JAX key of any implementation.
        batch_size: rows of a batch.
        buckets: (context, horizon) pairs; step s uses bucket s modulo their number, so that each
            batch has one shape and each pair compiles once.
        systems: built-in names, catalog paths or `System` objects; ignored if `baselines` is given.
        targets: names, or "system/name", to draw from; all that vary when omitted.
        k: numbers of covariates to draw from; 1 to 5, as far as every target has them, if None.
        event_lengths: lengths of events to draw from; those that do not fit a bucket are left out
            of it.
        n_events: numbers of events to draw from, or "powers" for every power of two that fits.
        novel: probability of a novel future, the rest are replays.
        shapes: event shapes to draw from for every covariate (`events.SHAPES`), or None for the
            catalog's.
        factor_range: (low, high) for log-uniform history factors, or None for the catalog's pool.
        sharding: a `NamedSharding` over one mesh axis; each device makes its own rows.
        baselines: loaded baselines, to share them between streams.

    Raises:
        ValueError: a field's value is not usable; names field, value and expectation.

    References:
        SPEC §4-6. Shapes beyond step and bell, and factor ranges, are ours.
    """

    key: int | PRNGKeyArray
    batch_size: int
    buckets: Sequence[tuple[int, int]] = ((1024, 128),)
    systems: Sequence[Any] | None = None
    targets: Sequence[str] | None = None
    k: Sequence[int] | None = None
    event_lengths: Sequence[int] = (32, 64, 128, 256, 512)
    n_events: Sequence[int] | str = "powers"
    novel: float = 0.5
    shapes: Sequence[str] | None = None
    factor_range: tuple[float, float] | None = None
    sharding: NamedSharding | None = None
    baselines: Baselines | None = dataclasses.field(default=None, repr=False)
    _root: PRNGKeyArray = dataclasses.field(init=False, repr=False)
    _choices: "tuple[Choices, ...]" = dataclasses.field(init=False, repr=False)
    _sizes: "tuple[Sizes, ...]" = dataclasses.field(init=False, repr=False)

    def __post_init__(self) -> None:
        check_fields(self)
        baselines = self.baselines
        if baselines is None:
            most = DEFAULT_MOST if self.k is None else max(self.k)
            baselines = load_baselines(self.systems, max_covariates=most)
            object.__setattr__(self, "baselines", baselines)
        rows = target_rows(baselines, self.targets)
        k = self.k
        if k is None:
            least = int(np.min(np.asarray(baselines.n_covariates)[rows]))
            k = range(1, 1 + min(DEFAULT_MOST, baselines.max_covariates, least))
        k = tuple(k)
        baselines.check_width(max(k))
        object.__setattr__(self, "k", k)
        choices, sizes = [], []
        for context, horizon in self.buckets:
            choice, size = bucket_choices(self, baselines, k, rows, context, horizon)
            choices.append(choice)
            sizes.append(size)
        object.__setattr__(self, "_choices", tuple(choices))
        object.__setattr__(self, "_sizes", tuple(sizes))
        object.__setattr__(self, "_root", as_key(self.key))

    def bucket_at(self, step: int) -> Bucket:
        """The static shape of a step's batch."""
        return self._sizes[check_step(step) % len(self._sizes)].bucket

    def batch_at(self, step: int) -> StreamBatch:
        """The batch of one step, a pure function of (key, step). Does not wait for the device.

        `verified` is False for a row whose every draw failed; iteration raises there, a caller of
        `batch_at` checks it with `check`.

        Raises:
            ValueError: the step is negative or 2**63 or above.
        """
        step = check_step(step)
        number = step % len(self._sizes)
        high, low = np.uint32(step >> 32), np.uint32(step & 0xFFFFFFFF)
        rows = jnp.arange(self.batch_size, dtype=jnp.uint32)
        if self.sharding is not None:
            rows = jax.device_put(rows, self.sharding)
        return _make_batch(
            self._root, high, low, rows, self._choices[number], self.baselines,
            self._sizes[number], self.sharding,
        )  # fmt: skip

    def check(self, batch: StreamBatch) -> StreamBatch:
        """Return the batch, or raise StreamError if a row is not verified. Waits for the device."""
        if not bool(jnp.all(batch.verified)):
            raise StreamError(
                f"{int(jnp.sum(~batch.verified))} of {self.batch_size} rows failed verification "
                f"in {ATTEMPTS} draws each; expected targets, event lengths and numbers of events "
                f"that SPEC §6 accepts more often"
            )
        return batch

    def iterate(self, start: int = 0, stop: int | None = None) -> Iterator[StreamBatch]:
        """Batches from step `start` on; keeps one step in flight on the device.

        Raises:
            StreamError: a row failed verification.
        """
        check_step(start)
        ahead, step = None, start
        while stop is None or step < stop:
            batch, step = self.batch_at(step), step + 1
            if ahead is not None:
                yield self.check(ahead)
            ahead = batch
        if ahead is not None:
            yield self.check(ahead)

    def __iter__(self) -> Iterator[StreamBatch]:
        return self.iterate()


def _attempt(
    root: PRNGKeyArray, number: Array, choices: Choices, baselines: Baselines, sizes: Sizes
) -> tuple[TaskSpec, Array]:
    """Draw number `number` of one row, and whether it passes verification."""
    key_choices, key_task = jax.random.split(jax.random.fold_in(root, number))
    k = sizes.max_covariates
    share = jax.random.uniform(key_choices, (5 + k,))

    def pick(share: Array, values: Array, count: Array | int | None = None) -> Array:
        return values[below(share, values.shape[0] if count is None else count)]

    length = below(share[0], choices.event_lengths.shape[0])
    novel = share[1] < choices.novel_share
    spec = sample_spec(
        baselines,
        pick(share[2], choices.targets),
        bucket=sizes.bucket,
        k=pick(share[3], choices.k),
        event_length=choices.event_lengths[length],
        n_events=pick(share[4], choices.counts[length], choices.n_counts[length]),
        future=jnp.where(novel, FUTURES.index("novel"), FUTURES.index("replay")),
        max_covariates=k,
        max_events=sizes.max_events,
        shapes=None if sizes.catalog_shapes else pick(share[5:], choices.shapes),
        factor_range=sizes.factor_range,
        key=key_task,
    )
    return spec, verify(spec, baselines).ok


def _draw_rows(
    keys: PRNGKeyArray, choices: Choices, baselines: Baselines, sizes: Sizes
) -> tuple[TaskSpec, Array]:
    """Draw every row until it passes verification; keys [B], one a row.

    All rows at first, then only those that failed, a few at a time: a loop over all rows would
    draw the whole batch again for the unluckiest one. Which rows are drawn together changes
    nothing, since a row's n-th draw depends on its key and n alone.
    """
    batch = keys.shape[0]
    few = max(1, batch // 16)
    attempts = jax.vmap(lambda key, number: _attempt(key, number, choices, baselines, sizes))

    def waiting(state: tuple[Array, TaskSpec, Array]) -> Array:
        number, _, ok = state
        return ~ok & (number < ATTEMPTS - 1)

    def again(state: tuple[Array, TaskSpec, Array]) -> tuple[Array, TaskSpec, Array]:
        number, specs, ok = state
        rows = jnp.nonzero(waiting(state), size=few, fill_value=batch)[0]  # batch: no row
        at = jnp.minimum(rows, batch - 1)
        new_specs, new_ok = attempts(keys[at], number[at] + 1)
        number, specs, ok = jax.tree.map(
            lambda old, new: old.at[rows].set(new, mode="drop"),
            (number, specs, ok),
            (number[at] + 1, new_specs, new_ok),
        )
        return number, specs, ok

    number = jnp.zeros(batch, jnp.uint32)
    state = (number, *attempts(keys, number))
    _, specs, ok = jax.lax.while_loop(lambda state: jnp.any(waiting(state)), again, state)
    return specs, ok


@functools.partial(jax.jit, static_argnames=("sizes", "sharding"))
def _make_batch(root, high, low, rows, choices, baselines, sizes, sharding) -> StreamBatch:
    def rows_of(root, high, low, rows, choices, baselines) -> StreamBatch:
        step_key = jax.random.fold_in(jax.random.fold_in(root, high), low)
        keys = jax.vmap(jax.random.fold_in, in_axes=(None, 0))(step_key, rows)
        specs, verified = _draw_rows(keys, choices, baselines, sizes)
        tasks = jax.vmap(realize, in_axes=(0, None))(specs, baselines)
        return StreamBatch(tasks, specs, verified)

    if sharding is None:
        return rows_of(root, high, low, rows, choices, baselines)
    # Each device loops over its own rows: partitioned automatically, the loop would wait for the
    # slowest row of all devices at every attempt.
    axis, whole = sharding.spec, PartitionSpec()
    return jax.shard_map(
        rows_of,
        mesh=sharding.mesh,
        in_specs=(whole, whole, whole, axis, whole, whole),
        out_specs=axis,
        check_vma=False,
    )(root, high, low, rows, choices, baselines)
