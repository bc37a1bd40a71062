"""A frozen suite: filter its tasks, hash them, and make them on the accelerator.

References:
    whatif-v1.md §5, §6, §8.
"""

import collections
import functools
from collections.abc import Iterator, Sequence
from typing import Any

import equinox as eqx
import jax
import numpy as np
import pyarrow as pa
from jax.sharding import Sharding

from ..catalog import System
from ..catalog.errors import one_of
from ..tasks import Bucket, Systems, Task, TaskSpec, load_systems, realize
from ..tasks.forked import refuse_forked
from ..tasks.spec import is_whole
from ..tasks.task import realize_batch
from .buckets import Key, bucket_keys, buckets_of, event_shapes
from .fingerprint import fingerprint_of
from .manifest import AXES, metadata_of
from .sampling import stratified
from .spec_leaves import spec_leaves

__all__ = ["Suite", "TaskBatch"]


class TaskBatch(eqx.Module):
    """Tasks of one bucket on the device. Axis B is `batch_size` always; padding rows come last."""

    task_ids: np.ndarray  # int64 [B], -1 where a row is padding
    mask: np.ndarray  # bool [B], False where a row is padding
    step_seconds: np.ndarray  # float64 [B], seconds between two steps of each row's system
    task: Task  # every field with a leading axis B
    bucket: Bucket = eqx.field(static=True)

    @property
    def rows(self) -> int:
        """Real rows; padding comes last."""
        return int(self.mask.sum())

    def to_numpy(self) -> dict[str, np.ndarray]:
        """Every field of the real rows, `task_id` among them: arrays of your own, to write to."""
        fields = {"task_id": self.task_ids, **vars(self.task)}
        return {name: np.array(np.asarray(value)[: self.rows]) for name, value in fields.items()}


_realize = jax.jit(realize)


