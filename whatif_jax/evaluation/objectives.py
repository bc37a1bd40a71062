"""What a search over scenarios can ask for: small pure functions of an outcome and its scenario.

Each of these makes a function (outcome, scenario) -> scalar for `search_scenario`. An outcome is
the task under the scenario, or, where a function of one's own answers, its future as an array [H].
"""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

from .._types import Array, FloatScalar
from ..tasks import ForecastInputs, Task, inputs_of
from ..tasks.scenario import Scenario

__all__ = ["Objective", "forecast_error", "reach_path", "stay_above", "stay_below"]

Objective = Callable[[Any, Scenario], FloatScalar]

SMALLEST = 1e-6  # of the limit's size: a violation smaller than this is no unit to measure by


def forecast_error(
    forecaster: Callable[[ForecastInputs], Array],
    *,
    levels: Sequence[float] = (0.5,),
    relative: bool = True,
) -> Objective:
    """The error of a differentiable forecaster; searched with `maximize=True`, its worst case.

    Args:
        forecaster: a JAX function of one task's inputs, or a trained model that is called like
            one; returns [H], or quantiles [H, Q] at `levels`.
        levels: quantile levels of the forecast.
        relative: the quantile loss over the size of the future, wQL in scores.md, which at level
            0.5 alone is WAPE; False: the mean quantile loss in the target's unit, at level 0.5
            alone half the mean absolute error.

    Raises:
        ValueError: levels that are none.
    """
    given = np.asarray(levels, float)
    if given.ndim != 1 or not given.size or not np.all((given > 0) & (given < 1)):
        raise ValueError(f"levels: {str(levels)[:200]}; expected numbers within (0, 1)")
    if not callable(forecaster):
        raise ValueError(f"forecaster: {str(forecaster)[:80]}; expected a function of inputs")
    if jax.tree.leaves(forecaster) == [forecaster]:  # a function: no data for jit
        forecaster = jax.tree_util.Partial(forecaster)
    loss = _relative_loss if relative else _mean_loss
    # the levels are data: another set of as many compiles nothing
    return jax.tree_util.Partial(loss, forecaster, given.astype(np.float32))


def _losses(forecaster: Callable, levels: Array, task: Task) -> Array:
    """Quantile losses [H, Q], 0 where the future is padded."""
    forecast = jnp.asarray(forecaster(inputs_of(task)))
    answer = forecast[:, None] if forecast.ndim == 1 else forecast
    expected = (task.future.shape[0], len(levels))
    if answer.shape != expected:
        raise ValueError(f"forecaster: an answer {forecast.shape}; expected [H, Q], {expected}")
    over = task.future[:, None] - answer
    level = jnp.asarray(levels, over.dtype)[None, :]
    loss = jnp.maximum(level * over, (level - 1.0) * over)
    return jnp.where(task.future_mask[:, None], loss, 0.0)


def _relative_loss(
    forecaster: Callable, levels: Array, task: Task, _scenario: Scenario
) -> FloatScalar:
    size = jnp.sum(jnp.where(task.future_mask, jnp.abs(task.future), 0.0))
    return 2.0 * jnp.sum(jnp.mean(_losses(forecaster, levels, task), axis=1)) / size


def _mean_loss(forecaster: Callable, levels: Array, task: Task, _scenario: Scenario) -> FloatScalar:
    losses = jnp.mean(_losses(forecaster, levels, task), axis=1)
    return jnp.sum(losses) / jnp.sum(task.future_mask, dtype=losses.dtype)


def reach_path(path: ArrayLike) -> Objective:
    """Mean squared distance of the future to a path.

    Args:
        path: in the target's unit, one level or a value for each step [H].

    Raises:
        ValueError: no finite numbers.
    """
    return jax.tree_util.Partial(_distance, _numbers("path", path))


