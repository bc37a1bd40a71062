"""The smallest model that can be trained: one linear map, for tests and as an example of a model.

A model is an `eqx.Module` that is called with the `ForecastInputs` of one series and returns
quantiles [H, Q] in the target's unit, at `whatif_jax.LEVELS`. It takes units away itself, and
computes in the type of its parameters, which the loop makes bfloat16 where that is asked for.
"""

import equinox as eqx
import jax
import jax.numpy as jnp

from whatif_jax import LEVELS, ForecastInputs, scale_inputs
from whatif_jax._types import Array, Float, PRNGKeyArray
from whatif_jax.tasks.inputs import unscaled

__all__ = ["StandIn", "make_model"]

RECENT = 16  # steps of the history that it sees
WIDTH = 8  # covariates


class StandIn(eqx.Module):
    """The last values and the covariates of a step, mapped to quantiles that do not cross."""

    weights: Float[Array, "Q features"]
    bias: Float[Array, " Q"]

    def __call__(self, inputs: ForecastInputs) -> Float[Array, "H Q"]:
        """Quantiles of one series in the target's unit."""
        scaled = scale_inputs(inputs)
        horizon, k = inputs.horizon, scaled.log_factors.shape[1]
        recent = jnp.broadcast_to(scaled.history[-RECENT:][None, :], (horizon, RECENT))
        ahead = jnp.pad(scaled.log_factors[-horizon:], ((0, 0), (0, WIDTH - k)))
        features = jnp.concatenate([recent, ahead], axis=1).astype(self.weights.dtype)
        raw = features @ self.weights.T + self.bias[None, :]
        first, steps = raw[:, :1], jax.nn.softplus(raw[:, 1:])
        quantiles = jnp.concatenate([first, first + jnp.cumsum(steps, axis=1)], axis=1)
        return unscaled(quantiles.astype(scaled.history.dtype), scaled.location, scaled.scale)


def make_model(size: str, *, key: PRNGKeyArray) -> StandIn:
    """The stand-in. It has one size, "tiny".

    Raises:
        ValueError: another size.
    """
    if size != "tiny":
        raise ValueError(f"size: {size!r}; expected 'tiny'")
    shape = (len(LEVELS), RECENT + WIDTH)
    weights = 0.02 * jax.random.normal(key, shape, jnp.float32)
    bias = jnp.full(len(LEVELS), -1.0, jnp.float32)
    return StandIn(weights, bias)
