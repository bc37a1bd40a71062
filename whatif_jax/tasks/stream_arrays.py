"""A stream's batches as named arrays, in the one layout of `inputs`, for loaders of others.

The names are those of `ForecastInputs`, and with them what is to be forecast.
"""

from typing import Any, Protocol

import jax
import jax.numpy as jnp

from .._types import Array
from .forked import refuse_forked
from .inputs import inputs_of
from .task import Task

__all__ = ["Stream", "batch_arrays"]


class Stream(Protocol):
    """What a stream is to a loader: `TaskStream`, or anything else with these three."""

    @property
    def batch_size(self) -> int:
        """Rows of a batch, B."""

    def batch_at(self, step: int) -> Any:
        """The batch of one step, with its `task`, [B, ...]."""

    def check(self, batch: Any) -> Any:
        """The batch, or an error where a row of it is no task."""


@jax.jit
def _arrays_of(task: Task) -> dict[str, Array]:
    arrays = {**vars(inputs_of(task)), "future": task.future}
    # Copies, so that no array that JAX code can still read is the memory that a reader writes to.
    return {name: jnp.array(value, copy=True) for name, value in arrays.items()}


def batch_arrays(stream: Stream, batch: Any) -> dict[str, Array]:
    """The arrays of a batch, checked; T steps of history, H of future, K covariates.

    Returns:
        history [B, T], history_mask [B, T], covariates [B, T + H, K], covariate_mask [B, K],
        future_mask [B, H] and future [B, H]: float32, masks boolean, in memory that nothing else
        refers to.

    Raises:
        ForkedError: in a process that was forked after JAX was used.
        StreamError: a row failed verification.
    """
    refuse_forked()
    return _arrays_of(stream.check(batch).task)
