"""The infinite stream: synthetic tasks as a pure function of (key, step).

References:
    whatif-v1.md §4-6.
"""

import dataclasses
import functools
import warnings
from collections.abc import Iterator, Mapping
from typing import Protocol, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pyarrow as pa
from jax.sharding import NamedSharding

from .._types import Array, Bool, Int, PRNGKeyArray
from ..catalog import builtin_systems
from .draw import ATTEMPTS
from .forked import refuse_forked
from .spec import Bucket, TaskSpec, is_whole
from .stream_config import Choices, StreamConfig
from .stream_fields import check_step, halves_of, iterate_ahead, rows_by_device
from .stream_rows import DRAWN_TOGETHER, count_draws, draw_rows
from .systems import Systems
from .task import Task, realize

__all__ = ["StreamBatch", "StreamError", "TaskStream", "failed_rows", "refuse_failed"]


LOST = 0.01  # share of draws lost to overflow from which a stream says so
ENOUGH_DRAWS = 256
MOST_DRAWS = 2**24  # of `acceptance`
FAILED = (
    f"failed verification in {ATTEMPTS} draws each; expected targets, event lengths and numbers of "
    f"events that verification accepts more often"
)


class StreamError(RuntimeError):
    """No draw of a row passed verification."""


class Batch(Protocol):
    """What streams have in common of their batches."""

    @property
    def verified(self) -> Array:
        """Whether each row may be trained on, bool [B]."""


Made = TypeVar("Made", bound=Batch)


def failed_rows(batch: Batch) -> Array:
    """How many rows of a batch are not verified."""
    return jnp.sum(~batch.verified)


def refuse_failed(batch: Made, failed: Array, why: str) -> Made:
    """The batch, or StreamError where `failed` of its rows are, for which `why` has words."""
    count = int(jax.device_get(failed))
    if count:
        raise StreamError(f"{count} of {len(batch.verified)} rows {why}")
    return batch


