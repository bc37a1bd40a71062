"""What can be read off a history without training, as an `EventModel` gets it.

The closed form is that of the forecaster `scaling`, with its event-free course and its table of
past events. Beside it a few forms are fitted to whole events, each linear in one coefficient a
covariate and without effect at base, by ridge regression, each with its errors on events that were
left out (Allen's PRESS): what the network chooses among where the closed form fails.

References:
    Allen, The relationship between variable selection and data augmentation, 1974.
"""

from typing import NamedTuple

import jax.numpy as jnp

from eval.forecasters.scaling import fit_scaling, scaling_quantiles
from eval.forecasters.scaling_gain import EVENTS
from eval.forecasters.scaling_gain import root as square_root
from eval.forecasters.small_systems import solve_positive
from whatif_jax._types import Array, Bool, Float, FloatScalar
from whatif_jax.tasks.inputs import ForecastInputs

__all__ = ["FORMS", "ClosedForm", "closed_form"]

# (acts on, features, penalty, log of how much it counts before any event speaks). No fits of
# their own: the first, which is the forecaster `scaling` itself, and the last two, a power law that
# is set right by what it misses of the nearest events, and no effect.
FORMS = (
    ("closed", "", 0.0, 6.0),
    ("power", "log", 1e-3, 2.0),
    ("power", "log", 1e-1, 0.0),
    ("multiply", "linear", 1e-2, -1.0),
    ("add", "log", 1e-2, -2.0),
    ("add", "linear", 1e-2, -2.0),
    ("nearest", "", 0.0, 1.0),
    ("unmoved", "", 0.0, -4.0),
)
SMALLEST_UNIT = 1e-3  # of the largest magnitude of the history
SMALLEST_SPREAD = 0.02  # of the unit
SMALLEST_ERROR = 1e-3  # relative, of an event
NEAR = 0.3  # distance in log factors within which an event speaks for another
LARGEST_LOG = 4.5  # of a gain
NARROWEST = 2.563  # distance of a standard normal's quantiles at 0.1 and 0.9
FARTHEST = 100.0  # of a candidate, in largest magnitudes of the history
LEAST_WEIGHT = -8.0  # log
UNKNOWN = 0.5  # relative error of forms that no event speaks for


class ClosedForm(NamedTuple):
    """One series; values in the target's unit."""

    free: Bool[Array, " T"]  # a value is there and no event holds
    past: Float[Array, " T"]  # baseline
    future: Float[Array, " H"]
    memory: Float[Array, " H"]  # correlation with the last free step
    level: FloatScalar  # mean of the last free values
    unit: FloatScalar  # standard deviation of what the baseline leaves
    periodic: FloatScalar  # 1 where the baseline has a season
    future_logs: Float[Array, "H K"]
    event_mask: Bool[Array, " E"]
    event_peaks: Float[Array, "E K"]  # log factors farthest from base
    event_doses: Float[Array, "E K"]  # their means over an event
    event_ratio: Float[Array, " E"]  # log of history over baseline
    event_change: Float[Array, " E"]  # mean history minus baseline
    event_errors: Float[Array, "E F"]  # of each form, relative, on the event left out
    event_place: Float[Array, " E"]  # 0 the earliest, 1 the latest
    event_steps: Float[Array, " E"]
    candidates: Float[Array, "F H"]
    errors: Float[Array, " F"]  # root mean square of event_errors
    log_weights: Float[Array, " F"]
    spread: Float[Array, " H"]  # standard deviation of a first guess


