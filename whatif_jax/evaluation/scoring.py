"""Scores of one task, and the policy for what has no plain score, stated here once.

* Levels: 0.1 .. 0.9. A forecast of one column is a point forecast, scored at level 0.5 alone.
* Missing: a forecast that is not finite at any real step, at any level, is replaced whole by the
  naive one (the last value of the history) and marked `imputed`. A task is never skipped.
* Crossing: quantiles out of order are sorted; the pairs out of order are counted.
* Zero: where sum |x| is 0, an error is 0 for an exact forecast and infinite for any other.
* A truth that is not finite at a real step is refused: `evaluate` raises, and in pure functions the
  errors of such a task are infinite, for every forecaster alike.
* Ratios of two errors are clipped to [0.01, 100]; 0/0 and inf/inf are 1: nobody was better.

References:
    scores.md, beside this file.
"""

import functools
import itertools
from collections.abc import Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from .._types import Array, Bool, BoolScalar, Float, Int
from ..tasks import Task
from .metrics import (
    coverage,
    direction_accuracy,
    effect_size_error,
    root_mean_squared_error,
    scaled_error,
    seasonal_size,
    weighted_absolute_percentage_error,
    weighted_quantile_loss,
)

__all__ = [
    "LEVELS",
    "METRIC_VERSION",
    "Repaired",
    "Scores",
    "error_ratio",
    "repair",
    "repair_and_score_batch",
    "score",
    "score_batch",
]

METRIC_VERSION = "1"  # of every number below; raised when one would change
LEVELS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
MEDIAN = 0.5
SMALLEST_RATIO, LARGEST_RATIO = 0.01, 100.0


class Repaired(eqx.Module):
    """A forecast that can be scored, and what had to be done to it."""

    quantiles: Float[Array, "*batch H Q"]  # finite, in order of level
    imputed: Bool[Array, "*batch"]  # whether it is the naive forecast
    crossings: Int[Array, "*batch"]  # neighbouring levels out of order, over all steps


class Scores(eqx.Module):
    """Scores of one task. Errors are never NaN; they may be infinite, see the zero policy."""

    wql: Float[Array, "*batch"]
    wape: Float[Array, "*batch"]
    mase: Float[Array, "*batch"]
    rmse: Float[Array, "*batch"]  # in the target's unit
    coverage: Float[Array, "*batch Q"]
    direction_accuracy: Float[Array, "*batch"]  # NaN where no step has a true effect
    effect_size_error: Float[Array, "*batch"]
    imputed: Bool[Array, "*batch"]
    crossings: Int[Array, "*batch"]


def _exchanged(rows: Array, first: int) -> Array:
    """Every second pair of neighbouring rows, from row `first` on, put in order at every step."""
    pairs = (rows.shape[0] - first) // 2
    end = first + 2 * pairs
    a, b = rows[first:end:2], rows[first + 1 : end : 2]
    ordered = jnp.stack([jnp.minimum(a, b), jnp.maximum(a, b)], axis=1)
    return jnp.concatenate([rows[:first], ordered.reshape(2 * pairs, rows.shape[1]), rows[end:]])


def _sorted(rows: Float[Array, "Q H"], crossing: BoolScalar) -> Float[Array, "Q H"]:
    """Rows in ascending order at every step: exchanges of neighbours until none is out of order.

    XLA's sort takes one step at a time, exchanges take all at once, and a batch of forecasts that
    do not cross, as most do not, takes none.
    """

    def unordered(rows: Array) -> Array:
        pairs = [upper < lower for lower, upper in itertools.pairwise(rows)]
        return jnp.any(functools.reduce(jnp.logical_or, pairs, jnp.zeros(rows.shape[1:], bool)))

    def exchange(state: tuple[Array, Array]) -> tuple[Array, Array]:
        rows = _exchanged(_exchanged(state[0], 0), 1)
        return rows, unordered(rows)

    return jax.lax.while_loop(lambda state: state[1], exchange, (rows, crossing))[0]


def repair(task: Task, quantiles: Float[Array, "H Q"]) -> Repaired:
    """Replace a forecast that is not finite by the naive one, and put crossing quantiles in order.

    Args:
        task: one task. The last finite value of its history is the naive forecast; 0 if none is.
            At its padding a forecast is not looked at.
        quantiles: forecast of each step and level, levels ascending, in the target's unit.

    Returns:
        The forecast to score; naive at padding.

    References:
        scores.md.
    """
    history = task.history
    usable = task.history_mask & jnp.isfinite(history)
    last = jnp.max(jnp.where(usable, jnp.arange(history.shape[-1]), -1))
    naive = jnp.where(last >= 0, history[last], 0.0)
    imputed = jnp.any(task.future_mask[:, None] & ~jnp.isfinite(quantiles))
    rows = jnp.where((task.future_mask & ~imputed)[None, :], quantiles.T, naive)
    crossings = jnp.sum(rows[1:] < rows[:-1], dtype=jnp.int32)
    return Repaired(_sorted(rows, crossings > 0).T, imputed, crossings)


