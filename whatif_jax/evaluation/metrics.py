"""Metrics of one forecast: pure functions of one series, for jit and vmap.

Every metric counts only steps that the mask holds and whose target is not NaN, as fev does. A
forecast or a target that is infinite at a counted step makes an error infinite, never smaller and
never NaN. An error measured against a size of zero is 0 for an exact forecast, else infinite
(scores.md).

Float32 in and out, within 1e-6 of float64 over the whole range of float32: values are brought
where there is room by powers of two, an error is one rounded difference of its inputs, sums are
taken in pairs, and sums of mixed sign carry their rounding errors along. An error below 1e-45 of
the largest value of its series and forecast is none.

References:
    scores.md; fev 0.10, `fev.metrics` (WQL, WAPE, MASE, RMSE).
"""

from collections.abc import Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from .._float32 import (
    Scale,
    exponent,
    largest,
    ordered,
    power_of_two,
    scale_of,
    scaled,
    times_power_of_two,
)
from .._types import Array, Bool, Float, FloatScalar

__all__ = [
    "coverage",
    "direction_accuracy",
    "effect_size_error",
    "mean_absolute_scaled_error",
    "root_mean_squared_error",
    "seasonal_error",
    "weighted_absolute_percentage_error",
    "weighted_quantile_loss",
]

DEAD_ZONE = 0.01  # of mean |baseline|: an effect no larger has no direction


def _folded(values: Float[Array, " L"]) -> Float[Array, " W"]:
    """Values with those beyond the largest power of two added to the first ones."""
    length = values.shape[-1]
    width = 1 << (length.bit_length() - 1)
    if width == length:
        return values
    return values[:width] + jnp.pad(values[width:], (0, 2 * width - length))


def _total(values: Float[Array, " L"]) -> FloatScalar:
    """Sum in pairs: ten roundings on the way of each of a thousand terms, on every device.

    The order of XLA's own sum is the device's choice. Halves are added, not neighbours, so that
    whole vectors are: on CPU twice as fast as XLA's sum.
    """
    values = _folded(values)
    while values.shape[-1] > 1:
        half = values.shape[-1] // 2
        values = values[:half] + values[half:]
    return values[0]