def closed_form(inputs: ForecastInputs) -> ClosedForm:
    """What one task's inputs say. Pure, unbatched."""
    history, mask = inputs.history, inputs.history_mask
    steps = history.shape[0]
    found = fit_scaling(inputs)
    logs, unit, free = found.log_factors, found.unit, found.free
    baseline, events = found.baseline, found.events
    low, middle, high = scaling_quantiles(found, jnp.asarray((0.1, 0.5, 0.9), unit.dtype)).T / unit
    values = jnp.where(mask, history / unit, 0.0)
    count = jnp.maximum(jnp.sum(free, dtype=values.dtype), 1.0)
    noise = square_root(jnp.sum(baseline.residual**2) / count)
    noise = jnp.maximum(noise, SMALLEST_UNIT)

    used = mask & (events.event < EVENTS)
    row = jnp.where(used, events.event, EVENTS)
    in_event = (row[:, None] == jnp.arange(EVENTS)[None, :]).astype(values.dtype)  # [T, E]
    share = in_event / jnp.maximum(jnp.sum(in_event, axis=0, keepdims=True), 1.0)
    doses = share.T @ logs[:steps]
    linear_doses = share.T @ jnp.expm1(jnp.clip(logs[:steps], -LARGEST_LOG, LARGEST_LOG))
    level_there = share.T @ baseline.past  # mean baseline of each event
    size = jnp.maximum(share.T @ jnp.abs(values), jnp.abs(level_there))
    size = jnp.maximum(size, noise)  # what an event's error is relative to

    future_linear = jnp.expm1(jnp.clip(logs[steps:], -LARGEST_LOG, LARGEST_LOG))
    magnitude = jnp.sum(jnp.where(mask, jnp.abs(baseline.past), 0.0)) / jnp.maximum(
        jnp.sum(mask, dtype=values.dtype), 1.0
    )
    miss = square_root(found.fit.weight @ found.fit.error)
    candidates, relative, first = [middle], [jnp.full_like(size, miss)], None
    for acts, features, penalty, _ in FORMS[1:-2]:
        design, ahead = (
            (doses, logs[steps:]) if features == "log" else (linear_doses, future_linear)
        )
        if acts == "power":
            aim = events.log_ratio
        elif acts == "multiply":
            aim = jnp.expm1(events.log_ratio)
        else:
            aim = events.difference / jnp.maximum(magnitude, noise)
        coefficients, residual, left_out = _ridge(design, aim, events.mask, penalty)
        score = ahead @ coefficients
        if first is None:
            first = (score, residual, left_out)
        if acts == "power":
            candidate = baseline.future * _exp(score)
            wrong = level_there * (_exp(aim - left_out) - jnp.exp(aim))
        elif acts == "multiply":
            candidate = baseline.future * (1.0 + score)
            wrong = level_there * left_out
        else:
            candidate = baseline.future + jnp.maximum(magnitude, noise) * score
            wrong = jnp.maximum(magnitude, noise) * left_out
        candidates.append(candidate)
        relative.append(wrong / size)
    assert first is not None
    score, residual, left_out = first
    near_ahead, near_others = _nearest(doses, logs[steps:], residual, events.mask)
    candidates.append(baseline.future * _exp(score + near_ahead))
    relative.append(
        level_there
        * (_exp(events.log_ratio - left_out + near_others) - jnp.exp(events.log_ratio))
        / size
    )
    candidates.append(baseline.future)
    relative.append(level_there * jnp.expm1(events.log_ratio) / size)

    errors = jnp.clip(jnp.stack(relative, axis=1), -10.0, 10.0)
    errors = jnp.where(events.mask[:, None], errors, 0.0)
    number = jnp.sum(events.mask, dtype=values.dtype)
    # one event says little of forms: half an event's worth of doubt is added
    mean_square = (jnp.sum(errors**2, axis=0) + UNKNOWN**3) / (number + UNKNOWN)
    root = jnp.sqrt(mean_square + SMALLEST_ERROR**2)
    recent = free & (jnp.cumsum(free[::-1])[::-1] <= 16)
    last = jnp.maximum(jnp.sum(recent, dtype=values.dtype), 1.0)
    level = jnp.sum(jnp.where(recent, values, 0.0)) / last
    # one event, left out, leaves nothing to fit: only beliefs
    speaking = jnp.clip(number - 1.0, 0.0, 8.0)
    beliefs = jnp.asarray([form[-1] for form in FORMS], values.dtype)
    weights = beliefs - 0.5 * speaking * jnp.log(mean_square + SMALLEST_ERROR**2)
    weights = jnp.maximum(weights - jnp.max(weights), LEAST_WEIGHT)
    forecasts = jnp.clip(jnp.stack(candidates), -FARTHEST, FARTHEST)
    spread = (high - low) / NARROWEST
    return ClosedForm(
        free=free,
        past=baseline.past * unit,
        future=baseline.future * unit,
        memory=baseline.memory,
        level=level * unit,
        unit=noise * unit,
        periodic=(baseline.period > 0).astype(values.dtype),
        future_logs=logs[steps:],
        event_mask=events.mask,
        event_peaks=events.log_factors,
        event_doses=doses,
        event_ratio=events.log_ratio,
        event_change=events.difference * unit,
        event_errors=errors,
        event_place=jnp.cumsum(events.mask).astype(values.dtype) / jnp.maximum(number, 1.0),
        event_steps=events.steps.astype(values.dtype),
        candidates=forecasts * unit,
        errors=root,
        log_weights=weights,
        spread=jnp.maximum(spread, SMALLEST_SPREAD * noise) * unit,
    )


def _exp(log_gain: Array) -> Array:
    """A gain, bounded."""
    return jnp.exp(jnp.clip(log_gain, -LARGEST_LOG, LARGEST_LOG))


def _ridge(
    design: Float[Array, "E K"], aim: Float[Array, " E"], mask: Bool[Array, " E"], penalty: float
) -> tuple[Float[Array, " K"], Float[Array, " E"], Float[Array, " E"]]:
    """Coefficients without intercept; residuals of events, and those under the fit without each.

    The penalty is relative to the mean square of the features.
    """
    there = mask.astype(aim.dtype)
    design = design * there[:, None]
    scale = jnp.maximum(jnp.max(jnp.abs(design)), 1e-6)
    features = design / scale
    gram = features.T @ features
    number = jnp.maximum(jnp.sum(there), 1.0)
    ridge = (penalty + 1e-5) * jnp.maximum(jnp.trace(gram) / number, 1e-6)
    unit = jnp.eye(gram.shape[0], dtype=gram.dtype)
    inverse = solve_positive(gram + ridge * unit, unit)
    coefficients = inverse @ (features.T @ (aim * there))
    hat = jnp.clip(jnp.sum((features @ inverse) * features, axis=1), 0.0, 0.999)
    residual = jnp.where(mask, aim - features @ coefficients, 0.0)
    return coefficients / scale, residual, residual / (1.0 - hat)


def _nearest(
    doses: Float[Array, "E K"],
    ahead: Float[Array, "H K"],
    values: Float[Array, " E"],
    mask: Bool[Array, " E"],
) -> tuple[Float[Array, " H"], Float[Array, " E"]]:
    """Means of events' values over those whose factors are near: each step ahead, each event."""

    def weights(points: Array) -> Array:
        apart = jnp.sum((points[:, None, :] - doses[None]) ** 2, axis=-1)
        return jnp.where(mask[None], jnp.exp(-0.5 * apart / NEAR**2), 0.0)

    to_come = weights(ahead)
    others = weights(doses) * (1.0 - jnp.eye(doses.shape[0], dtype=doses.dtype))
    of_ahead, of_events = (
        (each @ values) / (jnp.sum(each, axis=1) + 0.05) for each in (to_come, others)
    )
    return of_ahead, of_events
