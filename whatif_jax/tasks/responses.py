"""Responses: how a target moves when covariates leave their base values.

Every response of the benchmark is affine in the intervention-free target,

    target = clip(gain * y + shift),

and only ``gain`` and ``shift`` depend on the factors. So one fused function of the factors is
enough: it is evaluated inside event windows alone and applied to any number of targets. Each
covariate contributes ``r(f)/r(1) - 1``, a sum of a few terms (`Terms`) whose coefficients come
from the catalog; terms that no loaded response uses are left out of the compiled program.

Factors enter as deviations ``f - 1``, which keeps the tails of a bell exact in float32.

References:
    whatif-v1.md §3; paper, appendix B.6 and tables 5-12.
"""

from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp

from .._types import Array, Bool, Float

__all__ = [
    "TERM_KINDS",
    "ActiveResponse",
    "Terms",
    "gain_and_shift",
    "impose",
    "log_of_factor",
    "moved",
    "relative_change",
    "signed_power",
]

# The floor of the factor inside the dampening logarithm (whatif-v1.md §3); powers use it too, so
# that a factor of zero has a finite response and a finite gradient.
FACTOR_FLOOR = 1e-6
# |f-1|^p has an infinite slope at f = 1 for p < 1. Within this distance of 1 the power is replaced
# by the straight line through the same end points: still continuous, with the finite gradient
# that finite differences inside the line agree with. No factor the benchmark draws comes this near.
LINEAR_CORE = 1e-6

TERM_KINDS = ("power", "signed", "linear", "cubic", "cosine", "exponential")


class Terms(eqx.Module):
    """Coefficients of ``r(f)/r(1) - 1`` as a sum of terms; any leading shape.

    With d = f - 1 held within [deviation_low, deviation_high] and f = 1 + d::

        power_scale * (f**p - 1)           where not of_deviation
        power_scale * sign(d) * |d|**p     where of_deviation
        + slope * d
        + cubic_scale * ((1 - d)**3 - 1)
        + cosine_scale * (cos(clip(cosine_rate * d, +-cosine_rate))**2 - 1)
        + exponential_scale * (exp(exponential_rate * d) - 1)

    p is exponent_above where f > 1 and exponent_below where f < 1.
    """

    power_scale: Float[Array, "*rows"]
    exponent_above: Float[Array, "*rows"]
    exponent_below: Float[Array, "*rows"]
    of_deviation: Bool[Array, "*rows"]  # the power is g_p(f), of f - 1 and not of f
    slope: Float[Array, "*rows"]
    cubic_scale: Float[Array, "*rows"]
    cosine_scale: Float[Array, "*rows"]
    cosine_rate: Float[Array, "*rows"]
    exponential_scale: Float[Array, "*rows"]
    exponential_rate: Float[Array, "*rows"]
    deviation_low: Float[Array, "*rows"]  # 0 where only raised factors act, else -inf
    deviation_high: Float[Array, "*rows"]  # 0 where only reduced factors act, else +inf


def signed_power(deviation: Array, exponent: Array) -> Array:
    """g_p(f) = sign(f-1)|f-1|**p, linear within `LINEAR_CORE` of f = 1. Source: whatif-v1.md §3."""
    magnitude = jnp.maximum(jnp.abs(deviation), LINEAR_CORE)
    return deviation * jnp.exp((exponent - 1.0) * jnp.log(magnitude))


def relative_change(
    terms: Terms,
    deviation: Array,
    log_factor: Array,
    kinds: tuple[str, ...] = TERM_KINDS,
    cosine: Callable[[Array], Array] = jnp.cos,
) -> Array:
    """``r(f)/r(1) - 1`` at deviation f - 1; exactly 0 at f = 1.

    Args:
        terms: coefficients, of the shape of `deviation` or broadcast against it.
        deviation: f - 1.
        log_factor: `log_of_factor(deviation)`, which the caller needs too.
        kinds: the terms to evaluate (static); the others' coefficients must be neutral.
        cosine: what evaluates the cosine.
    """
    held = jnp.clip(deviation, terms.deviation_low, terms.deviation_high)
    total = jnp.zeros_like(held)
    if "power" in kinds or "signed" in kinds:
        # The bounds are 0 or infinite, so they hold the logarithm as they hold the deviation.
        logarithm = jnp.clip(log_factor, terms.deviation_low, terms.deviation_high)
        # At f = 1 itself the mean of both exponents: no effect on the value, and the gradient is
        # the mean of the slopes on both sides, as it is for every other kink there (bounds, the
        # absolute logarithm of the dampening), so that it equals a central difference.
        middle = 0.5 * (terms.exponent_above + terms.exponent_below)
        exponent = jnp.where(
            held > 0.0,
            terms.exponent_above,
            jnp.where(held < 0.0, terms.exponent_below, middle),
        )
        if "signed" in kinds:
            magnitude = jnp.maximum(jnp.abs(held), LINEAR_CORE)
            logarithm = jnp.where(terms.of_deviation, jnp.log(magnitude), logarithm)
            # sign(d)|d|^p = d |d|^(p-1)
            power = jnp.exp(jnp.where(terms.of_deviation, exponent - 1.0, exponent) * logarithm)
            change = jnp.where(terms.of_deviation, held * power, power - 1.0)
        else:
            change = jnp.exp(exponent * logarithm) - 1.0
        total += terms.power_scale * change
    if "linear" in kinds:
        total += terms.slope * held
    if "cubic" in kinds:
        reflected = 1.0 - held
        total += terms.cubic_scale * (reflected * reflected * reflected - 1.0)
    if "cosine" in kinds:
        angle = jnp.clip(terms.cosine_rate * held, -terms.cosine_rate, terms.cosine_rate)
        total += terms.cosine_scale * (cosine(angle) ** 2 - 1.0)
    if "exponential" in kinds:
        total += terms.exponential_scale * (jnp.exp(terms.exponential_rate * held) - 1.0)
    return total


