"""The error of exports, and operating-system errors put in its words."""

import contextlib
import errno
import shutil
from collections.abc import Iterator
from pathlib import Path

__all__ = ["ExportError", "explained", "free_bytes", "megabytes"]

_FULL = {errno.ENOSPC, getattr(errno, "EDQUOT", errno.ENOSPC)}
_FORBIDDEN = {errno.EACCES, errno.EPERM, errno.EROFS}


class ExportError(RuntimeError):
    """An export cannot be begun, continued or verified."""


def megabytes(count: float) -> str:
    """A number of bytes for people to read."""
    return f"{count / 1e6:,.1f} MB"


def free_bytes(path: Path) -> int | None:
    """Bytes free where `path` lies or will lie; None where nobody can tell."""
    while not path.exists() and path != path.parent:
        path = path.parent
    try:
        return shutil.disk_usage(path).free
    except OSError:
        return None


@contextlib.contextmanager
def explained(path: Path) -> Iterator[None]:
    """Turn an OSError about `path` into an ExportError that says what to do.

    Raises:
        ExportError: the code inside raised an OSError.
    """
    try:
        yield
    except OSError as error:
        raise ExportError(f"out: {path}: {_reason(path, error)}") from error


def _reason(path: Path, error: OSError) -> str:
    # pyarrow raises plain OSErrors whose text alone holds the number of the error.
    number = error.errno
    if number is None:
        text = str(error).lower()
        number = next((code for code in errno.errorcode if f"[errno {code}]" in text), None)
    if number in _FULL:
        free = free_bytes(path)
        left = "" if free is None else f" ({megabytes(free)} free)"
        return (
            f"the disk or quota is full{left}; make room and export again: finished files are kept"
        )
    if number in _FORBIDDEN:
        return "not writable; expected a folder that this user may write into"
    if number == errno.EFBIG:
        return "a file would grow past the size this system or user is allowed"
    if number in (errno.ENOTDIR, errno.EEXIST):
        return "a file of that name is in the way; expected a folder, or a name not yet taken"
    return str(error)
