"""One randomised task: series, events, response and hard cases into arrays.

References:
    whatif-v1.md §8 for the contents of a task; all else is ours.
"""

import dataclasses
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from ..._types import Array, Bool, BoolScalar, Float, Int, PRNGKeyArray
from ..._xla import apart
from ..draw import below
from ..responses import ActiveResponse, impose
from ..task import Task
from .augment import missing_spans
from .baseline import SeriesPool, baseline_series
from .components import normals_of_steps
from .events import Events, Timing, deviations, draw_events, felt_reach
from .names import HARD_CASES
from .numbers import Numbers, between, draw_numbers, log_between
from .prior import Prior
from .response import draw_response
from .series_family import missingness

__all__ = ["Drawn", "HardCases", "RandomisedTask", "make_task"]


class HardCases(eqx.Module):
    """Which hard cases a task has; what each is stands in `names.HARD_CASES`."""

    irrelevant: Bool[Array, "*batch"]
    correlated: Bool[Array, "*batch"]
    saturation: Bool[Array, "*batch"]
    overlapping: Bool[Array, "*batch"]
    delayed: Bool[Array, "*batch"]
    regime: Bool[Array, "*batch"]
    noise: Bool[Array, "*batch"]
    missing: Bool[Array, "*batch"]
    wandering: Bool[Array, "*batch"]


class Drawn(eqx.Module):
    """What a task was made from, for reading and for tests."""

    baseline: Float[Array, "*batch T+H"]  # the series before events, without noise
    response: ActiveResponse
    events: Events
    timing: Timing
    base: Float[Array, "*batch K"]
    follower: Bool[Array, "*batch K"]  # the covariate that follows the target, if one does
    novel: Bool[Array, "*batch"]


class RandomisedTask(NamedTuple):
    """A task, what it was made from, and whether all of it is finite."""

    task: Task
    drawn: Drawn
    hard_cases: HardCases
    finite: Bool[Array, "*batch"]


class Choices(NamedTuple):
    """What a stream draws from besides the prior, as arrays."""

    k: Int[Array, " K"]  # numbers of covariates, padded, so that others compile nothing
    n_k: Int[Array, ""]  # how many of them there are
    novel: Float[Array, ""]
    shares: Float[Array, " cases"]  # of the hard cases, in the order of their names
    true: BoolScalar  # for `apart`


OF_TASK, OF_SERIES, OF_STEPS = range(3)  # keys of a task, folded into its own
NOISE = 1000  # kind of a step's numbers


def make_task(
    key: PRNGKeyArray,
    choices: Choices,
    pool: SeriesPool | None,
    context: int,
    horizon: int,
    covariates: int,
    prior: Prior,
) -> RandomisedTask:
    """One task. Pure; vmap over keys.

    Args:
        key: threefry2x32.
        choices: numbers of covariates, share of novel futures, shares of hard cases.
        pool: real series, or None.
        context: T.
        horizon: H.
        covariates: K, the width; what a task has less is padding.
        prior: what all else is drawn from.
    """
    steps = context + horizon
    most = prior.events.number[1]
    task_key, series_key, steps_key = (
        jax.random.fold_in(key, kind) for kind in (OF_TASK, OF_SERIES, OF_STEPS)
    )
    numbers = draw_numbers(task_key, covariates, most, choices.true)
    y = apart(choices.true, lambda: baseline_series(series_key, steps, pool, prior))

    def drawn_and_cases() -> tuple[Drawn, HardCases, Array]:
        return _draw(numbers, choices, y, context, horizon, prior)

    drawn, cases, mask = apart(choices.true, drawn_and_cases)
    shown, felt = deviations(drawn.events, steps, drawn.timing, choices.true)
    history = jnp.arange(steps) < context

    def moved_covariates() -> tuple[Array, Array]:
        wander = jnp.where(cases.wandering, _wander(numbers, steps, prior), 0.0)
        amplitude = between(numbers["amplitude"], prior.correlated.amplitude)
        centred = y - jnp.mean(y)
        unit = jnp.max(jnp.abs(centred))
        follow = amplitude * centred / jnp.where(unit > 0.0, unit, 1.0)
        own = jnp.where(drawn.follower[:, None], jnp.where(history, follow, 0.0)[None, :], wander)
        return _both(shown, own), _both(felt, wander)

    shown, felt = apart(choices.true, moved_covariates)
    # each is read in several places, and would be computed anew in each
    noise = apart(choices.true, lambda: _noise(numbers, steps_key, y, cases.noise, prior))
    lost = apart(choices.true, lambda: cases.missing & _lost(context, steps_key))
    cases = dataclasses.replace(cases, missing=jnp.any(lost))
    target = apart(choices.true, lambda: impose(drawn.response, felt, y) + noise)
    values = apart(
        choices.true,
        lambda: jnp.where(mask[:, None], drawn.base[:, None] * (1.0 + shown), 0.0),
    )
    free = y[context:] + noise[context:]
    task = Task(
        history=jnp.where(lost, 0.0, target[:context]),
        future=target[context:],
        future_baseline=free,
        history_covariates=values[:, :context],
        future_covariates=values[:, context:],
        history_mask=~lost,
        future_mask=jnp.ones(horizon, bool),
        covariate_mask=mask,
    )
    finite = (
        jnp.all(jnp.isfinite(target)) & jnp.all(jnp.isfinite(free)) & jnp.all(jnp.isfinite(values))
    )
    return RandomisedTask(task, drawn, cases, finite)


