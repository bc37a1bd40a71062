"""A frozen suite: filter its tasks, hash them, and make them on the accelerator.

References:
    SPEC §5, §6, §8.
"""

import collections
import functools
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pyarrow as pa

from ..baselines import Baselines, load_baselines
from ..catalog import System
from ..events import SHAPES
from ..tasks import FUTURES, Bucket, Task, TaskSpec, batched_spec, positions_for, realize
from .fingerprint import fingerprint_of
from .manifest import AXES, ManifestError, flat_values

__all__ = ["Suite", "TaskBatch"]


_Key = tuple[int, int, tuple[str, ...]]  # context, horizon, event shapes: one bucket each


class TaskBatch(NamedTuple):
    """Tasks of one bucket on the device. Axis B is `batch_size` always; padding rows come last."""

    task_ids: np.ndarray  # int64 [B], -1 where a row is padding
    mask: np.ndarray  # bool [B], False where a row is padding
    task: Task  # every field with a leading axis B
    bucket: Bucket

    def to_numpy(self) -> dict[str, np.ndarray]:
        """Every field of the real rows as NumPy arrays, `task_id` among them."""
        rows = int(self.mask.sum())  # padding comes last
        fields = {name: np.asarray(value)[:rows] for name, value in vars(self.task).items()}
        return {"task_id": self.task_ids[:rows], **fields}


@functools.partial(jax.jit, static_argnames=("sharding",))
def _realize_batch(specs: TaskSpec, baselines: Baselines, sharding=None) -> Task:
    if sharding is not None:
        specs = jax.lax.with_sharding_constraint(specs, sharding)
    return jax.vmap(realize, in_axes=(0, None))(specs, baselines)