def stay_below(limit: ArrayLike, *, weight: float = 100.0) -> Objective:
    """The smallest change of factors that holds the future at or below a limit.

    The change is the length of the factors' logarithms, 0 where nothing is done; it does not
    count onset and width. What exceeds the limit, summed over the steps, costs `weight` for as
    much as the worst step without intervention exceeds it by: an exact penalty, so that its
    minimum lies at the limit and not a little beyond, wherever the last hundredth of that excess
    takes less than a change of 1. A search that stops short leaves some of it: look at the future.

    Args:
        limit: in the target's unit, one level or a value for each step [H].
        weight: what an excess costs.

    Raises:
        ValueError: no finite numbers, or a weight that is none above 0.

    References:
        Exact penalties: Nocedal and Wright, Numerical Optimization (2006), §17.2.
    """
    return jax.tree_util.Partial(_held, _numbers("limit", limit), _weight(weight), np.float32(1))


def stay_above(limit: ArrayLike, *, weight: float = 100.0) -> Objective:
    """The smallest change of factors that holds the future at or above a limit; as `stay_below`."""
    return jax.tree_util.Partial(_held, _numbers("limit", limit), _weight(weight), np.float32(-1))


def _numbers(name: str, given: ArrayLike) -> np.ndarray:
    try:
        values = np.asarray(given, float)
    except (TypeError, ValueError):
        values = np.array(np.nan)
    if values.ndim > 1 or not values.size or not np.all(np.isfinite(values)):
        raise ValueError(f"{name}: {str(given)[:80]}; expected one finite number, or one a step")
    return values.astype(np.float32)


def _weight(weight: float) -> np.float32:
    value = _numbers("weight", weight)
    if value.ndim or value <= 0:
        raise ValueError(f"weight: {weight!r}; expected a number above 0")
    return np.float32(value)


def _future(outcome: Task | Array, numbers: Array) -> tuple[Array, Array, Array]:
    """Future, its mask, and the numbers of an objective, each [H]."""
    future = outcome.future if isinstance(outcome, Task) else jnp.asarray(outcome)
    mask = outcome.future_mask if isinstance(outcome, Task) else jnp.ones(future.shape, bool)
    if future.ndim != 1 or jnp.shape(numbers) not in ((), future.shape):
        raise ValueError(
            f"objective: numbers {jnp.shape(numbers)} for a future {future.shape}; expected one "
            "number, or one a step"
        )
    return future, mask, jnp.broadcast_to(jnp.asarray(numbers, future.dtype), future.shape)


def _distance(path: Array, outcome: Task | Array, _scenario: Scenario) -> FloatScalar:
    future, mask, path = _future(outcome, path)
    squares = jnp.where(mask, (future - path) ** 2, 0.0)
    return jnp.sum(squares) / jnp.sum(mask, dtype=future.dtype)


def _held(
    limit: Array, weight: Array, sign: Array, outcome: Task | Array, scenario: Scenario
) -> FloatScalar:
    future, mask, limit = _future(outcome, limit)
    weight, sign = jnp.asarray(weight, future.dtype), jnp.asarray(sign, future.dtype)

    def excess(values: Array) -> Array:
        return jnp.where(mask, jnp.maximum(sign * (values - limit), 0.0), 0.0)

    size = jnp.max(jnp.where(mask, jnp.abs(limit), 0.0))
    unit = jnp.max(excess(outcome.future_baseline)) if isinstance(outcome, Task) else size
    unit = jnp.where(unit > SMALLEST * size, unit, jnp.where(size > 0, size, 1.0))
    return change_of(scenario) + weight * jnp.sum(excess(future)) / unit


def change_of(scenario: Scenario) -> FloatScalar:
    """Length of the factors' logarithms; its slope where nothing changes is 0, as of all sides."""
    squared = jnp.sum(jnp.log(scenario.factors) ** 2)
    moved = squared > 0
    return jnp.where(moved, jnp.sqrt(jnp.where(moved, squared, 1.0)), 0.0)
