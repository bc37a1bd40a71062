"""Files that appear only when whole, folders held against a second writer, and disk errors.

What exports and the programs that keep results share. Each turns the errors into its own.
"""

import contextlib
import errno
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

try:
    import fcntl
except ImportError:  # not on Windows: there two writers of one folder are not kept apart
    fcntl = None  # type: ignore[assignment]

__all__ = ["UNFINISHED", "FolderHeldError", "disk_problem", "free_bytes", "hold", "megabytes",
           "write_whole"]  # fmt: skip

UNFINISHED = ".unfinished"  # how the temporary names end
_FULL = {errno.ENOSPC, getattr(errno, "EDQUOT", errno.ENOSPC)}
_FORBIDDEN = {errno.EACCES, errno.EPERM, errno.EROFS}


class FolderHeldError(RuntimeError):
    """Another process holds the folder."""


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


def disk_problem(path: Path, error: OSError, advice: str) -> str:
    """What an error of the operating system about a path means.

    Args:
        path: the file or folder.
        error: what was raised.
        advice: what to do where the disk is full.
    """
    # pyarrow raises plain OSErrors whose text alone holds the number of the error.
    number = error.errno
    if number is None:
        text = str(error).lower()
        number = next((code for code in errno.errorcode if f"[errno {code}]" in text), None)
    if number in _FULL:
        free = free_bytes(path)
        left = "" if free is None else f" ({megabytes(free)} free)"
        return f"the disk or quota is full{left}; {advice}"
    if number in _FORBIDDEN:
        return "not writable; expected a folder that this user may write into"
    if number == errno.EFBIG:
        return "a file would grow past the size this system or user is allowed"
    if number in (errno.ENOTDIR, errno.EEXIST):
        return "a file of that name is in the way; expected a folder, or a name not yet taken"
    return str(error)


def write_whole(
    path: Path, save: Callable[[Path], object], check: Callable[[Path], object] | None = None
) -> None:
    """Write a file under a temporary name; give it its own when it is whole and on the disk.

    Args:
        path: the file; its folder is made if missing.
        save: called with the path of the temporary file to write.
        check: called with that path when it is written, before it gets its name.

    Raises:
        OSError: the disk is full or cannot be written; nothing is left behind.
    """
    unfinished = path.with_name(f".{path.name}{UNFINISHED}")
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        save(unfinished)
        with unfinished.open("rb") as file:
            os.fsync(file.fileno())
        if check is not None:
            check(unfinished)
        unfinished.replace(path)
    finally:
        with contextlib.suppress(OSError):
            unfinished.unlink(missing_ok=True)


@contextlib.contextmanager
def hold(folder: Path) -> Iterator[None]:
    """Hold a folder against other processes; a killed one lets go by itself.

    Raises:
        FolderHeldError: another process holds it.
    """
    with contextlib.ExitStack() as stack:
        if fcntl is not None:
            handle = os.open(folder, os.O_RDONLY)
            stack.callback(os.close, handle)
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise FolderHeldError(str(folder)) from None
            except OSError:  # some network file systems lock no folders
                pass
        yield
