"""Groups of tasks that share a shape, for formats whose files hold one shape each; and time.

References:
    whatif-v1.md §2 (steps), §5 (shapes).
"""

import re
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from ..catalog import System
from ..suites import Suite
from .columns import MANIFEST, Column, from_manifest
from .errors import ExportError
from .rows import Shard, ShardRows

__all__ = [
    "FACTS",
    "START",
    "Group",
    "covariate_columns",
    "facts",
    "frequency",
    "group_shards",
    "grouped",
    "item_ids",
    "step_microseconds",
    "with_first_group",
]

# When every exported series starts, in UTC. A task's steps are counted from its own history's
# first step; `window_start` says where in the simulated time that was.
START = np.datetime64("2000-01-01T00:00:00", "us")

# Tasks of one file at most: a shape of the largest contexts then stays near 200 MB in memory.
SHARD_ROWS = 1024

_UNITS = (("D", 86_400_000_000), ("h", 3_600_000_000), ("min", 60_000_000), ("s", 1_000_000),
          ("ms", 1_000), ("us", 1))  # fmt: skip


class Group(NamedTuple):
    """What the tasks of one folder share."""

    system: str
    context: int
    horizon: int
    k: int
    future: str

    @property
    def name(self) -> str:
        """The folder's name, such as `opendc_c1024_h128_k3_novel`."""
        return f"{self.system}_c{self.context}_h{self.horizon}_k{self.k}_{self.future}"


def grouped(suite: Suite) -> dict[Group, np.ndarray]:
    """Rows of every group, ordered by task id; groups ordered by system, shape and future.

    Raises:
        ExportError: a system's name cannot be part of a folder's name.
    """
    columns = [suite.column(name).tolist() for name in Group._fields]
    for system in set(columns[0]):
        if not re.fullmatch(r"[A-Za-z0-9._-]+", system):
            raise ExportError(
                f"system: {system!r}; expected letters, digits, '.', '_' and '-' only, since "
                f"folders are named after it"
            )
    keys = [Group(*values) for values in zip(*columns, strict=True)]
    ids = suite.column("task_id")
    rows: dict[Group, list[int]] = {key: [] for key in sorted(set(keys))}
    for row in np.argsort(ids):
        rows[keys[row]].append(row)
    return {key: np.array(found) for key, found in rows.items()}


def group_shards(suite: Suite, folder: str) -> list[Shard]:
    """One shard a group, or several where a group has more than `SHARD_ROWS` tasks."""
    return [
        Shard(folder.format(group=group.name) + f"/part-{number:05d}.parquet", part)
        for group, rows in grouped(suite).items()
        for number, part in enumerate(
            rows[start : start + SHARD_ROWS] for start in range(0, len(rows), SHARD_ROWS)
        )
    ]


def with_first_group(usage: str, suite: Suite) -> str:
    """A text about reading, its `{group}` filled in with a name that the reader finds."""
    return usage.replace("{group}", next(iter(grouped(suite))).name)


def step_microseconds(system: System) -> int:
    """Microseconds between two steps of a system.

    Raises:
        ExportError: the step is no whole number of microseconds.
    """
    step = round(system.step_seconds * 1_000_000)
    if step < 1 or abs(step - system.step_seconds * 1_000_000) > 1e-3:
        raise ExportError(
            f"step_seconds: {system.step_seconds} ({system.name}); expected whole microseconds, "
            f"the finest unit of exported timestamps"
        )
    return step


def frequency(system: System) -> str:
    """The step of a system as pandas writes frequencies: `5min`."""
    step = step_microseconds(system)
    unit, size = next((unit, size) for unit, size in _UNITS if step % size == 0)
    return f"{step // size}{unit}"


# One value a task, beside its series. `target` is the series' own name in both formats.
FACTS = tuple(
    column._replace(name="target_name") if column.name == "target" else column
    for column in MANIFEST
    if not pa.types.is_list(column.type)
)


def facts(rows: ShardRows) -> Sequence[pa.ChunkedArray]:
    """The columns `FACTS` of a shard."""
    return [from_manifest(rows.manifest, column) for column in FACTS]


def item_ids(suite: Suite, rows: ShardRows) -> pa.Array:
    """Task ids as text that sorts as the numbers do."""
    width = max(6, len(str(suite.column("task_id").max())))
    return pa.array([f"{task:0{width}d}" for task in rows.manifest.column("task_id").to_pylist()])


def covariate_columns(k: int, type_: pa.DataType, name: str, description: str) -> list[Column]:
    """One column a covariate; `{}` in the name stands for its position, from 1."""
    return [
        Column(name.format(number), type_, description.format(number)) for number in range(1, k + 1)
    ]
