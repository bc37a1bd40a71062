"""The file of a system's training series: one row a series, written whole or not at all."""

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as arrow
from pyarrow import parquet

from whatif_jax.files import write_whole

from ..errors import SimulatorError
from ..recording import Recording

__all__ = ["LARGEST_BYTES", "SCHEMA", "write_series"]

LARGEST_BYTES = 3_000_000  # of one system: four stay below the 12 MB that the wheel can carry

SCHEMA = arrow.schema(
    [
        arrow.field("run", arrow.string(), nullable=False),
        arrow.field("name", arrow.string(), nullable=False),
        arrow.field("unit", arrow.string(), nullable=False),
        arrow.field("step_seconds", arrow.int32(), nullable=False),
        arrow.field("values", arrow.list_(arrow.float32()), nullable=False),
    ]
)


def _facts(recording: Recording) -> dict[str, Any]:
    facts = asdict(recording)
    for field in ("columns", "units", "system"):
        del facts[field]
    return facts


def write_series(recordings: Sequence[tuple[str, Recording]], path: Path) -> int:
    """Write the runs of one system, (name, recording) each.

    Returns:
        The file's size in bytes.

    Raises:
        SimulatorError: a value does not fit float32, or the file would exceed 3 MB.
    """
    system = recordings[0][1].system
    rows: dict[str, list[Any]] = {name: [] for name in SCHEMA.names}
    for run, recording in recordings:
        for name, values in recording.columns.items():
            with np.errstate(over="ignore"):
                stored = np.asarray(values, dtype=np.float32)
            if not np.isfinite(stored).all():
                row = int(np.flatnonzero(~np.isfinite(stored))[0])
                raise SimulatorError(
                    system, f"{run}, {name}", f"{values[row]} at row {row}", "a float32 value"
                )
            rows["run"].append(run)
            rows["name"].append(name)
            rows["unit"].append(recording.units[name])
            rows["step_seconds"].append(recording.step_seconds)
            rows["values"].append(stored)
    table = arrow.table(rows, schema=SCHEMA).replace_schema_metadata(
        {
            "system": system,
            "attribution": " | ".join(
                dict.fromkeys(recording.attribution for _, recording in recordings)
            ),
            "runs": json.dumps({run: _facts(recording) for run, recording in recordings}),
        }
    )

    def check_size(written: Path) -> None:
        size = written.stat().st_size
        if size >= LARGEST_BYTES:
            raise SimulatorError(
                system, path.name, f"{size} bytes", f"fewer than {LARGEST_BYTES} bytes"
            )

    write_whole(
        path,
        lambda at: parquet.write_table(
            table,
            at,
            compression="zstd",
            compression_level=19,
            # noise compresses best with the bytes of equal weight side by side
            use_dictionary=["run", "name", "unit"],
            use_byte_stream_split=["values.list.element"],
        ),
        check_size,
    )
    return path.stat().st_size