class StreamBatch(eqx.Module):
    """Tasks of one step; every array has a leading axis B."""

    task: Task
    spec: TaskSpec  # what was drawn: target rows, factors, event starts, ...
    verified: Bool[Array, " B"]  # False where no draw passed (see `TaskStream.batch_at`)
    redraws: Int[Array, " B"]  # draws that verification rejected before the one that is here
    overflows: Int[Array, " B"]  # those of them with a value or covariate that is not finite


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
        buckets: (context, horizon) pairs; step s uses bucket s modulo their number, or takes turns
            by `bucket_weights`, so that each batch has one shape and each pair compiles once.
        systems: built-in names, catalog paths or `System` objects, all built-in ones if None; or
            `Systems` that are loaded already, to share them between streams.
        targets: names, or "system/name", to draw from; all that vary when omitted.
        k: numbers of covariates to draw from; 1 to 5, as far as a row's target has them, if None.
            Or such numbers by "system/target", target or system, the first of these that names a
            target; one that none names has those of None.
        event_lengths: lengths of events to draw from, 32 to 512 in powers of two if None; those
            that do not fit a bucket are left out of it.
        n_events: numbers of events to draw from, or "powers" for every power of two that fits.
        novel: probability of a novel future, the rest are replays.
        shapes: event shapes to draw from for every covariate (`events.SHAPES`), or None for the
            catalog's.
        factor_range: (low, high) for log-uniform history factors, or None for the catalog's pool.
        sharding: a `NamedSharding` over one mesh axis; each device makes its own rows.
        system_weights: how often a target of a system is drawn relative to others, by system: 1
            for those not named, 0 leaves out. It multiplies the weight of each of its targets, so
            that 1 / (number of its targets) gives every system the same share. Weights hold for
            draws; what verification rejects is drawn anew, see `acceptance`.
        target_weights: the same by "system/target" or target, the first of these that names one.
        bucket_weights: how often a bucket is used relative to others, one number a bucket, 0
            leaves out. The turns are fixed, the same for every key, and repeat after as few steps
            as meet the shares exactly (to a thousandth of the largest weight).

    Raises:
        CatalogError: a catalog file, or the series beside it, does not hold what it must.
        ValueError: a field's value is not usable; names field, value and expectation.

    References:
        whatif-v1.md §4-6. Shapes beyond step and bell, and factor ranges, are ours.
    """

    def __repr__(self) -> str:
        systems = ", ".join(self.systems.systems)
        buckets = ", ".join(f"{context} + {horizon}" for context, horizon in self.buckets)
        return f"TaskStream({self.batch_size} tasks a batch of {buckets} steps: {systems})"

    def describe(self) -> dict[str, object]:
        """What is in the stream: split, systems, targets, buckets, as plain values.

        A stream on systems of the catalog trains on what the frozen suite tests: the suite's
        windows cover the whole of its series, and its responses are the catalog's.
        """
        builtin = builtin_systems()
        systems = self._drawn_systems()
        held = [name for name in systems if name in builtin]
        left_out = [name for name in builtin if name not in held]
        split = "in-distribution"
        if left_out and held:
            split = "leave-one-system-out"
        elif not held:
            split = "own-systems"
        rows = np.unique(
            np.concatenate([np.asarray(self.choices[turn][1].targets) for turn in set(self.turns)])
        )
        if self.weights is not None:
            rows = rows[self.weights[rows] > 0.0]
        targets = ["/".join(self.systems.targets[row]) for row in rows]
        return {
            "split": split,
            "trained_on": {
                "in-distribution": "in-distribution",
                "leave-one-system-out": "left-out-system",
            }.get(split, "unknown"),
            "trains_on_the_suite": bool(held),
            "holds": (
                f"series, responses and targets of {', '.join(systems)}; "
                + (
                    f"training on them is training on the suite's tasks of {', '.join(held)}"
                    if held
                    else "none of the suite's systems"
                )
            ),
            "systems": systems,
            "left_out": left_out,
            "targets": targets,
            "series": len(targets),
            "prior": None,
            "prior_sha256": None,
            "buckets": [list(bucket) for bucket in self.buckets],
            "k": (
                {name: list(k) for name, k in self.k.items()}
                if isinstance(self.k, Mapping)
                else list(self.k or ())
            ),
            "system_weights": None if self.system_weights is None else dict(self.system_weights),
            "target_weights": None if self.target_weights is None else dict(self.target_weights),
            "bucket_weights": None if self.bucket_weights is None else list(self.bucket_weights),
            "novel": float(self.novel),
            "hard_cases": {},
            "batch_size": self.batch_size,
        }

    def _drawn_systems(self) -> list[str]:
        """Names of the systems, without those that weights leave out."""
        if self.weights is None:
            return list(self.systems.systems)
        pairs = zip(self.systems.targets, self.weights, strict=True)
        drawn = {system for (system, _), weight in pairs if weight > 0.0}
        return [name for name in self.systems.systems if name in drawn]

    def batch_at(self, step: int) -> StreamBatch:
        """The batch of one step, a pure function of (key, step). Does not wait for the device.

        `verified` is False for a row whose every draw failed; iteration raises there, a caller of
        `batch_at` checks it with `check`.

        Raises:
            ForkedError: in a process that was forked after JAX was used.
            ValueError: the step is negative or 2**63 or above.
        """
        refuse_forked()
        step = check_step(step)
        bucket, choices = self.choices[self.turns[step % len(self.turns)]]
        halves = halves_of(step)
        rows = jax.device_put(np.arange(self.batch_size, dtype=np.uint32), self.sharding)
        return _make_batch(
            self.root, halves, rows, choices, self.systems,
            bucket, self.factor_range, self.sharding,
        )  # fmt: skip

    def check(self, batch: StreamBatch) -> StreamBatch:
        """Return the batch, or raise StreamError if a row is not verified. Waits for the device."""
        refuse_forked()
        return refuse_failed(batch, failed_rows(batch), FAILED)

    def iterate(self, start: int = 0, stop: int | None = None) -> Iterator[StreamBatch]:
        """Batches from step `start` on; keeps one step in flight on the device.

        Warns once where more than 1% of the draws are not finite; see `acceptance`.

        Raises:
            StreamError: a row failed verification.
            ValueError: a step that is none.
        """
        watch = _Overflows(self)

        def checked(batch: StreamBatch, sums: tuple[Array, Array, Array]) -> StreamBatch:
            failed, redraws, overflows = sums
            return watch.of(refuse_failed(batch, failed, FAILED), redraws, overflows)

        return iterate_ahead(self.batch_at, _sums_of, checked, start, stop)

    def acceptance(self, draws: int = 4096) -> pa.Table:
        """How often verification accepts a draw, by target: what is drawn again is seen less.

        Estimated from draws of its own, the same at every call.

        Args:
            draws: of each bucket, rounded up to a multiple of 64; with `bucket_weights` this many
                on average, by each bucket's share.

        Returns:
            One row a target that was drawn, the least accepted first: system, target, draws,
            accepted, and not_finite, the draws with a value or covariate beyond float32.

        Raises:
            ValueError: `draws` is not a whole number in 1 .. 2**24.
        """
        if not is_whole(draws) or not 1 <= draws <= MOST_DRAWS:
            raise ValueError(f"draws: {draws!r}; expected a whole number in 1 .. {MOST_DRAWS}")
        refuse_forked()
        counts = np.zeros((len(self.systems.targets), 3), np.int64)
        for turn in sorted(set(self.turns)):
            bucket, choices = self.choices[turn]
            share = int(draws) * len(self.buckets) * self.turns.count(turn)
            own = -(-share // (len(self.turns) * DRAWN_TOGETHER)) * DRAWN_TOGETHER
            counts += np.asarray(
                count_draws(self.root, choices, self.systems, bucket, self.factor_range, own)
            )
        rows = np.flatnonzero(counts[:, 0])
        rows = rows[np.argsort(counts[rows, 1] / counts[rows, 0], kind="stable")]
        system, target = zip(*(self.systems.targets[row] for row in rows), strict=True)
        names = ("draws", "accepted", "not_finite")
        counted = dict(zip(names, counts[rows].T, strict=True))
        return pa.table({"system": system, "target": target, **counted})

    def __iter__(self) -> Iterator[StreamBatch]:
        return self.iterate()


@jax.jit
def _sums_of(batch: StreamBatch) -> tuple[Array, Array, Array]:
    """Rows that failed, and draws that were repeated, and that were not finite."""
    return failed_rows(batch), jnp.sum(batch.redraws), jnp.sum(batch.overflows)


class _Overflows:
    """Warns once where draws that are not finite are more than a share of a stream's."""

    def __init__(self, stream: TaskStream):
        self.stream, self.draws, self.overflows = stream, 0, 0

    def of(self, batch: StreamBatch, redraws: Array, overflows: Array) -> StreamBatch:
        """The batch, counted."""
        if self.draws < 0:
            return batch
        redraws, overflows = jax.device_get((redraws, overflows))
        self.draws += self.stream.batch_size + int(redraws)
        self.overflows += int(overflows)
        if self.draws >= ENOUGH_DRAWS and self.overflows > LOST * self.draws:
            self.draws = -1  # said
            table = self.stream.acceptance().to_pylist()
            lost = {
                f"{row['system']}/{row['target']}": row["not_finite"] / row["draws"]
                for row in table
                if row["not_finite"] > LOST * row["draws"]
            }
            names = ", ".join(f"{name} {share:.0%}" for name, share in list(lost.items())[:10])
            warnings.warn(
                f"stream: draws that are not finite in float32 are drawn again, so that what is "
                f"left is biased; targets that lose more than {LOST:.0%} so: {names}. "
                f"`stream.acceptance()` counts them; a narrower factor_range or pool avoids them",
                stacklevel=4,
            )
        return batch


@functools.partial(jax.jit, static_argnames=("bucket", "factor_range", "sharding"))
def _make_batch(
    root: PRNGKeyArray,
    halves: Array,
    rows: Array,
    choices: Choices,
    systems: Systems,
    bucket: Bucket,
    factor_range: tuple[float, float] | None,
    sharding: NamedSharding | None,
) -> StreamBatch:
    def made(keys: PRNGKeyArray, choices: Choices, systems: Systems) -> StreamBatch:
        drawn = draw_rows(keys, choices, systems, bucket, factor_range)
        return StreamBatch(
            task=jax.vmap(realize, in_axes=(0, None))(drawn.specs, systems),
            spec=drawn.specs,
            verified=drawn.ok,
            redraws=drawn.drawn.astype(jnp.int32) - 1,
            overflows=drawn.overflows,
        )

    return rows_by_device(made, root, halves, rows, sharding, choices, systems)