def _median_column(n_columns: int, levels: Sequence[float]) -> tuple[int, tuple[float, ...]]:
    """Column of the median, and the levels of the columns."""
    levels = tuple(float(level) for level in levels)
    if n_columns == 1:
        return 0, (MEDIAN,)
    if n_columns != len(levels):
        raise ValueError(
            f"quantiles has {n_columns} columns; expected {len(levels)}, one a level of {levels}, "
            "or 1, a point forecast"
        )
    ascending = all(a < b for a, b in itertools.pairwise(levels))
    if not (ascending and levels[0] > 0 and levels[-1] < 1 and MEDIAN in levels):
        raise ValueError(
            f"levels is {levels}; expected ascending levels within (0, 1), {MEDIAN} among them"
        )
    return levels.index(MEDIAN), levels


def score(task: Task, quantiles: Float[Array, "H Q"], levels: Sequence[float] = LEVELS) -> Scores:
    """Score a forecast of one task by the policy above. Pure, for jit and vmap.

    Args:
        task: one task; its true future, and what would have happened without the event.
        quantiles: forecast of each step and level, in the target's unit, as the forecaster gave
            it: it is repaired here. One column is a point forecast.
        levels: ascending numbers within (0, 1), 0.5 among them; static under jit.

    Returns:
        Scores. `coverage` has one entry a column of the forecast.

    Raises:
        ValueError: if the columns are neither one nor one a level, or the levels are not as above.

    References:
        scores.md.
    """
    return _score_repaired(task, repair(task, quantiles), levels)


def _score_repaired(task: Task, forecast: Repaired, levels: Sequence[float]) -> Scores:
    median, levels = _median_column(forecast.quantiles.shape[-1], levels)
    target, mask = task.future, task.future_mask
    point = forecast.quantiles[:, median]
    wape = weighted_absolute_percentage_error(target, point, mask)
    wql = weighted_quantile_loss(target, forecast.quantiles, levels, mask)
    scale = seasonal_size(task.history, task.history_mask)
    truth = jnp.isfinite(target) & jnp.isfinite(task.future_baseline)
    refused = jnp.any(mask & ~truth)

    def error(value: Array) -> Array:
        return jnp.where(refused, jnp.inf, value)

    return Scores(
        # the naive forecast is a point: nine equal columns round otherwise than the one of naive
        wql=error(jnp.where(forecast.imputed, wape, wql)),
        wape=error(wape),
        mase=error(scaled_error(target, point, scale, mask)),
        rmse=error(root_mean_squared_error(target, point, mask)),
        coverage=coverage(target, forecast.quantiles, mask),
        direction_accuracy=direction_accuracy(target, point, task.future_baseline, mask),
        effect_size_error=error(effect_size_error(target, point, task.future_baseline, mask)),
        imputed=forecast.imputed,
        crossings=forecast.crossings,
    )


@functools.partial(jax.jit, static_argnames="levels")
def repair_and_score_batch(
    task: Task, quantiles: Float[Array, "B H Q"], levels: tuple[float, ...] = LEVELS
) -> tuple[Repaired, Scores]:
    """Forecasts of a batch as they are scored, and their scores; every field has an axis B."""

    def one(task: Task, quantiles: Array) -> tuple[Repaired, Scores]:
        forecast = repair(task, quantiles)
        return forecast, _score_repaired(task, forecast, levels)

    return jax.vmap(one)(task, quantiles)


@functools.partial(jax.jit, static_argnames="levels")
def score_batch(
    task: Task, quantiles: Float[Array, "B H Q"], levels: tuple[float, ...] = LEVELS
) -> Scores:
    """`score` of a batch of tasks: every field of the result has a leading axis B.

    Compiled once per shape and levels. `levels` must be a tuple.
    """
    return jax.vmap(lambda task, quantiles: score(task, quantiles, levels))(task, quantiles)


def error_ratio(error: np.ndarray, reference: np.ndarray) -> np.ndarray:
    """Ratio of two errors of the same tasks, clipped to [0.01, 100]; what skill is made of.

    0/0 and inf/inf are 1, x/0 and inf/x are 100, x/inf is 0.01.

    Args:
        error: errors of a forecaster, any shape, zero or more, infinite allowed.
        reference: errors of the reference on the same tasks.

    Returns:
        Float64, the broadcast shape of both.

    Raises:
        ValueError: if an error is NaN or negative: no score is.

    References:
        scores.md.
    """
    ours, theirs = np.asarray(error, np.float64), np.asarray(reference, np.float64)
    for name, values in (("error", ours), ("reference", theirs)):
        if not np.all(values >= 0):
            bad = values[~(values >= 0)]
            raise ValueError(
                f"{name} holds {bad.size} values that are NaN or negative, such as {bad.flat[0]}; "
                "expected zero or more"
            )
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        ratio = np.clip(ours / theirs, SMALLEST_RATIO, LARGEST_RATIO)
    return np.where(ours == theirs, 1.0, ratio)  # equal: also 0/0 and inf/inf
