"""Responses: how a target moves when covariates leave their base values.

Every response of the benchmark is affine in the intervention-free target,

    target = clip(gain * y + shift),

and only ``gain`` and ``shift`` depend on the factors. So one fused function of the factors is
enough: it is evaluated inside event windows alone and applied to any number of targets. Each
covariate contributes ``r(f)/r(1) - 1``, a sum of a few terms (`Terms`) whose coefficients come
from the catalog; terms that no loaded response uses are left out of the compiled program.

Factors enter as deviations ``f - 1``, which keeps the tails of a bell exact in float32.

References:
    SPEC §3; paper, appendix B.6 and tables 5-12.
"""

from collections.abc import Mapping
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from ._types import Array, Bool, Float, Int
from .catalog import Response, System

__all__ = ["ActiveResponse", "ResponseTable", "Terms", "gain_and_shift", "relative_change"]

# SPEC §3 floors the factor inside the dampening logarithm; powers use the same floor, so that a
# factor of zero has a finite response and a finite gradient.
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
    """g_p(f) = sign(f-1)|f-1|**p, linear within `LINEAR_CORE` of f = 1. Source: SPEC §3."""
    magnitude = jnp.maximum(jnp.abs(deviation), LINEAR_CORE)
    return deviation * jnp.exp((exponent - 1.0) * jnp.log(magnitude))


def relative_change(
    terms: Terms, deviation: Array, log_factor: Array, kinds: tuple[str, ...] = TERM_KINDS
) -> Array:
    """``r(f)/r(1) - 1`` at deviation f - 1; exactly 0 at f = 1.

    Args:
        terms: coefficients, of the shape of `deviation` or broadcast against it.
        deviation: f - 1.
        log_factor: `log_of_factor(deviation)`, which the caller needs too.
        kinds: the terms to evaluate (static); the others' coefficients must be neutral.
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
            power = jnp.exp((exponent - terms.of_deviation) * logarithm)
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
        total += terms.cosine_scale * (jnp.cos(angle) ** 2 - 1.0)
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
        SPEC §3, "Primary" and "Secondary" with joint dampening.
    """
    # Written out over K, which is small and static: one elementwise loop over P, where sums and
    # products along an axis would be separate reductions.
    k = deviation.shape[0]
    rows = [jnp.where(response.active[c], deviation[c], 0.0) for c in range(k)]
    logs = [log_of_factor(row) for row in rows]
    changes = [
        relative_change(
            jax.tree.map(lambda leaf, c=c: leaf[c], response.terms),
            rows[c],
            logs[c],
            response.primary_kinds if c == 0 else response.secondary_kinds,
        )
        for c in range(k)
    ]
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


class ResponseTable(eqx.Module):
    """All responses of the loaded catalog; row = target, column = covariate of its system."""

    terms: Terms  # [targets, covariates]
    weight: Float[Array, "targets covariates"]
    in_mean_units: Bool[Array, "targets covariates"]
    offset_slope: Float[Array, " targets"]
    offset_slope_of_mean: Float[Array, " targets"]
    offset_scale: Float[Array, " targets"]
    offset_exponent: Float[Array, " targets"]
    additive: Bool[Array, " targets"]
    damping: Float[Array, " targets"]
    floor: Float[Array, " targets"]
    clip_low: Float[Array, " targets"]
    clip_high: Float[Array, " targets"]
    primary_kinds: tuple[str, ...] = eqx.field(static=True)
    secondary_kinds: tuple[str, ...] = eqx.field(static=True)
    primary_offset_power: bool = eqx.field(static=True)

    def select(
        self,
        target: Int[Array, ""],
        covariates: Int[Array, " K"],
        active: Bool[Array, " K"],
        mean_magnitude: Float[Array, ""],
    ) -> ActiveResponse:
        """The response of `target` to `covariates` (column numbers, the primary first)."""
        return ActiveResponse(
            terms=jax.tree.map(lambda leaf: leaf[target, covariates], self.terms),
            weight=self.weight[target, covariates],
            in_mean_units=self.in_mean_units[target, covariates],
            active=active,
            offset_slope=self.offset_slope[target],
            offset_slope_of_mean=self.offset_slope_of_mean[target],
            offset_scale=self.offset_scale[target],
            offset_exponent=self.offset_exponent[target],
            additive=self.additive[target],
            damping=self.damping[target],
            floor=self.floor[target],
            clip_low=self.clip_low[target],
            clip_high=self.clip_high[target],
            mean_magnitude=mean_magnitude,
            primary_kinds=self.primary_kinds,
            secondary_kinds=self.secondary_kinds,
            primary_offset_power=self.primary_offset_power,
        )


_NEUTRAL = {
    "power_scale": 0.0,
    "exponent_above": 1.0,
    "exponent_below": 1.0,
    "of_deviation": False,
    "slope": 0.0,
    "cubic_scale": 0.0,
    "cosine_scale": 0.0,
    "cosine_rate": 1.0,
    "exponential_scale": 0.0,
    "exponential_rate": 0.0,
    "deviation_low": -np.inf,
    "deviation_high": np.inf,
}
_ACTS = {
    "always": {},
    "below": {"deviation_high": 0.0},
    "above": {"deviation_low": 0.0},
}


