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
        CatalogError: the file is missing or no whole parquet; or a target has no column, or two,
            or one of another type, of another length or with a value that is not finite.
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
                entry, places = f"target {target.name!r}", schema.get_all_field_indices(target.name)
                if len(places) != 1:
                    count = len(places) or None
                    raise refuse(entry, "column", count, "one float32 column a target")
                if not pa.types.is_floating(schema.field(places[0]).type):
                    raise refuse(entry, "type", str(schema.field(places[0]).type), "float32")
            if rows != system.steps:  # before they are read
                raise refuse("file", "rows", rows, f"steps = {system.steps}")
            table = file.read(columns=[target.name for target in system.targets])
    except CatalogError:
        raise
    except (pa.ArrowException, OSError, ValueError) as error:  # the last of names that are no text
        raise refuse("file", "content", " ".join(str(error).split()), "a parquet file") from None
    series = {}
    for target in system.targets:
        with np.errstate(over="ignore"):  # infinite, and so refused
            values = table.column(target.name).to_numpy().astype(np.float32)
        bad = np.flatnonzero(~np.isfinite(values))
        if len(bad):
            entry, expected = f"target {target.name!r}", f"finite values ({len(bad)} are not)"
            raise refuse(entry, f"row {bad[0]}", float(values[bad[0]]), expected)
        series[target.name] = values
    return series
