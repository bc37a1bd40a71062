"""Scenarios: the future's event as numbers that a gradient can move.

In a task of the benchmark the future's event fills the whole horizon. A scenario lets it begin and
end inside, at any real number of steps, so that factors, onset and width can all be searched.

References:
    Ours; whatif-v1.md §4 for the event itself.
"""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp

from .._types import Array, Float, FloatScalar, Int
from .events import SHAPES, profiles
from .responses import ActiveResponse, gain_and_shift
from .spec import TaskSpec
from .systems import Systems
from .task import Task, active_response, realize

__all__ = ["Scenario", "ScenarioTask", "scenario_task"]


class Scenario(eqx.Module):
    """The future's event as three real quantities."""

    factors: Float[Array, "*batch K"]  # of each covariate at the event's height, above 0
    onset: Float[Array, "*batch"]  # steps of the future before the event
    width: Float[Array, "*batch"]  # steps that it lasts; what lies beyond the horizon is not seen


class ScenarioTask(eqx.Module):
    """One task as a function of its scenario; made by `scenario_task`.

    Pure: works under jit, vmap and grad. All that no scenario changes is computed once.

    An event from `onset` to `onset + width`, both whole, has the deviations of today's events of
    that length, in their shapes; onset 0 and a width of the horizon is the event of the task.
    Between whole steps, the deviations of the events that begin and end at the whole steps around
    are interpolated linearly, which for a step in time is the share of each step that the event
    covers. So values are exact at whole steps, continuous everywhere, and the gradient in onset and
    width is exact between whole steps; at whole steps, where the slope may jump, it is the mean of
    both sides, which a central difference within one step approaches.
    """

    task: Task  # under the factors of its spec
    response: ActiveResponse
    base: Float[Array, " K"]  # of each covariate in its own unit, 0 where padding
    shapes: Int[Array, " K"]  # numbers in `events.SHAPES`
    factors: Float[Array, " K"]  # of the spec's own future, 1 where padding
    horizon: Int[Array, ""]  # steps of the future, <= H
    names: tuple[str, ...] = eqx.field(static=True)  # the shapes that may occur

    def __call__(self, factors: Float[Array, " K"], onset: FloatScalar, width: FloatScalar) -> Task:
        """The task whose future holds this event; the history is the same in every scenario."""
        task = self.task
        steps = task.future_mask.shape[0]
        shares = window_shares(onset, width, steps, self.names)
        share = shares[:1]
        for row, name in enumerate(self.names[1:], start=1):
            is_shape = self.shapes[:, None] == SHAPES.index(name)
            share = jnp.where(is_shape, shares[row : row + 1], share)
        real = task.covariate_mask[:, None]
        deviation = jnp.where(real, (factors[:, None] - 1.0) * share, 0.0)
        gain, shift = gain_and_shift(self.response, deviation)
        usual = task.future_baseline
        moved = jnp.clip(gain * usual + shift, self.response.clip_low, self.response.clip_high)
        # a step that the event only touches has no deviation, but a slope as the event moves there
        step = jnp.arange(steps, dtype=factors.dtype)
        inside = (step + 1.0 >= onset) & (step <= onset + width) & task.future_mask
        values = self.base[:, None] * (1.0 + deviation)
        return dataclasses.replace(
            task,
            future=jnp.where(inside, moved, usual),
            future_covariates=jnp.where(task.future_mask[None, :], values, 0.0),
        )


def scenario_task(spec: TaskSpec, systems: Systems) -> ScenarioTask:
    """A task as a function of the factors, onset and width of its future's event.

    Args:
        spec: of one task; its future's factors are those of no scenario yet.
        systems: their series and responses.

    Raises:
        ValueError: no spec, or more covariates than the systems were loaded for.
    """
    if not isinstance(spec, TaskSpec):
        raise ValueError(f"spec: {' '.join(str(spec).split())[:80]}; expected a TaskSpec")
    return _scenario_task(spec, systems)


@jax.jit
def _scenario_task(spec: TaskSpec, systems: Systems) -> ScenarioTask:
    mask = spec.covariate_mask
    return ScenarioTask(
        task=realize(spec, systems),
        response=active_response(spec, systems),
        base=jnp.where(mask, systems.base[spec.target, spec.covariates], 0.0),
        shapes=spec.shapes,
        factors=jnp.where(mask, spec.future_factors, 1.0),
        horizon=spec.horizon,
        names=spec.bucket.shapes,
    )


def _around(position: Array) -> tuple[Array, Array]:
    """Whole steps around a position [3], and the weight of each in a linear interpolation.

    One on either side of the nearest below, so that at a whole step both slopes count, by half.
    """
    steps = jax.lax.stop_gradient(jnp.floor(position)) + jnp.arange(-1, 2, dtype=position.dtype)
    apart = position - steps
    # |apart| with slope 0 at 0, where jnp.abs has 1
    return steps, jnp.maximum(1.0 - apart * jnp.sign(apart), 0.0)


def window_shares(
    onset: FloatScalar, width: FloatScalar, steps: int, shapes: tuple[str, ...] = SHAPES
) -> Float[Array, "shapes H"]:
    """How much of an event's full deviation applies at each step of a future, by shape.

    Args:
        onset: where the event begins, in steps.
        width: how long it lasts, in steps; at 0 there is no event.
        steps: H.
        shapes: names of the shapes to evaluate (static).

    Returns:
        shares as `events.profiles`, interpolated linearly between whole begins and ends.
    """
    onset = jnp.asarray(onset)
    begins, begin_weights = _around(onset)
    ends, end_weights = _around(onset + width)
    length = (ends[None, :] - begins[:, None])[:, :, None]
    step = jnp.arange(steps, dtype=begins.dtype)
    offset = step[None, None, :] - begins[:, None, None]
    inside = (offset >= 0.0) & (offset < length)
    shares = profiles(jnp.where(inside, offset, 0.0), jnp.maximum(length, 1.0), shapes)
    weights = begin_weights[:, None] * end_weights[None, :]
    shares = jnp.where(inside[None], shares, 0.0)
    return jnp.sum(weights[None, :, :, None] * shares, axis=(1, 2))
