"""Events of a randomised task: where they lie, what factors they have, and what is seen of them.

Two sets of factors are kept: those *shown* by the covariates, and those *felt* by the target, which
differ where a change of regime strengthens or weakens the response. Felt events may come late.
"""

from typing import NamedTuple

import jax.numpy as jnp

from ..._types import Array, Bool, BoolScalar, Float, Int, UInt32
from ..._xla import apart, at
from ..draw import below
from .names import SHAPES
from .numbers import Numbers, between, chosen, log_between
from .prior import Prior

__all__ = ["NEVER", "Events", "Timing", "deviations", "draw_events", "felt_reach", "shift_of"]

NEVER = 1e9  # the start of an event that is padding; steps are exact in float32


class Timing(NamedTuple):
    """How the target's events lie in time against the covariates': lag and time constant."""

    lag: Float[Array, "*batch"]  # steps
    decay: Float[Array, "*batch"]  # steps; 0 where effects set in and end at once


class Events(NamedTuple):
    """Events of the history in order, then the one that fills the future."""

    starts: Float[Array, "*batch E+1"]  # step of the window; `NEVER` where it is padding
    lengths: Float[Array, "*batch E+1"]  # steps
    apart: Int[Array, "*batch E+1"]  # most steps that a covariate's window begins later by
    own: UInt32[Array, "*batch 2 K"]  # what decides by how many of them (`shift_of`)
    shown: Float[Array, "*batch E+1 K"]  # factors of the covariates
    felt: Float[Array, "*batch E+1 K"]  # factors that the response is of
    shapes: Int[Array, "*batch K"]  # number in `names.SHAPES`
    n_events: Int[Array, "*batch"]  # of the history


def shift_of(event: Array, apart: Array, own: UInt32[Array, "2 K"]) -> Float[Array, "K n"]:
    """Steps [K, n] that covariates' windows begin after those of n events, in 0 .. apart.

    Whole numbers throughout, so that it is the same wherever it is computed.
    """
    mixed = own[0][:, None] + own[1][:, None] * (event.astype(jnp.uint32) + jnp.uint32(1))[None, :]
    share = mixed >> jnp.uint32(16)
    steps = (share * (apart.astype(jnp.uint32) + jnp.uint32(1))[None, :]) >> jnp.uint32(16)
    return steps.astype(jnp.int32).astype(jnp.float32)


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
    starts, lengths, later, n_events = _layout(numbers, overlapping, context, prior)
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
    exponent = jnp.where(changed[:, None], strength[None, :], 1.0)
    logs = jnp.clip(exponent * jnp.log(shown), *LOG_LIMITS)
    felt = jnp.where(changed[:, None], jnp.exp(logs), shown)
    whole = jnp.float32(2**16)
    own = [(numbers[name] * whole).astype(jnp.uint32) for name in ("shift", "shift_step")]
    one_shape = numbers["one_shape"] < prior.events.one_shape
    share = jnp.where(one_shape, numbers["shape"][:1], numbers["shape"])
    return Events(
        starts=jnp.append(jnp.where(event < n_events, starts, NEVER), jnp.float32(context)),
        lengths=jnp.append(lengths, jnp.float32(horizon)),
        apart=jnp.append(later, jnp.int32(0)),
        own=jnp.stack([own[0] << jnp.uint32(16), (own[1] << jnp.uint32(16)) | jnp.uint32(1)]),
        shown=shown,
        felt=felt,
        shapes=chosen(share, prior.events.shapes, SHAPES),
        n_events=n_events,
    )


# log of the factors that a strengthened response may be of; others are inside these by the prior
LOG_LIMITS = (-7.0, 4.5)


def _layout(
    numbers: Numbers, overlapping: Array, context: int, prior: Prior
) -> tuple[Array, Array, Array, Array]:
    """Starts, lengths and room for shifts [E], and number of the events of a history."""
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
    later = jnp.minimum(spare - moved, jnp.floor(prior.overlapping.shift * lengths))
    later = jnp.where(overlapping, later, 0.0).astype(jnp.int32)
    return first + event * stride + moved, lengths, later, n_events.astype(jnp.int32)


def _above_zero(ends: tuple[float, float]) -> tuple[float, float]:
    return max(ends[0], 1e-4), ends[1]


