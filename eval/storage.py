"""Results on disk: whole files, folders held against a second run, disk errors in our words."""

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as parquet

from whatif_jax import files
from whatif_jax.files import UNFINISHED

__all__ = ["UNFINISHED", "ResultsError", "explained", "lock", "save_table", "save_text"]

FULL = "make room and run again: finished batches are kept"


class ResultsError(RuntimeError):
    """Results cannot be written or continued, or are not those that were asked for."""


@contextlib.contextmanager
def explained(path: Path) -> Iterator[None]:
    """Turn an OSError about `path` into a ResultsError that says what to do.

    Raises:
        ResultsError: the code inside raised an OSError.
    """
    try:
        yield
    except OSError as error:
        raise ResultsError(f"results: {path}: {files.disk_problem(path, error, FULL)}") from error


def write_whole(path: Path, save: Callable[[Path], object]) -> None:
    """`whatif_jax.files.write_whole`.

    Raises:
        ResultsError: the disk is full or cannot be written.
    """
    with explained(path):
        files.write_whole(path, save)


def save_text(text: str, path: Path) -> None:
    """`write_whole` of a text in UTF-8. Raises ResultsError as it does."""
    write_whole(path, lambda at: at.write_bytes(text.encode()))


def save_table(table: pa.Table, path: Path) -> None:
    """`write_whole` of a table: the same table gives the same bytes. Raises ResultsError."""
    table = table.combine_chunks()
    write_whole(path, lambda at: parquet.write_table(table, at, compression="zstd"))


@contextlib.contextmanager
def lock(folder: Path) -> Iterator[None]:
    """Hold a folder against other runs; a killed process lets go by itself.

    Raises:
        ResultsError: another process holds it.
    """
    with contextlib.ExitStack() as stack:
        try:
            stack.enter_context(files.hold(folder))
        except files.FolderHeldError:
            raise ResultsError(
                f"results: {folder}: another run is writing here; expected it to end first"
            ) from None
        yield
