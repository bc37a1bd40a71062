"""Parquet: one row a task, the manifest's columns and the arrays.

References:
    whatif-v1.md §8.
"""

import numpy as np
import pyarrow as pa

from ..suites import Suite
from .columns import ARRAYS, MANIFEST, from_manifest, schema_of
from .formats import Format, RecordSet
from .rows import Shard, ShardRows, lists, nested_lists

__all__ = ["Parquet"]

SHARD_ROWS = 512

USAGE = """\
Every row of `data/*.parquet` is one task; files and rows are ordered by `task_id`. Arrays are lists
of float32, covariates lists of lists: `k` rows, the primary covariate first. With any of these:

```python
folder = "/path/to/this/folder"

import datasets

tasks = datasets.load_dataset(folder, split="train")

import duckdb

tasks = duckdb.sql(f"select * from '{folder}/data/*.parquet' where future_kind = 'novel'")

import pandas

tasks = pandas.read_parquet(f"{folder}/data")

import polars

tasks = polars.scan_parquet(f"{folder}/data/*.parquet").filter(polars.col("k") == 2).collect()
```

A forecaster gets `history`, `history_covariates` and `future_covariates` and forecasts `future`."""


class Parquet(Format):
    """Rows in the order of task ids, so that neighbours overlap and compress well."""

    name = "parquet"

    def usage(self, suite: Suite) -> str:
        """The same for every suite."""
        return USAGE

    def shards(self, suite: Suite) -> list[Shard]:
        """A thousand tasks a file."""
        order = np.argsort(suite.column("task_id"))
        starts = range(0, len(order), SHARD_ROWS)
        return [
            Shard(f"data/part-{number:05d}.parquet", order[start : start + SHARD_ROWS])
            for number, start in enumerate(starts)
        ]

    def table(self, suite: Suite, rows: ShardRows) -> pa.Table:
        """whatif-v1.md §8's columns."""
        columns = [from_manifest(rows.manifest, column) for column in MANIFEST]
        for column in ARRAYS:
            nested = pa.types.is_list(column.type.value_type)
            columns.append((nested_lists if nested else lists)(rows.blocks, column.name))
        metadata = {"whatif_suite": suite.name, "whatif_suite_fingerprint": suite.fingerprint}
        return pa.table(columns, schema=schema_of(MANIFEST + ARRAYS).with_metadata(metadata))

    def record_sets(self, suite: Suite) -> list[RecordSet]:
        """One: all files have the same columns."""
        return [RecordSet("tasks", "One record a task.", ("data/*.parquet",), MANIFEST + ARRAYS)]
