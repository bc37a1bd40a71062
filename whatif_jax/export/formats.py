"""What every export format provides."""

import abc
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from pyarrow import parquet

from ..suites import Suite
from .columns import Column
from .rows import Shard, ShardRows

__all__ = ["Format", "RecordSet", "holds_tasks"]

# Long pages: histories of one target overlap, and the compressor finds that only within a page.
_PAGE_BYTES = 4 << 20


class RecordSet(NamedTuple):
    """Files that share columns, for the Croissant description."""

    name: str
    description: str
    includes: tuple[str, ...]  # glob patterns below the export's folder
    columns: tuple[Column, ...]


class Format(abc.ABC):
    """One way to lay a suite out in files."""

    name: str

    @abc.abstractmethod
    def usage(self, suite: Suite) -> str:
        """How to read it: a part of the card, Markdown. Its code runs as it stands."""

    @abc.abstractmethod
    def shards(self, suite: Suite) -> list[Shard]:
        """The files with tasks in them; together they hold every task once."""

    @abc.abstractmethod
    def table(self, suite: Suite, rows: ShardRows) -> pa.Table:
        """The content of one shard."""

    @abc.abstractmethod
    def record_sets(self, suite: Suite) -> list[RecordSet]:
        """The tables of the export."""

    def side_files(self, suite: Suite) -> Mapping[str, str]:
        """Further text files, by path."""
        return {}

    def configurations(self, suite: Suite) -> Mapping[str, str]:
        """Named parts of the export for the Hugging Face Hub: a glob pattern each."""
        return {"default": "data/*.parquet"}

    def save(self, table: pa.Table, path: Path) -> None:
        """Write one shard."""
        scalars = [field.name for field in table.schema if not pa.types.is_list(field.type)]
        strings = [name for name in scalars if pa.types.is_string(table.schema.field(name).type)]
        parquet.write_table(
            table,
            path,
            compression="zstd",
            compression_level=3,
            use_dictionary=strings,
            write_statistics=scalars,
            data_page_size=_PAGE_BYTES,
        )


def holds_tasks(path: Path, fingerprint: str, task_ids: np.ndarray) -> bool | None:
    """Whether a file is a part of an export of these tasks, by what it says itself.

    Args:
        path: of the file.
        fingerprint: of the suite, which the file has, if it has one.
        task_ids: of the tasks it should hold, in any order.

    Returns:
        whether it does; None if it cannot be read.
    """
    try:
        with parquet.ParquetFile(path) as file:
            schema = file.schema_arrow
            # every format begins with the id
            ids = file.read(columns=schema.names[:1]).column(0).to_pylist()
    except (OSError, pa.ArrowException):
        return None
    own = fingerprint.encode()
    if (schema.metadata or {}).get(b"whatif_suite_fingerprint", own) != own:
        return False
    # some write them as text, with leading zeros
    held, wanted = (sorted(str(each).lstrip("0") for each in some) for some in (ids, task_ids))
    return held == wanted
