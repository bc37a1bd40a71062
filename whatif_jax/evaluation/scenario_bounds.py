"""Bounds of scenarios: read by name, and the box of unit length that a search moves in."""

from collections.abc import Mapping
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from .._types import Array, Float
from ..tasks.scenario import Scenario, ScenarioTask

__all__ = ["NAMES", "Box", "box_of"]

NAMES = ("factors", "onset", "width")


class Box(eqx.Module):
    """Scenarios between two, as coordinates in [0, 1]: of each factor, the onset and the width.

    A factor's coordinate is that of its logarithm, so that halving is as far as doubling.
    """

    low: Scenario
    high: Scenario

    def scenario(self, place: Float[Array, " n"]) -> Scenario:
        """The scenario at some coordinates; bounds hold exactly, and take no slope away."""

        def held(values: Array, low: Array, high: Array) -> Array:
            # what rounding puts outside, put back without a part in the gradient
            fixed = jnp.clip(values, low, high)
            return values + jax.lax.stop_gradient(fixed - values)

        low, high = jnp.log(self.low.factors), jnp.log(self.high.factors)
        factors = jnp.exp(low + place[:-2] * (high - low))
        onset = self.low.onset + place[-2] * (self.high.onset - self.low.onset)
        width = self.low.width + place[-1] * (self.high.width - self.low.width)
        return jax.tree.map(held, Scenario(factors, onset, width), self.low, self.high)

    def place(self, scenario: Scenario) -> Float[Array, " n"]:
        """The coordinates of a scenario, 0 where the bounds leave no room; held within [0, 1]."""

        def flat(of: Scenario) -> Array:
            return jnp.concatenate([jnp.log(of.factors), jnp.stack([of.onset, of.width])])

        low, room = flat(self.low), flat(self.high) - flat(self.low)
        share = (flat(scenario) - low) / jnp.where(room > 0, room, 1.0)
        return jnp.clip(jnp.where(room > 0, share, 0.0), 0.0, 1.0)


def box_of(bounds: object, respond: object) -> Box:
    """Check bounds by name and fill in what a task leaves fixed; ValueError names the fault."""
    if not isinstance(bounds, Mapping) or not bounds:
        raise ValueError(f"bounds: {str(bounds)[:80]}; expected pairs (low, high) by name")
    for name in bounds:
        if name not in NAMES:
            raise ValueError(f"bounds: {str(name)[:80]!r}; expected some of {', '.join(NAMES)}")
    task = respond if isinstance(respond, ScenarioTask) else None
    if task is None and len(bounds) < len(NAMES):
        missing = [name for name in NAMES if name not in bounds]
        raise ValueError(
            f"bounds: no {', '.join(missing)}; expected all of {', '.join(NAMES)} for a function "
            "of one's own (a pair of equal ends holds one fixed)"
        )
    dtype = np.dtype(np.float32) if task is None else np.dtype(task.factors.dtype)
    steps = np.inf if task is None else int(task.horizon)
    own: dict[str, Any] = {}
    if task is not None:
        mask = np.asarray(task.task.covariate_mask)
        factors = np.asarray(task.factors)
        own = {"factors": np.stack([factors, factors], axis=-1), "onset": (0, 0)}
        own["width"] = (steps, steps)
    ends = {name: _pairs(name, bounds.get(name, own.get(name)), dtype) for name in NAMES}
    for name in NAMES[1:]:
        low, high = ends[name]
        if low.ndim or not 0 <= low <= high <= steps:
            most = "" if np.isinf(steps) else f" <= {steps}, the horizon"
            raise ValueError(
                f"bounds: {name} {_shown(bounds, name)}; expected 0 <= low <= high{most}"
            )
    low, high = np.atleast_1d(*ends["factors"])
    if not np.all((low > 0) & (low <= high)):
        raise ValueError(
            f"bounds: factors {_shown(bounds, 'factors')}; expected 0 < low <= high, one pair or "
            "one a covariate"
        )
    if task is not None:
        k = int(mask.sum())
        if len(low) not in (1, k, len(mask)):
            raise ValueError(f"bounds: {len(low)} pairs of factors; expected 1, or {k}, one each")
        low, high = (_spread(each, mask) for each in (low, high))
    lower, upper = (
        Scenario(*map(jnp.asarray, (factors, ends["onset"][side], ends["width"][side])))
        for side, factors in enumerate((low, high))
    )
    return Box(lower, upper)


def _pairs(name: str, given: object, dtype: np.dtype) -> tuple[np.ndarray, np.ndarray]:
    """Lower and upper ends of one pair, or of one a covariate."""
    try:
        pairs = np.asarray(given, float)
    except (TypeError, ValueError):
        pairs = np.array(np.nan)
    with np.errstate(over="ignore"):
        pairs = pairs.astype(dtype)
    if pairs.ndim not in (1, 2) or pairs.shape[-1] != 2 or not np.all(np.isfinite(pairs)):
        raise ValueError(
            f"bounds: {name} {str(given)[:80]}; expected finite numbers (low, high)"
            + (", one pair or one a covariate" if name == "factors" else "")
        )
    return pairs[..., 0], pairs[..., 1]


def _spread(values: np.ndarray, mask: np.ndarray) -> np.ndarray:
    """One value a column: those given at the real ones, 1 where there is no covariate."""
    if len(values) == len(mask):
        return np.where(mask, values, 1).astype(values.dtype)
    full = np.ones(mask.shape, values.dtype)
    full[mask] = values
    return full


def _shown(bounds: Mapping, name: str) -> str:
    return str(bounds.get(name))[:80]
