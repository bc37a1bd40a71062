"""What a series does while no event holds: level, season, and how long a deviation lasts.

Everything is read off the steps of the history at which no covariate has left its base. A season is
the mean by phase of a period that the autocorrelation proposes and a backtest accepts; what is left
is carried forward as far as its own autocorrelation says (simple kriging). Pure functions of one
series, with masks; the caller vmaps.

References:
    Autocorrelation of gapped data by two transforms: Wiener-Khinchin, pairs counted by the mask's
    own. Simple kriging: Chiles and Delfiner, Geostatistics, 2012, section 3.1.
"""

import equinox as eqx
import jax
import jax.numpy as jnp

from whatif_jax._types import Array, Bool, Float, FloatScalar, Int, IntScalar

__all__ = ["Baseline", "autocorrelation", "baseline_forecast", "masked_quantiles"]

CANDIDATES = 6  # periods that are tried
LONGEST_PERIOD = 0.6  # of the history
FIT_SHARE = 0.7  # of the steps, the earliest: a season is fitted to them and tried on the others
BELIEVED = 0.85  # of the squared error without a season: less than that, or it is chance
AS_GOOD = 1.02  # of the least error
DOUBT_OF_FEW = 0.3  # less by this over the number of cycles seen
FEWEST_PAIRS = 0.08  # of the steps: what a lag needs for its correlation to count
SMALLEST = 1e-12  # variance, of series scaled to 1, that counts as none


class Baseline(eqx.Module):
    """The event-free course of a series; T steps of history, H of future."""

    past: Float[Array, "*batch T"]  # at every step of the history, in the target's unit
    future: Float[Array, "*batch H"]
    residual: Float[Array, "*batch T"]  # history minus season at free steps; 0 elsewhere
    memory: Float[Array, "*batch H"]  # correlation of a future step with the last free one
    period: Int[Array, "*batch"]  # steps; 0 where no season is used


def autocorrelation(values: Float[Array, " T"], mask: Bool[Array, " T"]) -> tuple[Array, Array]:
    """Autocorrelation at lags 0 .. T-1 of a series with gaps, and how many pairs each rests on.

    Args:
        values: any unit; what stands where `mask` is False does not count.
        mask: True where there is a value.

    Returns:
        correlations, 1 at lag 0 and 0 where a lag has too few pairs, and the numbers of pairs.
    """
    steps = values.shape[0]
    count = jnp.sum(mask, dtype=values.dtype)
    mean = jnp.sum(jnp.where(mask, values, 0.0)) / jnp.maximum(count, 1.0)
    deviation = jnp.where(mask, values - mean, 0.0)
    length = 1 << (2 * steps - 1).bit_length()

    def products(series: Array) -> Array:
        spectrum = jnp.fft.rfft(series, length)
        return jnp.fft.irfft(jnp.real(spectrum) ** 2 + jnp.imag(spectrum) ** 2, length)[:steps]

    pairs = jnp.round(products(mask.astype(values.dtype)))
    covariance = products(deviation) / jnp.maximum(pairs, 1.0)
    variance = jnp.sum(deviation**2) / jnp.maximum(count, 1.0)
    varies = variance > SMALLEST
    known = (pairs >= jnp.maximum(4.0, FEWEST_PAIRS * count)) & varies
    found = jnp.where(known, covariance / jnp.where(varies, variance, 1.0), 0.0)
    return jnp.clip(found, -1.0, 1.0).at[0].set(1.0), pairs


def masked_quantiles(
    values: Float[Array, " T"], mask: Bool[Array, " T"], levels: Float[Array, " Q"]
) -> Float[Array, " Q"]:
    """Quantiles of the values where `mask` is True, linearly interpolated; 0 for none."""
    count = jnp.sum(mask)
    ascending = jnp.sort(jnp.where(mask, values, jnp.inf))
    place = levels * jnp.maximum(count - 1, 0).astype(values.dtype)
    below = jnp.floor(place).astype(jnp.int32)
    above = jnp.minimum(below + 1, jnp.maximum(count - 1, 0).astype(jnp.int32))
    share = place - below.astype(values.dtype)
    found = ascending[below] * (1.0 - share) + ascending[above] * share
    return jnp.where(count > 0, found, 0.0)


def _candidate_periods(correlation: Array, count: Array) -> Array:
    """The lags of the highest peaks of the autocorrelation, int32 [CANDIDATES]; 1 for none."""
    steps = correlation.shape[0]
    if steps < 3:  # no lag has neighbours on both sides
        return jnp.ones(1, jnp.int32)
    inner = correlation[1:-1]
    lags = jnp.arange(1, steps - 1)
    peak = (inner >= correlation[:-2]) & (inner > correlation[2:]) & (inner > 0.0)
    peak &= (lags >= 2) & (lags <= LONGEST_PERIOD * count)
    # among multiples of a period the shortest is the best supported
    worth = jnp.where(peak, inner * (1.0 - 0.1 * lags / steps), -1.0)
    best, where = jax.lax.top_k(worth, min(CANDIDATES, steps - 2))
    return jnp.where(best > 0.0, lags[where], 1).astype(jnp.int32)


