"""The infinite stream: synthetic tasks as a pure function of (key, step).

References:
    whatif-v1.md §4-6.
"""

import dataclasses
import functools
from collections.abc import Iterator

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import NamedSharding, PartitionSpec
from jax.typing import ArrayLike

from .._types import Array, Bool, PRNGKeyArray
from .draw import ATTEMPTS, below, sample_spec
from .forked import refuse_forked
from .spec import FUTURES, Bucket, Sizes, TaskSpec, is_whole
from .stream_config import Choices, StreamConfig
from .systems import Systems
from .task import Task, realize
from .verification import verify

__all__ = ["StreamBatch", "StreamError", "TaskStream"]


class StreamError(RuntimeError):
    """No draw of a row passed verification."""


class StreamBatch(eqx.Module):
    """Tasks of one step; every array has a leading axis B."""

    task: Task
    spec: TaskSpec  # what was drawn: target rows, factors, event starts, ...
    verified: Bool[Array, " B"]  # False where no draw passed (see `TaskStream.batch_at`)


@dataclasses.dataclass(frozen=True, eq=False)
class TaskStream(StreamConfig):
    """Verified tasks without end, made on the accelerator.

    Row r of step s is drawn from fold_in(fold_in(fold_in(key, s // 2**32), s % 2**32), r): any
    step can be had at once, in any order and on any devices, and the stream's whole state is the
    key and a step. A draw that verification rejects is drawn again from the row's own key, so it
    never shifts another task; a row that fails draws target and sizes anew. The same key gives the
    same tasks for the same configuration.

    Worker processes, such as those of PyTorch's loaders, are to be started by "spawn" or
    "forkserver": one that is forked after JAX was used gets a ForkedError.

    Args:
        key: a seed in [0, 2**32) or a JAX key of any implementation.
        batch_size: rows of a batch.
        buckets: (context, horizon) pairs; step s uses bucket s modulo their number, so that each
            batch has one shape and each pair compiles once.
        systems: built-in names, catalog paths or `System` objects, all built-in ones if None; or
            `Systems` that are loaded already, to share them between streams.
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

    Raises:
        CatalogError: a catalog file, or the series beside it, does not hold what it must.
        ValueError: a field's value is not usable; names field, value and expectation.

    References:
        whatif-v1.md §4-6. Shapes beyond step and bell, and factor ranges, are ours.
    """

    def batch_at(self, step: int) -> StreamBatch:
        """The batch of one step, a pure function of (key, step). Does not wait for the device.

        `verified` is False for a row whose every draw failed; iteration raises there, a caller of
        `batch_at` checks it with `check`.

        Raises:
            ForkedError: in a process that was forked after JAX was used.
            ValueError: the step is negative or 2**63 or above.
        """
        refuse_forked()
        step = _check_step(step)
        bucket, choices = self.choices[step % len(self.choices)]
        high, low = np.uint32(step >> 32), np.uint32(step & 0xFFFFFFFF)
        rows = jnp.arange(self.batch_size, dtype=jnp.uint32)
        if self.sharding is not None:
            rows = jax.device_put(rows, self.sharding)
        return _make_batch(
            self.root, high, low, rows, choices, self.systems,
            bucket, self.factor_range, self.sharding,
        )  # fmt: skip

    def check(self, batch: StreamBatch) -> StreamBatch:
        """Return the batch, or raise StreamError if a row is not verified. Waits for the device."""
        if not bool(jnp.all(batch.verified)):
            raise StreamError(
                f"{int(jnp.sum(~batch.verified))} of {self.batch_size} rows failed verification "
                f"in {ATTEMPTS} draws each; expected targets, event lengths and numbers of events "
                f"that verification accepts more often"
            )
        return batch

    def iterate(self, start: int = 0, stop: int | None = None) -> Iterator[StreamBatch]:
        """Batches from step `start` on; keeps one step in flight on the device.

        Raises:
            StreamError: a row failed verification.
        """
        _check_step(start)
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


def _check_step(step: int) -> int:
    """The step as a Python integer; ValueError outside [0, 2**63)."""
    if not is_whole(step) or not 0 <= int(step) < 2**63:
        raise ValueError(f"step: {step!r}; expected an integer in [0, 2**63)")
    return int(step)


def _attempt(
    root: PRNGKeyArray,
    number: Array,
    choices: Choices,
    systems: Systems,
    bucket: Bucket,
    factor_range: tuple[float, float] | None,
) -> tuple[TaskSpec, Array]:
    """Draw number `number` of one row, and whether it passes verification."""
    key_choices, key_task = jax.random.split(jax.random.fold_in(root, number))
    share = jax.random.uniform(key_choices, (5 + bucket.covariates,))

    def pick(share: Array, values: Array, count: Array | int | None = None) -> Array:
        return values[below(share, values.shape[0] if count is None else count)]

    length = below(share[0], choices.event_lengths.shape[0])
    novel = share[1] < choices.novel_share
    sizes = Sizes(
        target=pick(share[2], choices.targets),
        k=pick(share[3], choices.k),
        event_length=choices.event_lengths[length],
        n_events=pick(share[4], choices.counts[length], choices.n_counts[length]),
        future=jnp.where(novel, FUTURES.index("novel"), FUTURES.index("replay")),
        shapes=None if choices.shapes is None else pick(share[5:], choices.shapes),
        factor_range=factor_range,
    )
    spec = sample_spec(sizes, systems, bucket, key=key_task)
    return spec, verify(spec, systems).ok


def _draw_rows(
    keys: PRNGKeyArray,
    choices: Choices,
    systems: Systems,
    bucket: Bucket,
    factor_range: tuple[float, float] | None,
) -> tuple[TaskSpec, Array]:
    """Draw every row until it passes verification; keys [B], one a row.

    All rows at first, then only those that failed, a few at a time: a loop over all rows would
    draw the whole batch again for the unluckiest one. Which rows are drawn together changes
    nothing, since a row's n-th draw depends on its key and n alone.
    """
    batch = keys.shape[0]
    few = max(1, batch // 16)
    attempts = jax.vmap(
        lambda key, number: _attempt(key, number, choices, systems, bucket, factor_range)
    )

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


@functools.partial(jax.jit, static_argnames=("bucket", "factor_range", "sharding"))
def _make_batch(
    root: PRNGKeyArray,
    high: ArrayLike,
    low: ArrayLike,
    rows: Array,
    choices: Choices,
    systems: Systems,
    bucket: Bucket,
    factor_range: tuple[float, float] | None,
    sharding: NamedSharding | None,
) -> StreamBatch:
    def rows_of(
        root: PRNGKeyArray,
        high: ArrayLike,
        low: ArrayLike,
        rows: Array,
        choices: Choices,
        systems: Systems,
    ) -> StreamBatch:
        step_key = jax.random.fold_in(jax.random.fold_in(root, high), low)
        keys = jax.vmap(jax.random.fold_in, in_axes=(None, 0))(step_key, rows)
        specs, verified = _draw_rows(keys, choices, systems, bucket, factor_range)
        tasks = jax.vmap(realize, in_axes=(0, None))(specs, systems)
        return StreamBatch(tasks, specs, verified)

    if sharding is None:
        return rows_of(root, high, low, rows, choices, systems)
    # Each device loops over its own rows: partitioned automatically, the loop would wait for the
    # slowest row of all devices at every attempt.
    axis, whole = sharding.spec, PartitionSpec()
    return jax.shard_map(
        rows_of,
        mesh=sharding.mesh,
        in_specs=(whole, whole, whole, axis, whole, whole),
        out_specs=axis,
        check_vma=False,
    )(root, high, low, rows, choices, systems)
