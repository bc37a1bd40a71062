"""How an intervention's deviation spreads in a linear system of one lag."""

import jax
import jax.numpy as jnp
import numpy as np

from whatif_jax._types import Array, Bool, BoolScalar, Float, FloatScalar, Int

from .baseline import Estimate
from .question import Question
from .roles import Roles
from .trivial import mean_value

__all__ = ["asks_for", "deviation", "estimate_of", "passed_on", "wanted"]


def asks_for(question: Question, roles: Roles) -> BoolScalar:
    """Whether the structure's treatment alone is intervened on, and its outcome asked for."""
    targets = question.intervention.targets
    one = (targets[0] == roles.treatment) & (targets[1] < 0)
    return one & (question.query.node == roles.outcome)


def wanted(
    question: Question, nodes: Int[Array, " n"]
) -> tuple[Bool[Array, "T n"], Float[Array, "T n"]]:
    """At which steps some nodes are intervened on, and the values."""
    given = question.intervention
    hits = [nodes == given.targets[slot] for slot in range(given.targets.shape[0])]
    value = jnp.where(hits[1][None], given.values[:, 1:2], given.values[:, 0:1])
    return (hits[0] | hits[1])[None] & given.active[:, None], value


def _held(coefficient: FloatScalar) -> FloatScalar:
    """A coefficient on a node's own past, held within 1: no effect grows without end."""
    return jnp.clip(coefficient, -1.0, 1.0)


def deviation(
    question: Question, node: int | Array, level: FloatScalar, own: FloatScalar
) -> Float[Array, " T"]:
    """How far an intervention moves its node from where it would be, at each step.

    Where a node would be is its mean before. A hard or varying intervention holds it at its values,
    a soft one adds to what is left of the deviation before; after the window a share `own` of the
    deviation is left at every step.
    """
    nodes = jnp.reshape(jnp.asarray(node, jnp.int32), (1,))
    hit, value = (found[:, 0] for found in wanted(question, nodes))
    hard = question.intervention.hard
    share = _held(own)

    def step(before: Array, given: tuple[Array, Array]) -> tuple[Array, Array]:
        on, value = given
        left = share * before
        moved = jnp.where(hard, value - level, left + value)
        now = jnp.where(on, moved, left)
        return now, now

    return jax.lax.scan(step, jnp.zeros_like(level), (hit, value))[1]


def passed_on(
    moved: Float[Array, " T"], now: FloatScalar, before: FloatScalar, own: FloatScalar
) -> Float[Array, " T"]:
    """Deviation of a child: now x(t) + before x(t - 1) + own y(t - 1)."""
    earlier = jnp.pad(moved, (1, 0))[:-1]
    share = _held(own)

    def step(last: Array, force: Array) -> tuple[Array, Array]:
        found = force + share * last
        return found, found

    return jax.lax.scan(step, jnp.zeros_like(now), now * moved + before * earlier)[1]


def estimate_of(
    question: Question,
    effect: Float[Array, " T"],
    fits: BoolScalar,
    without: Float[Array, " T"] | None = None,
) -> Estimate:
    """An effect of each step on top of what would be; the mean, and no effect, where none fits.

    Args:
        question: what is asked.
        effect: of each step.
        fits: whether the method could be fitted.
        without: what would be without the intervention; None: the mean of the steps seen.
    """
    mean = mean_value(question)
    steps = question.query.steps
    moved = effect[steps]
    level = jnp.broadcast_to(mean, moved.shape) if without is None else without[steps]
    # float32 ends at 3e38; far below it a metric's square would not be finite
    good = fits & (jnp.abs(level) < np.float32(1e15)) & (jnp.abs(moved) < np.float32(1e15))
    return Estimate(value=jnp.where(good, level + moved, mean), effect=jnp.where(good, moved, 0.0))