def _total_of(columns: list[Array]) -> Array:
    """Elementwise sum of a list of arrays, in pairs."""
    while len(columns) > 1:
        rest = columns[len(columns) // 2 * 2 :]
        columns = [a + b for a, b in zip(columns[::2], columns[1::2], strict=False)] + rest
    return columns[0]


def _signed_total(
    values: Float[Array, " L"], less: Float[Array, " L"], counted: Bool[Array, " L"]
) -> FloatScalar:
    """Sum of values - less, right to a few roundings even where the terms cancel.

    Each sum is kept as its rounded value and the rounding error (Knuth's two-sum).
    """

    def two_sum(a: Array, b: Array) -> tuple[Array, Array]:
        total = a + b
        from_b = total - a
        return total, (a - (total - from_b)) + (b - from_b)

    high, low = two_sum(jnp.where(counted, values, 0.0), -jnp.where(counted, less, 0.0))
    length = values.shape[-1]
    padding = (0, (1 << (length - 1).bit_length()) - length)
    high, low = jnp.pad(high, padding), jnp.pad(low, padding)
    while high.shape[-1] > 1:
        half = high.shape[-1] // 2
        high, error = two_sum(high[:half], high[half:])
        low = low[:half] + low[half:] + error
    return (high + low)[0]


def _ratio(error: Array, size: Array) -> Array:
    """Error / size; where there is no size, 0 for no error and else infinite. scores.md."""
    sized = (size > 0) & ~jnp.isinf(error)
    return jnp.where(sized, error / jnp.where(sized, size, 1.0), jnp.where(error > 0, jnp.inf, 0.0))


class Scaled(NamedTuple):
    """A size as value * 2**-exponent, for those that float32 itself would not hold."""

    value: Array  # float32, zero or a normal number
    exponent: Array  # int32


def _ratio_of(error: Scaled, size: Scaled) -> Array:
    """`_ratio` of two sizes of any scales."""
    own = exponent(size.value)
    ratio = _ratio(error.value, size.value * power_of_two(-own))
    return times_power_of_two(ratio, size.exponent - own - error.exponent)


def _counted(target: Array, mask: Array) -> Array:
    return mask & ~jnp.isnan(target)


def _common(counted: Array, *values: Array) -> Scale:
    """The scale of the largest of some values."""
    return scale_of(largest(counted, *values))


def _errors(target: Array, point: Array, counted: Array) -> Array:
    """|target - point|; infinite where the forecast is no number, 0 where nothing counts."""
    error = jnp.abs(target - point)
    return jnp.where(counted, jnp.where(jnp.isnan(error), jnp.inf, error), 0.0)


def weighted_quantile_loss(
    target: Float[Array, " H"],
    quantiles: Float[Array, "H Q"],
    levels: Sequence[float],
    mask: Bool[Array, " H"],
) -> FloatScalar:
    """Weighted quantile loss (wQL), fev's WQL of one series.

    The mean over levels of sum_t 2 |(x - q) (1{x <= q} - level)| / sum_t |x|. Quantiles that
    cross are taken as they are.

    Args:
        target: true values x, in the target's unit; NaN steps do not count.
        quantiles: forecast q at each step and level, same unit.
        levels: Q numbers within (0, 1). Not traced: 1 - level is taken in float64.
        mask: False at padding.

    Returns:
        A share of the target's size, no unit; 0 is exact.

    References:
        scores.md.
    """
    level = np.asarray(levels, np.float64)
    counted = _counted(target, mask)
    columns = [quantiles[:, column] for column in range(len(level))]
    scale = _common(counted, target, *columns)
    target = scaled(target, scale)
    # one level after another: all steps of a level in one vector operation
    losses = []
    for column, below, above in zip(columns, 2 * level, 2 * (1 - level), strict=True):
        forecast = scaled(column, scale)
        weight = jnp.where(target <= forecast, np.float32(above), np.float32(below))
        losses.append(_errors(target, forecast, counted) * weight)
    size = _total(jnp.where(counted, jnp.abs(target), 0.0))
    return _ratio(_total(_total_of(losses)) / len(level), size)


def weighted_absolute_percentage_error(
    target: Float[Array, " H"], point: Float[Array, " H"], mask: Bool[Array, " H"]
) -> FloatScalar:
    """Weighted absolute percentage error (WAPE): sum |x - point| / sum |x|, fev's WAPE.

    Args:
        target: true values x, in the target's unit; NaN steps do not count.
        point: forecast of each step, same unit.
        mask: False at padding.

    Returns:
        A share of the target's size, no unit; 0 is exact.

    References:
        scores.md.
    """
    counted = _counted(target, mask)
    scale = _common(counted, target, point)
    target, point = scaled(target, scale), scaled(point, scale)
    size = _total(jnp.where(counted, jnp.abs(target), 0.0))
    return _ratio(_total(_errors(target, point, counted)), size)


def _count(counted: Array) -> Array:
    return jnp.sum(counted.astype(jnp.float32), axis=-1)  # whole numbers: exact in any order


def seasonal_error(
    history: Float[Array, " C"], history_mask: Bool[Array, " C"], season: int = 1
) -> FloatScalar:
    """Mean |x_t - x_{t - season}| over a history: the error of repeating what was a season ago.

    Args:
        history: past values, in the target's unit; pairs with a NaN do not count.
        history_mask: False at padding.
        season: steps of a season, 1 or more.

    Returns:
        In the target's unit; NaN where the history holds no such pair, as in fev.

    Raises:
        ValueError: if season is less than 1.
    """
    if season < 1:
        raise ValueError(f"season is {season}; expected 1 step or more")
    if season >= history.shape[-1]:
        return jnp.full((), jnp.nan, history.dtype)
    size = seasonal_size(history, history_mask, season)
    return times_power_of_two(size.value, -size.exponent)


def seasonal_size(
    history: Float[Array, " C"], history_mask: Bool[Array, " C"], season: int = 1
) -> Scaled:
    """`seasonal_error`, of histories longer than a season, whose differences may leave float32."""
    counted = _counted(history, history_mask)
    scale = _common(counted, history)
    history, counted = scaled(history, scale), counted[season:] & counted[:-season]
    total = _total(_errors(history[season:], history[:-season], counted))
    return Scaled(total / _count(counted), scale.exponent)


def mean_absolute_scaled_error(
    target: Float[Array, " H"],
    point: Float[Array, " H"],
    scale: FloatScalar,
    mask: Bool[Array, " H"],
) -> FloatScalar:
    """Mean absolute scaled error (MASE): mean |x - point| / scale, fev's MASE of one series.

    Args:
        target: true values x, in the target's unit; NaN steps do not count.
        point: forecast of each step, same unit.
        scale: of the history, `seasonal_error`, same unit. Zero, NaN or infinite (a constant
            history, or one too short) counts as no size: 0 if the forecast is exact, else
            infinite. fev leaves such a series out.
        mask: False at padding.

    Returns:
        A multiple of the scale, no unit.
    """
    scale = jnp.where(jnp.isfinite(scale), scale, 0.0)
    near_one = scale_of(largest(jnp.isfinite(scale), scale))
    return scaled_error(target, point, Scaled(scaled(scale, near_one), near_one.exponent), mask)


def scaled_error(
    target: Float[Array, " H"], point: Float[Array, " H"], size: Scaled, mask: Bool[Array, " H"]
) -> FloatScalar:
    """`mean_absolute_scaled_error` by a size that may lie outside float32."""
    counted = _counted(target, mask)
    scale = _common(counted, target, point)
    total = _total(_errors(scaled(target, scale), scaled(point, scale), counted))
    mean = Scaled(total / jnp.maximum(_count(counted), 1.0), scale.exponent)
    return _ratio_of(mean, size)


def root_mean_squared_error(
    target: Float[Array, " H"], point: Float[Array, " H"], mask: Bool[Array, " H"]
) -> FloatScalar:
    """Root mean squared error (RMSE), fev's RMSE of one series.

    Args:
        target: true values, in the target's unit; NaN steps do not count.
        point: forecast of each step, same unit.
        mask: False at padding.

    Returns:
        In the target's unit; 0 where no step counts, infinite beyond float32.
    """
    counted = _counted(target, mask)
    scale = _common(counted, target, point)
    error = _errors(scaled(target, scale), scaled(point, scale), counted)
    most = jnp.max(error)
    # as shares of the largest, so that no square overflows or vanishes; the largest is brought
    # near 1 before, so that its reciprocal does neither
    near_one = power_of_two(-exponent(most))
    usable = (most > 0) & jnp.isfinite(most)
    share = (error * near_one) / jnp.where(usable, most * near_one, 1.0)
    mean = _total(share * share) / jnp.maximum(_count(counted), 1.0)
    # 1: the root of zero has no gradient
    root = jnp.where(usable, most * jnp.sqrt(jnp.where(usable, mean, 1.0)), most)
    return times_power_of_two(root, -scale.exponent)


def coverage(
    target: Float[Array, " H"], quantiles: Float[Array, "H Q"], mask: Bool[Array, " H"]
) -> Float[Array, " Q"]:
    """Share of steps at or below each quantile: the level itself, if the forecast is calibrated.

    Args:
        target: true values, in the target's unit; NaN steps do not count.
        quantiles: forecast of each step and level, same unit.
        mask: False at padding.

    Returns:
        Shares in [0, 1], one a level; NaN where no step counts, and at a level whose forecast is
        not finite at a step that does.
    """
    counted = _counted(target, mask)
    rows = quantiles.T
    each = counted[None, :]
    below = (ordered(target)[None, :] <= ordered(rows)) & each
    broken = jnp.any(each & ~jnp.isfinite(rows), axis=1)
    return jnp.where(broken, jnp.nan, _count(below) / _count(counted))


def direction_accuracy(
    target: Float[Array, " H"],
    point: Float[Array, " H"],
    baseline: Float[Array, " H"],
    mask: Bool[Array, " H"],
) -> FloatScalar:
    """Share of steps at which the forecast moves the target the right way.

    The effect of a step is its value minus the intervention-free value. Effects of at most 1% of
    the mean |baseline| over the horizon lie in a dead zone and have no direction: steps whose true
    effect lies there are left out, a forecast effect that lies there is wrong.

    Args:
        target: true values, in the target's unit; NaN steps do not count.
        point: forecast of each step, same unit; wrong where it is not finite.
        baseline: what would have happened without the event, same unit; NaN steps do not count.
        mask: False at padding.

    Returns:
        A share in [0, 1]; NaN where no step has a true effect.
    """
    counted = _counted(target, mask) & ~jnp.isnan(baseline)
    scale = _common(counted, target, baseline)  # not of the forecast: what counts is the truth's
    usable = jnp.isfinite(point)
    target, point, baseline = (scaled(values, scale) for values in (target, point, baseline))
    size = _total(jnp.where(counted, jnp.abs(baseline), 0.0)) / jnp.maximum(_count(counted), 1.0)
    dead = DEAD_ZONE * size
    true, forecast = target - baseline, point - baseline
    moved = counted & (jnp.abs(true) > dead)
    right = (jnp.abs(forecast) > dead) & ((forecast > 0) == (true > 0)) & usable
    return _count(moved & right) / _count(moved)


def effect_size_error(
    target: Float[Array, " H"],
    point: Float[Array, " H"],
    baseline: Float[Array, " H"],
    mask: Bool[Array, " H"],
) -> FloatScalar:
    """How wrong the forecast's mean effect is: |its mean effect - the true one| / |the true one|.

    The effect of a step is its value minus the intervention-free value.

    Args:
        target: true values, in the target's unit; NaN steps do not count.
        point: forecast of each step, same unit.
        baseline: what would have happened without the event, same unit; NaN steps do not count.
        mask: False at padding.

    Returns:
        A share of the true effect, no unit. 1 is the score of forecasting no effect at all.
    """
    counted = _counted(target, mask) & ~jnp.isnan(baseline)
    broken = jnp.any(counted & ~jnp.isfinite(point))
    scale = _common(counted, target, point, baseline)
    target, point, baseline = (scaled(values, scale) for values in (target, point, baseline))
    # the baseline cancels: the difference of the two effects is that of the values
    values, less = jnp.stack([point, target]), jnp.stack([target, baseline])
    error, size = jnp.abs(jax.vmap(_signed_total, (0, 0, None))(values, less, counted))
    return _ratio(jnp.where(broken | jnp.isnan(error), jnp.inf, error), size)
