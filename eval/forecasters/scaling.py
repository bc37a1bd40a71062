"""A closed form: the event-free course of a series, times what its past events did by their factors.

No network and no training: each history is fitted by itself, and what the form knows beforehand is
that responses are smooth, vanish where covariates are at base and resemble power laws (`informed`).

References:
    evaluation/scores.md.
"""

import functools
from collections.abc import Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.scipy.special import ndtri

from whatif_jax._types import Array, Bool, Float, FloatScalar
from whatif_jax.tasks.inputs import ForecastInputs, inputs_from, scale_inputs

from .linear import is_on_cpu
from .scaling_baseline import Baseline, baseline_forecast, masked_quantiles
from .scaling_gain import EventTable, GainFit, Response, event_steps, event_table, fit_gain

__all__ = ["Scaling", "ScalingFit", "fit_scaling", "make", "scaling_quantiles"]

LEAST_DOUBT = 1e-3  # of a forecast, relative: none is exact
VARIANCE = 1.0
WIDTH = 8  # covariates are padded to as many, so that a program is compiled for (T, H) alone


class ScalingFit(eqx.Module):
    """All that the closed form found in one history; values are in units of `unit`."""

    free: Bool[Array, "*batch T"]  # steps with a value at which no event holds
    log_factors: Float[Array, "*batch T+H K"]
    baseline: Baseline
    events: EventTable
    fit: GainFit
    response: Response
    unit: Float[Array, "*batch"]  # of the target: what 1 is in all of these


def fit_scaling(inputs: ForecastInputs) -> ScalingFit:
    """Baseline, events and response of one series. Unbatched, pure."""
    history, mask = inputs.history, inputs.history_mask
    steps = history.shape[0]
    scaled = scale_inputs(inputs)
    logs = scaled.log_factors
    largest = jnp.max(jnp.where(mask, jnp.abs(history), 0.0))
    unit = jnp.where(largest > 0.0, largest, 1.0)
    values = jnp.where(mask, history / unit, 0.0)
    moved, _ = event_steps(logs[:steps], mask)
    free = mask & ~moved
    baseline = baseline_forecast(values, free, inputs.horizon)
    events = event_table(values, mask, logs[:steps], baseline.past)
    count = jnp.maximum(jnp.sum(mask, dtype=values.dtype), 1.0)
    magnitude = jnp.sum(jnp.where(mask, jnp.abs(baseline.past), 0.0)) / count
    fit, response = fit_gain(
        values, logs[:steps], logs[steps:], baseline.past, baseline.future, magnitude, events, moved
    )
    return ScalingFit(free, logs, baseline, events, fit, response, unit)


def scaling_quantiles(fit: ScalingFit, levels: Float[Array, " Q"]) -> Float[Array, "H Q"]:
    """The closed form's forecast: quantiles in the target's unit."""
    baseline, response, forms = fit.baseline, fit.response, fit.fit
    spread = masked_quantiles(baseline.residual, fit.free, levels)
    left = jnp.sqrt(jnp.maximum(1.0 - baseline.memory**2, 0.0))
    middle = masked_quantiles(baseline.residual, fit.free, jnp.full(1, 0.5, levels.dtype))
    centre = baseline.future + left * middle
    happened = response.gain * centre + response.offset
    noise = (response.gain * left)[:, None] * (spread - middle)
    # the response's own doubt: forms that disagree, and what the events leave open
    each = forms.gain * centre + forms.offset
    apart = forms.weight @ (each - happened) ** 2
    deviation = jnp.sqrt(apart + happened**2 * (VARIANCE * forms.variance + LEAST_DOUBT**2))
    doubt = deviation[:, None] * ndtri(levels)
    away = jnp.sqrt(noise**2 + doubt**2) * jnp.sign(doubt)
    return jnp.sort(happened[:, None] + away, axis=-1) * fit.unit


@functools.partial(jax.jit, static_argnames=("horizon", "levels", "together"))
def _forecast(
    history: Array, covariates: Array, horizon: int, levels: tuple[float, ...], together: int
) -> Array:
    inputs = inputs_from(history, covariates, horizon, width=WIDTH)

    def one(row: ForecastInputs) -> Array:
        return scaling_quantiles(fit_scaling(row), jnp.asarray(levels, history.dtype))

    return jax.lax.map(one, inputs, batch_size=together)


class Scaling:
    """The closed form as a forecaster of batches."""

    name = "scaling"
    version = "1"
    on_device = True
    fixed_batch = True
    trained_on = "nothing"
    informed = True
    settings: dict[str, object] = {}

    def __call__(
        self, history: Array, covariates: Array, horizon: int, levels: Sequence[float]
    ) -> Array:
        """Quantiles [B, H, Q] in the target's unit."""
        extra = WIDTH - covariates.shape[-1]
        if extra < 0:
            raise ValueError(f"covariates: {covariates.shape[-1]}; expected at most {WIDTH}")
        together = 4 if is_on_cpu(history) else 64
        return _forecast(history, covariates, horizon, tuple(map(float, levels)), together)


def make() -> Scaling:
    """The closed form; it has no settings."""
    return Scaling()
