"""Keys and the random numbers drawn from them: the same under any of JAX's settings.

`jax.random` follows global flags: the generator's partitionable mode, 64-bit types, the default
implementation. A key here means the same numbers whatever they are, so that a training run that is
resumed elsewhere never trains on other tasks.
"""

from typing import TypeGuard

import jax
import jax.numpy as jnp
import numpy as np

from .._types import Array, Float, PRNGKeyArray, UInt32
from .spec import is_whole

__all__ = [
    "PRNG",
    "as_threefry",
    "check_key",
    "is_key",
    "random_words",
    "root_key",
    "uniform_shares",
]

PRNG = "threefry2x32"
ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))


def root_key(seed: int) -> PRNGKeyArray:
    """The key of a seed, threefry2x32 whatever JAX's default is.

    Raises:
        ValueError: the seed is negative or 2**32 or above, where distinct seeds would collide.
    """
    if not is_whole(seed) or not 0 <= seed < 2**32:
        raise ValueError(f"seed: {seed!r}; expected an integer in [0, 2**32)")
    words = np.array([0, seed], np.uint32)  # `jax.random.key` adds an offset that a flag sets
    return jax.random.wrap_key_data(jax.device_put(words), impl=PRNG)


def is_key(value: object) -> TypeGuard[jax.Array]:
    """Whether a value is a JAX key, or an array of keys."""
    return isinstance(value, jax.Array) and jnp.issubdtype(value.dtype, jax.dtypes.prng_key)


def check_key(key: object) -> None:
    """ValueError for what is not one JAX key."""
    if not is_key(key) or key.shape:
        raise ValueError(f"key: {key!r}; expected a JAX key, such as root_key(0)")


def as_threefry(key: PRNGKeyArray) -> PRNGKeyArray:
    """A threefry2x32 key from a key of any implementation; one that is threefry2x32 is itself."""
    if jax.random.key_impl(key) == PRNG:
        return key
    words = jax.random.key_data(key)
    folded = jax.random.wrap_key_data(words[:2], impl=PRNG)
    for word in words[2:]:
        folded = jax.random.fold_in(folded, word)
    return folded


def _threefry(key: tuple[Array, Array], high: Array, low: Array) -> Array:
    """Threefry 2x32 of counters (high, low), both halves of its result combined.

    Written out in elementwise operations: `jax.random` compiles loops on a CPU, which took five
    times as long to compile and four times as long to run (JAX 0.10.2).

    References:
        Salmon et al., Parallel random numbers: as easy as 1, 2, 3 (2011).
    """
    first, second = key
    words = (first, second, first ^ second ^ jnp.uint32(0x1BD11BDA))
    x, y = high + first, low + second
    for group in range(5):
        for rotation in ROTATIONS[group % 2]:
            x += y
            y = (y << jnp.uint32(rotation)) | (y >> jnp.uint32(32 - rotation))
            y ^= x
        x += words[(group + 1) % 3]
        y += words[(group + 2) % 3] + jnp.uint32(group + 1)
    return x ^ y


def random_words(
    key: PRNGKeyArray, high: UInt32[Array, " n"], low: UInt32[Array, " n"]
) -> UInt32[Array, " n"]:
    """Random words of 32 bits, one a counter, in one call of the generator.

    Args:
        key: threefry2x32.
        high: first half of each counter; a word depends on the key and its own counter alone.
        low: second half.

    Returns:
        Where `high` is 0 and `low` counts from 0, what `jax.random.bits` returns in its
        partitionable mode.
    """
    first, second = jax.random.key_data(key)
    return _threefry((first, second), high, low)


def uniform_shares(
    key: PRNGKeyArray, high: UInt32[Array, " n"], low: UInt32[Array, " n"]
) -> Float[Array, " n"]:
    """Random numbers, uniform in [0, 1), float32; arguments as for `random_words`.

    Where `high` is 0 and `low` counts from 0, what `jax.random.uniform` returns in its
    partitionable mode.
    """
    mantissa = random_words(key, high, low) >> jnp.uint32(9)
    one_to_two = jax.lax.bitcast_convert_type(mantissa | jnp.uint32(0x3F800000), jnp.float32)
    return one_to_two - jnp.float32(1.0)
