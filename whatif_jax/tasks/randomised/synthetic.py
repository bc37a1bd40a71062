"""Synthetic series without interventions, a pure function of a key.

A series is a sum of components (trend, seasons, a profile of the day, autoregressive noise, a
random walk, a Gaussian process, level shifts), each there or not, taken by a link to the values of
one kind of quantity (a level with small variation, positive, counts, bounded), perhaps switched on
and off. All are computed, and what is not there weighs nothing: under vmap a branch would compute
them too.

References:
    series.toml holds every number. Gaussian processes: Rahimi and Recht, Random features for
    large-scale kernel machines (2007).
"""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from ..._types import Array, Bool, BoolScalar, Float, FloatScalar, IntScalar, PRNGKeyArray
from ..._xla import apart_anywhere
from ..keys import as_threefry, uniform_shares
from ..named_numbers import by_name, counters_of
from .components import (
    decaying_sum,
    normal_pair,
    normals_of_steps,
    steps_since,
    sum_of_waves,
    times,
    values_of_knots,
)
from .series_family import COMPONENTS, KERNELS, LINKS, SeriesFamily, series_family

__all__ = [
    "SeriesSpec",
    "draw_series",
    "series_from",
    "synthetic_series",
]

SEASONS = 3
HARMONICS = 6  # of a season
FEATURES = 32  # waves of a Gaussian process
GATE_FEATURES = 16
KNOTS = 24  # of a profile
CHANGES = 4  # of a level or a slope
POISSON = 12  # jumps beyond have a chance below 1e-6 at the mean that periodic_length allows
WEEK, WORKDAYS = 7, 5  # periods
LARGEST_SUM = 8.0  # standard deviations; no link leaves float32 below it
LARGEST = 1e9

# Numbers drawn for a series: how many of each kind. A number's counter is (kind, index).
_COUNTS = dict(
    components=len(COMPONENTS), weights=len(COMPONENTS), switches=32, log_ranges=32, ranges=32,
    link=1, kernel=1, period=SEASONS + 2, typical=2 * (SEASONS + 2), places=CHANGES,
    jumps=2 * CHANGES, slopes=2 * CHANGES, harmonics=2 * SEASONS * HARMONICS, features=4 * FEATURES,
    jumps_up=FEATURES, jumps_down=FEATURES, stretch=FEATURES, gate=4 * GATE_FEATURES, knots=KNOTS,
    phases=4,
)  # fmt: skip
_STEPS = 64  # first kind of the numbers of steps


class Waves(NamedTuple):
    """A sum of cosines."""

    amplitude: Array  # [waves]
    frequency: Array  # [waves], turns a step
    phase: Array  # [waves], turns


class SeriesSpec(eqx.Module):
    """All that is drawn for one series, except the numbers of its steps."""

    weights: Float[Array, " components"]  # in the order of COMPONENTS; 0 where not there
    link: IntScalar  # index into LINKS
    kernel: IntScalar  # index into KERNELS, of the Gaussian process
    switches: dict[str, BoolScalar]
    drawn: dict[str, FloatScalar]  # a number from each range of the family
    seasons: Waves  # variance 1 together
    process: Waves  # variance 1 on average over draws
    gate: Waves
    period: FloatScalar  # of the profile, steps
    phase: FloatScalar  # of the profile, turns
    weekday: FloatScalar  # of the first period, in [0, 7)
    knots: Float[Array, " knots"]  # of the profile
    places: Float[Array, " changes"]  # of changes, in [0, 1]
    jumps: Float[Array, " changes"]  # of the level
    slope: FloatScalar  # of the trend over the whole series
    slopes: Float[Array, " changes"]  # what changes add to it


def synthetic_series(
    steps: int, family: SeriesFamily | None = None, *, key: PRNGKeyArray
) -> Float[Array, " steps"]:
    """One series. Pure; vmap over keys.

    Args:
        steps: static.
        family: the numbers by which it is drawn; those of series.toml by default.
        key: used once.

    Returns:
        finite values of magnitudes from 1e-8 to 1e9.
    """
    spec = apart_anywhere(lambda: draw_series(family, key=key))
    return series_from(spec, steps, key=key)


def _numbers(key: PRNGKeyArray) -> dict[str, Array]:
    """Uniform numbers of a series by kind."""
    shapes = {name: (count,) for name, count in _COUNTS.items()}
    kinds = {name: number for number, name in enumerate(_COUNTS)}
    high, low = counters_of(shapes, kinds, 1)
    return by_name(uniform_shares(key, jnp.asarray(high), jnp.asarray(low)), shapes)


def _within(share: Array, ends: Array) -> Array:
    return ends[0] + (ends[1] - ends[0]) * share


