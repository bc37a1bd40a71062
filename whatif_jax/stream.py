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
from .events import SHAPES, LayoutRules, fits, most_events
from .sampling import below, root_key, sample_spec
from .tasks import FUTURES, Bucket, Task, TaskSpec, positions_for, realize
from .verification import verify

__all__ = ["StreamBatch", "StreamError", "TaskStream"]

# Draws of one row before the stream gives up on it. A row that fails draws target and sizes anew,
# so only a stream whose every choice fails verification gets here.
ATTEMPTS = 64


class StreamError(RuntimeError):
    """No draw of a row passed verification."""


class StreamBatch(NamedTuple):
    """Tasks of one step; every array has a leading axis B."""

    task: Task
    spec: TaskSpec  # what was drawn: target rows, factors, event starts, ...
    verified: Array  # bool [B]: False where no draw passed (see `TaskStream.batch_at`)


class _Choices(NamedTuple):
    """What one bucket draws from, as arrays."""

    targets: Array  # int32 [n]: rows of targets long enough for the bucket
    k: Array  # int32 [n]
    event_lengths: Array  # int32 [n]
    counts: Array  # int32 [lengths, n]: numbers of events, by event length
    n_counts: Array  # int32 [lengths]
    novel_share: Array  # float []: probability of a novel future
    shapes: Array  # int32 [n]: event shapes to draw from; unused with catalog shapes


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
        k: numbers of covariates to draw from.
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
    k: Sequence[int] = (1, 2, 3, 4, 5)
    event_lengths: Sequence[int] = (32, 64, 128, 256, 512)
    n_events: Sequence[int] | str = "powers"
    novel: float = 0.5
    shapes: Sequence[str] | None = None
    factor_range: tuple[float, float] | None = None
    sharding: NamedSharding | None = None
    baselines: Baselines | None = dataclasses.field(default=None, repr=False)
    _root: PRNGKeyArray = dataclasses.field(init=False, repr=False)
    _choices: "tuple[_Choices, ...]" = dataclasses.field(init=False, repr=False)
    _sizes: "tuple[_Sizes, ...]" = dataclasses.field(init=False, repr=False)

    def __post_init__(self) -> None:
        _check_fields(self)
        baselines = self.baselines
        if baselines is None:
            baselines = load_baselines(self.systems, max_covariates=max(self.k))
            object.__setattr__(self, "baselines", baselines)
        rows = _target_rows(baselines, self.targets)
        choices, sizes = [], []
        for context, horizon in self.buckets:
            choice, size = _bucket_choices(self, baselines, rows, context, horizon)
            choices.append(choice)
            sizes.append(size)
        object.__setattr__(self, "_choices", tuple(choices))
        object.__setattr__(self, "_sizes", tuple(sizes))
        object.__setattr__(self, "_root", _as_key(self.key))

    def bucket_at(self, step: int) -> Bucket:
        """The static shape of a step's batch."""
        return self._sizes[_check_step(step) % len(self._sizes)].bucket

    def batch_at(self, step: int) -> StreamBatch:
        """The batch of one step, a pure function of (key, step). Does not wait for the device.

        `verified` is False for a row whose every draw failed; iteration raises there, a caller of
        `batch_at` checks it with `check`.

        Raises:
            ValueError: the step is negative or 2**63 or above.
        """
        step = _check_step(step)
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


class _Sizes(NamedTuple):
    """Static sizes of one bucket's program."""

    bucket: Bucket
    max_covariates: int
    max_events: int
    catalog_shapes: bool
    factor_range: tuple[float, float] | None


