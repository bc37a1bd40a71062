"""The four systems assembled, and a target's response to covariates (whatif-v1.md §2-§5)."""

from functools import cache

import numpy as np

from . import epanet, gridlabd, opendc, sumo
from .forms import SMALLEST_FACTOR, Primary, Secondary, System

POOL = (0.1, 0.25, 0.5, 2.0, 4.0, 6.0, 8.0)
SHARED_CONTEXTS = {"C1": (1024, 128), "C2": (2048, 256), "C3": (4096, 384)}
MODULES = {"opendc": opendc, "gridlabd": gridlabd, "epanet": epanet, "sumo": sumo}


def _system(name, steps, step_seconds, pool, largest_context) -> System:
    module = MODULES[name]
    contexts = SHARED_CONTEXTS | {"C4": largest_context}
    return System(name, steps, step_seconds, module.TARGETS, module.COVARIATES, pool, contexts)


SYSTEMS = {
    "opendc": _system("opendc", 8640, 300, POOL, (7328, 864)),
    "gridlabd": _system("gridlabd", 9000, 60, POOL, (8192, 512)),
    "epanet": _system("epanet", 9000, 600, (2.0, 4.0, 6.0, 8.0), (8192, 512)),
    "sumo": _system("sumo", 8640, 300, POOL, (7776, 864)),
}


@cache
def primary(system: str, target: str) -> Primary:
    """The covariate that owns `target`, its direction and its response (whatif-v1.md §3)."""
    return MODULES[system].primary(target)


@cache
def secondary(system: str, target: str, covariate: str) -> Secondary:
    """How `covariate` acts on `target` besides the primary (whatif-v1.md §3)."""
    return MODULES[system].secondary(target, covariate)


def additive(system: str, target: str) -> bool:
    """Whether the target's class adds its secondary effects or multiplies (whatif-v1.md §3)."""
    if system == "opendc":
        return target.startswith(("cpu_utilization", "power_draw"))
    if system == "gridlabd":
        return target in gridlabd.TEMPERATURES + gridlabd.STATES
    return system == "sumo" and target in sumo.ADDITIVE


def state(system: str, target: str) -> bool:
    """Whether the target is clipped to [1, 2] and only ever pushed up (whatif-v1.md §3 and §4)."""
    return system == "gridlabd" and target in gridlabd.STATES


def up_only(system: str, target: str) -> bool:
    """Whether the target's events have one direction only, up (whatif-v1.md §4)."""
    return system == "epanet" or state(system, target)


@cache
def covariates_of(system: str, target: str, k: int) -> tuple[str, ...]:
    """The primary, then the first k-1 others in the system's order (whatif-v1.md §4)."""
    first = primary(system, target).covariate
    others = [covariate.name for covariate in SYSTEMS[system].covariates if covariate.name != first]
    if not 1 <= k <= len(others) + 1:
        raise ValueError(f"{system} has {len(others) + 1} covariates, not {k}")
    return (first, *others[: k - 1])


def directions(system: str, target: str, covariates) -> list[int]:
    """+1 for each direct and -1 for each inverse covariate, the primary being first."""
    return [primary(system, target).direction] + [
        secondary(system, target, covariate).direction for covariate in covariates[1:]
    ]


@cache
def covariate_table(system: str) -> dict:
    """Covariate by name."""
    return {covariate.name: covariate for covariate in SYSTEMS[system].covariates}


def dampening(factors):
    """s = 1 / (1 + 0.5 * sum over all active covariates of |ln f|), per step (whatif-v1.md §3)."""
    total = 0.0
    for f in factors:
        total = total + np.abs(np.log(np.maximum(f, SMALLEST_FACTOR)))
    return 1 / (1 + 0.5 * total)


def respond(system: str, target: str, covariates, y, factors, ybar):
    """The target under an event (whatif-v1.md §3).

    `covariates` starts with the primary; `factors` holds, for each, a number or an array that
    broadcasts against the baseline `y`; `ybar` is mean |y| of the whole baseline.
    """
    value = primary(system, target).response(y, factors[0], ybar)
    if len(covariates) > 1:
        s = dampening(factors)
        adds = additive(system, target)
        for covariate, f in zip(covariates[1:], factors[1:], strict=True):
            rule = secondary(system, target, covariate)
            effect = rule.effect(f, s * rule.weight, ybar)
            value = value + effect if adds else value * effect
    return np.clip(value, 1, 2) if state(system, target) else value
