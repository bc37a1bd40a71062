"""Events of a randomised task: where they lie, what factors they have, and what is seen of them.

Two sets of factors are kept: those *shown* by the covariates, and those *felt* by the target, which
differ where a change of regime strengthens or weakens the response. Felt events may come late.
"""

from typing import NamedTuple

import jax.numpy as jnp

from ..._types import Array, Bool, Float, Int
from ..draw import below
from .names import SHAPES
from .numbers import Numbers, between, chosen, log_between
from .prior import Prior

__all__ = ["Events", "Timing", "deviations", "draw_events", "felt_reach"]

NEVER = 1e9  # the start of an event that is padding; steps are exact in float32


class Timing(NamedTuple):
    """How the target's events lie in time against the covariates': lag and time constant."""

    lag: Float[Array, " K"]  # steps
    decay: Float[Array, ""]  # steps; 0 where effects set in and end at once


class Events(NamedTuple):
    """Events of the history in order, then the one that fills the future."""

    starts: Float[Array, "E+1 K"]  # step of the window; `NEVER` where it is padding
    lengths: Float[Array, " E+1"]  # steps
    shown: Float[Array, "E+1 K"]  # factors of the covariates
    felt: Float[Array, "E+1 K"]  # factors that the response is of
    shapes: Int[Array, " K"]  # number in `names.SHAPES`
    n_events: Int[Array, ""]  # of the history


def draw_events(
    numbers: Numbers,
    direct: Bool[Array, " K"],
    novel: Bool[Array, ""],
    overlapping: Bool[Array, ""],
    regime: Bool[Array, ""],
    context: int,
    horizon: int,
    prior: Prior,
) -> Events:
    """Layout, factors and future of one task from its numbers."""
    starts, lengths, n_events = _layout(numbers, overlapping, context, prior)
    slots = starts.shape[0]
    shown = _past_factors(numbers, direct, prior)
    event = jnp.arange(slots)
    real = (event < n_events)[:, None]
    shown = jnp.where(real, shown, 1.0)
    replayed = shown[below(numbers["replayed"], n_events)]
    future = jnp.where(novel, _novel_factors(numbers, shown, direct, prior), replayed)
    shown = jnp.concatenate([shown, future[None]])
    # constants change between two events, so that some of both are in the history
    change = 1 + below(numbers["change"], jnp.maximum(n_events - 1, 1))
    changed = regime & (n_events > 1) & (jnp.arange(slots + 1) >= change)
    strength = log_between(numbers["strength"], prior.regime.strength)
    exponent = jnp.where(changed[:, None], strength, 1.0)
    logs = jnp.clip(exponent * jnp.log(shown), *LOG_LIMITS)
    felt = jnp.where(changed[:, None], jnp.exp(logs), shown)
    k = direct.shape[0]
    one_shape = numbers["one_shape"] < prior.events.one_shape
    share = jnp.where(one_shape, numbers["shape"][:1], numbers["shape"])
    return Events(
        starts=jnp.concatenate(
            [jnp.where(real, starts, NEVER), jnp.full((1, k), context, jnp.float32)]
        ),
        lengths=jnp.concatenate([lengths, jnp.full(1, horizon, jnp.float32)]),
        shown=shown,
        felt=felt,
        shapes=chosen(share, prior.events.shapes, SHAPES),
        n_events=n_events,
    )


# log of the factors that a strengthened response may be of; others are inside these by the prior
LOG_LIMITS = (-7.0, 4.5)


