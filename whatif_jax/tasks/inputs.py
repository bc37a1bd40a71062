"""What a forecaster is given, in one layout for streams, suites and other people's arrays.

A stream keeps covariates apart in history and future, a forecaster gets them joined. `inputs_of`
makes the one from the other and `inputs_from` takes a forecaster's arguments, so that a model that
was trained on the first forecasts from the second. `scale_inputs` takes the units away.

References:
    Scaling by history, and covariates relative to their base, are ours.
"""

import equinox as eqx
import jax
import jax.numpy as jnp

from .._types import Array, Bool, Float, FloatScalar
from .task import Task

__all__ = [
    "ForecastInputs",
    "ScaledInputs",
    "inputs_from",
    "inputs_of",
    "scale_inputs",
    "unscaled",
]

SMALLEST_SCALE = 1e-3  # of the mean magnitude: a history that hardly moves has no scale of its own
SMALLEST_FACTOR = 1e-6  # as for responses: what a factor of zero counts as in a logarithm


class ForecastInputs(eqx.Module):
    """What is known when a forecast is made; T steps of history, H of future.

    Values that are not there are False in a mask; what stands in their place does not count.
    """

    history: Float[Array, "*batch T"]  # the target, in its unit
    history_mask: Bool[Array, "*batch T"]
    covariates: Float[Array, "*batch T+H K"]  # history and future, each in its own unit
    covariate_mask: Bool[Array, "*batch K"]
    future_mask: Bool[Array, "*batch H"]  # False where the horizon is padded

    @property
    def horizon(self) -> int:
        """H, padding included."""
        return self.future_mask.shape[-1]


class ScaledInputs(eqx.Module):
    """Inputs without units: a forecast of them is `unscaled` by what is kept here."""

    history: Float[Array, "*batch T"]  # (y - location) / scale; 0 where masked
    history_mask: Bool[Array, "*batch T"]
    log_factors: Float[Array, "*batch T+H K"]  # log of covariate over base; 0 where masked
    covariate_mask: Bool[Array, "*batch K"]
    future_mask: Bool[Array, "*batch H"]
    location: Float[Array, "*batch"]  # mean of the history
    scale: Float[Array, "*batch"]  # its standard deviation, with a floor


def inputs_of(task: Task) -> ForecastInputs:
    """The inputs of a task of a stream or a suite; works on batches as on single tasks."""
    both = jnp.concatenate([task.history_covariates, task.future_covariates], axis=-1)
    return ForecastInputs(
        history=task.history,
        history_mask=task.history_mask,
        covariates=jnp.swapaxes(both, -1, -2),
        covariate_mask=task.covariate_mask,
        future_mask=task.future_mask,
    )


def inputs_from(
    history: Float[Array, "*batch T"],
    covariates: Float[Array, "*batch T+H K"],
    horizon: int,
    *,
    width: int | None = None,
) -> ForecastInputs:
    """The inputs that a forecaster's arguments are; values that are not finite count as missing.

    Args:
        history: float32, the target's past in its unit.
        covariates: float32, of history and future.
        horizon: H.
        width: covariates to pad to, so that a model compiles once for any K; None: as many as
            there are.

    Raises:
        ValueError: covariates that are not as long as history and horizon, or more than `width`.
    """
    steps, k = covariates.shape[-2:]
    if steps != history.shape[-1] + horizon:
        raise ValueError(
            f"covariates: {steps} steps; expected {history.shape[-1]} of history + {horizon}"
        )
    if width is not None and k > width:
        raise ValueError(f"covariates: {k}; expected at most {width}")
    real = jnp.isfinite(history)
    mask = jnp.ones((*history.shape[:-1], k), bool)
    extra = 0 if width is None else width - k
    none = [(0, 0)] * (history.ndim - 1)
    return ForecastInputs(
        history=jnp.where(real, history, 0.0),
        history_mask=real,
        covariates=jnp.pad(covariates, [*none, (0, 0), (0, extra)]),
        covariate_mask=jnp.pad(mask, [*none, (0, extra)]),
        future_mask=jnp.ones((*history.shape[:-1], horizon), bool),
    )


def _moments(values: Array, mask: Array) -> tuple[Array, Array, Array]:
    """Mean, standard deviation and largest magnitude of what is there."""
    count = jnp.maximum(jnp.sum(mask, dtype=values.dtype), 1.0)
    largest = jnp.max(jnp.where(mask, jnp.abs(values), 0.0))
    unit = jnp.where(largest > 0, largest, 1.0)  # squares of large values would overflow
    relative = jnp.where(mask, values / unit, 0.0)
    mean = jnp.sum(relative) / count
    variance = jnp.sum(jnp.where(mask, (relative - mean) ** 2, 0.0)) / count
    # the square root has no slope at 0
    positive = variance > 0
    deviation = jnp.where(positive, jnp.sqrt(jnp.where(positive, variance, 1.0)), 0.0)
    return mean * unit, deviation * unit, unit


def scale_inputs(inputs: ForecastInputs) -> ScaledInputs:
    """Take units away. Unbatched, pure; nothing of the future decides a scale.

    The target is scaled by its history. A covariate is the logarithm of its ratio to its base, the
    value at the first step of the history: one that never moved and then moves keeps the size of
    its move, which a scale taken over past and future together would lose.

    References:
        Ours. No event holds at the first step of a history (whatif-v1.md §5).
    """
    mask = inputs.history_mask
    mean, deviation, largest = _moments(inputs.history, mask)
    scale = jnp.maximum(deviation, SMALLEST_SCALE * largest)
    first = jnp.argmax(mask)  # padding of a history is on its left
    base = jax.lax.dynamic_index_in_dim(inputs.covariates, first, axis=0)  # [1, K]
    usable = (base != 0.0) & jnp.isfinite(base)
    ratio = inputs.covariates / jnp.where(usable, base, 1.0)
    # a base of 0 has no ratios: there a covariate of 0 counts as unmoved. One that is not known
    # tells of no move at all
    without = jnp.where(jnp.isfinite(base), 1.0 + inputs.covariates, 1.0)
    factors = jnp.where(usable, ratio, without)
    steps = jnp.concatenate([mask | (jnp.arange(mask.shape[0]) >= first), inputs.future_mask])
    held = steps[:, None] & inputs.covariate_mask[None, :] & jnp.isfinite(factors)
    logs = jnp.log(jnp.where(held, jnp.maximum(factors, SMALLEST_FACTOR), 1.0))
    return ScaledInputs(
        history=jnp.where(mask, (inputs.history - mean) / scale, 0.0),
        history_mask=mask,
        log_factors=logs,
        covariate_mask=inputs.covariate_mask,
        future_mask=inputs.future_mask,
        location=mean,
        scale=scale,
    )


def unscaled(
    values: Float[Array, " *shape"], location: FloatScalar, scale: FloatScalar
) -> Float[Array, " *shape"]:
    """Scaled values in the target's unit."""
    return location + scale * values
