"""The random numbers of one world, drawn in one call, each named by what it decides.

A number depends on the key, its name and its own place alone, so that larger buckets change none of
the others.
"""

import jax
import jax.numpy as jnp
import numpy as np

from .._types import Array, PRNGKeyArray
from .._xla import apart_anywhere
from ..tasks.keys import uniform_shares
from ..tasks.named_numbers import by_name, counters_of

__all__ = ["Numbers", "draw_numbers", "many_normals", "normal_of"]

Numbers = dict[str, Array]

_NAMES = (
    "nodes", "lags", "edge", "row", "hidden", "hide", "rank", "number", "outcome", "first_parent",
    "first_child", "now", "lagged", "weight", "bias", "mechanism", "sd", "noise", "stay", "move",
    "kind", "shape", "target", "second", "two", "onset", "length", "value", "mode", "pick", "query",
    "decay", "diffusion", "observations",
)  # fmt: skip
_KIND = {name: number + 16 for number, name in enumerate(_NAMES)}
"""Kinds below 16 are those of numbers of each step: `noise.py`."""
_WIDTH = 64  # places along an axis lie that far apart


def draw_numbers(key: PRNGKeyArray, shapes: dict[str, tuple[int, ...]]) -> Numbers:
    """Numbers by name, uniform in [0, 1), in the shapes asked for; threefry2x32 key."""
    high, low = counters_of(shapes, _KIND, _WIDTH)
    counters = jnp.asarray(high), jnp.asarray(low)
    return by_name(apart_anywhere(lambda: uniform_shares(key, *counters)), shapes)


def many_normals(share: Array) -> Array:
    """`normal_of` of an array with many axes.

    In one row, and apart from what reads them: XLA's loop over a last axis of few numbers takes
    seven times as long (JAX 0.10.2).
    """
    return apart_anywhere(lambda: normal_of(share.ravel())).reshape(share.shape)


def normal_of(share: Array) -> Array:
    """Standard normal numbers from uniform ones in [0, 1) of 23 bits; the largest is 5.2."""
    centred = 2.0 * share - np.float32(1.0 - 2.0**-23)
    return np.float32(np.sqrt(2.0)) * jax.lax.erf_inv(centred)
