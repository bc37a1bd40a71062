"""A transformer over patches of time and over variates: no closed form, no events.

References:
    Nie et al., A time series is worth 64 words (2023); attention over variates as in Chronos-2.
"""

import equinox as eqx
import jax
import jax.numpy as jnp

from whatif_jax._types import Array, Float, PRNGKeyArray
from whatif_jax.tasks.inputs import ForecastInputs, scale_inputs

from .blocks import LEVELS, Block, Recurrence, enter, offsets, stack_blocks

__all__ = ["PatchModel"]

PATCH = 16
LARGEST_CONTEXT = 2048  # steps of history that are read, the last ones


class PatchModel(eqx.Module):
    """Tokens of (variate, patch); blocks over time and over variates take turns.

    The history is scaled by itself and covariates are logarithms of their ratio to base, so that
    the size of a move never seen before stays what it is.
    """

    target_enter: eqx.nn.Linear
    covariate_enter: eqx.nn.Linear
    over_time: tuple[Block | Recurrence, ...]
    over_variates: tuple[Block, ...]
    norm: eqx.nn.LayerNorm
    leave: eqx.nn.Linear

    def __init__(self, kind: str, width: int, heads: int, depth: int, *, key: PRNGKeyArray):
        keys = jax.random.split(key, 5)
        self.target_enter = eqx.nn.Linear(2 * PATCH + 1, width, key=keys[0])
        self.covariate_enter = eqx.nn.Linear(PATCH + 2, width, key=keys[1])
        self.over_time = stack_blocks(kind, width, heads, depth, key=keys[2])
        self.over_variates = tuple(
            Block(width, heads, key=each) for each in jax.random.split(keys[3], depth)
        )
        self.norm = eqx.nn.LayerNorm(width)
        self.leave = eqx.nn.Linear(width, PATCH * (1 + len(LEVELS)), key=keys[4])

    def __call__(self, inputs: ForecastInputs) -> Float[Array, "H Q"]:
        """Quantiles at `LEVELS`, in the target's unit."""
        scaled = scale_inputs(inputs)
        horizon = inputs.horizon
        context = min(scaled.history.shape[0], LARGEST_CONTEXT)
        before, ahead = -(-context // PATCH), -(-horizon // PATCH)
        left, right = before * PATCH - context, ahead * PATCH - horizon

        def cut(values: Array, front: int, end: int) -> Array:
            return jnp.pad(values, (front, end)).reshape(-1, PATCH)

        mask = scaled.history_mask[-context:]
        past = cut(jnp.arcsinh(scaled.history[-context:]), left, ahead * PATCH)
        known = cut(mask.astype(past.dtype), left, ahead * PATCH)
        in_time = jnp.concatenate([jnp.any(cut(mask, left, 0), axis=1), jnp.ones(ahead, bool)])
        place = _places(in_time)[:, None]
        target = enter(self.target_enter, jnp.concatenate([past, known, place], axis=1))
        logs = scaled.log_factors[-(context + horizon) :].T  # [K, steps]
        moves = jax.vmap(lambda row: cut(row, left, right))(logs)  # [K, patches, PATCH]
        primary = (jnp.arange(logs.shape[0]) == 0).astype(past.dtype)
        extra = jnp.stack(jnp.broadcast_arrays(primary[:, None], place[:, 0][None]), axis=-1)
        rows = jnp.concatenate([moves, extra], axis=-1)
        others = jax.vmap(lambda row: enter(self.covariate_enter, row))(rows)
        tokens = jnp.concatenate([target[None], others])  # [1 + K, patches, D]
        there = jnp.concatenate([jnp.ones(1, bool), inputs.covariate_mask])
        for time, variates in zip(self.over_time, self.over_variates, strict=True):
            tokens = jax.vmap(time, in_axes=(0, None))(tokens, in_time)
            tokens = jax.vmap(variates, in_axes=(1, None), out_axes=1)(tokens, there)
        normed = jax.vmap(self.norm)(tokens[0, before:])
        values = jax.vmap(self.leave)(normed).reshape(-1, 1 + len(LEVELS))[:horizon]
        values = values.astype(past.dtype)  # tokens may be of fewer bits, forecasts not
        # of powers the future reaches a hundred deviations: the middle leaves the head as a sinh
        middle = jnp.sinh(jnp.clip(values[:, 0], -7.0, 7.0))
        spread = jnp.sqrt(1.0 + middle**2) * 0.3
        return scaled.location + scaled.scale * (
            middle[:, None] + spread[:, None] * offsets(values[:, 1:])
        )


def _places(there: Array) -> Array:
    """-1 at the first patch that is there, to 1 at the last one."""
    count = there.shape[0]
    first = jnp.argmax(there)  # padding of a history is on its left
    steps = (jnp.arange(count) - first).astype(jnp.float32)
    last = jnp.maximum(count - 1 - first, 1).astype(jnp.float32)
    return jnp.maximum(2.0 * steps / last - 1.0, -1.0)
