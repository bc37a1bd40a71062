"""Exogenous noise: two independent runs of it from one word a step and node.

The first run is the factual world's and the counterfactual's, the second the interventional's.
"""

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from .._types import Array, Float, PRNGKeyArray, UInt32
from ..tasks.keys import random_words
from ..tasks.randomised.components import cos_turns
from .names import NOISES

__all__ = [
    "MOST_STEPS",
    "Noise",
    "free_normals",
    "noise_of",
    "noise_words",
    "normals_of_words",
    "regime_shares",
]

_VALUES, _REGIMES, _FREE = 0, 1, 2  # kinds of counters
_APART = 512  # counters of a step lie that far apart
MOST_STEPS = 2**32 // _APART
"""Of one run, burn-in and sub-steps among them: counters have 32 bits."""
_HALF = np.float32(2.0**-16)


class Noise(eqx.Module):
    """All that is random in a run of a world."""

    values: Float[Array, "T N"]  # added to a node, in its unit; before the first step: burn-in
    regime: Float[Array, " T"]  # uniform in [0, 1): decides the next regime


def noise_words(key: PRNGKeyArray, steps: int, nodes: int) -> UInt32[Array, "T N"]:
    """Random words; one depends on the key, its step and its node alone."""
    low = np.arange(steps, dtype=np.uint32)[:, None] * np.uint32(_APART)
    low = (low + np.arange(nodes, dtype=np.uint32)[None, :]).ravel()
    high = np.full(low.size, _VALUES, np.uint32)
    return random_words(key, jnp.asarray(high), jnp.asarray(low)).reshape(steps, nodes)


def _halves(words: Array) -> tuple[Array, Array]:
    """Two uniform numbers inside (0, 1), of 16 bits each."""
    upper = (words >> jnp.uint32(16)).astype(jnp.float32)
    lower = (words & jnp.uint32(0xFFFF)).astype(jnp.float32)
    return (upper + np.float32(0.5)) * _HALF, (lower + np.float32(0.5)) * _HALF


def noise_of(words: Array, kind: Array, scale: Array) -> tuple[Array, Array]:
    """Two independent numbers of a distribution in `NOISES` from each word.

    Both have mean 0 and a standard deviation of `scale`. Gaussian ones are Box and Muller's pair,
    at most 4.9 standard deviations; uniform ones a half of the word each, Laplace ones its
    quantiles.
    """
    first, second = _halves(words)
    laplace = kind == NOISES.index("laplace")
    one, two = 2.0 * first - 1.0, 2.0 * second - 1.0
    log_first = jnp.log(jnp.where(laplace, 1.0 - jnp.abs(one), first))
    log_second = jnp.log(1.0 - jnp.abs(two))
    # under the root only where it is used, so that its derivative is finite elsewhere
    length = jnp.sqrt(jnp.where(laplace, np.float32(1.0), -2.0 * log_first))
    normal = length * cos_turns(second), length * cos_turns(second - 0.25)
    flat = one * np.float32(np.sqrt(3.0)), two * np.float32(np.sqrt(3.0))
    half = np.float32(np.sqrt(0.5))
    tailed = -jnp.sign(one) * log_first * half, -jnp.sign(two) * log_second * half
    uniform = kind == NOISES.index("uniform")
    chosen = [
        jnp.where(laplace, long, jnp.where(uniform, even, bell)) * scale
        for bell, even, long in zip(normal, flat, tailed, strict=True)
    ]
    return chosen[0], chosen[1]


def normals_of_words(words: Array) -> tuple[Array, Array]:
    """Two independent standard normal numbers from each word."""
    first, second = _halves(words)
    length = jnp.sqrt(-2.0 * jnp.log(first))
    return length * cos_turns(second), length * cos_turns(second - 0.25)


def regime_shares(key: PRNGKeyArray, steps: int) -> Float[Array, "2 T"]:
    """Uniform numbers that decide regimes, of both runs."""
    low = jnp.asarray(np.arange(steps, dtype=np.uint32))
    high = jnp.asarray(np.full(steps, _REGIMES, np.uint32))
    return jnp.stack(_halves(random_words(key, high, low)))


def free_normals(key: PRNGKeyArray, steps: int) -> Float[Array, " T"]:
    """Standard normal numbers of a free profile, one a step."""
    low = jnp.asarray(np.arange(steps, dtype=np.uint32))
    high = jnp.asarray(np.full(steps, _FREE, np.uint32))
    return normals_of_words(random_words(key, high, low))[0]