def _log_within(share: Array, ends: Array) -> Array:
    return jnp.exp(_within(share, jnp.log(ends)))


def _choice(share: Array, shares: Array) -> Array:
    """Index of the kind that a uniform number picks."""
    below = jnp.sum(share >= jnp.cumsum(shares)[:-1], axis=-1)
    return below.astype(jnp.int32)


def _pick(values: Array, share: Array) -> Array:
    count = values.shape[0]
    return values[jnp.minimum((share * count).astype(jnp.int32), count - 1)]


def draw_series(family: SeriesFamily | None = None, *, key: PRNGKeyArray) -> SeriesSpec:
    """Draw what a series is made of; `series_from` with the same key makes it."""
    family = series_family() if family is None else family
    numbers = _numbers(as_threefry(key))
    switches = {
        name: numbers["switches"][at] < share
        for at, (name, share) in enumerate(sorted(family.switches.items()))
    }
    drawn = {
        name: draw(numbers[kind][at], ends)
        for kind, draw in (("log_ranges", _log_within), ("ranges", _within))
        for at, (name, ends) in enumerate(sorted(getattr(family, kind).items()))
        if name not in ("period", "weight")
    }
    constant = switches["constant"]
    there = (numbers["components"] < family.components) & ~constant
    weights = jnp.where(there, _within(numbers["weights"], family.ranges["weight"]), 0.0)
    drawn["noise"] = jnp.where(constant, 1.0, drawn["noise"])
    weights *= jax.lax.rsqrt(jnp.maximum(jnp.sum(weights * weights), 1e-6))
    switches["noise"] |= ~jnp.any(there)  # else nothing would ever change
    for name in ("pulses", "intermittent", "resolution"):
        switches[name] &= ~constant

    which, typical = numbers["typical"].reshape(2, -1)
    periods = jnp.where(
        which < family.switches["typical_period"],
        _pick(family.typical_periods, typical),
        _log_within(numbers["period"], family.log_ranges["period"]),
    )
    kernel = _choice(numbers["kernel"], family.kernels)
    link = jnp.where(constant, LINKS.index("level"), _choice(numbers["link"], family.links)).astype(
        jnp.int32
    )
    jump, _ = normal_pair(*numbers["jumps"].reshape(2, -1))
    slopes, extra = normal_pair(*numbers["slopes"].reshape(2, -1))
    return SeriesSpec(
        weights=weights,
        link=link,
        kernel=kernel,
        switches=switches,
        drawn=drawn,
        seasons=_seasons(numbers, periods[:SEASONS], drawn["harmonic_decay"]),
        process=_process(numbers, kernel, periods[SEASONS], drawn),
        gate=_gate(numbers, switches["cycling"], drawn),
        period=periods[SEASONS + 1],
        phase=numbers["phases"][0],
        weekday=jnp.floor(numbers["phases"][1] * WEEK),
        knots=_knots(numbers["knots"], switches["on_off_profile"], drawn),
        places=numbers["places"],
        jumps=jump,
        slope=extra[0],
        slopes=jnp.where(switches["piecewise"], slopes, 0.0),
    )


def _seasons(numbers: dict[str, Array], periods: Array, decay: Array) -> Waves:
    """Up to three seasons of six harmonics, the second and third smaller; variance 1 together."""
    radius, turn = numbers["harmonics"].reshape(2, SEASONS, HARMONICS)
    harmonic = 1.0 + times(HARMONICS)
    falling = jnp.exp(-decay * jnp.log(harmonic))
    share = jnp.asarray(np.array([1.0, 0.5, 0.25], np.float32))
    amplitude = (0.1 + radius) * falling[None, :] * share[:, None]
    frequency = harmonic[None, :] / periods[:, None]
    amplitude = jnp.where(frequency <= 0.5, amplitude, 0.0)  # two steps a turn at least
    amplitude *= jax.lax.rsqrt(jnp.maximum(0.5 * jnp.sum(amplitude * amplitude), 1e-6))
    return Waves(amplitude.reshape(-1), frequency.reshape(-1), turn.reshape(-1))


def _poisson(share: Array, mean: Array) -> Array:
    """A Poisson number, as float32, from a uniform one."""
    number = np.arange(POISSON)
    log_factorial = np.cumsum(np.log(np.maximum(number, 1)))
    log_chance = jnp.log(mean) * jnp.asarray(number, jnp.float32) - mean
    chance = jnp.exp(log_chance - jnp.asarray(log_factorial, jnp.float32))
    total, result = jnp.float32(0.0), jnp.zeros_like(share)
    for at in range(POISSON):
        total += chance[at]
        result += jnp.where(share >= total, 1.0, 0.0)
    return result