def _ratio_coefficients(form: str, constants: Mapping[str, float]) -> dict[str, float]:
    """The catalog's form, as printed there, into the coefficients of r(f)/r(1) - 1."""
    c = constants
    match form:
        case "power":
            below = c.get("exponent_below", c["exponent"])
            return {
                "power_scale": 1.0,
                "exponent_above": c["exponent"],
                "exponent_below": below,
            }
        case "linear":
            return {"slope": c["slope"]}
        case "power_linear":
            return {
                "power_scale": c["scale"],
                "exponent_above": c["exponent"],
                "exponent_below": c["exponent"],
                "slope": c["slope"],
            }
        case "constant_plus_power":
            return {
                "power_scale": c["coefficient"] / (1.0 + c["coefficient"]),
                "exponent_above": c["exponent"],
                "exponent_below": c["exponent"],
            }
        case "reflected_cubic":
            return {"cubic_scale": 1.0}
        case "exponential":
            return {"exponential_scale": 1.0, "exponential_rate": c["rate"]}
        case "cosine_squared":
            return {"cosine_scale": 1.0, "cosine_rate": c["rate"]}
        case "signed_power":
            return {
                "power_scale": c["scale"],
                "exponent_above": c["exponent"],
                "exponent_below": c["exponent"],
                "of_deviation": True,
                "slope": c.get("slope", 0.0),
            }
    raise ValueError(f"form: {form!r} has no evaluation; known forms are in whatif_jax.catalog")


def _primary_coefficients(response: Response) -> tuple[dict[str, float], dict[str, float]]:
    """Ratio coefficients and offsets of a primary response."""
    c = response.constants
    match response.form:
        case "proportional":
            return {"slope": 1.0}, {"offset_slope_of_mean": c["overhead"]}
        case "pivot":  # pivot + (y-pivot)*f = f*y - pivot*(f-1)
            return {"slope": 1.0}, {"offset_slope": c["slope"] - c["pivot"]}
        case "signed_power":
            return {}, {
                "offset_scale": c["scale"],
                "offset_exponent": c["exponent"],
                "offset_slope": c.get("slope", 0.0),
            }
    return _ratio_coefficients(response.form, c), {}


def _kinds(terms: Mapping[str, np.ndarray], rows: np.ndarray) -> tuple[str, ...]:
    """Terms with a coefficient that is not neutral anywhere in `rows` (bool)."""
    at = {name: value[rows] for name, value in terms.items()}
    signed = at["of_deviation"]
    used = {
        "power": at["power_scale"] * ~signed,
        "signed": at["power_scale"] * signed,
        "linear": at["slope"],
        "cubic": at["cubic_scale"],
        "cosine": at["cosine_scale"],
        "exponential": at["exponential_scale"],
    }
    return tuple(kind for kind in TERM_KINDS if np.any(used[kind] != 0.0))


def on_device(value: Any, dtype: Any) -> Array:
    """An array on the default device, converted before it goes there: no program is compiled."""
    return jax.device_put(np.asarray(value, dtype))


def build_response_table(
    systems: tuple[System, ...], *, reachable: np.ndarray | None = None, dtype=np.float32
) -> ResponseTable:
    """Lower the catalog's forms of all targets of `systems` into one table.

    `reachable` (bool, [targets, covariates]) limits which terms count as used, so that a term only
    reachable with more covariates than a task can hold is not compiled in.
    """
    rows = [(system, target) for system in systems for target in system.targets]
    width = max(len(system.covariates) for system in systems)
    shape = (len(rows), width)
    terms = {name: np.full(shape, value) for name, value in _NEUTRAL.items()}
    is_primary = np.zeros(shape, bool)
    weight = np.zeros(shape)
    in_mean_units = np.zeros(shape, bool)
    per_target = {
        name: np.full(len(rows), value, np.float64)
        for name, value in {
            "offset_slope": 0.0,
            "offset_slope_of_mean": 0.0,
            "offset_scale": 0.0,
            "offset_exponent": 1.0,
            "damping": 0.0,
            "floor": 0.0,
            "clip_low": -np.inf,
            "clip_high": np.inf,
        }.items()
    }
    additive = np.zeros(len(rows), bool)
    for row, (system, target) in enumerate(rows):
        column = system.covariate_index(target.primary.covariate)
        is_primary[row, column] = True
        ratio, offsets = _primary_coefficients(target.primary.response)
        for name, value in (ratio | _ACTS[target.primary.response.acts]).items():
            terms[name][row, column] = value
        for name, value in offsets.items():
            per_target[name][row] = value
        for secondary in target.secondaries:
            column = system.covariate_index(secondary.covariate)
            response = secondary.response
            ratio = _ratio_coefficients(response.form, response.constants)
            for name, value in (ratio | _ACTS[response.acts]).items():
                terms[name][row, column] = value
            weight[row, column] = secondary.weight
            in_mean_units[row, column] = secondary.offset_scale == "mean"
        kind = target.class_
        additive[row] = kind.combine == "add"
        per_target["damping"][row] = kind.damping
        per_target["floor"][row] = kind.floor
        if kind.clip is not None:
            per_target["clip_low"][row], per_target["clip_high"][row] = kind.clip
    reachable = np.ones(shape, bool) if reachable is None else reachable

    def array(value: np.ndarray) -> Array:
        return on_device(value, bool if value.dtype == bool else dtype)

    return ResponseTable(
        terms=Terms(**{name: array(value) for name, value in terms.items()}),
        weight=array(weight),
        in_mean_units=array(in_mean_units),
        additive=array(additive),
        primary_kinds=_kinds(terms, is_primary & reachable),
        secondary_kinds=_kinds(terms, ~is_primary & reachable),
        primary_offset_power=bool(np.any(per_target["offset_scale"])),
        **{name: array(value) for name, value in per_target.items()},
    )
