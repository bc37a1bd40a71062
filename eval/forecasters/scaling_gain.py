"""What events did to a series, and what the next one will do: fitted responses.

A response is one of a few forms, each linear in one coefficient a covariate and without effect at
base. With phi_p(f) = (f^p - 1) / p, the logarithm at p = 0 (Box and Cox), and b the baseline:

    multiply by a power law   x = b exp(sum_k c_k log f_k)
    multiply                  x = b (1 + sum_k c_k phi_p(f_k))
    add                       x = b + m sum_k c_k phi_p(f_k), m the baseline's mean magnitude

Coefficients are fitted at the steps of all past events, each event weighing the same, under a
small ridge penalty, of many steps at an even choice. A form counts by its error on events left out.

References:
    Box and Cox, An Analysis of Transformations, 1964.
"""

from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from whatif_jax._types import Array, Bool, Float, FloatScalar, Int

from .small_systems import solve_positive

__all__ = [
    "EVENTS",
    "STEPS",
    "EventSteps",
    "EventTable",
    "GainFit",
    "Response",
    "choose_steps",
    "event_steps",
    "event_table",
    "fit_gain",
    "root",
]

EVENTS = 64  # of a history, the latest
STEPS = 256  # of events, that are read
FOLDS = 8  # events are left out of a fit one by one, or in as many groups
UNMOVED = 1e-5  # log of a factor that counts as 1: rounding of base times factor
LARGEST_LOG = 20.0
ITERATIONS = 4
LEAD = 4.0  # penalties of other covariates over the first's, which a target follows first
BELIEF = -2.5  # log, of any form beside the power law
PENALTIES = (1e-4, 3e-2)
# (acts on, power of Box and Cox, log of how much it is believed before any data); a power law's
# second number bends the logarithm itself: 0 leaves it
DESIGNS = (
    ("power", 0.0, 0.0),
    *(("power", bend, BELIEF) for bend in (-0.5, 0.5)),
    *(("multiply", p, BELIEF) for p in (-1.0, -0.4, 0.4, 1.0)),
    *(("add", p, BELIEF) for p in (-1.0, -0.4, 0.0, 0.4, 1.0)),
)
# a form is a design and a penalty, penalties running fastest
FORMS = tuple((acts, p, penalty, belief) for acts, p, belief in DESIGNS for penalty in PENALTIES)

_ACTS = np.array([("power", "multiply", "add").index(acts) for acts, *_ in DESIGNS])
_POWERS = np.array([power for _, power, _ in DESIGNS], np.float32)
_BELIEFS = np.array([belief for *_, belief in FORMS], np.float32)
NEAR = 0.25  # distance in log factors within which an event speaks for the next one itself
LEAST_ERROR = 0.02  # of a form, relative to the response: none is exact
OPEN = 0.5  # of what a power law with a free exponent a covariate would leave open
DOUBT = 0.05  # how many events the fitted form counts for beside those near
SMALLEST = 1e-12


class EventTable(eqx.Module):
    """The past events of a series, one row each, earliest first; E rows, K covariates."""

    mask: Bool[Array, "*batch E"]
    log_factors: Float[Array, "*batch E K"]  # of the step farthest from base
    log_ratio: Float[Array, "*batch E"]  # log of history over baseline, both summed
    difference: Float[Array, "*batch E"]  # mean history minus baseline, in the target's unit
    steps: Int[Array, "*batch E"]  # with a value
    event: Int[Array, "*batch T"]  # row of each step of the history; E where it is in none


class EventSteps(eqx.Module):
    """Steps of the history that lie in its events, in order; S rows, K covariates."""

    mask: Bool[Array, "*batch S"]
    place: Int[Array, "*batch S"]  # of each in the history
    event: Int[Array, "*batch S"]  # row of the table of events; E where there is none
    history: Float[Array, "*batch S"]
    baseline: Float[Array, "*batch S"]
    log_factors: Float[Array, "*batch S K"]