def _past_factors(numbers: Numbers, direct: Array, prior: Prior) -> Array:
    """Factors of all slots [E, K]."""
    factors = prior.factors
    direct = direct[None, :]
    span = log_between(numbers["span"], factors.span)
    one_way = numbers["one_way"] < factors.one_way
    same_dose = numbers["same_dose"] < factors.same_dose
    up = jnp.where(one_way, numbers["way"], numbers["up"]) < 0.5  # [E], or one for all
    up = jnp.broadcast_to(up, numbers["up"].shape)[:, None]
    together = numbers["together"] < factors.together
    raised = jnp.where(together, up == direct, numbers["alone"] < 0.5)
    dose = jnp.where(same_dose, numbers["dose"][:1], numbers["dose"])
    size = span[None, :] * (factors.least + (1.0 - factors.least) * dose)
    return jnp.exp(jnp.where(raised, size, -size))


def _novel_factors(numbers: Numbers, shown: Array, direct: Array, prior: Prior) -> Array:
    """Factors [K] beyond all that were seen; padding counts as the base."""
    future = prior.future
    raised = (numbers["raising"] < future.raising) == direct  # [K]
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


class _Held(NamedTuple):
    """The event that holds at each step: the last that began."""

    event: Array  # int32 [steps]; 0 before the first
    since: Array  # steps since its start; below 0 before the first
    inverse: Array  # 1 / length
    later: Array  # int32, what shifts it


def _held(events: Events, step: Array) -> _Held:
    """Selections, one event after another, are done many steps at once on a CPU."""
    found = _Held(
        jnp.zeros(step.shape, jnp.int32), jnp.full_like(step, -NEVER), jnp.zeros_like(step),
        jnp.zeros(step.shape, jnp.int32),
    )  # fmt: skip
    inverses = 1.0 / events.lengths
    for each in range(events.starts.shape[0]):
        since = step - events.starts[each]
        new = (jnp.int32(each), since, inverses[each], events.apart[each])
        found = _Held(*(jnp.where(since >= 0.0, *pair) for pair in zip(new, found, strict=True)))
    return found


def deviations(
    events: Events, steps: int, timing: Timing, true: BoolScalar
) -> tuple[Float[Array, "K T+H"], Float[Array, "K T+H"]]:
    """f - 1 at every step: of the covariates as shown, and as felt by the target.

    An event ends, with all that decays after it, where the next one begins.

    Args:
        events: of the task.
        steps: T + H.
        timing: of the target's events.
        true: for `apart`.
    """
    step = jnp.arange(steps, dtype=jnp.float32)
    shapes = events.shapes[:, None]

    def each_since(held: _Held) -> Array:
        return held.since[None, :] - shift_of(held.event, held.later, events.own)

    shown = apart(true, lambda: _held(events, step))
    felt = apart(true, lambda: _held(events, step - timing.lag))
    # looked up apart from what is computed with it: one loop of both would compute step by step
    full_shown = apart(true, lambda: at(events.shown.T, shown.event))
    full_felt = apart(true, lambda: at(events.felt.T, felt.event))

    def of_covariates() -> Array:
        since = each_since(shown)
        place = (since + 0.5) * shown.inverse[None, :]
        inside = (since >= 0.0) & (place < 1.0)
        return jnp.where(inside, _share(shapes, place) * (full_shown - 1.0), 0.0)

    def of_target() -> Array:
        since = each_since(felt)
        place = (since + 0.5) * felt.inverse[None, :]
        inside = place < 1.0
        decays = timing.decay > 0.0
        length = 1.0 / jnp.where(felt.inverse > 0.0, felt.inverse, 1.0)
        rate = jnp.where(decays, -1.0 / jnp.where(decays, timing.decay, 1.0), -1e3)
        left = jnp.exp(rate * (jnp.maximum(since, 0.0) + 1.0 - jnp.where(inside, 0.0, length[None, :])))
        # what a shape ends with decays after it
        last = (shapes == SHAPES.index("step")) | (shapes == SHAPES.index("rise"))
        after = jnp.where(last & decays, left, 0.0)
        built = jnp.where(decays, 1.0 - left, 1.0)
        share = jnp.where(inside, _share(shapes, place) * built, after)
        return jnp.where(since >= 0.0, share * (full_felt - 1.0), 0.0)

    return apart(true, of_covariates), apart(true, of_target)