def _draw(
    numbers: Numbers, choices: Choices, y: Array, context: int, horizon: int, prior: Prior
) -> tuple[Drawn, HardCases, Array]:
    """All of a task that is not one number a step."""
    width = numbers["direct"].shape[0]
    k = choices.k[below(numbers["k"], choices.n_k)]
    column = jnp.arange(width)
    mask = column < k
    wanted = numbers["hard_cases"][: len(HARD_CASES)] < choices.shares
    asked = dict(zip(HARD_CASES, wanted, strict=True))
    several = k > 1
    direct = numbers["direct"] < prior.covariates.direct
    novel = numbers["novel"] < choices.novel
    overlapping = asked["overlapping"] & several
    events = draw_events(
        numbers, direct, novel, overlapping, asked["regime"], context, horizon, prior
    )
    # irrelevant: the covariates of the smallest numbers, one at least, never all
    share = between(numbers["irrelevant_share"], prior.irrelevant.share)
    count = jnp.clip(jnp.round(share * k.astype(jnp.float32)), 1.0, (k - 1).astype(jnp.float32))
    lot = jnp.where(mask, numbers["irrelevant"], 2.0)
    rank = jnp.sum(lot[None, :] < lot[:, None], axis=1)
    irrelevant = asked["irrelevant"] & several
    idle = irrelevant & (rank.astype(jnp.float32) < count)
    correlated = asked["correlated"] & several
    # one of those beside the primary covariate, and not the last one that acts
    which = 1 + below(numbers["follower"], jnp.maximum(k - 1, 1))
    follower = correlated & (column == which)
    active = mask & ~idle & ~follower
    active = jnp.where(jnp.any(active), active, mask & ~follower & (column == 0))
    magnitude = jnp.mean(jnp.abs(y))
    response = draw_response(numbers, direct, active, felt_reach(events), magnitude, prior)
    low, high = _limits(numbers, y, asked["saturation"], prior)
    response = dataclasses.replace(response, clip_low=low, clip_high=high)
    length = jnp.minimum(jnp.min(events.lengths), float(horizon))
    lag = jnp.floor(length * between(numbers["lag"], prior.delayed.lag))
    decay = length * log_between(numbers["decay"], prior.delayed.decay)
    timing = Timing(
        lag=jnp.where(asked["delayed"], lag, 0.0),
        decay=jnp.where(asked["delayed"], decay, 0.0),
    )
    cases = HardCases(
        **asked
        | {
            "irrelevant": irrelevant & jnp.any(mask & ~active & ~follower),
            "correlated": correlated,
            "overlapping": overlapping,
            "regime": asked["regime"] & (events.n_events > 1),
        }
    )
    base = log_between(numbers["base"], prior.covariates.base)
    return Drawn(y, response, events, timing, base, follower, novel), cases, mask


def _both(deviation: Array, other: Array) -> Array:
    """f*g - 1 from f - 1 and g - 1; exact where either is 0."""
    return deviation + other + deviation * other


def _wander(numbers: Numbers, steps: int, prior: Prior) -> Array:
    """Relative moves of covariates between events [K, steps], from 0 at the first step on.

    A slow and a fast wave of parabolas, which need no sine.
    """
    step = jnp.arange(steps, dtype=jnp.float32)[None, :]

    def wave(name: str, periods: tuple[float, float]) -> Array:
        turns = step / log_between(numbers[name], periods)[:, None]
        turns += numbers[f"{name}_phase"][:, None]
        place = turns - jnp.floor(turns)
        half = 2.0 * place - jnp.floor(2.0 * place)
        return jnp.where(place < 0.5, 4.0, -4.0) * half * (1.0 - half)

    total = 0.7 * wave("slow", (0.2 * steps, 2.0 * steps)) + 0.3 * wave("fast", (8.0, 0.2 * steps))
    size = log_between(numbers["wander_amount"], prior.wandering.amount)
    return 0.5 * size * (total - total[:, :1])


def _noise(numbers: Numbers, key: PRNGKeyArray, y: Array, there: Array, prior: Prior) -> Array:
    """Noise of the measured target, in its unit."""
    steps = y.shape[0]
    first, second = normals_of_steps(key, NOISE, 1, (steps + 1) // 2)
    deviation = jnp.sqrt(jnp.mean((y - jnp.mean(y)) ** 2))
    size = deviation * log_between(numbers["noise_amount"], prior.noise.amount)
    return jnp.where(there, size, 0.0) * jnp.concatenate([first, second])[:steps]


def _limits(numbers: Numbers, y: Array, saturated: Array, prior: Prior) -> tuple[Array, Array]:
    """Limits of the target: above, below or both; none where it does not saturate."""
    low, high = jnp.min(y), jnp.max(y)
    room = log_between(numbers["room"], prior.saturation.room)
    room *= high - low + 0.5 * jnp.abs(high + low)
    which = numbers["limits"]
    unbounded = jnp.float32(np.inf)
    return (
        jnp.where(saturated & (which > 0.4), low - room, -unbounded),
        jnp.where(saturated & (which < 0.7), high + room, unbounded),
    )


def _lost(context: int, key: PRNGKeyArray) -> Array:
    """Steps of the history that are not known: spans of them and single ones."""
    settings = missingness()
    always = {name: jnp.float32(1.0) for name in settings.shares}
    return missing_spans(context, dataclasses.replace(settings, shares=always), key=key)