class GainFit(eqx.Module):
    """Responses fitted to the past events, one a form; F forms."""

    coefficients: Float[Array, "*batch F K"]
    error: Float[Array, "*batch F"]  # on events left out, in squared relative units
    weight: Float[Array, "*batch F"]  # how much each form counts; sums to 1
    gain: Float[Array, "*batch F H"]  # of each form by itself
    offset: Float[Array, "*batch F H"]
    variance: Float[Array, "*batch H"]  # of the log of the response that the events leave open
    past: Float[Array, "*batch S"]  # what all forms together make of the steps fitted to


class Response(eqx.Module):
    """What an event makes of a value y that would have been without it: gain * y + offset."""

    gain: Float[Array, "*batch H"]
    offset: Float[Array, "*batch H"]  # in the target's unit


def root(values: Array) -> Array:
    """Square root, 0 for what is not above 0, without its infinite slope there."""
    positive = values > 0.0
    return jnp.where(positive, jnp.sqrt(jnp.where(positive, values, 1.0)), 0.0)


def event_steps(
    log_factors: Float[Array, "T K"], mask: Bool[Array, " T"]
) -> tuple[Bool[Array, " T"], Float[Array, " T"]]:
    """Where covariates have left their base, and how far (the norm of their log factors)."""
    dose = root(jnp.sum(log_factors**2, axis=-1))
    return mask & (dose > UNMOVED), dose


def event_table(
    history: Float[Array, " T"],
    mask: Bool[Array, " T"],
    log_factors: Float[Array, "T K"],
    baseline: Float[Array, " T"],
) -> EventTable:
    """The contiguous runs of steps at which a covariate is off its base; the latest E of them."""
    moved, dose = event_steps(log_factors, jnp.ones_like(mask))
    begins = moved & ~jnp.concatenate([jnp.zeros(1, bool), moved[:-1]])
    number = jnp.cumsum(begins) - 1
    first = jnp.maximum(number[-1] + 1 - EVENTS, 0)
    event = jnp.where(moved & (number >= first), number - first, EVENTS).astype(jnp.int32)
    use = mask & (event < EVENTS)

    def total(values: Array) -> Array:
        return jax.ops.segment_sum(jnp.where(use, values, 0.0), event, EVENTS + 1)[:EVENTS]

    count = total(jnp.ones_like(history))
    real = count > 0
    farthest = jax.ops.segment_max(jnp.where(event < EVENTS, dose, -1.0), event, EVENTS + 1)
    at = jnp.where(dose >= farthest[event], jnp.arange(history.shape[0]), history.shape[0])
    place = jnp.clip(jax.ops.segment_min(at, event, EVENTS + 1)[:EVENTS], 0, history.shape[0] - 1)
    power = jnp.maximum(total(baseline**2), SMALLEST)
    ratio = jnp.where(real, total(history * baseline) / power, 1.0)
    return EventTable(
        mask=real,
        log_factors=jnp.where(real[:, None], log_factors[place], 0.0),
        log_ratio=jnp.log(jnp.clip(ratio, 1e-3, 1e3)),
        difference=total(history - baseline) / jnp.maximum(count, 1.0),
        steps=count.astype(jnp.int32),
        event=event,
    )


def choose_steps(
    history: Float[Array, " T"],
    baseline: Float[Array, " T"],
    log_factors: Float[Array, "T K"],
    event: Int[Array, " T"],
    use: Bool[Array, " T"],
) -> EventSteps:
    """The steps of events that are used; where they are more than `STEPS`, an even choice.

    Args:
        history: the target.
        baseline: what would have been without events.
        log_factors: of the covariates over their base.
        event: row of each step in the table of events; `EVENTS` where it is in none.
        use: steps that may be chosen; those in no event are not.
    """
    use = use & (event < EVENTS)
    rank = jnp.cumsum(use, dtype=jnp.int32)
    number = min(STEPS, history.shape[0])
    wanted = jnp.arange(number, dtype=jnp.int32) * jnp.maximum(rank[-1], number) // number
    mask = wanted < rank[-1]
    place = jnp.minimum(jnp.searchsorted(rank, wanted + 1), history.shape[0] - 1)
    return EventSteps(
        mask=mask,
        place=place.astype(jnp.int32),
        event=jnp.where(mask, event[place], EVENTS),
        history=jnp.where(mask, history[place], 0.0),
        baseline=jnp.where(mask, baseline[place], 0.0),
        log_factors=jnp.where(mask[:, None], log_factors[place], 0.0),
    )