def _process(
    numbers: dict[str, Array], kernel: Array, period: Array, drawn: dict[str, Array]
) -> Waves:
    """Random Fourier features: frequencies from the kernel's spectrum, normal coefficients.

    The periodic kernel exp(-2 sin(pi r / period)**2 / length**2) has the spectrum of a difference
    of two Poisson numbers, a product of kernels that of a sum of frequencies, and the rational
    quadratic kernel 1 / (1 + r**2 / (2 length**2)) that of a normal number times the root of an
    exponential one.
    """
    radius, turn, size, phase = numbers["features"].reshape(4, FEATURES)
    normal, _ = normal_pair(radius, turn)
    smooth = normal / (2.0 * np.pi * drawn["kernel_length"])
    stretch = jnp.sqrt(jnp.maximum(-jnp.log(1.0 - numbers["stretch"]), 0.0))
    mean = 0.5 / (drawn["periodic_length"] * drawn["periodic_length"])
    turns = _poisson(numbers["jumps_up"], mean) - _poisson(numbers["jumps_down"], mean)
    periodic = turns / period
    frequency = jnp.select(
        [kernel == KERNELS.index(name) for name in KERNELS[:-1]],
        [smooth, periodic, periodic + smooth],
        smooth * stretch,
    )
    amplitude = jnp.sqrt(jnp.maximum(-2.0 * jnp.log(1.0 - size), 0.0) / FEATURES)
    return Waves(amplitude, frequency, phase)


def _gate(numbers: dict[str, Array], cycling: Array, drawn: dict[str, Array]) -> Waves:
    """A Gaussian process, one wave of it a cycle where it cycles; on where above a threshold."""
    radius, turn, size, phase = numbers["gate"].reshape(4, GATE_FEATURES)
    normal, _ = normal_pair(radius, turn)
    frequency = normal / (2.0 * np.pi * drawn["gate_length"])
    amplitude = jnp.sqrt(jnp.maximum(-2.0 * jnp.log(1.0 - size), 0.0) / GATE_FEATURES)
    regular = jnp.where(cycling, drawn["cycle_regularity"], 0.0)
    amplitude *= jnp.sqrt(1.0 - regular)
    cycle = jnp.arange(GATE_FEATURES) == 0
    amplitude = jnp.where(cycle & cycling, jnp.sqrt(2.0 * regular), amplitude)
    frequency = jnp.where(cycle & cycling, 1.0 / drawn["cycle"], frequency)
    return Waves(amplitude, frequency, phase)


def _knots(shares: Array, on_off: Array, drawn: dict[str, Array]) -> Array:
    """A profile's knots, mean 0 and variance 1 unless they hardly differ."""
    peaks = jnp.exp(drawn["knot_power"] * jnp.log(jnp.maximum(shares, 1e-6)))
    # blocks: neighbours share a number
    blocks = jnp.where(jnp.repeat(shares[::3], 3) < drawn["duty"], 1.0, 0.0)
    knots = jnp.where(on_off, blocks, peaks)
    knots -= jnp.mean(knots)
    return knots / jnp.maximum(jnp.sqrt(jnp.mean(knots * knots)), 0.1)


def series_from(spec: SeriesSpec, steps: int, *, key: PRNGKeyArray) -> Float[Array, " steps"]:
    """The series of a spec.

    Args:
        spec: of `draw_series`.
        steps: static.
        key: the one that the spec was drawn with, or another for other noise.
    """
    innovation, walk, noise, spike = apart_anywhere(
        lambda: normals_of_steps(as_threefry(key), _STEPS, 2, steps)
    )
    drawn, switches = spec.drawn, spec.switches

    total = apart_anywhere(lambda: _total(spec, innovation, walk, noise, spike, steps))
    threshold = -jax.scipy.special.ndtri(drawn["on_share"])
    on = sum_of_waves(*spec.gate, steps) >= threshold
    return _linked(spec, total, innovation, on | ~switches["intermittent"])


