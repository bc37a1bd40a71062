"""A closed form: the event-free course of a series, and what its past events did to it.

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

from whatif_jax._types import Array, Bool, Float
from whatif_jax.tasks.inputs import ForecastInputs, inputs_from, scale_inputs

from .linear import is_on_cpu
from .scaling_baseline import Baseline, baseline_forecast, masked_quantiles
from .scaling_gain import (
    EventTable,
    GainFit,
    Response,
    choose_steps,
    event_steps,
    event_table,
    fit_gain,
    root,
)

__all__ = ["Scaling", "ScalingFit", "fit_scaling", "make", "respond", "scaling_quantiles"]

LEAST_DOUBT = 1e-3  # of a forecast, relative: none is exact
CLEARLY, SAME = 0.02, 1e-4  # of a series' range: beyond a limit, and at it
LARGEST = 3e38
OFTEN = 0.1  # of the steps of events
LEAST_MAGNITUDE = 1e-6  # of a baseline, of the largest value: less is rounding
WIDTH = 8  # covariates are padded to as many, so that a program is compiled for (T, H) alone


class ScalingFit(eqx.Module):
    """All that the closed form found in one history; values are in units of `unit`."""

    free: Bool[Array, "*batch T"]  # steps with a value at which no event holds
    log_factors: Float[Array, "*batch T+H K"]
    baseline: Baseline
    events: EventTable
    fit: GainFit
    response: Response
    low: Float[Array, "*batch"]  # what the target does not fall below; -inf where nothing says so
    high: Float[Array, "*batch"]
    unit: Float[Array, "*batch"]  # of the target: what 1 is in all of these


def _highest(values: Array, free: Array, moved: Array, chosen: Array, expected: Array) -> Array:
    """The limit that events do not lift a series above, inf for none.

    A limit is where the event-free steps end, if no step of an event lies beyond though the fitted
    responses put some there.
    """
    top = jnp.max(jnp.where(free, values, -jnp.inf))
    bottom = jnp.min(jnp.where(free, values, jnp.inf))
    span = jnp.where(top > bottom, top - bottom, 0.0)
    beyond = jnp.sum(chosen & (expected > top + CLEARLY * span))
    held = jnp.all(jnp.where(moved, values <= top + SAME * span, True))
    return jnp.where(held & (beyond > OFTEN * jnp.sum(chosen)), top, jnp.inf)


def fit_scaling(inputs: ForecastInputs) -> ScalingFit:
    """Baseline, events and response of one series. Unbatched, pure."""
    # broadcasts as NumPy does, whatever the caller's flags of JAX say of it
    with jax.numpy_rank_promotion("allow"), jax.numpy_dtype_promotion("standard"):
        found = _fit(inputs)
    kind = inputs.history.dtype  # with 64 bits enabled, constants would make it float64

    def cast(leaf: Array) -> Array:
        return leaf.astype(kind) if jnp.issubdtype(leaf.dtype, jnp.floating) else leaf

    return jax.tree.map(cast, found)


def _fit(inputs: ForecastInputs) -> ScalingFit:
    history, mask = inputs.history, inputs.history_mask
    steps = history.shape[0]
    scaled = scale_inputs(inputs)
    logs = scaled.log_factors
    largest = jnp.max(jnp.where(mask, jnp.abs(history), 0.0))
    unit = jax.lax.stop_gradient(jnp.where(largest > 0.0, largest, 1.0))
    values = jnp.where(mask, history / unit, 0.0)
    moved, _ = event_steps(logs[:steps], mask)
    free = mask & ~moved
    baseline = baseline_forecast(values, free, inputs.horizon)
    events = event_table(values, mask, logs[:steps], baseline.past)
    count = jnp.maximum(jnp.sum(mask, dtype=values.dtype), 1.0)
    magnitude = jnp.sum(jnp.where(mask, jnp.abs(baseline.past), 0.0)) / count
    # a series that is zero but for its events: what they add has no other unit
    own = jnp.sum(jnp.abs(values)) / count
    magnitude = jnp.where(magnitude > LEAST_MAGNITUDE, magnitude, own)
    chosen = choose_steps(values, baseline.past, logs[:steps], events.event, moved)
    fit, response = fit_gain(chosen, events, logs[steps:], magnitude)
    low = -_highest(-values, free, moved, chosen.mask, -fit.past)
    high = _highest(values, free, moved, chosen.mask, fit.past)
    # a series of one sign keeps it
    low = jnp.maximum(low, jnp.where(jnp.all(values >= 0.0), 0.0, -jnp.inf))
    high = jnp.minimum(high, jnp.where(jnp.all(values <= 0.0), 0.0, jnp.inf))
    return ScalingFit(free, logs, baseline, events, fit, response, low, high, unit)


def respond(
    fit: ScalingFit,
    quantiles: Float[Array, "H Q"],
    median: Float[Array, " H"],
    levels: Float[Array, " Q"],
) -> Float[Array, "H Q"]:
    """Put the response to the future's factors on quantiles of an event-free future.

    Args:
        fit: of the history.
        quantiles: of the future without its event, in the target's unit.
        median: of the same.
        levels: of the quantiles.

    Returns:
        quantiles in the target's unit, ascending. Their spread is moved with the response, and
        widened by what the response leaves open: forms that disagree, and factors that the events
        do not tell of.
    """
    with jax.numpy_rank_promotion("allow"):  # as in `fit_scaling`
        forms, gain, offset = fit.fit, fit.response.gain, fit.response.offset
        quantiles, median = quantiles / fit.unit, median / fit.unit
        happened = gain * median + offset
        noise = gain[:, None] * (quantiles - median[:, None])
        apart = forms.weight @ (forms.gain * median + forms.offset - happened) ** 2
        relative = forms.variance + LEAST_DOUBT**2
        doubt = root(apart + happened**2 * relative)[:, None] * ndtri(levels)
        away = jnp.sign(doubt) * root(noise**2 + doubt**2)
        ascending = jnp.sort(happened[:, None] + away, axis=-1)
        within = LARGEST / jnp.maximum(fit.unit, 1.0)  # of what float32 holds
        ascending = jnp.clip(jnp.clip(ascending, fit.low, fit.high), -within, within)
        return ascending * fit.unit


def scaling_quantiles(fit: ScalingFit, levels: Float[Array, " Q"]) -> Float[Array, "H Q"]:
    """The closed form's forecast: quantiles in the target's unit."""
    baseline = fit.baseline
    both = jnp.append(levels, 0.5)
    spread = masked_quantiles(baseline.residual, fit.free, both)
    left = root(1.0 - baseline.memory**2)
    free = (baseline.future[:, None] + left[:, None] * spread[None, :]) * fit.unit
    return respond(fit, free[:, :-1], free[:, -1], levels).astype(baseline.future.dtype)


@functools.partial(jax.jit, static_argnames=("levels", "together"))
def _forecast(inputs: ForecastInputs, levels: tuple[float, ...], together: int) -> Array:

    def one(row: ForecastInputs) -> Array:
        return scaling_quantiles(fit_scaling(row), jnp.asarray(levels, row.history.dtype))

    return jax.lax.map(one, inputs, batch_size=together)


class Scaling:
    """The closed form as a forecaster of batches."""

    name = "scaling"
    version = "1"
    on_device = True
    fixed_batch = True
    takes_missing = True  # events and baseline are read off the steps that are there
    trained_on = "nothing"
    informed = True

    def __call__(
        self, history: Array, covariates: Array, horizon: int, levels: Sequence[float]
    ) -> Array:
        """Quantiles [B, H, Q] in the target's unit."""
        history, covariates = jnp.asarray(history), jnp.asarray(covariates)
        inputs = inputs_from(history, covariates, horizon, width=WIDTH)
        together = 4 if is_on_cpu(history) else 64
        return _forecast(inputs, tuple(map(float, levels)), together)


def make() -> Scaling:
    """The closed form; it has no settings."""
    return Scaling()