def box_cox(log_factors: Array, power: Array) -> Array:
    """(f^p - 1) / p of factors given by their logarithms; the logarithm itself at p = 0."""
    safe = jnp.where(power == 0.0, 1.0, power)
    bent = jnp.expm1(jnp.clip(safe * log_factors, -LARGEST_LOG, LARGEST_LOG)) / safe
    return jnp.where(power == 0.0, log_factors, bent)


def bent_log(log_factors: Array, bend: Array) -> Array:
    """The logarithm of factors, growing like its power 1 + bend once it is large."""
    power = 1.0 + bend
    bent = jnp.sign(log_factors) * (jnp.abs(1.0 + jnp.abs(log_factors)) ** power - 1.0) / power
    return jnp.where(log_factors == 0.0, log_factors, bent)  # sign and abs have no slope there


def _features(acts: Array, log_factors: Array, power: Array) -> Array:
    bend = jnp.where(acts == 0, power, 0.0)  # -1, of another form, would make every slope NaN
    return jnp.where(acts == 0, bent_log(log_factors, bend), box_cox(log_factors, power))


def _dot(left: Array, right: Array) -> Array:
    """A matrix product that a GPU does not round to fewer bits."""
    return jnp.matmul(left, right, precision="highest")


def _products(design: Array) -> tuple[Array, Callable[[Array], Array]]:
    """Products of every pair of columns [N, pairs], and Gram matrices from sums of them."""
    k = design.shape[-1]
    first, second = np.triu_indices(k)
    place = np.zeros((k, k), int)
    place[first, second] = place[second, first] = np.arange(first.size)
    return design[:, first] * design[:, second], lambda sums: sums[..., place]


def _penalty_weights(k: int) -> Array:
    return jnp.where(jnp.arange(k) == 0, 1.0, LEAD)


def _solve(gram: Array, cross: Array, penalty: Array) -> Array:
    """Ridge coefficients [..., K]; a penalty large enough for float32 to see."""
    k = gram.shape[-1]
    diagonal = jnp.diagonal(gram, axis1=-2, axis2=-1)
    least = penalty + 4e-6 * jnp.max(diagonal, axis=-1)[..., None, None]
    weights = _penalty_weights(k)
    return solve_positive(gram + least * jnp.diag(weights), cross[..., None])[..., 0]


def _effect(acts: Array, score: Array) -> Array:
    """Of forms that multiply, the gain; of those that add, the offset in units of the mean."""
    power = jnp.exp(jnp.clip(score, -LARGEST_LOG, LARGEST_LOG))
    return jnp.where(acts == 0, power, jnp.where(acts == 1, 1.0 + score, score))


def _of(acts: Array, effect: Array, baseline: Array, magnitude: Array) -> Array:
    return jnp.where(acts == 2, baseline + magnitude * effect, baseline * effect)


def _power_law(
    steps: EventSteps,
    weights: Float[Array, "fits S"],
    bend: Array,
    start: Float[Array, "penalties fits K"],
) -> Float[Array, "penalties fits K"]:
    """Coefficients under each penalty that minimise squared errors, by Gauss and Newton."""
    design = bent_log(steps.log_factors, bend)
    products, restore = _products(design)
    relative = _penalty_weights(design.shape[1])

    def fitted(penalty: Array, start: Array) -> Array:
        def improve(_: int, coefficients: Array) -> Array:
            score = jnp.clip(_dot(coefficients, design.T), -LARGEST_LOG, LARGEST_LOG)
            expected = steps.baseline * jnp.exp(score)  # [fits, S]
            seen = weights * expected
            gram = restore(_dot(seen * expected, products))
            cross = _dot(seen * (steps.history - expected), design)
            step = _solve(gram, cross - penalty * relative * coefficients, penalty)
            farthest = jnp.max(jnp.abs(_dot(step, design.T)), axis=-1, keepdims=True)
            return coefficients + step / jnp.maximum(1.0, farthest)

        return jax.lax.fori_loop(0, ITERATIONS, improve, start)

    return jax.vmap(fitted)(jnp.asarray(PENALTIES, design.dtype), start)


