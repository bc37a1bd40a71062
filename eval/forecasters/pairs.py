"""Paired training: rows of an origin and a step ahead, and their features.

One row predicts the target h steps after an origin tau, the last step at which the target is known.
Training draws h uniform in 1 .. H, then tau uniform among the steps that have 32 values up to them
and tau + h within the history; forecasting takes tau = T - 1 and h = 1 .. H.

Every function works on one series and takes `xp`, NumPy or `jax.numpy`. Covariates are [K, T + H].

References:
    The paper's Appendix J ("Paired training", "Variants"); evaluation/scores.md.
"""

from collections.abc import Sequence
from types import ModuleType
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from . import PAIRED_FEATURES

if TYPE_CHECKING:  # processes that only fit trees start without JAX
    from jax import Array

__all__ = ["PAIRS", "WINDOW", "draw_pairs", "feature_rows", "features_of", "pair_count"]

PAIRS = 8_000  # of a task, at most [P]
WINDOW = 32  # values that the summary s_t looks back on [P]
Values = TypeVar("Values", np.ndarray, "Array")  # of `xp`


def features_of(features: str) -> tuple[str, ...]:
    """The features of a variant, by the suffix of its name.

    Raises:
        ValueError: a suffix that is not in `PAIRED_FEATURES`.
    """
    if features not in PAIRED_FEATURES:
        raise ValueError(f"features: {features!r}; expected one of {', '.join(PAIRED_FEATURES)}")
    return PAIRED_FEATURES[features]


def pair_count(context: int, horizon: int) -> int:
    """Pairs to draw: `PAIRS`, or as many as differ if those are fewer.

    Raises:
        ValueError: the context is too short for the longest step ahead.
    """
    if context < WINDOW + horizon:
        raise ValueError(
            f"context: {context} steps; expected at least {WINDOW} + horizon = {WINDOW + horizon} "
            "for paired training"
        )
    differ = sum(context - WINDOW + 1 - ahead for ahead in range(1, horizon + 1))
    return min(PAIRS, differ)


def draw_pairs(task_id: int, context: int, horizon: int) -> tuple[np.ndarray, np.ndarray]:
    """Origins and steps ahead of a task's training rows, int64 [N] each, on the host.

    The same task gives the same pairs whatever is beside it (Philox keyed by task). Drawn by the
    same rule as those of the JAX forecasters, from another stream of random numbers.
    """
    count = pair_count(context, horizon)
    draw = np.random.Generator(np.random.Philox(key=[0, task_id]))
    ahead = draw.integers(1, horizon + 1, count)
    return draw.integers(WINDOW - 1, context - ahead), ahead


def summaries(history: Values, xp: ModuleType) -> Values:
    """Mean, standard deviation and slope a step [3, T - 31] of the 32 values up to each origin."""
    steps = history.shape[0]
    windows = history[xp.arange(steps - WINDOW + 1)[:, None] + xp.arange(WINDOW)]
    mean = windows.mean(axis=1)
    apart = windows - mean[:, None]
    time = np.arange(WINDOW) - (WINDOW - 1) / 2
    slope = (apart * time).sum(axis=1) / (time**2).sum()
    return xp.stack([mean, xp.sqrt((apart**2).mean(axis=1)), slope])


def feature_rows(
    history: Values,
    covariates: Values,
    origin: Values,
    ahead: Values,
    features: Sequence[str],
    xp: ModuleType,
) -> Values:
    """Features of pairs [F, N], each in its own unit.

    Args:
        history: target [T].
        covariates: [K, T + H].
        origin: tau of each pair [N], in 31 .. T - 1.
        ahead: h of each pair [N].
        features: names among `z` (covariates at tau + h), `z_before` (one step earlier), `zt` (at
            tau), `dz` (change since tau), `s` (mean, standard deviation and slope of the last 32
            values) and `h`; they are stacked in this order.
        xp: `numpy` or `jax.numpy`.
    """
    at, then = covariates[:, origin + ahead], covariates[:, origin]
    rows = []
    for name in features:
        if name == "z":
            rows.append(at)
        elif name == "z_before":
            rows.append(covariates[:, origin + ahead - 1])
        elif name == "zt":
            rows.append(then)
        elif name == "dz":
            rows.append(at - then)
        elif name == "s":
            rows.append(summaries(history, xp)[:, origin - (WINDOW - 1)])
        elif name == "h":
            rows.append(ahead[None].astype(history.dtype))
        else:
            raise ValueError(f"features: {name!r}; expected z, z_before, zt, dz, s or h")
    return xp.concatenate(rows)
