"""A system's intervention-free series: one parquet beside its catalog file.

References:
    whatif-v1.md §2, §8.
"""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as parquet

from .errors import CatalogError, Problem
from .system import System

__all__ = ["read_columns", "read_series"]


def read_series(system: System) -> dict[str, np.ndarray]:
    """The baseline of every target, float32 [steps].

    Raises:
        CatalogError: the file is missing or no whole parquet; or a target has no column, or two,
            or one of another type, of another length or with a value that is not finite.
    """
    names = [target.name for target in system.targets]
    series, problems = read_columns(system.source.name, system.baseline, names, system.steps)
    if problems:
        raise CatalogError(problems)
    return series


def read_columns(
    source: str, path: Path, names: Sequence[str], steps: int | None
) -> tuple[dict[str, np.ndarray], list[Problem]]:
    """Columns of a baseline, float32 [steps], and all that is wrong with it.

    Args:
        source: the name of the catalog file, which is at fault where there is no baseline.
        path: the parquet.
        names: the targets, each of which has a column.
        steps: its length, if that is known.
    """
    problems: list[Problem] = []
    series: dict[str, np.ndarray] = {}

    def add(entry: str, field: str, value: object, expected: str) -> None:
        problems.append(Problem(path.name, entry, field, value, expected))

    try:
        if not path.is_file():
            fault = Problem(source, "file", "baseline", str(path), "a parquet that exists")
            return {}, [fault]
        with parquet.ParquetFile(path) as file:
            rows, schema = file.metadata.num_rows, file.schema_arrow
            good = []
            for name in names:
                places = schema.get_all_field_indices(name)
                kind = schema.field(places[0]).type if places else None
                if len(places) != 1:
                    expected = "one float32 column a target"
                    add(f"target {name!r}", "column", len(places) or None, expected)
                elif not pa.types.is_floating(kind):
                    add(f"target {name!r}", "type", str(kind), "float32")
                else:
                    good.append(name)
            if steps is not None and rows != steps:
                add("file", "rows", rows, f"steps = {steps}")
            else:  # only what is as long as it says
                table = file.read(columns=good)
                for name in good:
                    with np.errstate(over="ignore"):  # infinite, and so refused
                        series[name] = table.column(name).to_numpy().astype(np.float32)
    except (pa.ArrowException, OSError, ValueError) as error:  # the last of names that are no text
        add("file", "content", " ".join(str(error).split()), "a parquet file")
    for name, values in series.items():
        bad = np.flatnonzero(~np.isfinite(values))
        if len(bad):
            expected = f"finite values ({len(bad)} are not)"
            add(f"target {name!r}", f"row {bad[0]}", float(values[bad[0]]), expected)
    return series, problems