def log_of_factor(deviation: Array) -> Array:
    """log(f) with f = 1 + deviation floored at `FACTOR_FLOOR`."""
    return jnp.log(jnp.maximum(1.0 + deviation, FACTOR_FLOOR))


class ActiveResponse(eqx.Module):
    """The response of one target to its K active covariates, primary first."""

    terms: Terms  # [K]
    weight: Float[Array, " K"]  # of each secondary; unused at the primary
    in_mean_units: Bool[Array, " K"]  # additive effects measured in mean |y|
    active: Bool[Array, " K"]  # False where a covariate is padding
    offset_slope: Float[Array, ""]  # primary: + offset_slope * (f-1), target units
    offset_slope_of_mean: Float[Array, ""]  # primary: + this * mean|y| * (f-1)
    offset_scale: Float[Array, ""]  # primary: + offset_scale * g_p(f), target units
    offset_exponent: Float[Array, ""]
    additive: Bool[Array, ""]  # secondaries add, else they multiply
    damping: Float[Array, ""]
    floor: Float[Array, ""]  # smallest factor one multiplicative secondary may apply
    clip_low: Float[Array, ""]  # -inf where the target is not clipped
    clip_high: Float[Array, ""]
    mean_magnitude: Float[Array, ""]  # mean |y| over the whole baseline
    primary_kinds: tuple[str, ...] = eqx.field(static=True)
    secondary_kinds: tuple[str, ...] = eqx.field(static=True)
    primary_offset_power: bool = eqx.field(static=True)
    cosine: Callable[[Array], Array] = eqx.field(static=True, default=jnp.cos)  # evaluates it


def gain_and_shift(
    response: ActiveResponse, deviation: Float[Array, "K P"]
) -> tuple[Float[Array, " P"], Float[Array, " P"]]:
    """The fused response: target = clip(gain * y + shift) at each of P factor settings.

    Args:
        response: the target's response to its K covariates, primary at row 0.
        deviation: f - 1 of every covariate at every setting.

    Returns:
        gain and shift; exactly 1 and 0 where all factors are 1.

    References:
        whatif-v1.md §3, "Primary" and "Secondary" with joint dampening.
    """
    k = deviation.shape[0]
    rows = jnp.where(response.active[:, None], deviation, 0.0)
    logs = log_of_factor(rows)

    def change(part: slice, kinds: tuple[str, ...]) -> Array:
        terms = jax.tree.map(lambda leaf: leaf[part, None], response.terms)
        return relative_change(terms, rows[part], logs[part], kinds, response.cosine)

    changes = [change(slice(1), response.primary_kinds)[0]]
    if k > 1:
        changes += list(change(slice(1, None), response.secondary_kinds))
    gain = 1.0 + changes[0]
    slope = response.offset_slope + response.offset_slope_of_mean * response.mean_magnitude
    shift = slope * rows[0]
    if response.primary_offset_power:
        shift += response.offset_scale * signed_power(rows[0], response.offset_exponent)

    # |log f| as log f * sign(log f): slope 0 at f = 1, the mean of both sides; jnp.abs has 1 there
    distance = sum(log * jnp.sign(log) for log in logs)
    dampening = 1.0 / (1.0 + response.damping * distance)
    multiplied, added = jnp.ones_like(gain), jnp.zeros_like(gain)
    for c in range(1, k):
        effect = dampening * response.weight[c] * changes[c]
        multiplied *= jnp.maximum(response.floor, 1.0 + effect)
        added += effect * jnp.where(response.in_mean_units[c], response.mean_magnitude, 1.0)
    additive = response.additive
    multiplied = jnp.where(additive, 1.0, multiplied)
    return gain * multiplied, shift * multiplied + jnp.where(additive, added, 0.0)


def moved(response: ActiveResponse, gain: Array, shift: Array, baseline: Array) -> Array:
    """The target from its intervention-free value, within the response's limits."""
    return jnp.clip(gain * baseline + shift, response.clip_low, response.clip_high)


def impose(
    response: ActiveResponse, deviation: Float[Array, "K P"], baseline: Float[Array, " P"]
) -> Float[Array, " P"]:
    """The target at P steps, from its intervention-free values and the factors there. Pure.

    Wherever a response comes from: the catalog's, by `ResponseTable.select`, is one source of
    them, a prior another. `realize`, whose events repeat the same few factors, evaluates
    `gain_and_shift` at those alone.

    Args:
        response: the target's response to its K covariates, primary at row 0.
        deviation: f - 1 of every covariate at every step.
        baseline: the intervention-free target.

    References:
        whatif-v1.md §3.
    """
    return moved(response, *gain_and_shift(response, deviation), baseline)
