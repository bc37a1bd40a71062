"""How far a run is: a bar on a terminal, a line now and then in a log."""

import sys
import time
from typing import Self, TextIO

from tqdm import tqdm

__all__ = ["Progress"]

SECONDS_BETWEEN_LINES = 60.0


class Progress:
    """Tasks done, tasks a second and time left, on standard error. A context manager.

    Args:
        total: tasks of the run.
        done: of them, those finished before.
        shown: False shows nothing.
        stream: standard error if None.
        interval: seconds between lines where the stream is no terminal.
    """

    def __init__(
        self,
        total: int,
        done: int = 0,
        *,
        shown: bool = True,
        stream: TextIO | None = None,
        interval: float = SECONDS_BETWEEN_LINES,
    ):
        self._stream = stream or sys.stderr
        self._total, self._done, self._before = total, done, done
        terminal = shown and self._stream.isatty()
        self._lines = shown and not terminal
        self._interval = interval
        self._began = self._said = time.monotonic()
        # smoothing 0: the mean over the whole run, since batches differ much in their length
        self._bar = tqdm(
            total=total, initial=done, unit="task", smoothing=0, disable=not terminal,
            file=self._stream,
        )  # fmt: skip

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.close()

    def advance(self, tasks: int) -> None:
        """Some more tasks are finished."""
        self._done += tasks
        self._bar.update(tasks)
        now = time.monotonic()
        due = now - self._said >= self._interval or self._done == self._total
        if self._lines and due:
            self._said = now
            self.say(progress_line(self._done, self._total, self._before, now - self._began))

    def say(self, text: str) -> None:
        """Print a line without breaking the bar."""
        self._bar.write(text, file=self._stream)
        self._stream.flush()


def progress_line(done: int, total: int, before: int, seconds: float) -> str:
    """`1,024 of 37,665 tasks, 34.1 tasks/s, 0:17:55 left`; `before` were done by earlier runs."""
    rate = (done - before) / max(seconds, 1e-9)
    left = (total - done) / rate if rate else 0
    hours, rest = divmod(round(left), 3600)
    return (
        f"{done:,} of {total:,} tasks, {rate:.3g} tasks/s, "
        f"{hours}:{rest // 60:02}:{rest % 60:02} left"
    )
