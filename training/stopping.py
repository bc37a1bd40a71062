"""When a run ends: its budget, a signal, a loss that is no number."""

import contextlib
import signal
import time
from collections.abc import Iterator
from types import FrameType

import jax
import numpy as np
from jax.experimental import multihost_utils

from .config import FitConfig

__all__ = ["Clock", "NonFiniteLossError", "Stop", "stop_signals"]


class NonFiniteLossError(RuntimeError):
    """A loss or a gradient is not finite; names step and rows, and how to see them."""


class Stop:
    """Which signal has asked the run to stop, 0 if none has."""

    signal = 0


@contextlib.contextmanager
def stop_signals() -> Iterator[Stop]:
    """While it is open SIGTERM and SIGINT are noted, for the loop to see between two steps."""
    stop = Stop()

    def note(number: int, frame: FrameType | None) -> None:
        if stop.signal:  # asked twice: at once
            raise KeyboardInterrupt
        stop.signal = number

    before = {each: signal.signal(each, note) for each in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield stop
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)


class Clock:
    """Seconds of a run, those before it was resumed among them, and the budget's share."""

    def __init__(self, config: FitConfig, before: float):
        self._config, self._before = config, before
        self._started = time.perf_counter()

    def seconds(self) -> float:
        """So far."""
        return self._before + time.perf_counter() - self._started

    def look(self, stop: Stop, steps: int) -> tuple[bool, float]:
        """Whether to stop, and the share of the budget spent; processes of a run agree on both."""
        stopped, seconds = stop.signal, self.seconds()
        if jax.process_count() > 1:
            told = np.array([stopped, seconds], np.float32)
            stopped, seconds = multihost_utils.process_allgather(told).max(axis=0).tolist()
            stop.signal = int(stopped)
        if self._config.steps is not None:
            return bool(stopped), steps / self._config.steps
        assert self._config.minutes is not None
        return bool(stopped), seconds / (60 * self._config.minutes)
