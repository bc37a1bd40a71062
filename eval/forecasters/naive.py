"""The naive forecast: the last value of the history at every step. evaluation/scores.md."""

import jax
import jax.numpy as jnp

from whatif_jax._types import Array

__all__ = ["Naive", "make"]


@jax.jit
def last_values(history: Array) -> Array:
    """The last value of every row [B], from [B, T]."""
    return history[:, -1]


class Naive:
    """Point forecast of the last value of the history; covariates are not looked at."""

    name = "naive"
    version = "1"
    on_device = True
    fixed_batch = True
    point = True
    trained_on = "nothing"

    def __call__(
        self, history: Array, covariates: Array, horizon: int, levels: tuple[float, ...]
    ) -> Array:
        """Forecast [B, H, 1] in the target's unit."""
        last = last_values(history)
        return jnp.broadcast_to(last[:, None, None], (len(last), horizon, 1))


def make() -> Naive:
    """The naive forecaster; it has no settings."""
    return Naive()
