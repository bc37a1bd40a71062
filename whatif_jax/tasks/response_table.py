"""The catalog's responses, lowered to one table of coefficients on the device.

References:
    whatif-v1.md §3.
"""

from collections.abc import Mapping, Sequence

import equinox as eqx
import jax
import numpy as np
from jax.typing import ArrayLike, DTypeLike

from .._types import Array, Bool, Float, Int
from .._xla import picked
from ..catalog import Response, System, forms
from .responses import TERM_KINDS, ActiveResponse, Terms

__all__ = ["NEUTRAL", "ResponseTable", "build_response_table", "on_device"]


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
        each = (self.terms, self.weight, self.in_mean_units)
        terms, weight, in_mean_units = picked(each, target, covariates)
        of_target = {name: getattr(self, name) for name in OF_TARGET}
        return ActiveResponse(
            terms=terms,
            weight=weight,
            in_mean_units=in_mean_units,
            active=active,
            mean_magnitude=mean_magnitude,
            primary_kinds=self.primary_kinds,
            secondary_kinds=self.secondary_kinds,
            primary_offset_power=self.primary_offset_power,
            **picked(of_target, target),
        )


# Fields of `ResponseTable` with one value a target, named as in `ActiveResponse`.
OF_TARGET = (
    "offset_slope",
    "offset_slope_of_mean",
    "offset_scale",
    "offset_exponent",
    "additive",
    "damping",
    "floor",
    "clip_low",
    "clip_high",
)

# coefficients of a covariate that does nothing
NEUTRAL = {
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
_ACTS: dict[str, dict[str, float]] = {
    "always": {},
    "below": {"deviation_high": 0.0},
    "above": {"deviation_low": 0.0},
}


def _ratio_coefficients(response: Response) -> dict[str, float]:
    """The catalog's form, as printed there, into the coefficients of r(f)/r(1) - 1."""
    match response:
        case forms.Power():
            return {
                "power_scale": 1.0,
                "exponent_above": response.exponent,
                "exponent_below": response.exponent_below,
            }
        case forms.Linear():
            return {"slope": response.slope}
        case forms.PowerLinear():
            return {
                "power_scale": response.scale,
                "exponent_above": response.exponent,
                "exponent_below": response.exponent,
                "slope": response.slope,
            }
        case forms.ConstantPlusPower():
            return {
                "power_scale": response.coefficient / (1.0 + response.coefficient),
                "exponent_above": response.exponent,
                "exponent_below": response.exponent,
            }
        case forms.ReflectedCubic():
            return {"cubic_scale": 1.0}
        case forms.Exponential():
            return {"exponential_scale": 1.0, "exponential_rate": response.rate}
        case forms.CosineSquared():
            return {"cosine_scale": 1.0, "cosine_rate": response.rate}
        case forms.SignedPower():
            return {
                "power_scale": response.scale,
                "exponent_above": response.exponent,
                "exponent_below": response.exponent,
                "of_deviation": True,
                "slope": response.slope,
            }
    raise ValueError(f"form: {response.form!r} has no ratio; known forms are in whatif_jax.catalog")


def _primary_coefficients(response: Response) -> tuple[dict[str, float], dict[str, float]]:
    """Ratio coefficients and offsets of a primary response."""
    match response:
        case forms.Proportional():
            return {"slope": 1.0}, {"offset_slope_of_mean": response.overhead}
        case forms.Pivot():  # pivot + (y-pivot)*f = f*y - pivot*(f-1)
            return {"slope": 1.0}, {"offset_slope": response.slope - response.pivot}
        case forms.SignedPower():
            return {}, {
                "offset_scale": response.scale,
                "offset_exponent": response.exponent,
                "offset_slope": response.slope,
            }
    return _ratio_coefficients(response), {}


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


def on_device(value: ArrayLike | list, dtype: DTypeLike) -> Array:
    """An array on the default device, converted before it goes there: no program is compiled."""
    return jax.device_put(np.asarray(value, dtype))


def build_response_table(
    systems: Sequence[System], *, reachable: np.ndarray | None = None, dtype: DTypeLike = np.float32
) -> ResponseTable:
    """Lower the catalog's forms of all targets of `systems` into one table.

    `reachable` (bool, [targets, covariates]) limits which terms count as used, so that a term only
    reachable with more covariates than a task can hold is not compiled in.
    """
    rows = [(system, target) for system in systems for target in system.targets]
    width = max(len(system.covariates) for system in systems)
    shape = (len(rows), width)
    terms = {name: np.full(shape, value) for name, value in NEUTRAL.items()}
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
        for name, value in ratio.items():
            terms[name][row, column] = value
        for name, value in offsets.items():
            per_target[name][row] = value
        for secondary in target.secondaries:
            column = system.covariate_index(secondary.covariate)
            ratio = _ratio_coefficients(secondary.response)
            for name, value in (ratio | _ACTS[secondary.acts]).items():
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
