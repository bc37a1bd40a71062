"""OpenDC: covariates, targets and responses (whatif-v1.md §2 and §3)."""

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
    reduced_only,
    signed_power,
)

HOST = {
    "host-0": "host-0",
    "host-1": "host-1",
    "1019": "host-0",
    "1023": "host-0",
    "1026": "host-1",
}
COVARIATES = tuple(
    Covariate(f"{kind}_{host}", base, shape)
    for host in ("host-0", "host-1")
    for kind, base, shape in (
        ("coreCount", 16.0, "step"),
        ("coreSpeed", 3000.0, "bell"),
        ("memorySize", 64.0, "step"),
    )
)
TARGETS = tuple(
    f"{quantity}_{host}"
    for host in ("host-0", "host-1")
    for quantity in ("cpu_demand", "cpu_usage", "cpu_utilization", "cpu_time_active", "power_draw")
) + tuple(
    f"{quantity}_{machine}"
    for machine in ("1019", "1023", "1026")
    for quantity in ("cpu_demand", "cpu_usage", "cpu_time_active", "cpu_time_idle")
)


def power_draw(y, f, ybar):
    """Idle 105.5 W stays, the rest scales, plus a switching term."""
    return 105.5 + (y - 105.5) * f + 4 * (f - 1)


def time_idle(y, f, ybar):
    """Falls slowly as memory grows, rises fast as it shrinks."""
    return y * floored(f) ** np.where(f >= 1, -0.2, -0.8)


PRIMARY = {
    "cpu_demand": ("coreSpeed", DIRECT, proportional),
    "cpu_usage": ("coreSpeed", DIRECT, proportional),
    "power_draw": ("coreSpeed", DIRECT, power_draw),
    "cpu_utilization": ("coreCount", INVERSE, lambda y, f, ybar: y / floored(f)),
    "cpu_time_active": ("coreCount", DIRECT, lambda y, f, ybar: y * floored(f) ** 0.7),
    "cpu_time_idle": ("memorySize", INVERSE, time_idle),
}
DEMAND = {
    ("coreCount", "same"): (DIRECT, 0.60, ratio_effect(lambda f: f**2)),
    ("memorySize", "same"): (
        INVERSE,
        0.40,
        ratio_effect(reduced_only(lambda f: (10 / floored(f)) / 10)),
    ),
    ("coreSpeed", "other"): (INVERSE, 0.35, ratio_effect(reduced_only(lambda f: 5 * (2 - f) / 5))),
    ("coreCount", "other"): (INVERSE, 0.30, ratio_effect(lambda f: (2 - f) ** 3)),
    ("memorySize", "other"): (INVERSE, 0.20, ratio_effect(lambda f: (1 + 3 / floored(f)) / 4)),
}
TIME_ACTIVE = DEMAND | {
    ("coreSpeed", "same"): (INVERSE, 0.80, ratio_effect(lambda f: floored(f) ** -3.0)),
}
TIME_IDLE = DEMAND | {
    ("coreSpeed", "same"): (INVERSE, 0.30, ratio_effect(lambda f: 1 / floored(f))),
    ("coreCount", "same"): (DIRECT, 0.30, ratio_effect(lambda f: floored(f) ** 0.5)),
}


def utilization_offset(f, strength, ybar):
    """s*w*ybar*(1/f - 1)."""
    return strength * ybar * (1 / floored(f) - 1)


def power_offset(f, strength, ybar):
    """s*w*60*g_0.5(f) watts."""
    return strength * 60 * signed_power(f, 0.5)


UTILIZATION = {
    ("coreSpeed", "same"): (INVERSE, 0.5, utilization_offset),
    ("memorySize", "same"): (INVERSE, 0.4, utilization_offset),
    ("coreSpeed", "other"): (INVERSE, 0.3, utilization_offset),
    ("coreCount", "other"): (INVERSE, 0.3, utilization_offset),
    ("memorySize", "other"): (INVERSE, 0.2, utilization_offset),
}
POWER = {
    ("coreCount", "same"): (DIRECT, 0.6, power_offset),
    ("memorySize", "same"): (DIRECT, 0.3, power_offset),
    ("coreCount", "other"): (DIRECT, 0.3, power_offset),
    ("coreSpeed", "other"): (DIRECT, 0.3, power_offset),
    ("memorySize", "other"): (DIRECT, 0.2, power_offset),
}
SECONDARY = {
    "cpu_demand": DEMAND,
    "cpu_usage": DEMAND,
    "cpu_time_active": TIME_ACTIVE,
    "cpu_time_idle": TIME_IDLE,
    "cpu_utilization": UTILIZATION,
    "power_draw": POWER,
}


def primary(target: str) -> Primary:
    """The quantity's primary, on the host of the target (whatif-v1.md §3)."""
    quantity, element = target.rsplit("_", 1)
    kind, direction, response = PRIMARY[quantity]
    return Primary(f"{kind}_{HOST[element]}", direction, response)


def secondary(target: str, covariate: str) -> Secondary:
    """The quantity's row for this covariate; hosts mirror each other (whatif-v1.md §3)."""
    quantity, element = target.rsplit("_", 1)
    kind, host = covariate.split("_")
    side = "same" if host == HOST[element] else "other"
    return Secondary(*SECONDARY[quantity][kind, side])
