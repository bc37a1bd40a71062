"""What events did to a series, and what the next one will do: fitted responses.

A response is one of a few forms, each linear in one coefficient a covariate and without effect at
base. With phi_p(f) = (f^p - 1) / p, the logarithm at p = 0 (Box and Cox), and b the baseline:

    multiply by a power law   x = b exp(sum_k c_k log f_k)
    multiply                  x = b (1 + sum_k c_k phi_p(f_k))
    add                       x = b + m sum_k c_k phi_p(f_k), m the baseline's mean magnitude

Coefficients are fitted at the steps of all past events, each event weighing the same, under a
small ridge penalty. A form counts by its error on events that were left out of its fit.

References:
    Box and Cox, An Analysis of Transformations, 1964.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from whatif_jax._types import Array, Bool, Float, FloatScalar, Int

from .small_systems import solve_positive

__all__ = [
    "EVENTS",
    "EventTable",
    "GainFit",
    "Response",
    "event_steps",
    "event_table",
    "fit_gain",
    "root",
]

EVENTS = 64  # of a history, the latest
FOLDS = 8  # events are left out of a fit one by one, or in as many groups
UNMOVED = 1e-5  # log of a factor that counts as 1: rounding of base times factor
LARGEST_LOG = 20.0
ITERATIONS = 5

LEAD = 4.0  # penalties of other covariates over the first's, which a target follows first
BELIEF = -2.5  # log, of any form beside the power law
PENALTIES = (1e-4, 3e-2)
# (acts on, power of Box and Cox, penalty, log of how much it is believed before any data); a power
# law's second number bends the logarithm itself: 0 leaves it
FORMS = (
    *(("power", 0.0, penalty, 0.0) for penalty in PENALTIES),
    *(("power", bend, penalty, BELIEF) for bend in (-0.5, 0.5) for penalty in PENALTIES),
    *(("multiply", p, penalty, BELIEF) for p in (-1.0, -0.4, 0.4, 1.0) for penalty in PENALTIES),
    *(("add", p, penalty, BELIEF) for p in (-1.0, -0.4, 0.0, 0.4, 1.0) for penalty in PENALTIES),
)

_ACTS = np.array([("power", "multiply", "add").index(acts) for acts, *_ in FORMS])
_POWERS, _PENALTIES, _BELIEFS = (
    np.array([form[column] for form in FORMS], np.float32) for column in (1, 2, 3)
)
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


class GainFit(eqx.Module):
    """Responses fitted to the past events, one a form; F forms."""

    coefficients: Float[Array, "*batch F K"]
    error: Float[Array, "*batch F"]  # on events left out, in squared relative units
    weight: Float[Array, "*batch F"]  # how much each form counts; sums to 1
    gain: Float[Array, "*batch F H"]  # of each form by itself
    offset: Float[Array, "*batch F H"]
    variance: Float[Array, "*batch H"]  # of the log of the response that the events leave open
    past: Float[Array, "*batch T"]  # what all forms together make of the history


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


def box_cox(log_factors: Array, power: Array) -> Array:
    """(f^p - 1) / p of factors given by their logarithms; the logarithm itself at p = 0."""
    safe = jnp.where(power == 0.0, 1.0, power)
    bent = jnp.expm1(jnp.clip(safe * log_factors, -LARGEST_LOG, LARGEST_LOG)) / safe
    return jnp.where(power == 0.0, log_factors, bent)


def bent_log(log_factors: Array, bend: Array) -> Array:
    """The logarithm of factors, growing like its power 1 + bend once it is large."""
    power = 1.0 + bend
    return jnp.sign(log_factors) * (jnp.abs(1.0 + jnp.abs(log_factors)) ** power - 1.0) / power


def _features(acts: Array, log_factors: Array, power: Array) -> Array:
    return jnp.where(acts == 0, bent_log(log_factors, power), box_cox(log_factors, power))


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


def fit_gain(
    history: Float[Array, " T"],
    log_factors: Float[Array, "T K"],
    future_log_factors: Float[Array, "H K"],
    baseline: Float[Array, " T"],
    future_baseline: Float[Array, " H"],
    magnitude: FloatScalar,
    table: EventTable,
    use: Bool[Array, " T"],
) -> tuple[GainFit, Response]:
    """Fit every form to the past events, weigh the forms, and say what the future's factors do.

    Args:
        history: the target, scaled such that its squares stay within float32.
        log_factors: of the covariates over their base; 0 where padded.
        future_log_factors: the same of the future.
        baseline: what would have been without events.
        future_baseline: the same of the future.
        magnitude: mean of |baseline|, the unit in which forms add.
        table: of the past events.
        use: steps of events that have a value.

    Returns:
        the fits, and the response at every step of the future.
    """
    event, rows = table.event, EVENTS + 1
    used = use & (event < EVENTS)

    def total(values: Array) -> Array:
        return jax.ops.segment_sum(jnp.where(used, values, 0.0), event, rows)[:EVENTS]

    count = jnp.maximum(total(jnp.ones_like(history)), 1.0)
    level = jnp.maximum(total(jnp.abs(history)), total(jnp.abs(baseline))) / count
    level = jnp.maximum(level, SMALLEST)
    share = jnp.where(table.mask, 1.0 / (count * jnp.maximum(level**2, SMALLEST)), 0.0)
    weight = jnp.where(used, jnp.append(share, 0.0)[event], 0.0)
    events = jnp.sum(table.mask)
    fold = jnp.where(used, event % FOLDS, FOLDS)
    groups = jax.nn.one_hot(fold, FOLDS, dtype=history.dtype)  # [T, FOLDS]
    # a fit without each group, and one of all
    kept = jnp.concatenate([1.0 - jnp.eye(FOLDS, dtype=history.dtype), jnp.ones((1, FOLDS))])
    change = history - baseline

    def sums(design: Array, aim: Array) -> tuple[Array, Array]:
        """Gram matrices and cross products by fit; design [T, K] or [fits, T, K]."""
        weighted = groups * weight[:, None]
        gram = jnp.einsum("tg,tk,tl->gkl", weighted, design, design, precision="highest")
        cross = jnp.einsum("tg,tk,t->gk", weighted, design, aim, precision="highest")
        return (
            jnp.einsum("fg,gkl->fkl", kept, gram, precision="highest"),
            jnp.einsum("fg,gk->fk", kept, cross, precision="highest"),
        )

    def linear(acts: Array, power: Array, penalty: Array) -> Array:
        unit = jnp.where(acts == 2, magnitude, baseline)
        return _solve(*sums(unit[:, None] * box_cox(log_factors, power), change), penalty)

    square = jnp.maximum(total(baseline**2), SMALLEST)
    of_event = jax.nn.one_hot(jnp.arange(EVENTS) % FOLDS, FOLDS, dtype=history.dtype)
    of_event = (kept @ of_event.T) * table.mask[None, :]  # [fits, E]
    weights = (kept @ groups.T) * weight[None, :]  # [fits, T]

    def power_law(bend: Array, penalty: Array) -> Array:
        design = bent_log(log_factors, bend)
        # iterations start from log ratios of whole events on their mean features
        dose = jax.vmap(lambda one: total(one * baseline**2), 1, 1)(design) / square[:, None]
        gram = jnp.einsum("fe,ek,el->fkl", of_event, dose, dose, precision="highest")
        cross = jnp.einsum("fe,ek,e->fk", of_event, dose, table.log_ratio, precision="highest")

        def improve(_: int, coefficients: Array) -> Array:
            score = jnp.clip(coefficients @ design.T, -LARGEST_LOG, LARGEST_LOG)
            expected = baseline * jnp.exp(score)  # [fits, T]
            seen = weights * expected**2
            gram = jnp.einsum("ft,tk,tl->fkl", seen, design, design, precision="highest")
            aim = weights * expected * (history - expected)
            cross = jnp.einsum("ft,tk->fk", aim, design, precision="highest")
            step = _solve(
                gram,
                cross - penalty * _penalty_weights(coefficients.shape[-1]) * coefficients,
                penalty,
            )
            farthest = jnp.max(jnp.abs(step @ design.T), axis=-1, keepdims=True)
            return coefficients + step / jnp.maximum(1.0, farthest)

        return jax.lax.fori_loop(0, ITERATIONS, improve, _solve(gram, cross, penalty))

    n_power = int(np.sum(_ACTS == 0))
    acts, powers, penalties = jnp.asarray(_ACTS), jnp.asarray(_POWERS), jnp.asarray(_PENALTIES)
    fits = jnp.concatenate(
        [
            jax.vmap(power_law)(powers[:n_power], penalties[:n_power]),
            jax.vmap(linear)(acts[n_power:], powers[n_power:], penalties[n_power:]),
        ]
    )  # [F, fits, K]

    def judge(act: Array, power: Array, fit: Array) -> tuple[Array, Array, Array, Array]:
        features = _features(act, log_factors, power)
        # every step under the fit that has not seen it
        unseen = jnp.einsum("tg,gk->tk", groups, fit[:FOLDS], precision="highest")
        score = jnp.sum(features * unseen, axis=-1)
        misfit = history - _of(act, _effect(act, score), baseline, magnitude)
        left_out = jnp.sum(weight * misfit**2)
        of_events = jnp.sum(jnp.where(table.mask, total(misfit) / (count * level), 0.0) ** 2)
        effect = _effect(act, features @ fit[FOLDS])
        expected = _of(act, effect, baseline, magnitude)
        seen = jnp.sum(weight * (history - expected) ** 2)
        return left_out, of_events, seen, expected

    left_out, of_events, seen, expected = jax.vmap(judge)(acts, powers, fits)
    error = jnp.where(events > 1, left_out, seen) / jnp.maximum(events, 1)
    floor = 1e-6
    belief = jnp.asarray(_BELIEFS) - jnp.clip(events, 1, FOLDS) * jnp.log(error + floor)
    form_weight = jax.nn.softmax(belief)

    peak = future_log_factors[jnp.argmax(jnp.sum(future_log_factors**2, axis=-1))]
    apart = jnp.sum((table.log_factors - peak) ** 2, axis=-1)
    near = jnp.where(table.mask, jnp.exp(-0.5 * apart / NEAR**2), 0.0)
    near = near / (jnp.sum(near) + DOUBT)

    def relative(log: Array, of: Array) -> Array:
        return root(jnp.sum(log**2, -1) / jnp.maximum(jnp.sum(of**2, -1), SMALLEST))

    past_share = relative(
        log_factors, jnp.append(table.log_factors, jnp.zeros((1, peak.shape[0])), 0)[event]
    )
    future_share = relative(future_log_factors, peak)

    def ahead(act: Array, power: Array, fit: Array, expected: Array) -> tuple[Array, Array]:
        effect = _effect(act, _features(act, future_log_factors, power) @ fit)
        unit = jnp.where(act == 2, magnitude, expected) * past_share
        own = total((history - expected) * unit) / jnp.maximum(total(unit**2), SMALLEST)
        correction = future_share * jnp.sum(near * own)
        gain = jnp.where(act == 2, 1.0, effect * (1.0 + correction))
        offset = jnp.where(act == 2, magnitude * (effect + correction), 0.0)
        return gain, offset

    gains, offsets = jax.vmap(ahead)(acts, powers, fits[:, FOLDS], expected)
    # a Bayesian power law on whole events: what they leave open of the response to these factors
    whole = jnp.where(events > 1, form_weight @ of_events / jnp.maximum(events, 1), 0.0)
    told = jnp.clip(whole, LEAST_ERROR**2, 1.0)
    doses = jnp.sum(table.log_factors**2)
    prior = jnp.sum(table.log_ratio**2 * table.mask) / jnp.maximum(doses, SMALLEST) + 0.01
    k = log_factors.shape[-1]
    precision = jnp.einsum("ek,el->kl", table.log_factors, table.log_factors, precision="highest")
    open_ = solve_positive(
        precision / told + jnp.eye(k, dtype=history.dtype) / prior, future_log_factors.T
    )
    variance = OPEN * jnp.sum(future_log_factors.T * open_, axis=0) + whole * future_share
    variance = variance * (1.0 - jnp.sum(near))
    past = form_weight @ expected
    fit = GainFit(fits[:, FOLDS], error, form_weight, gains, offsets, variance, past)
    return fit, Response(form_weight @ gains, form_weight @ offsets)
