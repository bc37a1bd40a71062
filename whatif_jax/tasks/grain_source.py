"""A task stream as a `grain` data source, one record a step.

References:
    Grain: https://google-grain.readthedocs.io
"""

from collections.abc import Mapping

import numpy as np

from .stream import TaskStream

__all__ = ["TaskSource"]

INSTALL = "pip install 'whatif-jax[grain]'"


class TaskSource:
    """Random access to the first `steps` batches of a stream, for grain's samplers and loaders.

    Record i is `stream.batch_at(i)` as NumPy arrays of the caller's own, which a transform may
    write to; any sampler order, sharding by process and checkpoint of grain gives the same tasks
    as the stream itself. PyTorch's loaders take it too, with workers that are started by
    `multiprocessing_context="spawn"` or "forkserver": forked ones get a ForkedError.

    Args:
        stream: the stream.
        steps: number of records; grain needs a length, the stream itself has none.

    Raises:
        ImportError: grain is not installed; names the extra.
        ValueError: `steps` is not a positive integer.
    """

    def __init__(self, stream: TaskStream, steps: int):
        try:
            import grain  # noqa: F401
        except ImportError as error:
            raise ImportError(f"grain is not installed; {INSTALL}") from error
        if isinstance(steps, bool) or not isinstance(steps, int) or steps < 1:
            raise ValueError(f"steps: {steps!r}; expected an integer >= 1")
        self._stream = stream
        self._steps = steps

    def __len__(self) -> int:
        return self._steps

    def __getitem__(self, step: int) -> Mapping[str, np.ndarray]:
        """Fields of `Task` of one step, [B, ...].

        Raises:
            IndexError: outside 0 .. len - 1.
            ForkedError: in a process that was forked after JAX was used.
            StreamError: a row failed verification.
        """
        if not 0 <= step < self._steps:
            raise IndexError(f"step: {step}; expected 0 .. {self._steps - 1}")
        batch = self._stream.check(self._stream.batch_at(int(step)))
        return {name: np.array(value) for name, value in vars(batch.task).items()}

    def __repr__(self) -> str:
        return f"TaskSource(steps={self._steps}, batch_size={self._stream.batch_size})"