def _attempt(
    root: PRNGKeyArray, number: Array, choices: _Choices, baselines: Baselines, sizes: _Sizes
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
    keys: PRNGKeyArray, choices: _Choices, baselines: Baselines, sizes: _Sizes
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


def _as_key(key: int | PRNGKeyArray) -> PRNGKeyArray:
    if isinstance(key, int | np.integer):
        return root_key(key)
    if isinstance(key, jax.Array) and jnp.issubdtype(key.dtype, jax.dtypes.prng_key):
        if key.shape == ():
            return key
        raise ValueError(f"key: keys of shape {key.shape}; expected one key")
    raise ValueError(f"key: {key!r}; expected a seed in [0, 2**32) or a jax.random.key")


def _check_step(step: int) -> int:
    if isinstance(step, bool) or not isinstance(step, int | np.integer):
        raise ValueError(f"step: {step!r}; expected an integer in [0, 2**63)")
    step = int(step)
    if not 0 <= step < 2**63:
        raise ValueError(f"step: {step}; expected an integer in [0, 2**63)")
    return step


def _check_fields(stream: TaskStream) -> None:
    """Everything that can be said of the fields before the catalog is loaded."""

    def whole_numbers(name: str) -> None:
        values = list(getattr(stream, name))
        good = values and all(
            isinstance(value, int | np.integer) and not isinstance(value, bool) and value >= 1
            for value in values
        )
        if not good:
            raise ValueError(f"{name}: {values!r}; expected whole numbers of at least 1")
        object.__setattr__(stream, name, tuple(int(value) for value in values))

    if isinstance(stream.batch_size, bool) or not isinstance(stream.batch_size, int | np.integer):
        raise ValueError(f"batch_size: {stream.batch_size!r}; expected an integer >= 1")
    if stream.batch_size < 1:
        raise ValueError(f"batch_size: {stream.batch_size}; expected an integer >= 1")
    whole_numbers("k")
    whole_numbers("event_lengths")
    if stream.n_events != "powers":
        if isinstance(stream.n_events, str):
            raise ValueError(f"n_events: {stream.n_events!r}; expected 'powers' or whole numbers")
        whole_numbers("n_events")
    if not 0.0 <= stream.novel <= 1.0:
        raise ValueError(f"novel: {stream.novel!r}; expected a probability in [0, 1]")
    buckets = tuple(tuple(int(size) for size in pair) for pair in stream.buckets)
    if not buckets or any(len(pair) != 2 or min(pair) < 1 for pair in buckets):
        raise ValueError(f"buckets: {stream.buckets!r}; expected (context, horizon) pairs >= 1")
    object.__setattr__(stream, "buckets", buckets)
    for name in stream.shapes or ():
        if name not in SHAPES:
            raise ValueError(f"shapes: {name!r}; expected some of {', '.join(SHAPES)}")
    if stream.factor_range is not None:
        low, high = stream.factor_range
        if not 0.0 < low < 1.0 < high:
            raise ValueError(
                f"factor_range: {stream.factor_range!r}; expected (low, high), 0 < low < 1 < high"
            )
        object.__setattr__(stream, "factor_range", (float(low), float(high)))
    if stream.sharding is not None:
        if not isinstance(stream.sharding, NamedSharding):
            raise ValueError(f"sharding: {stream.sharding!r}; expected a jax NamedSharding")
        shards = stream.sharding.num_devices
        if stream.batch_size % shards:
            raise ValueError(
                f"batch_size: {stream.batch_size}; expected a multiple of the {shards} devices"
            )


def _target_rows(baselines: Baselines, names: Sequence[str] | None) -> np.ndarray:
    """Rows of the named targets; constant ones are refused, or left out when none is named."""
    constant = np.asarray(baselines.constant)
    if names is None:
        return np.flatnonzero(~constant)
    if isinstance(names, str):
        names = [names]
    rows = []
    for name in names:
        found = [
            row
            for row, (system, target) in enumerate(baselines.targets)
            if name in (target, f"{system}/{target}")
        ]
        if not found:
            raise ValueError(
                f"targets: {name!r}; expected target names of {', '.join(baselines.systems)}"
            )
        for row in found:
            if constant[row]:
                raise ValueError(
                    f"targets: {name!r} is constant in its baseline; expected targets that vary"
                )
        rows += found
    return np.array(sorted(set(rows)))


def _bucket_choices(
    stream: TaskStream, baselines: Baselines, rows: np.ndarray, context: int, horizon: int
) -> tuple[_Choices, _Sizes]:
    rows = rows[np.asarray(baselines.length)[rows] >= context + horizon]
    if not len(rows):
        raise ValueError(
            f"buckets: ({context}, {horizon}) is longer than every target; expected at most "
            f"{int(np.max(np.asarray(baselines.length)))} steps together"
        )
    most_k = int(np.min(np.asarray(baselines.n_covariates)[rows]))
    if max(stream.k) > most_k:
        raise ValueError(f"k: {max(stream.k)}; expected at most {most_k} for these targets")
    rules = {
        LayoutRules(*(int(value) for value in values))
        for values in zip(
            np.asarray(baselines.gap)[rows],
            np.asarray(baselines.prefix)[rows],
            np.asarray(baselines.end_buffer)[rows],
            strict=True,
        )
    }
    lengths, counts = [], []
    for length in stream.event_lengths:
        if isinstance(stream.n_events, str):  # "powers"
            most = min(most_events(context, length, rule) for rule in rules)
            wanted = [1 << power for power in range(most.bit_length())]
        else:
            wanted = [
                count
                for count in stream.n_events
                if all(fits(context, length, count, rule) for rule in rules)
            ]
        if wanted:
            lengths.append(length)
            counts.append(wanted)
    if not lengths:
        raise ValueError(
            f"event_lengths, n_events: {stream.event_lengths}, {stream.n_events}; expected at "
            f"least one combination that fits a context of {context}"
        )
    table = np.ones((len(lengths), max(map(len, counts))), np.int32)
    for row, wanted in enumerate(counts):
        table[row, : len(wanted)] = wanted
    if stream.shapes is None:
        used = {SHAPES[number] for number in np.unique(np.asarray(baselines.shape)[rows])}
    else:
        used = set(stream.shapes)
    # steps first and always: the shape of padding
    shapes = tuple(name for name in SHAPES if name in used or name == SHAPES[0])
    positions = max(
        positions_for(length, max(wanted), len(shapes) > 1)
        for length, wanted in zip(lengths, counts, strict=True)
    )
    choices = _Choices(
        targets=jnp.asarray(rows, jnp.int32),
        k=jnp.asarray(stream.k, jnp.int32),
        event_lengths=jnp.asarray(lengths, jnp.int32),
        counts=jnp.asarray(table),
        n_counts=jnp.asarray([len(wanted) for wanted in counts], jnp.int32),
        novel_share=jnp.asarray(stream.novel, jnp.float32),
        shapes=jnp.asarray([SHAPES.index(name) for name in stream.shapes or SHAPES[:1]], jnp.int32),
    )
    sizes = _Sizes(
        bucket=Bucket(context, horizon, positions, shapes),
        max_covariates=max(stream.k),
        max_events=int(table.max()),
        catalog_shapes=stream.shapes is None,
        factor_range=stream.factor_range,
    )
    return choices, sizes
