"""Files that appear only when whole, folders locked against a second writer, and disk errors."""

import contextlib
import errno
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as parquet

try:
    import fcntl
except ImportError:  # not on Windows: there two runs into one folder are not kept apart
    fcntl = None  # type: ignore[assignment]

__all__ = ["ResultsError", "explained", "lock", "save_table", "save_text", "write_whole"]

UNFINISHED = ".unfinished"
_FULL = {errno.ENOSPC, getattr(errno, "EDQUOT", errno.ENOSPC)}
_FORBIDDEN = {errno.EACCES, errno.EPERM, errno.EROFS}


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
        raise ResultsError(f"results: {path}: {_reason(path, error)}") from error


def _reason(path: Path, error: OSError) -> str:
    # pyarrow raises plain OSErrors whose text alone holds the number of the error.
    number = error.errno
    if number is None:
        text = str(error).lower()
        number = next((code for code in errno.errorcode if f"[errno {code}]" in text), None)
    if number in _FULL:
        return (
            f"the disk or quota is full{_free(path)}; make room and run again: finished batches "
            f"are kept"
        )
    if number in _FORBIDDEN:
        return "not writable; expected a folder that this user may write into"
    if number == errno.EFBIG:
        return "a file would grow past the size this system or user is allowed"
    if number in (errno.ENOTDIR, errno.EEXIST):
        return "a file of that name is in the way; expected a folder, or a name not yet taken"
    return str(error)


def _free(path: Path) -> str:
    while not path.exists() and path != path.parent:
        path = path.parent
    try:
        return f" ({shutil.disk_usage(path).free / 1e6:,.1f} MB free)"
    except OSError:
        return ""


def write_whole(path: Path, save: Callable[[Path], object]) -> None:
    """Write a file under a temporary name; give it its own when it is whole and on the disk.

    Args:
        path: the file; its folder is made if missing.
        save: called with the path of the temporary file to write.

    Raises:
        ResultsError: the disk is full or cannot be written.
    """
    unfinished = path.with_name(f".{path.name}{UNFINISHED}")
    with explained(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            save(unfinished)
            with unfinished.open("rb") as file:
                os.fsync(file.fileno())
            unfinished.replace(path)
        finally:
            with contextlib.suppress(OSError):
                unfinished.unlink(missing_ok=True)


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
        if fcntl is not None:
            handle = os.open(folder, os.O_RDONLY)
            stack.callback(os.close, handle)
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise ResultsError(
                    f"results: {folder}: another run is writing here; expected it to end first"
                ) from None
            except OSError:  # some network file systems lock no folders
                pass
        yield
