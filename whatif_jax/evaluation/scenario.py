"""Search of scenarios: the factors, onset and width of an event that make a number best or worst.

Projected gradient from several starts; one compiled program for all of them.

References:
    Adam: Kingma and Ba (2015). Projected gradient: Bertsekas, Nonlinear Programming (1999), §2.3.
"""

import functools
from collections.abc import Callable, Mapping
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from .._types import Array, Bool, BoolScalar, Float, FloatScalar, IntScalar, PRNGKeyArray
from ..tasks.keys import as_threefry, check_key, uniform_shares
from ..tasks.scenario import Scenario
from ..tasks.spec import is_whole
from .objectives import Objective
from .scenario_bounds import Box, box_of

__all__ = ["ScenarioPaths", "ScenarioSearch", "search_scenario"]

INSTALL = "pip install 'whatif-jax[training]'"
SETTLED = 1e-3  # of the range of objectives that a start met
FORGETS = 0.99  # decay of Adam's second moment: some hundred steps, about as many as a search has
LAST = 4  # a quarter of the steps is what a start must have settled in


class ScenarioPaths(eqx.Module):
    """What every start S met at each of its N = steps + 1 places."""

    scenarios: Scenario  # leaves [S, N, ...]
    objectives: Float[Array, "S N"]
    finite: Bool[Array, " S"]  # False: an objective or a gradient was not; it stopped there
    converged: Bool[Array, " S"]


class ScenarioSearch(eqx.Module):
    """What a search found."""

    scenario: Scenario  # the best of all places of all starts
    objective: FloatScalar
    start: IntScalar  # which one found it
    converged: BoolScalar  # whether that one had settled
    paths: ScenarioPaths


def search_scenario(
    objective: Objective,
    respond: Callable[[Array, Array, Array], Any],
    bounds: Mapping[str, Any],
    *,
    key: PRNGKeyArray,
    starts: int = 16,
    steps: int = 200,
    learning_rate: float = 0.05,
    maximize: bool = False,
) -> ScenarioSearch:
    """Search the scenario inside bounds at which an objective is smallest, or largest.

    Projected gradient in coordinates of unit length, logarithms for factors and steps for onset and
    width: gradients of unit size to Adam, whose rate falls to 0 along a cosine. The first start is
    the middle of the bounds, the others are drawn; a start's draw does not depend on how many there
    are. The best place of any start is returned, not the last. Such a search finds local optima:
    `paths` shows how many starts agree, and one or two dimensions are worth a look at a grid.

    A start has converged where the last quarter of its steps improved its best objective by no
    more than a thousandth of the range that it met. One that meets an objective or a gradient that
    is not finite stops there, and that place never wins.

    Args:
        objective: (outcome, scenario) -> scalar, such as `forecast_error(forecaster)`,
            `reach_path(path)`, `stay_below(limit)`, `stay_above(limit)` or one's own. Compiled once
            for every function and kind of task: another path or limit compiles nothing.
        respond: (factors [K], onset, width) -> outcome, such as `scenario_task(spec, systems)`, or
            any function that JAX can trace and differentiate.
        bounds: (low, high) of "factors", one pair or one a covariate; of "onset" and of "width",
            in steps. A task's own factors, an onset of 0 and a width of the horizon hold where a
            name is left out; a function of one's own needs all three. Equal ends hold one fixed.
            An event may end beyond the horizon.
        key: of the starts.
        starts: how many.
        steps: of the gradient.
        learning_rate: of the first step, as a share of the bounds.
        maximize: search the largest objective.

    Raises:
        ImportError: optax is not installed; names the extra.
        ValueError: bounds, a key or numbers that are none; an objective that is no scalar; or one
            that is not finite, or has no finite gradient, at any place of any start.
    """
    try:
        import optax  # noqa: F401
    except ImportError as error:
        raise ImportError(f"optax is not installed; {INSTALL}") from error
    for name, function in (("objective", objective), ("respond", respond)):
        if not callable(function):
            raise ValueError(f"{name}: {str(function)[:80]}; expected a function")
    check_key(key)
    for name, count in (("starts", starts), ("steps", steps)):
        if not is_whole(count) or count < 1:
            raise ValueError(f"{name}: {count!r}; expected a whole number of at least 1")
    if not isinstance(learning_rate, int | float) or not 0 < learning_rate <= 1:
        raise ValueError(f"learning_rate: {learning_rate!r}; expected a number in (0, 1]")
    box = box_of(bounds, respond)
    shape, _ = eqx.filter_eval_shape(_value, objective, respond, box, box.place(box.low))
    if getattr(shape, "shape", None) != () or not jnp.issubdtype(shape.dtype, jnp.floating):
        raise ValueError(f"objective: {str(shape)[:80]}; expected a real scalar")
    found = _search(
        objective,
        respond,
        box,
        as_threefry(key),
        jnp.asarray(learning_rate, box.low.onset.dtype),
        starts=int(starts),
        steps=int(steps),
        maximize=bool(maximize),
    )
    if not np.isfinite(found.objective):
        first = jax.tree.map(lambda leaf: np.asarray(leaf[0, 0]).tolist(), found.paths.scenarios)
        raise ValueError(
            f"objective: neither it nor its gradient is finite at any of {starts} starts, such as "
            f"factors {first.factors}, onset {first.onset:g}, width {first.width:g}; expected one "
            "that is somewhere"
        )
    return found