class Suite:
    """Tasks as data: a manifest, and the systems whose series and responses it refers to.

    Loading needs no simulator and no random generator. Iteration compiles one program per bucket
    of the whole suite, whatever is filtered and whatever the number of tasks.
    """

    def __init__(
        self,
        name: str,
        table: pa.Table,
        systems: Sequence[System],
        *,
        _whole: "Suite | None" = None,
    ):
        self.name = name
        self.table = table
        self.systems = tuple(systems)
        self._whole = _whole or self

    def __len__(self) -> int:
        return self.table.num_rows

    def __repr__(self) -> str:
        counts = ", ".join(f"{key} {value:,}" for key, value in self.count("system").items())
        return f"Suite({self.name!r}, {len(self):,} tasks: {counts})"

    def column(self, name: str) -> np.ndarray:
        """One scalar column of the manifest as a NumPy array [tasks]."""
        if name not in AXES and name != "window_start":
            raise ValueError(f"column: {name!r}; expected one of {', '.join(AXES)}")
        return self.table.column(name).to_numpy()

    def count(self, axis: str) -> dict:
        """Number of tasks at every value of an axis."""
        values, counts = np.unique(self.column(axis), return_counts=True)
        return dict(zip(values.tolist(), counts.tolist(), strict=True))

    @property
    def metadata(self) -> dict[str, str]:
        """What the manifest says of itself."""
        found = self.table.schema.metadata or {}
        return {key.decode(): value.decode() for key, value in found.items()}

    def where(self, **axes) -> "Suite":
        """The tasks at given values: `suite.where(system="epanet", k=[1, 5], future="novel")`.

        Args:
            **axes: a value or a collection of values for any of `AXES`.

        Raises:
            ValueError: an axis that does not exist, or a value no task of the whole suite has.
        """
        keep = np.ones(len(self), bool)
        for axis, wanted in axes.items():
            if axis not in AXES:
                raise ValueError(f"where: axis {axis!r}; expected one of {', '.join(AXES)}")
            if isinstance(wanted, str) or not np.iterable(wanted):
                wanted = [wanted]
            wanted = list(wanted)
            known = self._whole.column(axis)
            for value in wanted:
                if not np.any(known == value):
                    some = np.unique(known)[:40].tolist()
                    raise ValueError(f"where: {axis}={value!r}; expected one of {some}")
            keep &= np.isin(self.column(axis), np.asarray(wanted, known.dtype))
        return self._select(np.flatnonzero(keep))

    def take(self, rows: Sequence[int] | np.ndarray) -> "Suite":
        """The tasks at given row numbers of this suite, in that order.

        Args:
            rows: whole numbers in 0 .. len - 1, or a mask of booleans, one a task.

        Raises:
            ValueError: anything else.
        """
        picked = np.asarray(rows)
        if picked.dtype == bool and picked.shape == (len(self),):
            return self._select(np.flatnonzero(picked))
        whole = picked.ndim == 1 and (np.issubdtype(picked.dtype, np.integer) or not picked.size)
        if not whole or np.any((picked < 0) | (picked >= len(self))):
            raise ValueError(
                f"rows: {str(rows)[:80]}; expected row numbers in 0 .. {len(self) - 1} or a mask "
                f"of {len(self)} booleans"
            )
        return self._select(picked.astype(np.int64))

    def _select(self, rows: np.ndarray) -> "Suite":
        return Suite(self.name, self.table.take(pa.array(rows)), self.systems, _whole=self._whole)

    @property
    def baselines(self) -> Baselines:
        """Series and catalog on the default device, loaded at first use."""
        return self._whole._baselines

    @functools.cached_property
    def _baselines(self) -> Baselines:
        return load_baselines(self.systems, max_covariates=self._sizes[1])

    @functools.cached_property
    def _shapes(self) -> list[tuple[str, ...]]:
        """Event shapes that the bucket of each task evaluates.

        Steps alone where the task has no other shape, else every shape of the whole suite.
        """
        shape_of = {
            (system.name, covariate.name): covariate.shape
            for system in self.systems
            for covariate in system.covariates
        }
        whole = self._whole
        every = tuple(
            name for name in SHAPES
            if name == SHAPES[0] or any(
                shape_of.get(key) == name for key in whole._system_and_covariate()
            )
        )  # fmt: skip
        k = self.column("k")
        if not len(k):
            return []
        steps = [shape_of.get(key) == SHAPES[0] for key in self._system_and_covariate()]
        only_steps = np.logical_and.reduceat(np.array(steps), np.cumsum(k) - k)
        return [SHAPES[:1] if only else every for only in only_steps.tolist()]

    def _system_and_covariate(self) -> list[tuple[str, str]]:
        """Both names of every covariate of every task, tasks laid end to end."""
        owners = np.repeat(self.column("system"), self.column("k"))
        return list(
            zip(owners.tolist(), flat_values(self.table, "covariates").tolist(), strict=True)
        )

    def _key(self, rows: np.ndarray | slice = slice(None)) -> list[_Key]:
        """What decides a task's bucket, for some rows."""
        shapes = np.empty(len(self), object)
        shapes[:] = self._shapes
        columns = (self.column("context"), self.column("horizon"), shapes)
        return list(zip(*(column[rows].tolist() for column in columns), strict=True))

    @functools.cached_property
    def _sizes(self) -> tuple[dict[_Key, tuple[int, int]], int]:
        """Of the whole suite: positions and events by bucket key, and the most covariates."""
        if self._whole is not self:
            return self._whole._sizes
        keys, events = self._key(), self.column("n_events").tolist()
        lengths = self.column("event_length").tolist()
        sizes: dict[_Key, tuple[int, int]] = {}
        for key, n_events, length in zip(keys, events, lengths, strict=True):
            positions, most = sizes.get(key, (0, 0))
            needed = positions_for(length, n_events, key[2] != SHAPES[:1])
            sizes[key] = (max(positions, needed), max(most, n_events))
        return dict(sorted(sizes.items())), int(self.column("k").max(initial=1))

    @property
    def buckets(self) -> tuple[Bucket, ...]:
        """The static shapes of the whole suite."""
        return tuple(
            Bucket(context, horizon, positions, shapes)
            for (context, horizon, shapes), (positions, _) in self._sizes[0].items()
        )

    def specs(self, rows: Sequence[int] | np.ndarray) -> TaskSpec:
        """Specs of some rows, which must share one bucket; leaves are NumPy arrays.

        Raises:
            ValueError: rows of different buckets.
        """
        rows = np.asarray(rows, np.int64)
        keys = sorted(set(self._key(rows)))
        if len(keys) != 1:
            raise ValueError(f"rows: (context, horizon, shapes) {keys}; expected one of them")
        context, horizon, shapes = keys[0]
        (positions, max_events), max_covariates = self._sizes[0][keys[0]], self._sizes[1]
        part = self.table.take(pa.array(rows))
        columns = {
            name: part.column(name).to_numpy()
            for name in ("context", "horizon", "event_length", "n_events", "k", "window_start")
        }
        count = part.num_rows
        target, covariates, mask = self._columns_of(part, max_covariates)
        starts = np.zeros((count, max_events), np.int32)
        event_mask = np.arange(max_events)[None] < columns["n_events"][:, None]
        starts[event_mask] = flat_values(part, "event_starts")
        factors = np.ones((count, max_events, max_covariates), np.float32)
        factors[event_mask[:, :, None] & mask[:, None, :]] = flat_values(part, "factors")
        future_factors = np.ones((count, max_covariates), np.float32)
        future_factors[mask] = flat_values(part, "future_factors")
        stride = _strides(starts, columns, part.column("task_id"))
        baselines = self.baselines
        return batched_spec(
            Bucket(context, horizon, positions, shapes),
            target=target,
            covariates=covariates,
            covariate_mask=mask,
            shapes=np.asarray(baselines.shape)[target[:, None], covariates],
            window_start=columns["window_start"],
            context=columns["context"],
            horizon=columns["horizon"],
            event_length=columns["event_length"],
            n_events=columns["n_events"],
            event_starts=starts,
            slot_start=starts[:, 0].copy(),
            slot_stride=stride,
            factors=factors.astype(baselines.base.dtype),
            future_factors=future_factors.astype(baselines.base.dtype),
            future=_numbers(part.column("future"), FUTURES),
        )

    def _columns_of(self, part: pa.Table, width: int) -> tuple[np.ndarray, ...]:
        """Target rows, covariate columns and covariate mask."""
        baselines = self.baselines
        keys = list(
            zip(part.column("system").to_pylist(), part.column("target").to_pylist(), strict=True)
        )
        rows = {key: baselines.row(*key) for key in set(keys)}
        target = np.array([rows[key] for key in keys], np.int32)
        mask = np.arange(width)[None] < part.column("k").to_numpy()[:, None]
        names = np.array(flat_values(part, "covariates"), object)
        owner = np.repeat(np.array([key[0] for key in keys], object), mask.sum(axis=1))
        covariates = np.zeros((len(keys), width), np.int32)
        numbers = np.zeros(len(names), np.int32)
        for position, system in enumerate(baselines.systems):
            of_system = owner == system
            known = {name: column for column, name in enumerate(baselines.covariates[position])}
            unknown = set(names[of_system]) - set(known)
            if unknown:
                raise ManifestError(
                    f"covariates: {sorted(unknown)} not in system {system}; expected one of "
                    f"{list(known)}"
                )
            numbers[of_system] = [known[name] for name in names[of_system]]
        covariates[mask] = numbers
        return target, covariates, mask

    def batches(self, batch_size: int, *, sharding=None) -> Iterator[TaskBatch]:
        """Device arrays, bucket by bucket, each task once.

        Args:
            batch_size: rows of every batch; the last one of a bucket is padded and masked. No
                more than the largest bucket of the whole suite holds.
            sharding: a `jax.sharding.Sharding` of the batch axis; each device then makes its own
                rows.

        Raises:
            ValueError: a batch size below 1.
        """
        if not isinstance(batch_size, int | np.integer) or batch_size < 1:
            raise ValueError(f"batch_size: {batch_size!r}; expected an integer >= 1")
        largest = max(collections.Counter(self._whole._key()).values(), default=1)
        if sharding is None:
            batch_size = min(batch_size, largest)
        return self._batches(int(batch_size), sharding)

    def _batches(self, batch_size: int, sharding) -> Iterator[TaskBatch]:
        ids, keys = self.column("task_id"), self._key()
        rows_of: dict[_Key, list[int]] = {}
        for row, key in enumerate(keys):
            rows_of.setdefault(key, []).append(row)
        for key in sorted(rows_of):
            rows = np.array(rows_of[key])
            for start in range(0, len(rows), batch_size):
                real = rows[start : start + batch_size]
                missing = batch_size - len(real)
                padded = np.concatenate([real, np.repeat(real[-1:], missing)])
                specs = self.specs(padded)
                if sharding is None:
                    specs = jax.device_put(specs)
                else:
                    specs = jax.device_put(specs, sharding)
                yield TaskBatch(
                    task_ids=np.concatenate([ids[real], np.full(missing, -1, np.int64)]),
                    mask=np.arange(batch_size) < len(real),
                    task=_realize_batch(specs, self.baselines, sharding),
                    bucket=specs.bucket,
                )

    def spec(self, task_id: int) -> TaskSpec:
        """The spec of one task.

        Raises:
            KeyError: this (possibly filtered) suite has no such task.
        """
        rows = np.flatnonzero(self.column("task_id") == task_id)
        if not len(rows):
            raise KeyError(f"task_id: {task_id} is not among the {len(self)} tasks")
        return jax.tree.map(lambda leaf: jnp.asarray(leaf[0]), self.specs(rows[:1]))

    def task(self, task_id: int) -> Task:
        """One task, realized."""
        return realize(self.spec(task_id), self.baselines)

    @functools.cached_property
    def fingerprint(self) -> str:
        """SHA-256 of what determines the tasks: manifest values, series, catalog constants.

        Depends on values alone, not on how or by which library a file was written.
        """
        return fingerprint_of(self.table, self.systems, self.baselines)


