"""Files that appear only when whole, and folders that one process at a time writes into.

What manifests, exports, results and the simulators' series share. Each names its own error.
"""

import contextlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import ClassVar, Self

from filelock import FileLock, Timeout

__all__ = ["LOCK", "UNFINISHED", "HeldFolder", "explained", "write_whole"]

UNFINISHED = ".unfinished"  # how the temporary names end
LOCK = ".lock"


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
def explained(error: type[Exception], what: str, path: Path) -> Iterator[None]:
    """Turn what the operating system says of a path into one line of an error of ours.

    Args:
        error: the class to raise.
        what: the path belongs to, such as the name of an argument.
        path: the file or folder.

    Raises:
        Exception: of the class `error`, if the code inside raised an OSError.
    """
    try:
        yield
    except OSError as problem:
        reason = problem.strerror or str(problem)  # pyarrow's have a text alone
        expected = "expected a place with room that this user may write into"
        if isinstance(problem, FileExistsError | NotADirectoryError):
            reason, expected = "a file is in the way", "expected a folder, or a name not yet taken"
        raise error(f"{what}: {path}: {reason}; {expected}") from problem


class HeldFolder:
    """A folder held against other processes while it is written. A context manager.

    A killed process lets go by itself; what it left half-written is removed by the next. Where
    nothing can be locked (a read-only place, some network file systems) it goes without.

    Args:
        path: the folder; made if missing.

    Raises:
        Exception: of the class `error`, on entry: the folder cannot be made, or another process
            holds it.
    """

    error: ClassVar[type[Exception]] = RuntimeError
    what: ClassVar[str] = "folder"  # name of the argument that gave the path
    holder: ClassVar[str] = "another process"

    def __init__(self, path: Path):
        self.path = path
        self.complete = False  # nothing more is to be written
        self._lock = FileLock(path / LOCK, timeout=0)

    def open(self) -> None:
        """Read what is there; called while the folder is held."""

    def __enter__(self) -> Self:
        with explained(self.error, self.what, self.path):
            self.path.mkdir(parents=True, exist_ok=True)
        lock = self.path / LOCK
        ours = not lock.exists()  # else it stays where a folder is refused
        if lock.is_dir():
            raise self.error(f"{self.what}: {lock} is a folder; expected a folder without it")
        try:
            self._lock.acquire()
        except Timeout:
            raise self.error(
                f"{self.what}: {self.path}: {self.holder} is writing here; expected it to end first"
            ) from None
        except OSError:
            pass
        try:
            with explained(self.error, self.what, self.path):
                for left_over in self.path.rglob(f".*{UNFINISHED}"):
                    left_over.unlink()
                self.open()
        except BaseException:
            if ours:
                with contextlib.suppress(OSError):
                    lock.unlink(missing_ok=True)
            self._lock.release()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        if self.complete:  # whoever opens the file before it goes finds a finished folder
            with contextlib.suppress(OSError):
                (self.path / LOCK).unlink(missing_ok=True)
        self._lock.release()

    def write(
        self,
        path: Path,
        save: Callable[[Path], object],
        check: Callable[[Path], object] | None = None,
    ) -> None:
        """`write_whole` of a file of the folder.

        Raises:
            Exception: of the class `error`: the disk is full or cannot be written.
        """
        with explained(self.error, self.what, path):
            write_whole(path, save, check)

    def write_text(self, path: Path, text: str) -> None:
        """`write` of a text in UTF-8. Raises as it does."""
        self.write(path, lambda at: at.write_bytes(text.encode()))
