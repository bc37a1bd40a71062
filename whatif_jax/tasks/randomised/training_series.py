"""Training series: intervention-free, from the real simulators at other settings than the suite's.

The files in `series/` are written by `python -m simulators build --training`; each holds its runs'
simulator, version, settings, seed and attribution in its metadata.
"""

from collections.abc import Sequence
from pathlib import Path

import equinox as eqx
import jax
import numpy as np
import pyarrow as pa
from pyarrow import parquet

from ..._types import Array, Float, Int
from ...catalog import builtin_systems
from ...catalog.errors import CatalogError, Problem, one_of

__all__ = ["TrainingSeries", "load_training_series"]

_FOLDER = Path(__file__).parent / "series"
_COLUMNS = {
    "run": pa.string(),
    "name": pa.string(),
    "unit": pa.string(),
    "step_seconds": pa.int32(),
    "values": pa.list_(pa.float32()),
}


class TrainingSeries(eqx.Module):
    """Series that no benchmark task is made of, as rows of one array.

    Made by `load_training_series`; passed as an argument, never closed over.
    """

    values: Float[Array, "series steps"]  # in `units`; zeros after each row's length
    length: Int[Array, " series"]  # steps of each series
    step_seconds: Int[Array, " series"]  # time between two of its steps
    systems: tuple[str, ...] = eqx.field(static=True)  # of each row
    runs: tuple[str, ...] = eqx.field(static=True)  # which run of its simulator each row is from
    names: tuple[str, ...] = eqx.field(static=True)  # of each row, unique within a run
    units: tuple[str, ...] = eqx.field(static=True)

    def series(self, row: int) -> np.ndarray:
        """One series without its padding, float32 [length], a copy."""
        return np.array(self.values[row, : int(self.length[row])])


def _read(path: Path) -> pa.Table:
    """One system's file. Raises CatalogError as `load_training_series` does."""

    def refuse(entry: str, field: str, value: object, expected: str) -> CatalogError:
        return CatalogError([Problem(path.name, entry, field, value, expected)])

    if not path.is_file():
        expected = f"training series (python -m simulators build --training {path.stem})"
        raise refuse("file", "path", str(path), expected)
    try:
        table = parquet.read_table(path).combine_chunks()
    except (pa.ArrowException, OSError) as error:
        text = " ".join(str(error).split())
        raise refuse("file", "content", text, "a parquet file") from None
    for column, kind in _COLUMNS.items():
        found = table.schema.field(column).type if column in table.column_names else None
        if found != kind:
            raise refuse("file", f"column {column!r}", str(found) if found else None, str(kind))
    if not table.num_rows:
        raise refuse("file", "rows", 0, "one or more")
    if any(table.column(column).null_count for column in _COLUMNS):
        raise refuse("file", "content", "nulls", "none")
    values = table.column("values").combine_chunks()
    lengths = np.diff(values.offsets.to_numpy())
    bad = np.flatnonzero(lengths < 2)
    if not len(bad):
        flat = values.values.to_numpy(zero_copy_only=False)
        bad = np.repeat(np.arange(len(lengths)), lengths)[~np.isfinite(flat)]
    if len(bad):
        row = int(bad[0])
        entry = f"series {table.column('name')[row].as_py()!r}"
        raise refuse(entry, "values", f"row {row}", "two or more, all finite")
    return table


def _named(systems: Sequence[str] | str | None) -> list[str]:
    if systems is None:
        return list(builtin_systems())
    names = [systems] if isinstance(systems, str) else list(systems)
    for name in names:
        if name not in builtin_systems():
            raise ValueError(f"systems: {name!r}; expected {one_of(builtin_systems(), name)}")
    if not names or len(set(names)) < len(names):
        raise ValueError(f"systems: {names}; expected at least one, and distinct names")
    return names


def load_training_series(systems: Sequence[str] | str | None = None) -> TrainingSeries:
    """Load the training series of some systems onto the default device.

    Args:
        systems: names of built-in systems, in the order wanted; all four when omitted.

    Raises:
        ValueError: no system, one that is not built in, or one named twice.
        CatalogError: a system's file is missing or does not hold what it must.
    """
    names = _named(systems)
    tables = [_read(_FOLDER / f"{name}.parquet") for name in names]
    columns = [table.column("values").combine_chunks() for table in tables]
    lengths = [np.diff(column.offsets.to_numpy()) for column in columns]
    length = np.concatenate(lengths).astype(np.int32)
    values = np.zeros((len(length), int(length.max())), np.float32)
    flat = np.concatenate([column.flatten().to_numpy() for column in columns])
    # a row's own values, in order, are what a mask of its length lets through
    values[np.arange(values.shape[1]) < length[:, None]] = flat

    def texts(column: str) -> tuple[str, ...]:
        return tuple(text for table in tables for text in table.column(column).to_pylist())

    steps = np.concatenate([table.column("step_seconds").to_numpy() for table in tables])
    return TrainingSeries(
        values=jax.device_put(values),
        length=jax.device_put(length),
        step_seconds=jax.device_put(steps.astype(np.int32)),
        systems=tuple(
            name for name, table in zip(names, tables, strict=True) for _ in range(len(table))
        ),
        runs=texts("run"),
        names=texts("name"),
        units=texts("unit"),
    )