def _total(
    spec: SeriesSpec, innovation: Array, walk: Array, noise: Array, spike: Array, steps: int
) -> Array:
    """The sum of all components, within LARGEST_SUM."""
    drawn, switches = spec.drawn, spec.switches
    weight = dict(zip(COMPONENTS, spec.weights, strict=True))
    total = sum_of_waves(
        jnp.concatenate(
            [
                spec.seasons.amplitude * weight["seasons"],
                spec.process.amplitude * weight["gaussian_process"],
            ]
        ),
        jnp.concatenate([spec.seasons.frequency, spec.process.frequency]),
        jnp.concatenate([spec.seasons.phase, spec.process.phase]),
        steps,
    )
    total += weight["profile"] * _profile(spec, steps)
    total += weight["trend"] * _trend(spec, steps)
    total += weight["level_shifts"] * steps_since(spec.jumps, spec.places, steps)
    total += weight["autoregressive"] * _autoregressive(
        innovation, 1.0 / drawn["memory"], drawn["moving_average"]
    )
    walked = decaying_sum(walk, jnp.float32(0.0)) * np.float32(steps**-0.5)
    total += weight["random_walk"] * walked
    # spikes where a normal number is above a threshold; their size from how far it is
    threshold = -jax.scipy.special.ndtri(drawn["pulse_rate"])
    above = spike - threshold
    pulses = jnp.where(above > 0, 0.5 + threshold * above, 0.0)
    height = jnp.where(switches["pulses"], drawn["pulse_height"], 0.0)
    total += height * decaying_sum(pulses, 1.0 / drawn["pulse_memory"])
    total += jnp.where(switches["noise"], drawn["noise"], 0.0) * noise
    return jnp.clip(total, -LARGEST_SUM, LARGEST_SUM)


def _profile(spec: SeriesSpec, steps: int) -> Array:
    turns = times(steps) / spec.period + spec.phase
    values = values_of_knots(spec.knots, turns, spec.switches["held_profile"])
    day = jnp.floor(turns) + spec.weekday
    of_week = day - WEEK * jnp.floor(day * (1.0 / WEEK) + 1e-4)
    low = jnp.min(spec.knots)
    lower = (of_week >= WORKDAYS - 0.5) & spec.switches["weekend"]
    return jnp.where(lower, low + spec.drawn["weekend"] * (values - low), values)


def _trend(spec: SeriesSpec, steps: int) -> Array:
    share = times(steps) * (1.0 / steps)
    total = spec.slope * (share - 0.5)
    for change in range(CHANGES):
        total += spec.slopes[change] * jnp.maximum(share - spec.places[change], 0.0)
    return total * np.float32(np.sqrt(12.0))


def _autoregressive(innovation: Array, rate: Array, moving_average: Array) -> Array:
    """A stationary process of variance 1 (without its moving average) from its first step on."""
    first = jnp.arange(innovation.shape[0]) == 0
    gain = jnp.where(first, 1.0, jnp.sqrt(-jnp.expm1(-2.0 * rate)))
    return decaying_sum(innovation * gain, rate) + moving_average * innovation


def _linked(spec: SeriesSpec, total: Array, normal: Array, on: Bool[Array, " steps"]) -> Array:
    """Values of the quantity that the link stands for, zero or little where it is off."""
    drawn, switches = spec.drawn, spec.switches

    def linked(*names: str) -> Array:
        return jnp.any(jnp.stack([spec.link == LINKS.index(name) for name in names]))

    bounded, count = linked("unit", "percent"), linked("count")
    softplus = linked("softplus")
    bent = drawn["bend"] * total
    from_offset = drawn["offset"] + total
    at_limit = drawn["bounded_level"] + drawn["bounded_bend"] * total
    power = jnp.exp(jnp.where(bounded, -at_limit, jnp.where(softplus, from_offset, bent)))
    mean = drawn["mean_count"] * power
    spread = jnp.where(switches["constant"], drawn["constant_spread"], drawn["spread"])
    cut = jnp.clip(0.5 + 0.25 * at_limit, 0.0, 1.0)
    values = jnp.select(
        [linked(name) for name in LINKS[:5]] + [count],
        [
            1.0 + spread * total,
            total,
            power,
            jnp.maximum(from_offset, 0.0),
            jnp.log1p(power),
            jnp.round(jnp.maximum(mean + jnp.sqrt(mean) * normal, 0.0)),
        ],
        jnp.where(switches["saturated"], cut, 1.0 / (1.0 + power)),
    )
    unit = jnp.where(linked("percent"), 100.0, jnp.where(linked("unit"), 1.0, drawn["magnitude"]))
    unit = jnp.where(count, 1.0, unit)
    off = jnp.where(switches["standby"], drawn["standby"], 0.0)
    off = jnp.where(count, jnp.round(off * drawn["mean_count"]), off)
    values = jnp.where(on, values, off)
    finest = drawn["resolution"] * jnp.where(linked("level"), spread, 0.3)
    rounded = jnp.round(values / finest) * finest
    values = jnp.where(switches["resolution"] & ~count, rounded, values)
    lowest = jnp.where(linked("level", "around_zero"), -LARGEST, 0.0)
    highest = jnp.where(bounded, 1.0, LARGEST)
    return jnp.clip(values, lowest, highest) * unit
