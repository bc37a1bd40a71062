"""Words and forms shared by the tables of the four systems (whatif-v1.md §2 and §3).

Every response is written as whatif-v1.md prints it, as a function of the baseline y, the factor f
and ybar (mean |y| of the whole baseline). y and f may be numbers or arrays that broadcast.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

SMALLEST_FACTOR = 1e-6
DIRECT, INVERSE = 1, -1


@dataclass(frozen=True)
class Covariate:
    """A covariate of a system: its base value and the shape of its events (whatif-v1.md §2)."""

    name: str
    base: float
    shape: str  # "step" or "bell"


@dataclass(frozen=True)
class Primary:
    """The covariate that owns a target, and the response of y to it (whatif-v1.md §3, Primary)."""

    covariate: str
    direction: int
    response: Callable  # (y, f, ybar) -> target


@dataclass(frozen=True)
class Secondary:
    """One further covariate (whatif-v1.md §3, Secondary); `strength` below is s*w."""

    direction: int
    weight: float
    effect: Callable  # (f, strength, ybar) -> factor (multiplicative) or offset (additive)


@dataclass(frozen=True)
class System:
    """One simulated system (whatif-v1.md §2, §4, §5)."""

    name: str
    steps: int
    step_seconds: int
    targets: tuple[str, ...]
    covariates: tuple[Covariate, ...]
    pool: tuple[float, ...]
    contexts: dict[str, tuple[int, int]]  # pair -> (nominal context, horizon)


def floored(f):
    """The factor, kept away from zero where a power or the logarithm needs it."""
    return np.maximum(f, SMALLEST_FACTOR)


def signed_power(f, exponent):
    """g_p(f) = sign(f-1)|f-1|^p (whatif-v1.md §3)."""
    return np.sign(f - 1) * np.abs(f - 1) ** exponent


def ratio_effect(ratio):
    """Multiplicative class: max(0.05, 1 + s*w*(ratio - 1)), ratio = r(f)/r(1) (whatif-v1.md §3)."""
    return lambda f, strength, ybar: np.maximum(0.05, 1 + strength * (ratio(f) - 1))


def reduced_only(ratio):
    """An effect marked (f<1): the covariate acts only when it is reduced (whatif-v1.md §3)."""
    return lambda f: ratio(np.minimum(f, 1.0))


def proportional(y, f, ybar):
    """f*y + 0.05*ybar*(f-1), shared by opendc and gridlabd (whatif-v1.md §3)."""
    return f * y + 0.05 * ybar * (f - 1)
