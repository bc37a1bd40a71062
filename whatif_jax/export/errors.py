"""The error of exports, and operating-system errors put in its words."""

import contextlib
from collections.abc import Iterator
from pathlib import Path

from ..files import disk_problem

__all__ = ["ExportError", "explained"]

FULL = "make room and export again: finished files are kept"


class ExportError(RuntimeError):
    """An export cannot be begun, continued or verified."""


@contextlib.contextmanager
def explained(path: Path) -> Iterator[None]:
    """Turn an OSError about `path` into an ExportError that says what to do.

    Raises:
        ExportError: the code inside raised an OSError.
    """
    try:
        yield
    except OSError as error:
        raise ExportError(f"out: {path}: {disk_problem(path, error, FULL)}") from error