def _layout(
    numbers: Numbers, overlapping: Array, context: int, prior: Prior
) -> tuple[Array, Array, Array]:
    """Starts [E, K], lengths [E] and number of the events of a history."""
    events = prior.events
    shortest = float(min(events.shortest, max(context // 4, 1)))
    first = jnp.floor(context * between(numbers["prefix"], events.prefix))
    room = context * (1.0 - between(numbers["end"], events.end)) - first
    room = jnp.maximum(room, shortest + 1.0)
    most = jnp.floor(room / (shortest + 1.0))
    wanted = jnp.floor(log_between(numbers["n_events"], (events.number[0], events.number[1] + 1)))
    n_events = jnp.clip(wanted, 1.0, jnp.minimum(most, float(events.number[1])))
    stride = jnp.floor(room / n_events)
    length = jnp.floor(context * log_between(numbers["length"], _above_zero(events.length)))
    # a fifth of a slot stays free, so that there is something to compare with between events
    longest = jnp.maximum(jnp.floor(0.8 * stride), shortest)
    length = jnp.clip(length, shortest, jnp.minimum(longest, stride))
    event = jnp.arange(events.number[1], dtype=jnp.float32)
    unequal = numbers["unequal"] < events.unequal
    share = jnp.where(unequal, between(numbers["event_length"], (0.4, 1.0)), 1.0)
    lengths = jnp.maximum(jnp.ceil(length * share), jnp.minimum(shortest, length))
    spare = jnp.maximum(stride - lengths - 1.0, 0.0)
    irregular = numbers["irregular"] < events.irregular
    moved = jnp.where(irregular, jnp.floor(spare * numbers["spare"]), 0.0)
    apart = jnp.minimum(spare - moved, jnp.floor(prior.overlapping.shift * lengths))
    shift = jnp.where(overlapping, jnp.floor(apart[:, None] * numbers["shift"]), 0.0)
    starts = (first + event * stride + moved)[:, None] + shift
    return starts, lengths, n_events.astype(jnp.int32)


def _above_zero(ends: tuple[float, float]) -> tuple[float, float]:
    return max(ends[0], 1e-4), ends[1]


def _past_factors(numbers: Numbers, direct: Array, prior: Prior) -> Array:
    """Factors of all slots [E, K]."""
    factors = prior.factors
    span = log_between(numbers["span"], factors.span)
    one_way = numbers["one_way"] < factors.one_way
    same_dose = numbers["same_dose"] < factors.same_dose
    up = jnp.where(one_way, numbers["way"], numbers["up"]) < 0.5  # [E], or one for all
    up = jnp.broadcast_to(up, numbers["up"].shape)[:, None]
    together = numbers["together"] < factors.together
    raised = jnp.where(together, up == direct[None, :], numbers["alone"] < 0.5)
    dose = jnp.where(same_dose, numbers["dose"][:1], numbers["dose"])
    size = span * (factors.least + (1.0 - factors.least) * dose)
    return jnp.exp(jnp.where(raised, size, -size))


def _novel_factors(numbers: Numbers, shown: Array, direct: Array, prior: Prior) -> Array:
    """Factors [K] beyond all that were seen; padding counts as the base."""
    future = prior.future
    raised = (numbers["raising"] < future.raising) == direct
    beyond = jnp.max(shown, axis=0, initial=1.0) + log_between(
        numbers["novel_factor"], future.raise_
    )
    under = jnp.min(shown, axis=0, initial=1.0) * between(numbers["novel_factor"], future.shrink)
    return jnp.where(raised, beyond, under)


def felt_reach(events: Events) -> tuple[Float[Array, " K"], Float[Array, " K"]]:
    """Smallest and largest deviation f - 1 that each covariate's response meets; <= 0 and >= 0."""
    low = jnp.min(events.felt, axis=0, initial=1.0) - 1.0
    return low, jnp.max(events.felt, axis=0, initial=1.0) - 1.0


def _share(shapes: Array, place: Array) -> Array:
    """How much of an event's deviation applies at a place in (0, 1) of it; no transcendentals."""
    hump = 4.0 * place * (1.0 - place)
    bell = hump * hump
    bell *= bell
    ramp = jnp.minimum(1.0, 4.0 * jnp.minimum(place, 1.0 - place))
    share = jnp.ones_like(place)
    for name, value in (
        ("ramp", ramp), ("hump", hump), ("bell", bell), ("rise", place), ("fall", 1.0 - place),
    ):  # fmt: skip
        share = jnp.where(shapes == SHAPES.index(name), value, share)
    return share


def deviations(
    events: Events, steps: int, timing: Timing
) -> tuple[Float[Array, "K T+H"], Float[Array, "K T+H"]]:
    """f - 1 at every step: of the covariates as shown, and as felt by the target.

    Among a covariate's events the last that began holds. Selections, one event after another, are
    done many steps at once; looking an event up by its number is not.
    """
    step = jnp.arange(steps, dtype=jnp.float32)[None, :]
    lagged = step - timing.lag[:, None]
    k = events.starts.shape[1]
    zero = jnp.zeros((k, steps), jnp.float32)
    shown = [zero, zero, zero]  # since the start, 1 / length, deviation
    felt = [zero, zero, zero]
    shapes = events.shapes[:, None]
    for each in range(events.starts.shape[0]):
        start = events.starts[each][:, None]
        inverse = 1.0 / events.lengths[each]
        for found, time, factors in ((shown, step, events.shown), (felt, lagged, events.felt)):
            begun = time >= start
            found[0] = jnp.where(begun, time - start, found[0])
            found[1] = jnp.where(begun, inverse, found[1])
            found[2] = jnp.where(begun, factors[each][:, None] - 1.0, found[2])
    place = (shown[0] + 0.5) * shown[1]
    at_covariate = jnp.where(place < 1.0, _share(shapes, place) * shown[2], 0.0)
    place = (felt[0] + 0.5) * felt[1]
    inside = place < 1.0
    decays = timing.decay > 0.0
    length = 1.0 / jnp.where(felt[1] > 0.0, felt[1], 1.0)
    since = jnp.where(inside, felt[0] + 1.0, felt[0] + 1.0 - length)
    left = jnp.where(decays, jnp.exp(-since / jnp.where(decays, timing.decay, 1.0)), 0.0)
    # what a shape ends with decays after it
    last = (shapes == SHAPES.index("step")) | (shapes == SHAPES.index("rise"))
    after = jnp.where(last, left, 0.0)
    at_target = felt[2] * jnp.where(inside, _share(shapes, place) * (1.0 - left), after)
    return at_covariate, at_target
