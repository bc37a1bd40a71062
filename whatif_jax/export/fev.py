"""fev: a folder of datasets, one a shape, and the tasks.yaml that `fev.Benchmark.from_yaml` reads.

References:
    evaluation/scores.md (levels, measures), whatif-v1.md §8.
"""

import json
from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from ..suites import Suite
from .columns import Column, schema_of
from .formats import Format, RecordSet
from .rows import Shard, ShardRows, as_lists, stacked
from .shapes import (
    FACTS,
    START,
    covariate_columns,
    facts,
    group_shards,
    grouped,
    item_ids,
    step_microseconds,
    with_first_group,
)

__all__ = ["Fev"]

TASKS_FILE = "tasks.yaml"
LEVELS = tuple(level / 10 for level in range(1, 10))

USAGE = """\
```python
import os

import fev

folder = "/path/to/this/folder"
os.environ["FEV_DATASETS_PREFIX"] = folder
benchmark = fev.Benchmark.from_yaml(f"{folder}/tasks.yaml")
past, future = benchmark.tasks[0].get_window(0).get_input_data()
```

`FEV_DATASETS_PREFIX` makes fev read this folder and not the Hugging Face Hub. One dataset holds the
tasks of one system, context, horizon, number of covariates and kind of future (`replay` or
`novel`); every task is one series of it, `context + horizon` steps long, whose last `horizon` steps
are the future. `id` is the task id with leading zeros. All series start at 2000-01-01 00:00:00;
time stamps are UTC in microseconds and carry no zone, as AutoGluon wants them.
`cov_1` (the primary covariate) to `cov_k` are known ahead; `cov_1_name` and so on name them, and
differ from series to series. The other columns are facts about a task, no inputs.

fev's WQL and WAPE of a dataset weigh its series by their size, since they sum over all of them
before they divide. The benchmark's own scores are per task; `whatif_jax` computes those.

Without fev, one dataset by its name, or with DuckDB all of them:

```python
folder = "/path/to/this/folder"

import datasets

series = datasets.load_dataset(folder, "{group}", split="train")

import duckdb

series = duckdb.sql(f"select * from read_parquet('{folder}/*/*.parquet', union_by_name = true)")

import pandas

series = pandas.read_parquet(f"{folder}/{group}")

import polars

series = polars.read_parquet(f"{folder}/{group}/*.parquet")
```"""


class Fev(Format):
    """One dataset a system, shape and kind of future: fev wants one schema and one step in each."""

    name = "fev"

    def usage(self, suite: Suite) -> str:
        """Names a dataset of the suite."""
        return with_first_group(USAGE, suite)

    def shards(self, suite: Suite) -> list[Shard]:
        """One file a dataset."""
        return group_shards(suite, "{group}")

    def table(self, suite: Suite, rows: ShardRows) -> pa.Table:
        """One series a row."""
        manifest = rows.manifest
        k = manifest.column("k")[0].as_py()
        target, covariates = stacked(rows.blocks), stacked(rows.blocks, "_covariates")
        name = manifest.column("system")[0].as_py()
        step = step_microseconds(next(item for item in suite.catalog if item.name == name))
        times = START + np.arange(target.shape[1]) * np.timedelta64(step, "us")
        names = manifest.column("covariates").to_pylist()
        return pa.table(
            [
                item_ids(suite, rows),
                as_lists(np.broadcast_to(times, target.shape)).cast(pa.list_(_TIME)),
                as_lists(target),
                *(as_lists(covariates[:, place]) for place in range(k)),
                *(pa.array([row[place] for row in names]) for place in range(k)),
                *facts(rows),
            ],
            schema=schema_of(_columns(k)),
        )

    def record_sets(self, suite: Suite) -> list[RecordSet]:
        """One for each number of covariates, which is the number of columns."""
        includes: dict[int, list[str]] = {}
        for group in grouped(suite):
            includes.setdefault(group.k, []).append(f"{group.name}/*.parquet")
        return [
            RecordSet(f"series_k{k}", f"One record a task with {k} covariates.", tuple(found),
                      _columns(k))
            for k, found in sorted(includes.items())
        ]  # fmt: skip

    def side_files(self, suite: Suite) -> Mapping[str, str]:
        """The definition of the benchmark."""
        lines = ["# For fev.Benchmark.from_yaml; see README.md.", "tasks:"]
        for group in grouped(suite):
            # JSON is YAML, and needs no library.
            entries = {
                "dataset_path": suite.name,
                "dataset_config": group.name,
                "horizon": group.horizon,
                "eval_metric": "WQL",
                "extra_metrics": ["WAPE"],
                "quantile_levels": list(LEVELS),
                "target": "target",
                "known_dynamic_columns": [f"cov_{number}" for number in range(1, group.k + 1)],
            }
            texts = [f"{key}: {json.dumps(value)}" for key, value in entries.items()]
            lines += [f"- {texts[0]}", *(f"  {text}" for text in texts[1:])]
        return {TASKS_FILE: "\n".join(lines) + "\n"}

    def configurations(self, suite: Suite) -> Mapping[str, str]:
        """One a dataset."""
        return {group.name: f"{group.name}/*.parquet" for group in grouped(suite)}


_TIME = pa.timestamp("us")  # without a zone: AutoGluon refuses any other
_FLOATS = pa.list_(pa.float32())


def _columns(k: int) -> tuple[Column, ...]:
    return (
        Column("id", pa.string(), "the task id with leading zeros"),
        Column("timestamp", pa.list_(_TIME), "time of every step, UTC [context + horizon]"),
        Column("target", _FLOATS, "history, then future, in the target's own unit"),
        *covariate_columns(k, _FLOATS, "cov_{}", "covariate {} (1 is the primary), known ahead"),
        *covariate_columns(k, pa.string(), "cov_{}_name", "name of covariate {}"),
        *FACTS,
    )
