"""The manifest of a frozen suite: one row a task, every drawn number in it.

References:
    whatif-v1.md §8.
"""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as parquet

from ..files import write_whole

__all__ = [
    "AXES",
    "SCHEMA",
    "ManifestError",
    "flat_values",
    "metadata_of",
    "read_manifest",
    "write_manifest",
]

SCHEMA = pa.schema(
    [
        ("task_id", pa.int64()),
        ("pair_id", pa.int64()),
        ("system", pa.string()),
        ("target", pa.string()),
        ("k", pa.int32()),
        ("context_pair", pa.string()),
        ("context", pa.int32()),
        ("horizon", pa.int32()),
        ("event_length", pa.int32()),
        ("n_events", pa.int32()),
        ("setting", pa.string()),
        ("future", pa.string()),
        ("window_start", pa.int32()),
        ("event_starts", pa.list_(pa.int32())),
        ("covariates", pa.list_(pa.string())),
        ("factors", pa.list_(pa.list_(pa.float32()))),
        ("future_factors", pa.list_(pa.float32())),
    ]
)

# Columns that `Suite.where` filters by.
AXES = (
    "system",
    "target",
    "k",
    "context_pair",
    "context",
    "horizon",
    "event_length",
    "n_events",
    "setting",
    "future",
    "pair_id",
    "task_id",
)


class ManifestError(ValueError):
    """A manifest does not hold what whatif-v1.md §8 says."""


def read_manifest(path: str | Path) -> pa.Table:
    """Read and check a manifest.

    Raises:
        ManifestError: the file is missing, a column is missing or of another type, or task ids
            are not dense from 0.
    """
    path = Path(path)
    if not path.is_file():
        raise ManifestError(f"manifest: {path} does not exist")
    try:
        table = parquet.read_table(path, partitioning=None)
    except (pa.ArrowException, OSError, ValueError) as error:  # the last of names that are no text
        said = " ".join(str(error).split())
        raise ManifestError(f"manifest: {path} is not a parquet file: {said}") from None
    for field in SCHEMA:
        if table.column_names.count(field.name) != 1:
            raise ManifestError(
                f"{path}: column {field.name} missing or twice; expected {', '.join(SCHEMA.names)}"
            )
        found = table.schema.field(field.name).type
        if str(found).replace("element", "item") != str(field.type).replace("element", "item"):
            raise ManifestError(f"{path}: column {field.name} is {found}; expected {field.type}")
    metadata = table.schema.metadata
    table = table.select(SCHEMA.names).cast(SCHEMA).combine_chunks()
    ids = table.column("task_id").to_numpy()
    if len(ids) and not (ids == range(len(ids))).all():
        raise ManifestError(f"{path}: column task_id is not dense from 0 in order")
    return table.replace_schema_metadata(metadata)


def write_manifest(table: pa.Table, path: str | Path, metadata: Mapping[str, str]) -> None:
    """Write a manifest, whole or not at all. Raises OSError where it cannot be written."""
    table = table.select(SCHEMA.names).cast(SCHEMA).replace_schema_metadata(dict(metadata))
    write_whole(
        Path(path),
        lambda at: parquet.write_table(table, at, compression="zstd", compression_level=19),
    )


def metadata_of(table: pa.Table) -> dict[str, str]:
    """What a manifest says of itself."""
    found = table.schema.metadata or {}
    return {key.decode(errors="replace"): found[key].decode(errors="replace") for key in found}


def flat_values(table: pa.Table, name: str) -> np.ndarray:
    """All values of a column, lists laid end to end."""
    values = table.column(name).combine_chunks()
    if isinstance(values, pa.ChunkedArray):
        values = pa.concat_arrays(values.chunks) if values.num_chunks else pa.array([])
    while pa.types.is_list(values.type):
        values = values.flatten()
    return values.to_numpy(zero_copy_only=False)
