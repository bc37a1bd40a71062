"""The nine mechanisms: what a node makes of the weighted sum of its parents."""

import math

import jax.numpy as jnp
import numpy as np

from .._types import Array, Float
from ..tasks.randomised.components import cos_turns
from .names import MECHANISMS

__all__ = ["mechanism"]

_NUMBER = {name: number for number, name in enumerate(MECHANISMS)}
_TURN = np.float32(1.0 / (2.0 * math.pi))
# 2 pi in two parts, the first of 8 bits, so that its multiples are exact
_LONG = np.float32(6.28125)
_SHORT = np.float32(2.0 * math.pi - 6.28125)


def mechanism(number: Array, total: Float[Array, "*n"]) -> Float[Array, "*n"]:
    """The mechanism of a number in `MECHANISMS` at a weighted sum, elementwise.

    All nine are computed and one is selected; one tanh and one cosine serve them all, so that a
    batch of mixed mechanisms stays one vectorised loop. The cosine's error is below 1e-6 within
    |total| <= 100, and grows with the rounding of the total beyond.

    Args:
        number: place in `MECHANISMS`, of any type; broadcasts against `total`.
        total: bias and weighted parents.

    References:
        arXiv:2607.27263, §3.3.
    """

    def has(*names: str) -> Array:
        found = number == _NUMBER[names[0]]
        for name in names[1:]:
            found = found | (number == _NUMBER[name])
        return found

    square, rectified = total * total, jnp.maximum(total, 0.0)
    inner = jnp.where(has("tanh_square"), square, jnp.where(has("tanh_relu"), rectified, total))
    bounded = jnp.tanh(inner)
    turns = jnp.round(total * _TURN)
    rest = (total - turns * _LONG) - turns * _SHORT
    quarter = jnp.where(has("sin"), np.float32(0.25), np.float32(0.0))
    wave = cos_turns(rest * _TURN - quarter)
    found = jnp.where(has("tanh", "tanh_square", "tanh_relu"), bounded, total)
    found = jnp.where(has("sin", "cos"), wave, found)
    found = jnp.where(has("abs"), jnp.abs(total), found)
    found = jnp.where(has("square"), square, found)
    return jnp.where(has("relu"), rectified, found)
