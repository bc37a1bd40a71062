"""Random forecasts with everything that goes wrong, for the tests of metrics and scores."""

from typing import NamedTuple

import jax
import numpy as np

from whatif_jax import Task

LEVELS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
KINDS = (
    "plain",
    "crossing",
    "missing targets",
    "ragged",
    "zero horizon",
    "exact",
    "exact zero horizon",
    "nothing counted",
    "alike",
    "cancelling",
    "large",
    "small",
    "point far off",
    "constant history",
)


class Case(NamedTuple):
    """What is scored of one task, and a forecast of it."""

    target: np.ndarray
    future_baseline: np.ndarray
    history: np.ndarray
    quantiles: np.ndarray
    history_mask: np.ndarray
    future_mask: np.ndarray

    @property
    def task(self) -> Task:
        """The task, of one covariate that no score looks at."""
        past, ahead = (np.zeros_like(part) for part in (self.history, self.future_baseline))
        fields = {
            "history": self.history,
            "future": self.target,
            "future_baseline": self.future_baseline,
            "history_covariates": past[..., None, :],
            "future_covariates": ahead[..., None, :],
            "history_mask": self.history_mask,
            "future_mask": self.future_mask,
            "covariate_mask": np.ones((*past.shape[:-1], 1), bool),
        }
        return Task(**jax.device_put(fields))


def random_case(kind: str, rng: np.random.Generator, context: int, horizon: int) -> Case:
    """A case as float32, quantiles of 9 levels ascending except where the kind says otherwise."""
    level = rng.normal() * 10.0 ** rng.integers(-2, 6)
    scale = abs(level) * 10.0 ** rng.integers(-3, 1)
    history = level + scale * rng.normal(size=context)
    baseline = level + scale * rng.normal(size=horizon)
    target = baseline * rng.uniform(0.5, 2) + scale * rng.normal(size=horizon)
    spread = np.sort(rng.normal(size=(horizon, 9)), axis=1)
    quantiles = target[:, None] + scale * (rng.normal() + spread)
    history_mask, future_mask = np.ones(context, bool), np.ones(horizon, bool)
    if kind == "crossing":
        quantiles = rng.permuted(quantiles, axis=1)
    elif kind == "missing targets":
        target[rng.random(horizon) < 0.3] = np.nan
        baseline[rng.random(horizon) < 0.1] = np.nan
        history[rng.random(context) < 0.3] = np.nan
    elif kind == "ragged":
        history_mask[: rng.integers(context)] = False
        future_mask[rng.integers(1, horizon + 1) :] = False
        history[~history_mask] = 1e9
        target[~future_mask], quantiles[~future_mask] = np.nan, np.nan
    elif kind == "zero horizon":
        target[:] = 0
    elif kind == "exact":
        quantiles[:] = target[:, None]
    elif kind == "exact zero horizon":
        target[:], quantiles[:] = 0, 0
    elif kind == "nothing counted":
        target[:] = np.nan
    elif kind == "alike":  # every error the same: roundings may all go one way
        target[:], quantiles[:] = level, level + scale * np.linspace(-1, 0.9, 9)
    elif kind == "cancelling":  # the mean effect is far below the effects
        quantiles = target[:, None] + scale * rng.normal(size=(horizon, 1)) + 0 * spread
    elif kind == "large":
        factor = 1e9 / abs(level)
        target, baseline, history, quantiles = (
            values * factor for values in (target, baseline, history, quantiles)
        )
    elif kind == "small":
        factor = 1e-12 / abs(level)
        target, baseline, history, quantiles = (
            values * factor for values in (target, baseline, history, quantiles)
        )
    elif kind == "point far off":
        quantiles *= 1e15
    elif kind == "constant history":
        history[:] = level
    series = (values.astype(np.float32) for values in (target, baseline, history, quantiles))
    return Case(*series, history_mask, future_mask)


def batch(cases: list[Case]) -> Case:
    """Cases of one shape, stacked."""
    return Case(*(np.stack(field) for field in zip(*cases, strict=True)))
