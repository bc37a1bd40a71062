"""Tasks: from drawn numbers (`TaskSpec`) to arrays (`Task`), a pure function.

References:
    whatif-v1.md §4 (events), §5 (layout), §8 (contents of a task).
"""

import functools
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.sharding import Sharding

from .._types import Array, Bool, Float
from .._xla import apart, at, floor_divide
from .events import SHAPES, profiles
from .responses import ActiveResponse, gain_and_shift, moved
from .spec import Bucket, TaskSpec, per_event
from .systems import LEFT_PADDING, Systems

__all__ = ["Task", "realize", "realize_batch"]


class Task(eqx.Module):
    """One task as arrays, named as in whatif-v1.md §8; padding is zero and masked False."""

    history: Float[Array, "*batch C"]  # the target with its past events
    future: Float[Array, "*batch H"]  # what a forecaster must forecast
    future_baseline: Float[Array, "*batch H"]  # what would have happened without the future event
    history_covariates: Float[Array, "*batch K C"]  # base x factor, each in its own unit
    future_covariates: Float[Array, "*batch K H"]
    history_mask: Bool[Array, "*batch C"]
    future_mask: Bool[Array, "*batch H"]
    covariate_mask: Bool[Array, "*batch K"]


class Settings(NamedTuple):
    """Factor settings of one task: deviations at the evaluated positions, and where they apply."""

    deviation: Float[Array, "K P"]
    gain: Float[Array, " P"]
    shift: Float[Array, " P"]


def active_response(spec: TaskSpec, systems: Systems) -> ActiveResponse:
    """The response of the spec's target to its covariates."""
    systems.check_width(spec.covariates.shape[-1])
    return systems.responses.select(
        spec.target, spec.covariates, spec.covariate_mask, systems.mean_magnitude[spec.target]
    )


def place_in_event(offset: Array, event_length: Array, bucket: Bucket) -> Array:
    """Position, within its event's, that serves a step of the event's window."""
    return jnp.minimum(offset, event_length - 1 - offset) if bucket.shaped else 0 * offset


def task_settings(spec: TaskSpec, systems: Systems, response: ActiveResponse) -> Settings:
    """Responses at all positions of a task: history, then future, then one of no event.

    Position event * per_event + m serves steps m and event_length - 1 - m of a past event,
    position bucket.positions + m steps m and horizon - 1 - m of the future's; where all shapes are
    steps, one position serves a whole event.
    """
    true = systems.length[0] > 0  # for `apart`
    n_past, n_ahead = spec.bucket.positions, per_event(spec.bucket.horizon, spec.bucket.shaped)

    def windows() -> tuple[Array, Array]:
        position = jnp.arange(n_past, dtype=jnp.int32)
        each = per_event(spec.event_length, spec.bucket.shaped)
        event = jnp.minimum(floor_divide(position, each), spec.bucket.events - 1)
        offset = jnp.concatenate(
            [position - event * each, jnp.arange(n_ahead + 1, dtype=jnp.int32)]
        ).astype(systems.values.dtype)
        index = jnp.arange(n_past + n_ahead + 1)
        length = jnp.where(index < n_past, spec.event_length, spec.horizon)
        return event, jnp.where(
            index < n_past + n_ahead, profiles(offset, length, spec.bucket.shapes), 0.0
        )

    event, shares = apart(true, windows)

    def deviation() -> Array:
        ahead = jnp.broadcast_to(
            spec.future_factors[:, None], (spec.future_factors.shape[0], n_ahead + 1)
        )
        full = jnp.concatenate([at(spec.factors.T, event), ahead], axis=1) - 1.0
        share = shares[:1]
        for row, name in enumerate(spec.bucket.shapes[1:], start=1):
            share = jnp.where(
                spec.shapes[:, None] == SHAPES.index(name), shares[row : row + 1], share
            )
        return jnp.where(spec.covariate_mask[:, None], full * share, 0.0)

    deviations = apart(true, deviation)
    return Settings(deviations, *apart(true, lambda: gain_and_shift(response, deviations)))


def no_event(bucket: Bucket) -> int:
    """The position of `task_settings` at which every factor is 1."""
    return bucket.positions + per_event(bucket.horizon, bucket.shaped)


