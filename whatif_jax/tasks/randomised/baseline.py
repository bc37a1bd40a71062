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
from .prior import Prior
from .synthetic import synthetic_series

__all__ = ["SeriesPool", "baseline_series", "pool_of", "uniform_row"]


class SeriesPool(NamedTuple):
    """Real series, none of the benchmark's, padded on the right to one length."""

    values: Float[Array, "series steps"]
    length: Int[Array, " series"]  # steps of each


def uniform_row(key: PRNGKeyArray, kind: int, count: int) -> Float[Array, " n"]:
    """Some uniform numbers of one kind."""
    low = jnp.arange(count, dtype=jnp.uint32)
    return uniform_shares(key, jnp.full(count, kind, jnp.uint32), low)


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
    value = synthetic_series(steps, key=other)
    if pool is None:
        return value
    share, row, start = uniform_row(own, 0, 3)
    row = below(row, pool.length.shape[0])
    start = below(start, pool.length[row] - steps + 1)
    window = jax.lax.dynamic_slice(pool.values, (row, start), (1, steps))[0]
    source = prior.series.source
    real = np.float32(source.get("real", 0.0) / sum(source.values()))
    return jnp.where(share < real, window, value)


def pool_of(series: list[np.ndarray]) -> SeriesPool:
    """Series of any lengths as one array on the device."""
    width = max(map(len, series))
    values = np.zeros((len(series), width), np.float32)
    for row, each in enumerate(series):
        values[row, : len(each)] = each
    length = np.array([len(each) for each in series], np.int32)
    return SeriesPool(jax.device_put(values), jax.device_put(length))
