"""Verification: does every event move its target by enough to be measured?

References:
    whatif-v1.md §6; paper, appendix B.2.
"""

import equinox as eqx
import jax
import jax.numpy as jnp

from .._types import Array, Bool, BoolScalar, Float, FloatScalar
from .._xla import floor_divide
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
    event_ok: Bool[Array, " E"]  # padding True
    history_ok: BoolScalar  # else both tasks of the pair go
    future_ok: BoolScalar  # else this task goes
    ok: BoolScalar


def _step_change(y: Array, x: Array, tolerance: Array) -> tuple[Array, Array, Array]:
    """Relative change of each step in [0, 1], whether it is dead, whether |y| is near zero."""
    near_zero = jnp.abs(y) < tolerance
    moved = jnp.abs(x - y)
    dead = near_zero & (moved < tolerance)
    change = jnp.where(
        near_zero, 1.0, jnp.minimum(moved / jnp.where(near_zero, 1.0, jnp.abs(y)), 1.0)
    )
    return jnp.where(dead, 0.0, change), dead, near_zero


def _event_steps(bucket: Bucket) -> int:
    """Static bound of the steps that all events of a history hold together."""
    if bucket.shaped:
        return 2 * bucket.positions
    return bucket.context


def verify(spec: TaskSpec, systems: Systems) -> Verification:
    """Check every event of one task. A kernel like `realize`: pure, for jit, vmap and sharding.

    The effect of an event is the mean over its window of min(|x-y|/|y|, 1), and 1 at a step where
    y is near zero and x is not. It must reach 10%. Steps at which neither y nor the change shows
    are left out of the mean, except for systems that require flow: there they count as no effect,
    and an event over any step of y near zero fails.

    Evaluates event windows only; half as much work as `realize` and no covariates.

    References:
        whatif-v1.md §6.
    """
    response = active_response(spec, systems)
    past, ahead = baseline_windows(spec, systems)
    tolerance = DEAD_SHARE * systems.peak_magnitude[spec.target]
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
    change, dead, near_zero = _step_change(y, x, tolerance)

    def by_event(value: Array) -> Array:
        value = jnp.where(real, value, 0.0)
        return jax.ops.segment_sum(value, event, n_slots, indices_are_sorted=True)

    counted = by_event(jnp.where(requires_flow, 1.0, 1.0 - dead))
    effects = by_event(change) / jnp.maximum(counted, 1.0)
    dry = by_event(near_zero.astype(change.dtype)) > 0
    padding = jnp.arange(n_slots) >= spec.n_events
    event_ok = padding | ((effects >= SMALLEST_EFFECT) & ~(requires_flow & dry))

    position, future_real = future_position(spec)
    future_x = respond(response, settings, position, ahead)
    change, dead, _ = _step_change(ahead, future_x, tolerance)
    counted = jnp.sum(jnp.where(future_real & (requires_flow | ~dead), 1.0, 0.0))
    future_effect = jnp.sum(jnp.where(future_real, change, 0.0)) / jnp.maximum(counted, 1.0)
    future_ok = future_effect >= SMALLEST_EFFECT

    history_ok = jnp.all(event_ok) & ~systems.constant[spec.target]
    return Verification(
        effects=effects,
        future_effect=future_effect,
        event_ok=event_ok,
        history_ok=history_ok,
        future_ok=future_ok,
        ok=history_ok & future_ok,
    )
