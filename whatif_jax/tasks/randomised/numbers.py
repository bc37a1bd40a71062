"""The random numbers of one task, drawn in one call, each named by what it decides.

A number depends on the key, its name, its event and its covariate alone, so that padding, or one
more event or covariate, changes none of the others.
"""

from collections.abc import Mapping

import jax.numpy as jnp
import numpy as np

from ..._types import Array, BoolScalar, PRNGKeyArray
from ..._xla import apart
from ..keys import uniform_shares
from ..named_numbers import by_name, counters_of

__all__ = ["Numbers", "between", "chosen", "draw_numbers", "log_between"]

Numbers = dict[str, Array]

OF_TASK = (
    "k", "novel", "n_events", "length", "prefix", "end", "irregular", "unequal", "one_shape",
    "one_way", "way", "together", "same_dose", "replayed", "raising",
    "additive", "undamped", "damping", "floor", "offset", "offset_scale", "offset_exponent",
    "overhead", "overhead_slope", "overhead_sign",
    "irrelevant_share", "follower", "amplitude", "room", "limits",
    "lag", "decay", "change", "noise_amount", "wander_amount",
)  # fmt: skip
OF_COVARIATE = (
    "base", "direct", "shape", "span", "novel_factor", "form", "size", "second_size", "exponent",
    "coefficient", "acts", "weight", "bound", "irrelevant", "strength", "shift", "shift_step",
    "slow", "slow_phase", "fast", "fast_phase",
)  # fmt: skip
OF_EVENT = ("up", "event_length", "spare")
OF_BOTH = ("dose", "alone")
SEVERAL = {"hard_cases": 16}
MOST = 64  # covariates, events: counters of one name lie that far apart

_KIND = {
    name: number
    for number, name in enumerate((*OF_TASK, *OF_COVARIATE, *OF_EVENT, *OF_BOTH, *SEVERAL))
}


def shapes_of(k: int, events: int) -> dict[str, tuple[int, ...]]:
    """The shape of every number for K covariates and E events."""
    return {
        **dict.fromkeys(OF_TASK, ()),
        **dict.fromkeys(OF_COVARIATE, (k,)),
        **dict.fromkeys(OF_EVENT, (events,)),
        **dict.fromkeys(OF_BOTH, (events, k)),
        **{name: (count,) for name, count in SEVERAL.items()},
    }


def draw_numbers(key: PRNGKeyArray, k: int, events: int, true: BoolScalar) -> Numbers:
    """All numbers of one task by name, uniform in [0, 1); threefry2x32 key, `true` for `apart`."""
    shapes = shapes_of(k, events)
    # counters by place in a fixed width, not in the arrays' own
    counters = [jnp.asarray(word) for word in counters_of(shapes, _KIND, MOST)]
    return by_name(apart(true, lambda: uniform_shares(key, *counters)), shapes)


def between(share: Array, ends: tuple[float, float]) -> Array:
    """Uniform between two ends."""
    low, high = ends
    return low + (high - low) * share


def log_between(share: Array, ends: tuple[float, float]) -> Array:
    """Log-uniform between two ends above 0."""
    low, high = (float(np.log(end)) for end in ends)
    return jnp.exp(low + (high - low) * share)


def chosen(share: Array, table: Mapping[str, float], names: tuple[str, ...]) -> Array:
    """Number of a kind in `names`, drawn by a table of shares."""
    weights = np.array([table.get(name, 0.0) for name in names])
    ends = np.cumsum(weights / weights.sum())
    last = int(np.flatnonzero(weights)[-1])
    index = sum((share >= float(np.float32(end))).astype(jnp.int32) for end in ends[:-1])
    return jnp.minimum(index, last)
