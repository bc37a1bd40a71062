"""Tasks: from drawn numbers (`TaskSpec`) to arrays (`Task`), a pure function.

References:
    SPEC §4 (events), §5 (layout), §8 (contents of a task).
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp

from ._types import Array, Bool, BoolScalar, Float, Int, IntScalar
from .baselines import LEFT_PADDING, RIGHT_PADDING, Baselines
from .events import SHAPES, profiles
from .responses import ActiveResponse, gain_and_shift

__all__ = ["FUTURES", "Bucket", "Task", "TaskSpec", "realize"]

# The order gives each kind of future its number in `TaskSpec.future`.
FUTURES = ("replay", "novel")


class Bucket(NamedTuple):
    """The static sizes that tasks of one compiled program share.

    A spec may be smaller than its bucket: histories are aligned to the right, futures to the left,
    and masks say what is real.
    """

    context: int
    horizon: int
    positions: int  # evaluations of the response that its histories need (`positions_for`)
    shapes: tuple[str, ...] = SHAPES  # names of the event shapes that its specs may hold

    @property
    def shaped(self) -> bool:
        """Whether a shape other than a step may occur; if not, one position serves an event."""
        return self.shapes != SHAPES[:1]


class TaskSpec(eqx.Module):
    """The drawn numbers of one task; everything random about it. SPEC §4, §5.

    Made by `sample_spec`, or by a suite from its manifest. All leaves gain a leading axis under
    vmap; the bucket is static and shared.
    """

    target: IntScalar  # row of the target in `Baselines`
    covariates: Int[Array, " K"]  # columns of its system's covariates, primary first
    covariate_mask: Bool[Array, " K"]  # False where a column is padding
    shapes: Int[Array, " K"]  # event shape of each covariate, number in `events.SHAPES`
    window_start: IntScalar  # baseline step of the first step of the history
    context: IntScalar  # steps of the history, <= bucket.context
    horizon: IntScalar  # steps of the future, <= bucket.horizon
    event_length: IntScalar  # steps of every event in the history
    n_events: IntScalar  # events in the history, <= E
    event_starts: Int[Array, " E"]  # those starts, for reading; `realize` uses the slots
    slot_start: IntScalar  # event e starts at slot_start + e * slot_stride (SPEC §5)
    slot_stride: IntScalar
    factors: Float[Array, "E K"]  # of each covariate in each event of the history
    future_factors: Float[Array, " K"]  # of each covariate over the whole future
    future: IntScalar  # kind of future, number in `FUTURES`
    bucket: Bucket = eqx.field(static=True)


def batched_spec(bucket: Bucket, **leaves: Any) -> TaskSpec:
    """A spec whose leaves have a leading batch axis, for vmap; the annotations are of one task."""
    spec = object.__new__(TaskSpec)  # as JAX unflattens it: no check of one task's shapes
    for name, value in (leaves | {"bucket": bucket}).items():
        object.__setattr__(spec, name, value)
    return spec


class Task(eqx.Module):
    """One task as arrays. Fields carry SPEC §8's names; padding is zero and masked False."""

    history: Float[Array, " C"]  # the target with its past events
    future: Float[Array, " H"]  # what a forecaster must forecast
    future_baseline: Float[Array, " H"]  # what would have happened without the future event
    history_covariates: Float[Array, "K C"]  # base x factor, each in its own unit
    future_covariates: Float[Array, "K H"]
    history_mask: Bool[Array, " C"]
    future_mask: Bool[Array, " H"]
    covariate_mask: Bool[Array, " K"]


class Settings(NamedTuple):
    """Factor settings of one task: deviations at the evaluated positions, and where they apply."""

    deviation: Float[Array, "K P"]
    gain: Float[Array, " P"]
    shift: Float[Array, " P"]


def _floor_divide(value: Array, divisor: Array) -> Array:
    """Integer floor division of small non-negative numbers; XLA's own is ten times slower on CPU.

    Exact for values below 2**20: half a step keeps the rounding away from whole quotients.
    """
    inverse = 1.0 / divisor.astype(jnp.float32)
    return ((value.astype(jnp.float32) + 0.5) * inverse).astype(jnp.int32)


def _at(values: Array, index: Array) -> Array:
    """values[..., index] for an index known to be inside: no clamping code."""
    if values.ndim > 1:  # one index a row, so that the result needs no transpose
        index = jnp.broadcast_to(index, (values.shape[0], *index.shape))
        return jax.vmap(_at)(values, index)
    return values.at[index].get(mode="promise_in_bounds", wrap_negative_indices=False)


def _apart(true: Array, compute: Callable[[], Any]) -> Any:
    """`compute()`, compiled apart from what reads it. `true` is a traced scalar that is true.

    XLA does not fuse across a conditional. Without this its CPU compiler, which drops optimization
    barriers, fuses the responses into the gathers that read them and so evaluates every power at
    every step of a history instead of once per position, at many times the cost.
    """

    def zeros() -> Any:
        shapes = jax.eval_shape(compute)
        return jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), shapes)

    return jax.lax.cond(true, compute, zeros)


def _true(baselines: Baselines) -> Array:
    # From data, so that XLA cannot fold it, and unbatched, so that vmap leaves it a conditional.
    return baselines.length[0] > 0


def active_response(spec: TaskSpec, baselines: Baselines) -> ActiveResponse:
    """The response of the spec's target to its covariates."""
    baselines.check_width(spec.covariates.shape[-1])
    return baselines.responses.select(
        spec.target, spec.covariates, spec.covariate_mask, baselines.mean_magnitude[spec.target]
    )


