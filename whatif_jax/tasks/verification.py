"""Verification: does every event move its target by enough to be measured?

References:
    whatif-v1.md §6; paper, appendix B.2.
"""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp

from .._float32 import exponent, power_of_two
from .._types import Array, Bool, BoolScalar, Float, FloatScalar
from .._xla import floor_divide, picked
from .spec import Bucket, TaskSpec, per_event
from .systems import Systems
from .task import (
    active_response,
    baseline_windows,
    future_position,
    no_event,
    place_in_event,
    respond,
    task_settings,
)

__all__ = ["Verification", "verify"]

SMALLEST_EFFECT = 0.10  # mean relative change over an event's window [P]
DEAD_SHARE = 1e-4  # of max |y|: below it a step carries nothing to change [R]


class Verification(eqx.Module):
    """What whatif-v1.md §6 asks of one task."""

    effects: Float[Array, " E"]  # mean relative change over each event; padding 0
    future_effect: FloatScalar
    finite: BoolScalar  # every value and covariate of every event is a finite number
    event_ok: Bool[Array, " E"]  # padding True
    history_ok: BoolScalar  # else both tasks of the pair go
    future_ok: BoolScalar  # else this task goes
    ok: BoolScalar


class _Changes(NamedTuple):
    """What an event does at some steps of it."""

    change: Array  # relative change in [0, 1]
    dead: Array  # neither y nor the change shows
    near_zero: Array  # y does not
    broken: Array  # x is not finite


def _changes(y: Array, x: Array, peak: Array) -> _Changes:
    """Changes from y to x, where the largest |y| of the series is `peak`."""
    broken = ~jnp.isfinite(x)
    # brought near 1, so that no quotient of very small numbers vanishes
    scale = power_of_two(-exponent(peak)).astype(y.dtype)
    y, x, tolerance = y * scale, jnp.where(broken, 0.0, x) * scale, DEAD_SHARE * (peak * scale)
    near_zero = jnp.abs(y) < tolerance
    moved = jnp.abs(x - y)
    dead = near_zero & (moved < tolerance)
    share = jnp.minimum(moved / jnp.where(near_zero, 1.0, jnp.abs(y)), 1.0)
    change = jnp.where(near_zero, 1.0, share)
    return _Changes(jnp.where(dead, 0.0, change), dead, near_zero, broken)


def _covariates_finite(spec: TaskSpec, systems: Systems) -> tuple[Array, Array]:
    """Whether all covariates of each event [E], and of the future, are finite."""
    base = picked(systems.base, spec.target, spec.covariates)

    def finite(factors: Array) -> Array:
        # a shape's share is at most 1, so no step lies further from the base than the factor says
        values = base * (1.0 + (factors - 1.0))
        return jnp.all(jnp.isfinite(values) | ~spec.covariate_mask)

    return jax.vmap(finite)(spec.factors), finite(spec.future_factors)


def _event_steps(bucket: Bucket) -> int:
    """Static bound of the steps that all events of a history hold together."""
    if bucket.shaped:
        return 2 * bucket.positions
    return bucket.context


def verify(spec: TaskSpec, systems: Systems) -> Verification:
    """Check every event of one task. A kernel like `realize`: pure, for jit, vmap and sharding.

    The effect of an event is the mean over its window of min(|x-y|/|y|, 1), and 1 at a step where
    y is near zero and x is not. It must reach 10%, and every x and every covariate of the event
    must be finite. Steps at which neither y nor the change shows
    are left out of the mean, except for systems that require flow: there they count as no effect,
    and an event over any step of y near zero fails.

    Evaluates event windows only; half as much work as `realize` and no covariates.

    References:
        whatif-v1.md §6.
    """
    response = active_response(spec, systems)
    past, ahead = baseline_windows(spec, systems)
    peak = systems.peak_magnitude[spec.target]
    requires_flow = systems.requires_flow[spec.target]
    n_slots = spec.bucket.events

    # every step of every event, one after another
    index = jnp.arange(_event_steps(spec.bucket), dtype=jnp.int32)
    event = floor_divide(index, spec.event_length)
    real = event < spec.n_events
    event = jnp.minimum(event, n_slots - 1)
    offset = index - event * spec.event_length
    step = spec.slot_start + event * spec.slot_stride + offset
    step += spec.bucket.context - spec.context
    each = per_event(spec.event_length, spec.bucket.shaped)
    place = place_in_event(offset, spec.event_length, spec.bucket)
    position = jnp.where(real, event * each + place, no_event(spec.bucket))
    settings = task_settings(spec, systems, response)
    y = past[jnp.clip(step, 0, spec.bucket.context - 1)]
    x = respond(response, settings, position, y)
    steps = _changes(y, x, peak)

    def by_event(value: Array) -> Array:
        value = jnp.where(real, value, 0.0)
        return jax.ops.segment_sum(value, event, n_slots, indices_are_sorted=True)

    def count(which: Array) -> Array:
        return by_event(jnp.where(which, 1.0, 0.0).astype(y.dtype))

    counted = count(requires_flow | ~steps.dead)
    effects = by_event(steps.change) / jnp.maximum(counted, 1.0)
    # one sum for both: an event with either is not well
    unwell = count(steps.broken | (requires_flow & steps.near_zero)) > 0
    padding = jnp.arange(n_slots) >= spec.n_events
    event_finite, future_finite = _covariates_finite(spec, systems)
    event_ok = padding | ((effects >= SMALLEST_EFFECT) & ~unwell & event_finite)

    position, future_real = future_position(spec)
    ahead_steps = _changes(ahead, respond(response, settings, position, ahead), peak)
    counted = jnp.sum(jnp.where(future_real & (requires_flow | ~ahead_steps.dead), 1.0, 0.0))
    changed = jnp.sum(jnp.where(future_real, ahead_steps.change, 0.0))
    future_effect = changed / jnp.maximum(counted, 1.0)
    future_finite &= ~jnp.any(future_real & ahead_steps.broken)
    future_ok = (future_effect >= SMALLEST_EFFECT) & future_finite

    history_ok = jnp.all(event_ok) & ~systems.constant[spec.target]
    return Verification(
        effects=effects,
        future_effect=future_effect,
        finite=jnp.all(padding | event_finite) & ~jnp.any(real & steps.broken) & future_finite,
        event_ok=event_ok,
        history_ok=history_ok,
        future_ok=future_ok,
        ok=history_ok & future_ok,
    )