def _by_phase(values: Array, mask: Array, phase: Array) -> tuple[Array, Array]:
    """Means by phase at every step, and whether the phase was ever seen; 0 where it was not."""
    steps = values.shape[0]
    sums = jax.ops.segment_sum(jnp.where(mask, values, 0.0), phase, steps)
    counts = jax.ops.segment_sum(mask.astype(values.dtype), phase, steps)
    return jnp.where(counts > 0, sums / jnp.maximum(counts, 1.0), 0.0), counts > 0


def _season(
    deviation: Array, free: Array, periods: Array, horizon: int
) -> tuple[Array, IntScalar, FloatScalar]:
    """The season [T + H] as deviation from the mean, its period and how much of it is kept."""
    steps = deviation.shape[0]
    order = jnp.cumsum(free)
    early = free & (order <= FIT_SHARE * order[-1])
    late = free & ~early

    def backtest(period: Array) -> tuple[Array, Array]:
        phase = jnp.arange(steps) % period
        means, _ = _by_phase(deviation, early, phase)
        expected = means[phase]
        power = jnp.sum(jnp.where(late, expected**2, 0.0))
        common = jnp.sum(jnp.where(late, expected * deviation, 0.0))
        kept = jnp.clip(common / jnp.maximum(power, SMALLEST), 0.0, 1.0)
        error = jnp.sum(jnp.where(late, (deviation - kept * expected) ** 2, 0.0))
        return error, kept

    errors, kept = jax.vmap(backtest)(periods)
    nothing = jnp.sum(jnp.where(late, deviation**2, 0.0))
    # a multiple of a period does as well and has fewer cycles: of the good ones the shortest
    good = errors <= AS_GOOD * jnp.min(errors) + 1e-5 * nothing
    best = jnp.argmin(jnp.where(good, periods, jnp.iinfo(jnp.int32).max))
    period = periods[best]
    cycles = order[-1].astype(deviation.dtype) / period.astype(deviation.dtype)
    enough = BELIEVED - DOUBT_OF_FEW / jnp.maximum(cycles, 1.0)
    share = jnp.where(errors[best] < enough * nothing, kept[best], 0.0)
    phase = jnp.arange(steps + horizon) % period
    means, _ = _by_phase(deviation, free, phase[:steps])
    return share * means[phase], jnp.where(share > 0.0, period, 0), share


def _neighbours(free: Array) -> tuple[Array, Array]:
    """The last free step up to each step, and the first from it on; -1 and T for none."""
    steps = free.shape[0]
    index = jnp.arange(steps)
    before = jax.lax.cummax(jnp.where(free, index, -1))
    after = jax.lax.cummin(jnp.where(free, index, steps), reverse=True)
    return before, after


def _between(residual: Array, free: Array, memory: Array) -> Array:
    """What the free steps on both sides say of a step's residual, [T]."""
    steps = residual.shape[0]
    before, after = _neighbours(free)
    index = jnp.arange(steps)

    def side(neighbour: Array, there: Array) -> tuple[Array, Array]:
        place = jnp.clip(neighbour, 0, steps - 1)
        lag = jnp.clip(jnp.abs(index - place), 0, steps - 1)
        return jnp.where(there, residual[place], 0.0), jnp.where(there, memory[lag], 0.0)

    left, from_left = side(before, before >= 0)
    right, from_right = side(after, after < steps)
    apart = jnp.clip(after - before, 0, steps - 1)
    both = (before >= 0) & (after < steps)
    mutual = jnp.where(both, jnp.minimum(memory[apart], 0.999), 0.0)
    weight = 1.0 - mutual**2
    of_left = (from_left - mutual * from_right) / weight
    of_right = (from_right - mutual * from_left) / weight
    return of_left * left + of_right * right


def baseline_forecast(
    history: Float[Array, " T"], free: Bool[Array, " T"], horizon: int
) -> Baseline:
    """The event-free course of a series over its history and `horizon` steps beyond.

    Args:
        history: the target in any unit, its squares within float32.
        free: True where the value is there and no event holds.
        horizon: H.

    Returns:
        the baseline; zeros throughout where no step is free.
    """
    steps = history.shape[0]
    count = jnp.sum(free, dtype=history.dtype)
    mean = jnp.sum(jnp.where(free, history, 0.0)) / jnp.maximum(count, 1.0)
    deviation = jnp.where(free, history - mean, 0.0)
    correlation, _ = autocorrelation(history, free)
    season, period, _ = _season(deviation, free, _candidate_periods(correlation, count), horizon)
    residual = jnp.where(free, deviation - season[:steps], 0.0)
    left, _ = autocorrelation(residual, free)
    memory = jnp.clip(jax.lax.cummin(left), 0.0, 1.0)
    last = jnp.max(jnp.where(free, jnp.arange(steps), -1))
    ahead = jnp.arange(horizon) + steps - last
    reach = jnp.where((last >= 0) & (ahead < steps), memory[jnp.clip(ahead, 0, steps - 1)], 0.0)
    future = mean + season[steps:] + reach * residual[jnp.maximum(last, 0)]
    past = mean + season[:steps] + jnp.where(free, 0.0, _between(residual, free, memory))
    return Baseline(past, future, residual, reach, period)
