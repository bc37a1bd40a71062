"""A system's intervention-free series: one parquet beside its catalog file.

References:
    whatif-v1.md §2, §8.
"""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as parquet

from .errors import CatalogError, Problem
from .system import System

__all__ = ["read_series"]


def read_series(system: System) -> dict[str, np.ndarray]:
    """The baseline of every target, float32 [steps].

    Raises:
        CatalogError: the file is missing or no parquet; or a target has no column, or one of
            another type, of another length or with a value that is not finite.
    """
    path = system.baseline

    def refuse(entry: str, field: str, value: object, expected: str) -> CatalogError:
        return CatalogError([Problem(path.name, entry, field, value, expected)])

    if not path.is_file():
        fault = Problem(system.source.name, "file", "baseline", str(path), "a parquet that exists")
        raise CatalogError([fault])
    try:
        with parquet.ParquetFile(path) as file:
            rows, schema = file.metadata.num_rows, file.schema_arrow
            for target in system.targets:
                entry, place = f"target {target.name!r}", schema.get_field_index(target.name)
                if place < 0:
                    raise refuse(entry, "column", None, "one float32 column a target")
                if not pa.types.is_floating(schema.field(place).type):
                    raise refuse(entry, "type", str(schema.field(place).type), "float32")
            if rows != system.steps:  # before they are read
                raise refuse("file", "rows", rows, f"steps = {system.steps}")
            table = file.read()
    except pa.ArrowException as error:
        raise refuse("file", "content", str(error), "a parquet file") from None
    series = {}
    for target in system.targets:
        values = table.column(target.name).to_numpy().astype(np.float32)
        bad = np.flatnonzero(~np.isfinite(values))
        if len(bad):
            entry, expected = f"target {target.name!r}", f"finite values ({len(bad)} are not)"
            raise refuse(entry, f"row {bad[0]}", float(values[bad[0]]), expected)
        series[target.name] = values
    return series
