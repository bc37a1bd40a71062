"""GridLAB-D: covariates, targets and responses (whatif-v1.md §2 and §3)."""

import numpy as np

from .forms import (
    DIRECT,
    INVERSE,
    Covariate,
    Primary,
    Secondary,
    floored,
    proportional,
    ratio_effect,
    signed_power,
)

BASES = {
    "base_power": 10.0,
    "nominal_power": 10.0,
    "heat_fraction": 0.05,
    "temperature": 60.0,
    "breaker_amps": 60.0,
}
BELLS = (
    "temperature",
    "base_power",
    "multiplier",
    "voltage_factor",
    "duty_cycle",
    "recovery_duty_cycle",
)
COVARIATES = tuple(
    Covariate(name, BASES.get(name, 1.0), "bell" if name in BELLS else "step")
    for name in (
        "base_power",
        "current_pf",
        "power_pf",
        "impedance_pf",
        "duty_cycle",
        "period",
        "phase",
        "heat_fraction",
        "multiplier",
        "voltage_factor",
        "breaker_amps",
        "power_factor",
        "number_of_devices",
        "thermostatic_control_range",
        "rate_of_cooling",
        "rate_of_heating",
        "temperature",
        "phi",
        "demand_rate",
        "nominal_power",
        "recovery_duty_cycle",
    )
)
THERMAL = (
    "heat_fraction",
    "temperature",
    "thermostatic_control_range",
    "rate_of_heating",
    "rate_of_cooling",
    "duty_cycle",
    "recovery_duty_cycle",
    "period",
)
POWERS = ("actual_power", "total_load", "hvac_load", "hvac_power", "fan_power")
TEMPERATURES = ("air_temperature", "mass_temperature")
STATES = ("is_AUX_on", "is_HEAT_on", "is_COOL_on")
TARGETS = POWERS + TEMPERATURES + ("heating_demand",) + STATES


def hvac(y, f, ybar):
    """A damped drop of 1 kW."""
    return y - 1.0 * signed_power(f, 0.4)


def heating_demand(y, f, ybar):
    """Super-linear upwards, sub-linear downwards."""
    return y * floored(f) ** np.where(f >= 1, 1.3, 0.6)


def temperature(y, f, ybar):
    """A damped shift plus a small linear one, in F."""
    return y + 14 * signed_power(f, 0.4) + 0.5 * (f - 1)


def state(y, f, ybar):
    """The shift of a state; its clip to [1, 2] follows the sum over covariates (`clipped`)."""
    return y + 0.5 * signed_power(f, 0.4)


PRIMARY = {
    "actual_power": Primary("base_power", DIRECT, proportional),
    "total_load": Primary("nominal_power", DIRECT, proportional),
    "fan_power": Primary("power_pf", DIRECT, proportional),
    "hvac_load": Primary("voltage_factor", INVERSE, hvac),
    "hvac_power": Primary("duty_cycle", INVERSE, hvac),
    "heating_demand": Primary("rate_of_heating", DIRECT, heating_demand),
    "air_temperature": Primary("heat_fraction", DIRECT, temperature),
    "mass_temperature": Primary("temperature", DIRECT, temperature),
    "is_COOL_on": Primary("thermostatic_control_range", DIRECT, state),
    "is_HEAT_on": Primary("recovery_duty_cycle", DIRECT, state),
    "is_AUX_on": Primary("period", DIRECT, state),
}
POWER_RATIOS = {
    "voltage_factor": (0.50, lambda f: f**2),
    "breaker_amps": (0.40, lambda f: 1 + 0.1 * (f - 1)),
    "phi": (0.30, lambda f: np.cos(np.clip(1.57 * (f - 1), -1.57, 1.57)) ** 2),
}


def primary(target: str) -> Primary:
    """The row of whatif-v1.md §3's primary table."""
    return PRIMARY[target]


def secondary(target: str, covariate: str) -> Secondary:
    """The class's row of the secondary table (whatif-v1.md §3); thermal ones are told apart."""
    thermal = covariate in THERMAL
    if target in POWERS:
        if covariate in POWER_RATIOS:
            weight, ratio = POWER_RATIOS[covariate]
        elif thermal:
            weight, ratio = 0.30, lambda f: 1 + 0.15 * signed_power(f, 0.4)
        else:
            weight, ratio = 0.20, lambda f: f + 0.05 * (f - 1)
        return Secondary(DIRECT, weight, ratio_effect(ratio))
    if target == "heating_demand":
        if thermal:
            effect = ratio_effect(lambda f: 1 + 0.15 * signed_power(f, 0.4))
            return Secondary(DIRECT, 0.40, effect)
        return Secondary(DIRECT, 0.20, ratio_effect(lambda f: 1 + 0.3 * signed_power(f, 0.4)))
    size = 10 if target in TEMPERATURES else 0.3
    return Secondary(
        DIRECT,
        0.30 if thermal else 0.20,
        lambda f, strength, ybar: strength * size * signed_power(f, 0.4),
    )
