"""Changes of a series that make another one of it, and masks of what is missing; pure functions.

References:
    series.toml holds shares and ranges. Mixing relative to mean magnitudes: Ansari et al., Chronos:
    learning the language of time series (2024), "TSMixup".
"""

import jax.numpy as jnp
import numpy as np

from ..._types import Array, Bool, BoolScalar, Float, FloatScalar, PRNGKeyArray
from ..keys import as_threefry, uniform_shares
from .components import cos_turns, normals_of_steps, times
from .series_family import Switched, augmentation, missingness

__all__ = ["augment", "missing_spans"]

WARPS = 3  # waves of a time warp
SPANS = 4  # missing spans at most
LARGEST = 1e30  # values beyond are brought here; scaled and shifted they stay in float32
NUMBERS = 24
_STEPS = 64  # first kind of the numbers of steps; kind 0 has those of the series


def _drawn(
    key: PRNGKeyArray, settings: Switched
) -> tuple[Array, dict[str, BoolScalar], dict[str, FloatScalar]]:
    """Uniform numbers of a series, which changes are made, and how far each goes."""
    counters = np.arange(NUMBERS + 24, dtype=np.uint32)
    numbers = uniform_shares(key, jnp.zeros(counters.shape, jnp.uint32), jnp.asarray(counters))
    rest, decided, far = numbers[:NUMBERS], numbers[NUMBERS : NUMBERS + 8], numbers[NUMBERS + 8 :]
    # sorted, as jit sorts the names of a dictionary that it is given
    made = {
        name: decided[at] < share
        for at, (name, share) in enumerate(sorted(settings.shares.items()))
    }
    extent: dict[str, FloatScalar] = {}
    for name, ends in sorted(settings.log_ranges.items()):
        low, high = jnp.log(ends)
        extent[name] = jnp.exp(low + (high - low) * far[len(extent)])
    for name, ends in sorted(settings.ranges.items()):
        extent[name] = ends[0] + (ends[1] - ends[0]) * far[len(extent)]
    return rest, made, extent


def _magnitude(series: Array) -> FloatScalar:
    """Mean of |series|, 1 where all is zero; divided first, so that a sum cannot overflow."""
    mean = jnp.sum(jnp.abs(series) * (1.0 / series.shape[0]))
    return jnp.where(mean > 1e-30, mean, 1.0)


def augment(
    series: Float[Array, " steps"],
    other: Float[Array, " steps"],
    settings: Switched | None = None,
    *,
    key: PRNGKeyArray,
) -> Float[Array, " steps"]:
    """A series warped, mixed, reflected, scaled, shifted and noisy, each or not. Caller vmaps.

    Args:
        series: finite, in its unit.
        other: what it may be mixed with, finite, in any unit.
        settings: `augmentation()` by default.
        key: used once.

    Returns:
        finite values; within 1e-30 and 1e30 a series for which no change is drawn is itself.
    """
    key = as_threefry(key)
    numbers, made, extent = _drawn(key, augmentation() if settings is None else settings)
    values = jnp.clip(series, -LARGEST, LARGEST)
    values = jnp.where(made["warp"], _warped(values, numbers, extent), values)
    own, others = _magnitude(values), jnp.clip(other, -LARGEST, LARGEST)
    share = extent["mixing"]
    # quotients first: a product of values may leave float32
    mixed = ((1.0 - share) * (values / own) + share * (others / _magnitude(others))) * own
    values = jnp.where(made["mixing"], mixed, values)
    low, high = jnp.min(values), jnp.max(values)
    values = jnp.where(made["sign"], low + (high - values), values)
    values = jnp.where(made["scale"], values * extent["scale"], values)
    size = _magnitude(values)
    centre = jnp.sum(values * (1.0 / values.shape[0]))
    deviation = jnp.sum(jnp.abs(values - centre) * (1.0 / values.shape[0]))
    values = jnp.where(made["shift"], values + extent["shift"] * size, values)
    normal = normals_of_steps(key, _STEPS, 1, values.shape[0])[0]
    return jnp.where(made["noise"], values + extent["noise"] * deviation * normal, values)


def _warped(values: Array, numbers: Array, extent: dict[str, FloatScalar]) -> Array:
    """The series read at places that advance smoothly, now faster, now slower, linear between."""
    steps = values.shape[0]
    share = times(steps) * (1.0 / max(steps - 1, 1))
    size, phase = numbers[:WARPS], numbers[WARPS : 2 * WARPS]
    size = extent["warp"] * size / (1e-3 + jnp.sum(size))  # speed stays above 1 - warp
    place = share
    for wave in range(WARPS):
        turns = (wave + 1) * share + phase[wave] - 0.25  # of a sine
        moved = cos_turns(turns) - cos_turns(phase[wave] - 0.25)
        place += size[wave] * moved / np.float32(2.0 * np.pi * (wave + 1))
    start = (1.0 - extent["zoom"]) * numbers[2 * WARPS]
    place = (start + extent["zoom"] * jnp.clip(place, 0.0, 1.0)) * (steps - 1)
    before = jnp.clip(place.astype(jnp.int32), 0, max(steps - 2, 0))
    here, ahead = (
        values.at[before + n].get(mode="promise_in_bounds", wrap_negative_indices=False)
        for n in (0, min(1, steps - 1))
    )
    ahead_share = jnp.clip(place - before.astype(jnp.float32), 0.0, 1.0)
    return here * (1.0 - ahead_share) + ahead * ahead_share


def missing_spans(
    steps: int, settings: Switched | None = None, *, key: PRNGKeyArray
) -> Bool[Array, " steps"]:
    """True where a step is missing: up to four spans, and single steps. Pure; vmap over keys.

    The first step is never missing.

    Args:
        steps: static.
        settings: `missingness()` by default.
        key: used once; with the key of `augment` its numbers are the same ones.
    """
    key = as_threefry(key)
    numbers, made, extent = _drawn(key, missingness() if settings is None else settings)
    step = times(steps)
    spans = jnp.floor(numbers[0] * SPANS) + 1.0
    missing = jnp.zeros(steps, bool)
    for span in range(SPANS):
        # each span another length: a share of the longest drawn
        length = extent["span"] * (0.3 + 0.7 * numbers[2 + span]) * steps
        start = numbers[2 + SPANS + span] * steps
        inside = (step >= start) & (step < start + jnp.maximum(length, 1.0))
        missing |= inside & made["spans"] & (span < spans)
    low = jnp.arange(steps, dtype=jnp.uint32)
    single = uniform_shares(key, jnp.full_like(low, _STEPS), low) < extent["points"]
    return (missing | (single & made["points"])) & (step > 0)