def per_event(event_length: Any, shaped: bool = True) -> Any:
    """Positions one event needs: its shape is symmetric, so half its steps; one for a step."""
    return (event_length + 1) // 2 if shaped else 0 * event_length + 1


def positions_for(event_length: Any, n_events: Any, shaped: bool = True) -> Any:
    """`Bucket.positions` that one history needs."""
    return n_events * per_event(event_length, shaped)


def place_in_event(offset: Array, event_length: Array, bucket: Bucket) -> Array:
    """Position, within its event's, that serves a step of the event's window."""
    return jnp.minimum(offset, event_length - 1 - offset) if bucket.shaped else 0 * offset


def task_settings(spec: TaskSpec, baselines: Baselines, response: ActiveResponse) -> Settings:
    """Responses at all positions of a task: history, then future, then one of no event.

    Position event * per_event + m serves steps m and event_length - 1 - m of a past event,
    position bucket.positions + m steps m and horizon - 1 - m of the future's; where all shapes are
    steps, one position serves a whole event.
    """
    true = _true(baselines)
    n_past, n_ahead = spec.bucket.positions, per_event(spec.bucket.horizon, spec.bucket.shaped)

    def windows() -> tuple[Array, Array]:
        position = jnp.arange(n_past, dtype=jnp.int32)
        each = per_event(spec.event_length, spec.bucket.shaped)
        event = jnp.minimum(_floor_divide(position, each), spec.factors.shape[0] - 1)
        offset = jnp.concatenate(
            [position - event * each, jnp.arange(n_ahead + 1, dtype=jnp.int32)]
        )
        index = jnp.arange(n_past + n_ahead + 1)
        length = jnp.where(index < n_past, spec.event_length, spec.horizon)
        return event, jnp.where(
            index < n_past + n_ahead, profiles(offset, length, spec.bucket.shapes), 0.0
        )

    event, shares = _apart(true, windows)

    def deviation() -> Array:
        ahead = jnp.broadcast_to(
            spec.future_factors[:, None], (spec.future_factors.shape[0], n_ahead + 1)
        )
        full = jnp.concatenate([_at(spec.factors.T, event), ahead], axis=1) - 1.0
        share = shares[0]
        for row, name in enumerate(spec.bucket.shapes[1:], start=1):
            share = jnp.where(spec.shapes[:, None] == SHAPES.index(name), shares[row], share)
        return jnp.where(spec.covariate_mask[:, None], full * share, 0.0)

    at = _apart(true, deviation)
    return Settings(at, *_apart(true, lambda: gain_and_shift(response, at)))


def no_event(bucket: Bucket) -> int:
    """The position of `task_settings` at which every factor is 1."""
    return bucket.positions + per_event(bucket.horizon, bucket.shaped)


def history_position(spec: TaskSpec) -> tuple[Array, Array]:
    """Position of each history step in `task_settings`, and whether an event holds there."""
    bucket = spec.bucket
    step = jnp.arange(bucket.context, dtype=jnp.int32) - (bucket.context - spec.context)
    since = step - spec.slot_start
    event = _floor_divide(jnp.maximum(since, 0), spec.slot_stride)
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
    moved = _at(settings.gain, position) * y + _at(settings.shift, position)
    return jnp.clip(moved, response.clip_low, response.clip_high)


def baseline_windows(spec: TaskSpec, baselines: Baselines) -> tuple[Array, Array]:
    """The intervention-free target over history [C] and future [H], unmasked."""
    context, horizon = spec.bucket.context, spec.bucket.horizon
    if context > LEFT_PADDING or horizon > RIGHT_PADDING:
        raise ValueError(
            f"bucket: {spec.bucket}; expected context <= {LEFT_PADDING} and horizon <= "
            f"{RIGHT_PADDING}"
        )
    end = LEFT_PADDING + spec.window_start + spec.context

    def window(start: Array, size: int) -> Array:
        return jax.lax.dynamic_slice(baselines.values, (spec.target, start), (1, size))[0]

    return window(end - context, context), window(end, horizon)


def realize(spec: TaskSpec, baselines: Baselines) -> Task:
    """Build the arrays of one task. Pure; differentiable in factors and response constants.

    Works under jit, vmap and grad and on sharded specs. Compiles once per bucket and batch shape.

    Args:
        spec: drawn numbers.
        baselines: series and catalog (`load_baselines`).

    Returns:
        the task, arrays of the bucket's sizes.

    Raises:
        ValueError: the bucket is larger than the padding of `Baselines` allows.

    References:
        SPEC §3-5, §8.
    """
    response = active_response(spec, baselines)
    context, horizon = spec.bucket.context, spec.bucket.horizon
    history_mask = jnp.arange(context) >= context - spec.context
    future_mask = jnp.arange(horizon) < spec.horizon
    past, ahead = baseline_windows(spec, baselines)
    past = jnp.where(history_mask, past, 0.0)
    ahead = jnp.where(future_mask, ahead, 0.0)
    base = jnp.where(spec.covariate_mask, baselines.base[spec.target, spec.covariates], 0.0)

    true = _true(baselines)
    settings = task_settings(spec, baselines, response)
    before, inside = _apart(true, lambda: history_position(spec))
    after, future_inside = _apart(true, lambda: future_position(spec))

    def covariates(position: Array, mask: Array) -> Array:
        values = base[:, None] * (1.0 + _at(settings.deviation, position))
        return jnp.where(mask, values, 0.0)

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


def is_novel(spec: TaskSpec) -> BoolScalar:
    """Whether the future is novel."""
    return spec.future == FUTURES.index("novel")