def fit_gain(
    steps: EventSteps,
    table: EventTable,
    future_log_factors: Float[Array, "H K"],
    magnitude: FloatScalar,
) -> tuple[GainFit, Response]:
    """Fit every form to the past events, weigh the forms, and say what the future's factors do.

    Args:
        steps: of the past events; history and baseline scaled such that their squares stay within
            float32.
        table: of the past events.
        future_log_factors: of the future's covariates over their base; 0 where padded.
        magnitude: mean of |baseline|, the unit in which forms add.

    Returns:
        the fits, and the response at every step of the future.
    """
    history, baseline, logs = steps.history, steps.baseline, steps.log_factors
    kind, k = history.dtype, logs.shape[-1]

    def total(values: Array) -> Array:
        return jax.ops.segment_sum(values, steps.event, EVENTS + 1)[:EVENTS]

    count = jnp.maximum(total(steps.mask.astype(kind)), 1.0)
    level = jnp.maximum(total(jnp.abs(history)), total(jnp.abs(baseline))) / count
    level = jnp.maximum(level, SMALLEST)
    share = jnp.where(table.mask, 1.0 / (count * jnp.maximum(level**2, SMALLEST)), 0.0)
    weight = jnp.append(share, 0.0)[steps.event]
    events = jnp.sum(table.mask)
    fold = jnp.where(steps.mask, steps.event % FOLDS, FOLDS)
    groups = jax.nn.one_hot(fold, FOLDS, dtype=kind)  # [S, FOLDS]
    # a fit without each group, and one of all
    kept = jnp.concatenate([1.0 - jnp.eye(FOLDS, dtype=kind), jnp.ones((1, FOLDS), kind)])
    weights = _dot(kept, groups.T) * weight  # [fits, S]
    penalties = jnp.asarray(PENALTIES, kind)
    square = jnp.maximum(total(baseline**2), SMALLEST)
    of_event = jax.nn.one_hot(jnp.arange(EVENTS) % FOLDS, FOLDS, dtype=kind)
    of_event = _dot(kept, of_event.T) * table.mask  # [fits, E]

    def solved(gram: Array, cross: Array) -> Array:
        return jax.vmap(lambda penalty: _solve(gram, cross, penalty))(penalties)

    def power_law(bend: Array) -> Array:
        # iterations start from log ratios of whole events on their mean features
        dose = total(bent_log(logs, bend) * (baseline**2)[:, None]) / square[:, None]
        products, restore = _products(dose)
        gram = restore(_dot(of_event, products))
        start = solved(gram, _dot(of_event * table.log_ratio, dose))
        return _power_law(steps, weights, bend, start)

    def linear(acts: Array, power: Array) -> Array:
        unit = jnp.where(acts == 2, magnitude, baseline)
        design = unit[:, None] * box_cox(logs, power)
        products, restore = _products(design)
        cross = _dot(weights * (history - baseline), design)
        return solved(restore(_dot(weights, products)), cross)

    n_power = int(np.sum(_ACTS == 0))
    acts, powers = jnp.asarray(_ACTS), jnp.asarray(_POWERS)
    by_design = jnp.concatenate(
        [
            jax.vmap(power_law)(powers[:n_power]),
            jax.vmap(linear)(acts[n_power:], powers[n_power:]),
        ]
    )  # [designs, penalties, fits, K]

    def judge(act: Array, power: Array, fits: Array) -> tuple[Array, Array, Array, Array]:
        scores = _dot(_features(act, logs, power), fits.reshape(-1, k).T)
        scores = scores.reshape(-1, *fits.shape[:2])  # [S, penalties, fits]
        # every step under the fit that has not seen it
        unseen = jnp.sum(scores[..., :FOLDS] * groups[:, None, :], axis=-1).T
        misfit = history - _of(act, _effect(act, unseen), baseline, magnitude)
        expected = _of(act, _effect(act, scores[..., FOLDS].T), baseline, magnitude)
        own = jax.vmap(total)(misfit * steps.mask) / (count * level)
        of_events = jnp.sum(jnp.where(table.mask, own, 0.0) ** 2, axis=-1)
        return _dot(misfit**2, weight), of_events, _dot((history - expected) ** 2, weight), expected

    def forms(of_designs: Array) -> Array:  # penalties run fastest
        return of_designs.reshape(-1, *of_designs.shape[2:])

    left_out, of_events, seen, expected = map(forms, jax.vmap(judge)(acts, powers, by_design))
    error = jnp.where(events > 1, left_out, seen) / jnp.maximum(events, 1)
    belief = jnp.asarray(_BELIEFS) - jnp.clip(events, 1, FOLDS) * jnp.log(error + 1e-6)
    form_weight = jax.nn.softmax(belief)
    coefficients = forms(by_design)[:, FOLDS]

    peak = future_log_factors[jnp.argmax(jnp.sum(future_log_factors**2, axis=-1))]
    apart = jnp.sum((table.log_factors - peak) ** 2, axis=-1)
    near = jnp.where(table.mask, jnp.exp(-0.5 * apart / NEAR**2), 0.0)
    near = near / (jnp.sum(near) + DOUBT)

    def relative(log: Array, of: Array) -> Array:
        return root(jnp.sum(log**2, -1) / jnp.maximum(jnp.sum(of**2, -1), SMALLEST))

    past_share = relative(logs, jnp.append(table.log_factors, jnp.zeros((1, k)), 0)[steps.event])
    future_share = relative(future_log_factors, peak)

    def ahead(act: Array, power: Array, fit: Array, expected: Array) -> tuple[Array, Array]:
        effect = _effect(act, _dot(fit, _features(act, future_log_factors, power).T))
        unit = jnp.where(act == 2, magnitude, expected) * past_share
        missed = jax.vmap(total)((history - expected) * unit * steps.mask)
        own = missed / jnp.maximum(jax.vmap(total)(unit**2 * steps.mask), SMALLEST)
        correction = future_share * _dot(own, near)[:, None]
        gain = jnp.where(act == 2, 1.0, effect * (1.0 + correction))
        offset = jnp.where(act == 2, magnitude * (effect + correction), 0.0)
        return gain, offset

    by_penalty = expected.reshape(len(DESIGNS), len(PENALTIES), -1)
    ahead_of = jax.vmap(ahead)(acts, powers, by_design[:, :, FOLDS], by_penalty)
    gains, offsets = map(forms, ahead_of)
    # a Bayesian power law on whole events: what they leave open of the response to these factors
    whole = jnp.where(events > 1, form_weight @ of_events / jnp.maximum(events, 1), 0.0)
    told = jnp.clip(whole, LEAST_ERROR**2, 1.0)
    doses = jnp.sum(table.log_factors**2)
    prior = jnp.sum(table.log_ratio**2 * table.mask) / jnp.maximum(doses, SMALLEST) + 0.01
    precision = jnp.einsum("ek,el->kl", table.log_factors, table.log_factors, precision="highest")
    open_ = solve_positive(precision / told + jnp.eye(k, dtype=kind) / prior, future_log_factors.T)
    variance = OPEN * jnp.sum(future_log_factors.T * open_, axis=0) + whole * future_share
    variance = variance * (1.0 - jnp.sum(near))
    fit = GainFit(
        coefficients, error, form_weight, gains, offsets, variance, form_weight @ expected
    )
    return fit, Response(form_weight @ gains, form_weight @ offsets)
