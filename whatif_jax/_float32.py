"""Arithmetic over the whole range of float32, where quotients and squares leave it.

A power of two changes no digit of a number, so values are brought where there is room, computed
with, and brought back. XLA's CPU programs take every subnormal number (below 1.2e-38) for zero and
may turn a division into a multiplication with a reciprocal that is one; here they are read from
their bits.
"""

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp

from ._types import Array

__all__ = [
    "Scale",
    "exponent",
    "largest",
    "ordered",
    "power_of_two",
    "scale_of",
    "scaled",
    "times_power_of_two",
]

SMALLEST = -149  # exponent of the smallest subnormal number, taken for all of them and for zero
# `scaled` brings the largest value to 2**60: sums of thousands stay far below 2**127, and what is
# taken for zero lies 2**-160 below.
TOP = 60
MOST = 150  # powers of two that values are brought up by at most; the smallest number is then 2
LIFT = 24  # powers of two that make every subnormal number normal


def _bits(values: Array) -> Array:
    return jax.lax.bitcast_convert_type(values.astype(jnp.float32), jnp.int32)


def _magnitude(values: Array) -> Array:
    """Whole numbers that order |values| as they are, subnormal ones too."""
    return _bits(values) & jnp.int32(0x7FFFFFFF)


def ordered(values: Array) -> Array:
    """Whole numbers that compare as the float32 values do, subnormal ones too. Not for NaN."""
    bits = _bits(values)
    return jnp.where(bits < 0, -_magnitude(values), bits)


def power_of_two(exponent: Array) -> Array:
    """2**exponent for exponents in [-126, 127]; beyond them, that of the nearest."""
    field = jnp.clip(exponent, -126, 127) + 127
    return jax.lax.bitcast_convert_type(field.astype(jnp.int32) << 23, jnp.float32)


def exponent(values: Array) -> Array:
    """floor(log2 |values|) as int32; `SMALLEST` for subnormal numbers and zero."""
    return _exponent(_magnitude(values))


def _exponent(magnitude: Array) -> Array:
    field = magnitude >> 23
    return jnp.where(field == 0, SMALLEST, field - 127)


def times_power_of_two(values: Array, exponent: Array) -> Array:
    """values * 2**exponent for normal values and exponents in [-378, 378]."""
    first = exponent // 3
    second = (exponent - first) // 2
    for part in (first, second, exponent - first - second):
        values *= power_of_two(part)
    return values


class Scale(NamedTuple):
    """How values are brought where there is room: scaled = value * 2**exponent."""

    exponent: Array  # int32
    power: Array  # float32
    lift: Array  # bool: values are multiplied by 2**LIFT before, subnormal ones from their bits


def largest(counted: Array, *values: Array) -> Array:
    """Largest |value| that counts, as the whole number of its bits; 0 if none does."""
    magnitude = functools.reduce(jnp.maximum, map(_magnitude, values))
    return jnp.max(jnp.where(counted, magnitude, 0))


def scale_of(largest: Array) -> Scale:
    """The scale that brings a largest magnitude, as `largest` gives it, to about 2**TOP."""
    shift = jnp.minimum(TOP - _exponent(largest), MOST)
    lift = shift >= LIFT
    return Scale(shift, power_of_two(shift - jnp.where(lift, LIFT, 0)), lift)


def scaled(values: Array, scale: Scale) -> Array:
    """values * 2**exponent, exact where the result is a normal number."""
    magnitude = _magnitude(values)
    subnormal = magnitude.astype(jnp.float32) * jnp.float32(2.0 ** (SMALLEST + LIFT))
    lifted = jnp.where(
        magnitude >> 23 == 0,
        jnp.where(_bits(values) < 0, -subnormal, subnormal),
        values * jnp.float32(2.0**LIFT),
    )
    return jnp.where(scale.lift, lifted, values) * scale.power