def _numbers(column, names: Sequence[str]) -> np.ndarray:
    known = {name: number for number, name in enumerate(names)}
    try:
        return np.array([known[value] for value in column.to_pylist()], np.int32)
    except KeyError as error:
        raise ManifestError(f"future: {error}; expected one of {list(names)}") from None


def _strides(starts: np.ndarray, columns: dict[str, np.ndarray], task_ids) -> np.ndarray:
    """Stride of the slots: equal steps between starts, as SPEC §5 lays events out."""
    n_events, length = columns["n_events"], columns["event_length"]
    second = starts[:, min(1, starts.shape[1] - 1)]
    stride = np.where(n_events > 1, second - starts[:, 0], columns["context"] - starts[:, 0])
    expected = starts[:, :1] + np.arange(starts.shape[1])[None] * stride[:, None]
    real = np.arange(starts.shape[1])[None] < n_events[:, None]
    end = starts[:, 0] + (n_events - 1) * stride + length
    bad = np.any(real & (starts != expected), axis=1) | (stride < length)
    bad |= (end > columns["context"]) | (starts[:, 0] < 0)
    if bad.any():
        row = int(np.flatnonzero(bad)[0])
        raise ManifestError(
            f"event_starts: task {task_ids[row].as_py()} has {starts[row][real[row]].tolist()}; "
            f"expected equal steps of at least event_length = {length[row]} inside the context"
        )
    return stride.astype(np.int32)


def suite_path(name: str) -> Path:
    """Where a suite of the package lies."""
    return Path(__file__).parent / f"{name}.parquet"