def history_position(spec: TaskSpec) -> tuple[Array, Array]:
    """Position of each history step in `task_settings`, and whether an event holds there."""
    bucket = spec.bucket
    step = jnp.arange(bucket.context, dtype=jnp.int32) - (bucket.context - spec.context)
    since = step - spec.slot_start
    event = floor_divide(jnp.maximum(since, 0), spec.slot_stride)
    offset = since - event * spec.slot_stride
    inside = (since >= 0) & (event < spec.n_events) & (offset < spec.event_length)
    each = per_event(spec.event_length, bucket.shaped)
    position = event * each + place_in_event(offset, spec.event_length, bucket)
    return jnp.where(inside, position, no_event(bucket)), inside


def future_position(spec: TaskSpec) -> tuple[Array, Array]:
    """Position of each future step in `task_settings`, and whether it is not padding."""
    step = jnp.arange(spec.bucket.horizon, dtype=jnp.int32)
    inside = step < spec.horizon
    position = spec.bucket.positions + place_in_event(step, spec.horizon, spec.bucket)
    return jnp.where(inside, position, no_event(spec.bucket)), inside


def respond(response: ActiveResponse, settings: Settings, position: Array, y: Array) -> Array:
    """The target where the event at `position` holds, from its intervention-free value y."""
    return moved(response, at(settings.gain, position), at(settings.shift, position), y)


def baseline_windows(spec: TaskSpec, systems: Systems) -> tuple[Array, Array]:
    """The intervention-free target over history [C] and future [H], unmasked."""
    context, horizon = spec.bucket.context, spec.bucket.horizon
    end = LEFT_PADDING + spec.window_start + spec.context

    def window(start: Array, size: int) -> Array:
        return jax.lax.dynamic_slice(systems.values, (spec.target, start), (1, size))[0]

    return window(end - context, context), window(end, horizon)


def realize(spec: TaskSpec, systems: Systems) -> Task:
    """Build the arrays of one task. Pure; differentiable in factors and response constants.

    Works under jit, vmap and grad and on sharded specs. Compiles once per bucket and batch shape.

    Args:
        spec: drawn numbers.
        systems: series and catalog (`load_systems`).

    Returns:
        the task, arrays of the bucket's sizes.

    References:
        whatif-v1.md §3-5, §8.
    """
    response = active_response(spec, systems)
    context, horizon = spec.bucket.context, spec.bucket.horizon
    history_mask = jnp.arange(context) >= context - spec.context
    future_mask = jnp.arange(horizon) < spec.horizon
    past, ahead = baseline_windows(spec, systems)
    past = jnp.where(history_mask, past, 0.0)
    ahead = jnp.where(future_mask, ahead, 0.0)
    base = jnp.where(spec.covariate_mask, systems.base[spec.target, spec.covariates], 0.0)

    true = systems.length[0] > 0  # for `apart`
    settings = task_settings(spec, systems, response)
    before, inside = apart(true, lambda: history_position(spec))
    after, future_inside = apart(true, lambda: future_position(spec))

    def covariates(position: Array, mask: Array) -> Array:
        values = base[:, None] * (1.0 + at(settings.deviation, position))
        return jnp.where(mask[None, :], values, 0.0)

    return Task(
        history=jnp.where(inside, respond(response, settings, before, past), past),
        future=jnp.where(future_inside, respond(response, settings, after, ahead), ahead),
        future_baseline=ahead,
        history_covariates=covariates(before, history_mask),
        future_covariates=covariates(after, future_mask),
        history_mask=history_mask,
        future_mask=future_mask,
        covariate_mask=spec.covariate_mask,
    )


@functools.partial(jax.jit, static_argnames="sharding")
def realize_batch(specs: TaskSpec, systems: Systems, sharding: Sharding | None = None) -> Task:
    """`realize` of a batch of specs, compiled once per bucket and number of rows.

    Args:
        specs: leaves with a leading axis B.
        systems: series and catalog.
        sharding: of the batch axis, if it is spread over devices.
    """
    if sharding is not None:
        specs = jax.lax.with_sharding_constraint(specs, sharding)
    return jax.vmap(realize, in_axes=(0, None))(specs, systems)
