"""A task stream as a `grain` data source, one record a step.

References:
    Grain: https://google-grain.readthedocs.io
"""

import numpy as np

from .spec import is_whole
from .stream_arrays import Stream, batch_arrays

__all__ = ["TaskSource"]

INSTALL = "pip install 'whatif-jax[grain]'"


class TaskSource:
    """Random access to the first `steps` batches of a stream, for grain's samplers and loaders.

    Record i is `stream.batch_at(i)` as NumPy arrays of the caller's own, which a transform may
    write to, under the names of `whatif_jax.tasks.inputs`; any sampler order, sharding by process
    and checkpoint of grain gives the same tasks as the stream itself.

    Args:
        stream: a `TaskStream`, or what has its `batch_at`, `check` and `batch_size`.
        steps: number of records; grain needs a length, the stream itself has none.

    Raises:
        ImportError: grain is not installed; names the extra.
        ValueError: `steps` is not a positive integer.
    """

    def __init__(self, stream: Stream, steps: int):
        try:
            import grain  # noqa: F401
        except ImportError as error:
            raise ImportError(f"grain is not installed; {INSTALL}") from error
        if not is_whole(steps) or steps < 1:
            raise ValueError(f"steps: {steps!r}; expected an integer >= 1")
        self._stream = stream
        self._steps = int(steps)

    def __len__(self) -> int:
        return self._steps

    def __getitem__(self, step: int) -> dict[str, np.ndarray]:
        """Arrays of one step: history [B, T], covariates [B, T + H, K], future [B, H] and masks.

        Raises:
            IndexError: outside 0 .. len - 1.
            ForkedError: in a process that was forked after JAX was used.
            StreamError: a row failed verification.
        """
        if not 0 <= step < self._steps:
            raise IndexError(f"step: {step}; expected 0 .. {self._steps - 1}")
        arrays = batch_arrays(self._stream, self._stream.batch_at(int(step)))
        return {name: np.array(value) for name, value in arrays.items()}

    def __repr__(self) -> str:
        return f"TaskSource(steps={self._steps}, batch_size={self._stream.batch_size})"
