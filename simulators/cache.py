"""Baseline files: written whole or not at all, compared with a later run (whatif-v1.md §8)."""

import json
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as arrow
from pyarrow import parquet

from whatif_jax.files import write_whole

from .errors import SimulatorError
from .recording import Recording

__all__ = ["LARGEST_BYTES", "compare", "read_baseline", "write_baseline"]

LARGEST_BYTES = 4_000_000
_TEXT = ("system", "simulator", "version", "attribution")  # every other key holds JSON


def _metadata(recording: Recording) -> dict[str, str]:
    facts = asdict(recording)
    del facts["columns"]
    return {key: value if key in _TEXT else json.dumps(value) for key, value in facts.items()}


def write_baseline(recording: Recording, path: Path) -> None:
    """Write one float32 column a target with its metadata (whatif-v1.md §8), whole or not at all.

    Raises:
        SimulatorError: a value does not fit float32, or the file would exceed 4 MB.
    """
    columns = {}
    for name, values in recording.columns.items():
        with np.errstate(over="ignore"):
            columns[name] = np.asarray(values, dtype=np.float32)
        if not np.isfinite(columns[name]).all():
            row = int(np.flatnonzero(~np.isfinite(columns[name]))[0])
            raise SimulatorError(
                recording.system,
                name,
                f"{values[row]} at row {row}",
                "a value that fits float32",
            )
    table = arrow.table(columns).replace_schema_metadata(_metadata(recording))

    def check_size(written: Path) -> None:
        size = written.stat().st_size
        if size >= LARGEST_BYTES:
            raise SimulatorError(
                recording.system,
                path.name,
                f"{size} bytes",
                f"fewer than {LARGEST_BYTES} bytes",
            )

    write_whole(path, lambda at: parquet.write_table(table, at, compression="zstd"), check_size)


def read_baseline(path: Path, system: str) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """Read a baseline file's columns and metadata."""
    if not path.is_file():
        raise SimulatorError(
            system,
            str(path),
            "no such file",
            f"a baseline: python -m simulators build {system}",
        )
    table = parquet.read_table(path)
    columns = {name: table.column(name).to_numpy() for name in table.column_names}
    metadata = {
        key.decode(): value.decode() if key.decode() in _TEXT else json.loads(value)
        for key, value in (table.schema.metadata or {}).items()
    }
    return columns, metadata


def compare(
    recording: Recording,
    path: Path,
    tolerance: float,
    slack: Callable[[str], float] = lambda column: 0.0,
) -> dict[str, float]:
    """Compare a run with the first rows of the cached file.

    Two values agree within tolerance x (|cached value| + mean |column|) + slack(column): the mean
    is for values near zero, the slack for a program that prints rounded values.

    Returns:
        The largest difference of each column beyond the slack, in units of (|cached| + mean).

    Raises:
        SimulatorError: columns differ, the cache is shorter, or a value differs by more.
    """
    cached, _ = read_baseline(path, recording.system)
    if list(cached) != list(recording.columns):
        raise SimulatorError(
            recording.system,
            "columns",
            list(recording.columns),
            f"the cached {list(cached)}",
        )
    largest = {}
    for name, values in recording.columns.items():
        if len(values) > len(cached[name]):
            raise SimulatorError(
                recording.system,
                name,
                f"{len(values)} rows",
                f"at most the {len(cached[name])} cached rows",
            )
        old = cached[name].astype(np.float64)
        scale = np.abs(old[: len(values)]) + np.mean(np.abs(old))
        # a column of zeros has no scale of its own: there only zeros agree
        scale = np.where(scale > 0, scale, 1.0)
        excess = np.abs(values - old[: len(values)]) - slack(name)
        difference = np.maximum(excess, 0.0) / scale
        worst = int(np.argmax(difference))
        if difference[worst] > tolerance:
            raise SimulatorError(
                recording.system,
                name,
                f"{values[worst]:.9g} at row {worst}",
                f"the cached {old[worst]:.9g} within {tolerance:g} "
                "(relative; a different simulator version or platform?)",
            )
        largest[name] = float(difference[worst])
    return largest
