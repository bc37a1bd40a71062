"""GluonTS: a folder of datasets, one a shape, that `gluonts.dataset.common.FileDataset` reads.

References:
    whatif-v1.md §8.
"""

import json
from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from ..suites import Suite
from .columns import MANIFEST, Column, schema_of
from .formats import Format, RecordSet
from .rows import Shard, ShardRows, as_lists, stacked
from .shapes import (
    FACTS,
    START,
    facts,
    frequency,
    group_shards,
    grouped,
    item_ids,
    with_first_group,
)

__all__ = ["Gluonts"]

USAGE = """\
```python
from pathlib import Path

from gluonts.dataset.common import FileDataset, MetaData
from gluonts.dataset.split import split

folder = "/path/to/this/folder"
about = MetaData.parse_file(f"{folder}/{group}/metadata.json")
entries = FileDataset(Path(folder, "{group}", "data"), freq=about.freq)
_, template = split(entries, offset=-about.prediction_length)
pairs = template.generate_instances(about.prediction_length)
```

One folder holds the tasks of one system, context, horizon, number of covariates and kind of future
(`replay` or `novel`). An entry has `start` (2000-01-01 00:00, UTC), `target` (history, then the
future of `prediction_length` steps), `feat_dynamic_real` (one row a covariate, the primary first,
over history and future) and `item_id` (the task id with leading zeros); its other fields are facts
about the task, no inputs. GluonTS keeps a two-dimensional array flat in the file, with its shape in
the column `feat_dynamic_real._np_shape`.

Without GluonTS, one dataset by its name, or with DuckDB all of them:

```python
folder = "/path/to/this/folder"

import datasets

entries = datasets.load_dataset(folder, "{group}", split="train")

import duckdb

entries = duckdb.sql(f"select * from '{folder}/*/data/*.parquet'")

import pandas

entries = pandas.read_parquet(f"{folder}/{group}/data")

import polars

entries = polars.read_parquet(f"{folder}/{group}/data/*.parquet")
```"""

_FLOATS = pa.list_(pa.float32())
_FEATURES = "feat_dynamic_real"

_COLUMNS = (
    Column("item_id", pa.string(), "the task id with leading zeros"),
    Column("start", pa.timestamp("us"), "time of the first step, UTC"),
    Column("target", _FLOATS, "history, then future, in the target's own unit"),
    Column(_FEATURES, _FLOATS, "covariates over history and future [k][context + horizon], flat"),
    Column(f"{_FEATURES}._np_shape", pa.list_(pa.int64()), "k and context + horizon"),
    *(column for column in MANIFEST if column.name == "covariates"),
    *FACTS,
)


class Gluonts(Format):
    """GluonTS's own Parquet layout, one row group a file: it slices no file that has more."""

    name = "gluonts"

    def usage(self, suite: Suite) -> str:
        """Names a dataset of the suite."""
        return with_first_group(USAGE, suite)

    def shards(self, suite: Suite) -> list[Shard]:
        """One file a dataset, in a folder apart from its metadata."""
        return group_shards(suite, "{group}/data")

    def table(self, suite: Suite, rows: ShardRows) -> pa.Table:
        """One entry a row."""
        manifest = rows.manifest
        count, k = manifest.num_rows, manifest.column("k")[0].as_py()
        target, covariates = stacked(rows.blocks), stacked(rows.blocks, "_covariates")[:, :k]
        shape = np.array(covariates.shape[1:], np.int64)
        return pa.table(
            [
                item_ids(suite, rows),
                pa.array(np.full(count, START)),
                as_lists(target),
                as_lists(covariates.reshape(count, -1)),
                as_lists(np.broadcast_to(shape, (count, 2))),
                manifest.column("covariates"),
                *facts(rows),
            ],
            schema=schema_of(_COLUMNS),
        )

    def record_sets(self, suite: Suite) -> list[RecordSet]:
        """One: all files have the same columns."""
        return [RecordSet("entries", "One record a task.", ("*/data/*.parquet",), _COLUMNS)]

    def side_files(self, suite: Suite) -> Mapping[str, str]:
        """GluonTS's metadata of every dataset."""
        systems = {system.name: system for system in suite.catalog}
        return {
            f"{group.name}/metadata.json": json.dumps(
                {
                    "freq": frequency(systems[group.system]),
                    "prediction_length": group.horizon,
                    _FEATURES: [{"name": f"cov_{number}"} for number in range(1, group.k + 1)],
                },
                indent=1,
            )
            + "\n"
            for group in grouped(suite)
        }

    def configurations(self, suite: Suite) -> Mapping[str, str]:
        """One a dataset."""
        return {group.name: f"{group.name}/data/*.parquet" for group in grouped(suite)}