class Suite:
    """Tasks as data: a manifest, and the systems whose series and responses it refers to.

    Loading needs no simulator and no random generator. Iteration compiles one program per bucket
    of the whole suite, whatever is filtered and whatever the number of tasks.
    """

    def __init__(
        self,
        name: str,
        table: pa.Table,
        catalog: Sequence[System],
        *,
        whole: "Suite | None" = None,
        chosen: tuple[str, ...] = (),
    ):
        self.name = name
        self.table = table
        self.catalog = tuple(catalog)
        self.whole = whole or self  # the suite that this one's tasks were chosen from
        self.chosen = chosen  # the calls that chose them, in order

    def __len__(self) -> int:
        return self.table.num_rows

    def __repr__(self) -> str:
        counts = ", ".join(f"{key} {value:,}" for key, value in self.count("system").items())
        return f"Suite({self.name!r}, {len(self):,} tasks: {counts})"

    def column(self, name: str) -> np.ndarray:
        """One scalar column of the manifest as a NumPy array [tasks], a copy."""
        if name not in AXES and name != "window_start":
            raise ValueError(f"column: {name!r}; expected one of {', '.join(AXES)}")
        return np.array(self.table.column(name).to_numpy())

    def count(self, axis: str) -> dict:
        """Number of tasks at every value of an axis."""
        values, counts = np.unique(self.column(axis), return_counts=True)
        return dict(zip(values.tolist(), counts.tolist(), strict=True))

    @property
    def shapes(self) -> dict[tuple[int, int], int]:
        """Number of tasks of every (context, horizon), the shortest context first."""
        pairs = zip(self.column("context").tolist(), self.column("horizon").tolist(), strict=True)
        return dict(sorted(collections.Counter(pairs).items()))

    @property
    def metadata(self) -> dict[str, str]:
        """What the manifest says of itself."""
        return metadata_of(self.table)

    def where(self, **axes: Any) -> "Suite":
        """The tasks at given values: `suite.where(system="epanet", k=[1, 5], future="novel")`.

        Args:
            **axes: a value or a collection of values for any of `AXES`.

        Raises:
            ValueError: an axis that does not exist, or a value no task of the whole suite has.
        """
        keep, calls = np.ones(len(self), bool), []
        for axis, wanted in axes.items():
            if axis not in AXES:
                raise ValueError(f"where: axis {axis!r}; expected {one_of(AXES, axis)}")
            if isinstance(wanted, str) or not np.iterable(wanted):
                wanted = [wanted]
            wanted = list(wanted)
            known = self.whole.column(axis)
            for value in wanted:
                if not np.any(known == value):
                    expected = one_of(np.unique(known).tolist(), value)
                    raise ValueError(f"where: {axis}={value!r}; expected {expected}")
            values = np.asarray(wanted, known.dtype)
            keep &= np.isin(self.column(axis), values)
            said = values.tolist()[0] if len(values) == 1 else values.tolist()
            calls.append(
                f"{axis}={said!r}" if len(values) <= 12 else f"{axis}={len(values)} values"
            )
        return self._select(np.flatnonzero(keep), f"where({', '.join(calls)})" if axes else "")

    def take(self, rows: Sequence[int] | np.ndarray) -> "Suite":
        """The tasks at given row numbers of this suite, in that order.

        Args:
            rows: whole numbers in 0 .. len - 1, or a mask of booleans, one a task.

        Raises:
            ValueError: anything else.
        """
        picked = np.asarray(rows)
        if picked.dtype == bool and picked.shape == (len(self),):
            return self._select(np.flatnonzero(picked), f"take({picked.sum()} rows)")
        whole = picked.ndim == 1 and (np.issubdtype(picked.dtype, np.integer) or not picked.size)
        if not whole or np.any((picked < 0) | (picked >= len(self))):
            raise ValueError(
                f"rows: {str(rows)[:80]}; expected row numbers in 0 .. {len(self) - 1} or a mask "
                f"of {len(self)} booleans"
            )
        first = np.array_equal(picked, range(len(picked)))
        said = f"take(range({len(picked)}))" if first else f"take({len(picked)} rows)"
        return self._select(picked.astype(np.int64), said)

    def sample(self, n: int, *, seed: int = 0) -> "Suite":
        """A sample of n tasks in which every stratum has its share, in the order they have here.

        A stratum is the tasks of one system, future, k, event length, context pair and setting. The
        same tasks every time; a smaller sample is part of every larger one. Tasks are drawn, not
        pairs: a small sample holds few pairs with both futures.

        Args:
            n: tasks to draw, 1 .. len.
            seed: other seeds draw other tasks.

        Raises:
            ValueError: n is not a whole number in 1 .. len, the seed none at all, or a task is in
                the suite twice.
        """
        if not is_whole(seed):
            raise ValueError(f"seed: {seed!r}; expected a whole number")
        if not is_whole(n) or not 1 <= n <= len(self):
            raise ValueError(f"sample: {n!r}; expected a whole number in 1 .. {len(self)}")
        check_once(self.column("task_id"))
        said = f"sample({n}, seed={seed})" if seed else f"sample({n})"
        return self._select(stratified(self.table, n, seed), said)

    def _select(self, rows: np.ndarray, call: str) -> "Suite":
        chosen = (*self.chosen, call) if call else self.chosen
        table = self.table.take(pa.array(rows))
        return Suite(self.name, table, self.catalog, whole=self.whole, chosen=chosen)

    @property
    def systems(self) -> Systems:
        """Catalog and series on the default device, loaded at first use.

        Raises:
            ForkedError: in a process that was forked after JAX was used.
        """
        refuse_forked()
        return self.whole._systems

    @functools.cached_property
    def _systems(self) -> Systems:
        return load_systems(self.catalog, max_covariates=self._most_covariates)

    @functools.cached_property
    def _most_covariates(self) -> int:
        return int(self.whole.column("k").max(initial=1))

    @functools.cached_property
    def _event_shapes(self) -> tuple[str, ...]:
        """Of the whole suite."""
        if self.whole is not self:
            return self.whole._event_shapes
        return event_shapes(self.table, self.catalog)

    @functools.cached_property
    def _keys(self) -> list[Key]:
        """What decides each task's bucket."""
        return bucket_keys(self.table, self.catalog, self._event_shapes)

    @functools.cached_property
    def _buckets(self) -> dict[Key, Bucket]:
        """The buckets of the whole suite, by key."""
        if self.whole is not self:
            return self.whole._buckets
        return buckets_of(self.table, self._keys, self._most_covariates)

    @property
    def buckets(self) -> tuple[Bucket, ...]:
        """The static shapes of the whole suite."""
        return tuple(self._buckets.values())

    def rows_of(self, task_ids: Sequence[int] | np.ndarray) -> np.ndarray:
        """Row numbers of tasks, int64 in the order of the ids.

        Raises:
            ValueError: no list of integers, or a task that this (possibly filtered) suite has not.
        """
        ids = np.asarray(task_ids)
        if ids.ndim != 1 or not (np.issubdtype(ids.dtype, np.integer) or not ids.size):
            raise ValueError(f"task_ids: {str(task_ids)[:80]}; expected a list of integers")
        known = self.column("task_id")
        order = np.argsort(known, kind="stable")
        place = np.searchsorted(known, ids, sorter=order)
        rows = order[np.minimum(place, len(known) - 1)] if len(known) else place
        missing = ids if not len(known) else ids[known[rows] != ids]
        if len(missing):
            raise ValueError(
                f"task_ids: {missing[:10].tolist()} are not among the {len(self)} tasks of the "
                f"suite"
            )
        return rows

    def specs(
        self, rows: Sequence[int] | np.ndarray, *, sharding: Sharding | None = None
    ) -> TaskSpec:
        """Specs of some rows, which must share one bucket, on the device: leaves [rows, ...].

        Raises:
            ValueError: rows of different buckets.
        """
        rows = np.asarray(rows, np.int64)
        keys = sorted({self._keys[row] for row in rows})
        if len(keys) != 1:
            raise ValueError(f"rows: (context, horizon, shapes) {keys}; expected one of them")
        bucket = self._buckets[keys[0]]
        leaves = spec_leaves(self.table.take(pa.array(rows)), self.systems, bucket)
        return TaskSpec(**jax.device_put(leaves, sharding), bucket=bucket)

    def batch_ids(self, batch_size: int, *, by: Sequence[str] = ()) -> list[np.ndarray]:
        """Task ids of every batch that this suite is cut into, each task once.

        The tasks of a batch share a bucket, so that one compiled program makes them. The same
        batches for every order of the suite's rows.

        Args:
            batch_size: the most tasks of a batch.
            by: axes whose value the tasks of a batch share as well.

        Returns:
            int64 arrays, ascending ids within each; batches of one bucket follow one another.

        Raises:
            ValueError: a batch size below 1, an axis that does not exist, or a task that the
                suite holds twice.
        """
        check_batch_size(batch_size)
        ids = self.column("task_id")
        check_once(ids)
        axes = [self.column(name).tolist() for name in by]
        groups: dict[tuple, list[int]] = {}
        for key, task_id, *values in zip(self._keys, ids.tolist(), *axes, strict=True):
            groups.setdefault((*key, *values), []).append(task_id)
        batches = []
        for group in sorted(groups):
            members = np.sort(np.array(groups[group], np.int64))
            batches += [
                members[start : start + batch_size] for start in range(0, len(members), batch_size)
            ]
        return batches

    def batch(
        self,
        task_ids: Sequence[int] | np.ndarray,
        batch_size: int | None = None,
        *,
        sharding: Sharding | None = None,
    ) -> TaskBatch:
        """Make some tasks of one bucket, such as a batch of `batch_ids`, in the order given.

        Args:
            task_ids: 1 .. `batch_size` of them.
            batch_size: rows of the batch; those beyond the tasks repeat the last one, masked. As
                many as there are tasks if None; without `sharding` no more than the largest bucket
                of the whole suite holds.
            sharding: of the batch axis; each device then makes its own rows.

        Raises:
            ValueError: no tasks or too many, unknown ones, one twice, or of several buckets.
        """
        batch_size = len(task_ids) if batch_size is None else batch_size
        check_batch_size(batch_size)
        real = self.rows_of(task_ids)
        if not 1 <= len(real) <= batch_size:
            raise ValueError(
                f"task_ids: {len(real)} tasks; expected 1 .. batch_size = {batch_size}"
            )
        ids = self.column("task_id")[real]
        check_once(ids)
        if sharding is None:
            batch_size = min(batch_size, self.whole._largest)
        missing = (0, batch_size - len(real))
        specs = self.specs(np.pad(real, missing, mode="edge"), sharding=sharding)
        step_of = {system.name: system.step_seconds for system in self.catalog}
        steps = np.array([step_of[name] for name in self.column("system")[real].tolist()], float)
        return TaskBatch(
            task_ids=np.pad(ids, missing, constant_values=-1),
            mask=np.arange(batch_size) < len(real),
            step_seconds=np.pad(steps, missing, mode="edge"),
            task=realize_batch(specs, self.systems, sharding),
            bucket=specs.bucket,
        )

    def batches(self, batch_size: int, *, sharding: Sharding | None = None) -> Iterator[TaskBatch]:
        """Every task once, as device arrays, bucket by bucket.

        Args:
            batch_size: rows of every batch; the last one of a bucket is padded and masked. No
                more than the largest bucket of the whole suite holds.
            sharding: of the batch axis; each device then makes its own rows.

        Raises:
            ValueError: a batch size below 1.
        """
        check_batch_size(batch_size)
        for ids in self.batch_ids(batch_size):
            yield self.batch(ids, batch_size, sharding=sharding)

    @functools.cached_property
    def _largest(self) -> int:
        """Tasks of the largest bucket."""
        return max(collections.Counter(self._keys).values(), default=1)

    def bucket_of(self, task_id: int) -> Bucket:
        """The static shape of one task. Raises ValueError as `spec` does."""
        return self._buckets[self._keys[self.rows_of([task_id])[0]]]

    def spec(self, task_id: int) -> TaskSpec:
        """The spec of one task.

        Raises:
            ValueError: this (possibly filtered) suite has no such task.
        """
        return jax.tree.map(lambda leaf: leaf[0], self.specs(self.rows_of([task_id])))

    def task(self, task_id: int) -> Task:
        """One task, realized. Raises ValueError as `spec` does."""
        return _realize(self.spec(task_id), self.systems)

    @functools.cached_property
    def fingerprint(self) -> str:
        """SHA-256 of what determines the tasks: manifest values, series, catalog constants.

        Depends on values alone, not on how or by which library a file was written.
        """
        return fingerprint_of(self.table, self.catalog, self.systems)


def check_batch_size(batch_size: object) -> None:
    """Refuse what is no batch size; ValueError."""
    if not is_whole(batch_size) or batch_size < 1:
        raise ValueError(f"batch_size: {batch_size!r}; expected an integer >= 1")


def check_once(task_ids: np.ndarray) -> None:
    """Refuse a task that occurs twice; ValueError."""
    values, counts = np.unique(task_ids, return_counts=True)
    if np.any(counts > 1):
        raise ValueError(
            f"task_ids: {values[counts > 1][:10].tolist()} more than once; expected each task once"
        )
