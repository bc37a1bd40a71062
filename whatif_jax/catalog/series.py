"""A system's intervention-free series: one parquet beside its catalog file.

References:
    whatif-v1.md §2, §8.
"""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as parquet

from .errors import MISSING, CatalogError, Problem
from .schema import System

__all__ = ["read_series"]


def read_series(system: System) -> dict[str, np.ndarray]:
    """The baseline of every target, float32 [steps].

    Raises:
        CatalogError: the file is missing or no parquet; or a target has no column, or one of
            another type, of another length or with a value that is not finite.
    """
    path = Path(system.baseline)

    def refuse(entry: str, field: str, value: object, expected: str) -> CatalogError:
        return CatalogError([Problem(path.name, entry, field, value, expected)])

    if not path.is_file():
        fault = Problem(system.source.name, "file", "baseline", str(path), "a parquet that exists")
        raise CatalogError([fault])
    try:
        table = parquet.read_table(path, partitioning=None)
    except pa.ArrowException as error:
        raise refuse("file", "content", str(error), "a parquet file") from None
    series = {}
    for target in system.targets:
        entry = f"target {target.name!r}"
        if target.name not in table.column_names:
            raise refuse(entry, "column", MISSING, "one float32 column a target")
        column = table.column(target.name)
        if not pa.types.is_floating(column.type):
            raise refuse(entry, "type", str(column.type), "float32")
        values = column.to_numpy().astype(np.float32)
        if len(values) != system.steps:
            raise refuse(entry, "rows", len(values), f"steps = {system.steps}")
        bad = np.flatnonzero(~np.isfinite(values))
        if len(bad):
            expected = f"finite values ({len(bad)} are not)"
            raise refuse(entry, f"row {bad[0]}", float(values[bad[0]]), expected)
        series[target.name] = values
    return series
