"""Intervention-free series for randomised tasks: synthetic ones, and windows of real ones.

None of them is a series of the benchmark.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from ..._types import Array, Float, Int, PRNGKeyArray
from ..draw import below
from ..keys import uniform_shares
from .numbers import between, log_between, normal
from .prior import Prior

__all__ = ["SeriesPool", "baseline_series", "pool_of", "uniform_row"]


class SeriesPool(NamedTuple):
    """Real series, none of the benchmark's, padded on the right to one length."""

    values: Float[Array, "series steps"]
    length: Int[Array, " series"]  # steps of each


# counters of the numbers that a series is drawn by, from a key of its own
OF_SERIES, NOISE = range(2)
COUNT = 32


def uniform_row(key: PRNGKeyArray, kind: int, count: int) -> Float[Array, " n"]:
    """Some uniform numbers of one kind."""
    low = jnp.arange(count, dtype=jnp.uint32)
    return uniform_shares(key, jnp.full(count, kind, jnp.uint32), low)


def synthetic(key: PRNGKeyArray, steps: int) -> Float[Array, " steps"]:
    """A trend, two seasons and autoregressive noise; standard units."""
    u = uniform_row(key, OF_SERIES, COUNT)
    time = jnp.arange(steps, dtype=jnp.float32)
    trend = (u[0] - 0.5) * 2.0 * time / steps
    value = jnp.where(u[1] < 0.4, trend, 0.0)
    for n in (2, 6):
        period = log_between(u[n], (8.0, 400.0))
        angle = 2.0 * jnp.pi * (time / period + u[n + 1])
        wave = jnp.sin(angle)
        wave = jnp.where(u[n + 3] < 0.3, jnp.sign(wave), wave)
        value += between(u[n + 2], (0.0, 1.0)) * wave
    noise = normal(uniform_row(key, NOISE, steps))
    decay = between(u[10], (0.0, 0.97))

    def joined(one: tuple, other: tuple) -> tuple:
        return one[0] * other[0], one[1] * other[0] + other[1]

    _, rough = jax.lax.associative_scan(joined, (jnp.full(steps, decay), noise))
    return value + log_between(u[11], (0.01, 0.7)) * jnp.sqrt(1.0 - decay**2) * rough


def baseline_series(
    key: PRNGKeyArray, steps: int, pool: SeriesPool | None, prior: Prior
) -> Float[Array, " steps"]:
    """One intervention-free series in its own unit. Pure; vmap over keys.

    Args:
        key: threefry2x32; used for nothing else.
        steps: T + H.
        pool: real series to draw windows from, each of at least `steps`; None: synthetic alone.
        prior: shares of both, ranges of level and variation.
    """
    own, other = jax.random.fold_in(key, 0), jax.random.fold_in(key, 1)
    u = uniform_row(own, OF_SERIES, 8)
    value = synthetic(other, steps)
    if pool is not None:
        row = below(u[0], pool.length.shape[0])
        start = below(u[1], pool.length[row] - steps + 1)
        window = jax.lax.dynamic_slice(pool.values, (row, start), (1, steps))[0]
        source = prior.series.source
        share = source.get("real", 0.0) / sum(source.values())
        value = jnp.where(u[2] < float(np.float32(share)), window, value)
    return in_units(value, u[3:6], prior)


def in_units(value: Array, u: Array, prior: Prior) -> Array:
    """A series brought to a drawn level and variation; one of few to one side of zero."""
    series = prior.series
    centre = jnp.mean(value)
    largest = jnp.max(jnp.abs(value - centre))
    relative = jnp.where(largest > 0.0, (value - centre) / jnp.where(largest > 0.0, largest, 1.0), 0.0)
    variation = log_between(u[0], series.variation)
    positive = u[1] < series.positive
    # one that keeps to one side does not fall below a hundredth of its mean
    low = jnp.minimum(jnp.min(relative) * variation, -1e-6)
    held = variation * jnp.minimum(1.0, 0.99 / -low)
    return log_between(u[2], series.level) * (1.0 + relative * jnp.where(positive, held, variation))


def pool_of(series: list[np.ndarray]) -> SeriesPool:
    """Series of any lengths as one array on the device."""
    width = max(map(len, series))
    values = np.zeros((len(series), width), np.float32)
    for row, each in enumerate(series):
        values[row, : len(each)] = each
    length = np.array([len(each) for each in series], np.int32)
    return SeriesPool(jax.device_put(values), jax.device_put(length))