def _value(
    objective: Objective, respond: Callable, box: Box, place: Array
) -> tuple[FloatScalar, Scenario]:
    scenario = box.scenario(place)
    return objective(respond(scenario.factors, scenario.onset, scenario.width), scenario), scenario


def _first_places(key: PRNGKeyArray, starts: int, box: Box) -> Array:
    """Coordinates [S, n]: the middle, then draws, each counted by its start and coordinate."""
    size = box.low.factors.shape[0] + 2
    start = jnp.repeat(jnp.arange(starts, dtype=jnp.uint32), size)
    coordinate = jnp.tile(jnp.arange(size, dtype=jnp.uint32), starts)
    drawn = uniform_shares(key, start, coordinate).reshape(starts, size)
    first = jnp.arange(starts)[:, None] == 0
    return jnp.where(first, 0.5, drawn).astype(box.low.onset.dtype)


@eqx.filter_jit
def _search(
    objective: Objective,
    respond: Callable,
    box: Box,
    key: PRNGKeyArray,
    learning_rate: Array,
    *,
    starts: int,
    steps: int,
    maximize: bool,
) -> ScenarioSearch:
    """All starts at once."""
    descend = functools.partial(
        _descend, objective, respond, box, learning_rate, steps=steps, maximize=maximize
    )
    scenarios, losses, usable = jax.vmap(descend)(_first_places(key, starts, box))
    held = jnp.where(usable, losses, jnp.inf)
    best = jax.lax.cummin(held, axis=1)
    settling = best[:, -1 - max(steps // LAST, 1)]
    span = jnp.max(jnp.where(usable, losses, -jnp.inf), axis=1) - best[:, -1]
    finite = jnp.all(usable, axis=1)
    # where no place was usable the difference is not a number, and False
    settled = finite & (settling - best[:, -1] <= SETTLED * span)
    winner = jnp.argmin(best[:, -1])
    where = jnp.argmin(held[winner])
    sign = -1.0 if maximize else 1.0
    return ScenarioSearch(
        scenario=jax.tree.map(lambda leaf: leaf[winner, where], scenarios),
        objective=sign * held[winner, where],
        start=winner.astype(jnp.int32),
        converged=settled[winner],
        paths=ScenarioPaths(scenarios, sign * losses, finite, settled),
    )


def _descend(
    objective: Objective,
    respond: Callable,
    box: Box,
    learning_rate: Array,
    first: Array,
    *,
    steps: int,
    maximize: bool,
) -> tuple[Scenario, Array, Array]:
    """One start: its scenarios [N, ...], losses [N], where value and slope are finite [N]."""
    import optax

    # Every gradient is made as large as any other: a penalty's, a thousand times that of what it
    # guards, would else be remembered long after it is gone, and the search would stand still.
    adam = optax.scale_by_adam(b2=FORGETS)

    def loss(place: Array) -> tuple[Array, Scenario]:
        value, scenario = _value(objective, respond, box, place)
        return -value if maximize else value, scenario

    def step(carry: tuple, count: Array) -> tuple[tuple, tuple]:
        place, state, going = carry
        (value, scenario), slope = jax.value_and_grad(loss, has_aux=True)(place)
        usable = jnp.isfinite(value) & jnp.all(jnp.isfinite(slope))
        slope = jnp.where(usable, slope, 0.0)
        largest = jnp.max(jnp.abs(slope))
        with jax.numpy_dtype_promotion("standard"):  # optax counts steps in whole numbers
            ahead, state = adam.update(slope / jnp.where(largest > 0, largest, 1.0), state)
        share = count.astype(place.dtype) * (jnp.pi / steps)
        rate = 0.5 * learning_rate * (1.0 + jnp.cos(share))
        moved = optax.projections.projection_box(place - rate * ahead, 0.0, 1.0)
        going &= usable
        after = (jnp.where(going, moved, place), state, going)
        return after, (scenario, value, usable)

    carry = (first, adam.init(first), jnp.ones((), bool))
    _, path = jax.lax.scan(step, carry, jnp.arange(steps + 1, dtype=jnp.int32))
    return path
