"""SUMO: covariates, targets and responses (whatif-v1.md §2 and §3)."""

import numpy as np

from .forms import (
    DIRECT,
    INVERSE,
    Covariate,
    Primary,
    Secondary,
    floored,
    ratio_effect,
    signed_power,
)

# name, base, shape, weight of the additive classes, weight of the multiplicative classes
ROWS = (
    ("minGap", 2.5, "step", 0.60, 0.45),
    ("accel", 2.6, "step", 0.20, 0.15),
    ("decel", 4.5, "step", 0.20, 0.30),
    ("maxSpeed", 55.56, "step", 0.20, 0.15),
    ("sigma", 0.5, "bell", 0.20, 0.35),
    ("tau", 1.0, "step", 0.20, 0.50),
    ("length", 5.0, "step", 0.50, 0.35),
    ("speedDev", 0.1, "step", 0.20, 0.25),
    ("offset", 10.0, "step", 0.70, 0.30),
    ("width", 1.8, "step", 0.20, 0.15),
    ("height", 1.5, "step", 0.20, 0.15),
    ("lcStrategic", 1.0, "step", 0.20, 0.20),
    ("lcCooperative", 1.0, "step", 0.20, 0.20),
    ("lcSpeedGain", 1.0, "bell", 0.20, 0.20),
    ("impatience", 0.5, "bell", 0.45, 0.15),
    ("actionStepLength", 1.0, "step", 0.20, 0.15),
)
COVARIATES = tuple(Covariate(name, base, shape) for name, base, shape, _, _ in ROWS)
WEIGHT_ADDITIVE = {row[0]: row[3] for row in ROWS}
WEIGHT_MULTIPLICATIVE = {row[0]: row[4] for row in ROWS}
INVERSE_ADDITIVE = (
    "accel",
    "decel",
    "maxSpeed",
    "speedDev",
    "lcStrategic",
    "lcCooperative",
    "lcSpeedGain",
    "impatience",
)
INVERSE_MULTIPLICATIVE = ("minGap", "tau", "length", "sigma", "speedDev")

EMISSIONS = tuple(f"{gas}_abs_edge_e2c" for gas in ("CO2", "NOx", "PMx", "fuel"))
FLOWS = (
    *("flow_loop_e_0_near", "flow_loop_e_1_near", "flow_loop_e_0_far", "flow_loop_e_1_far"),
    *("flow_loop_exit_e_0", "flow_loop_exit_e_1"),
)
OCCUPANCIES = (
    *("occupancy_loop_e_0_near", "occupancy_loop_e_1_near"),
    *("occupancy_loop_exit_e_0", "occupancy_loop_exit_e_1"),
    *("meanOccupancy_e2_e_0", "meanOccupancy_e2_e_1"),
)
SPEEDS = (
    *("speed_loop_e_0_near", "speed_loop_e_1_near"),
    *("speed_loop_exit_e_0", "speed_loop_exit_e_1"),
    *("meanSpeed_e2_e_0", "meanSpeed_e2_e_1"),
)
ADDITIVE = tuple(
    f"{quantity}_e2_e_{lane}"
    for quantity in (
        "meanHaltingDuration",
        "meanTimeLoss",
        "meanVehicleNumber",
        "meanMaxJamLengthInMeters",
    )
    for lane in (0, 1)
)
TARGETS = EMISSIONS + FLOWS + OCCUPANCIES + SPEEDS + ADDITIVE


def raised_to(exponent):
    """The response y*f^p."""
    return lambda y, f, ybar: y * floored(f) ** exponent


# start of the target's name -> its primary
PRIMARY = {
    "meanMaxJamLengthInMeters": Primary("minGap", DIRECT, raised_to(0.6)),
    "meanTimeLoss": Primary("accel", INVERSE, lambda y, f, ybar: y * (0.5 + 0.5 / floored(f))),
    "meanHaltingDuration": Primary("offset", DIRECT, lambda y, f, ybar: y * np.exp(0.3 * (f - 1))),
    "meanVehicleNumber": Primary("impatience", DIRECT, raised_to(0.6)),
    "speed_loop_e_": Primary("decel", DIRECT, raised_to(0.4)),
    "meanSpeed": Primary("maxSpeed", DIRECT, raised_to(0.35)),
    "speed_loop_exit": Primary("speedDev", DIRECT, raised_to(0.3)),
    "occupancy_loop": Primary("length", DIRECT, raised_to(0.5)),
    "meanOccupancy": Primary("length", DIRECT, raised_to(0.5)),
    "flow_loop": Primary("tau", INVERSE, raised_to(-0.7)),
} | {gas: Primary("sigma", DIRECT, raised_to(1.2)) for gas in ("CO2", "NOx", "PMx", "fuel")}


def primary(target: str) -> Primary:
    """The one row of whatif-v1.md §3's primary table whose target this is."""
    (found,) = (row for start, row in PRIMARY.items() if target.startswith(start))
    return found


def secondary(target: str, covariate: str) -> Secondary:
    """s*w*d*ybar*g_0.3(f) on jam length and delay, f^(0.3 d) on the others (whatif-v1.md §3)."""
    if target in ADDITIVE:
        direction = INVERSE if covariate in INVERSE_ADDITIVE else DIRECT
        return Secondary(
            direction,
            WEIGHT_ADDITIVE[covariate],
            lambda f, strength, ybar: strength * direction * ybar * signed_power(f, 0.3),
        )
    direction = INVERSE if covariate in INVERSE_MULTIPLICATIVE else DIRECT
    effect = ratio_effect(lambda f: floored(f) ** (0.3 * direction))
    return Secondary(direction, WEIGHT_MULTIPLICATIVE[covariate], effect)
