"""What tests of running share: tasks of one shape, and forecasters for `--model`.

The forecasters are NumPy and lie in a module of their own, so that worker processes start soon.
"""

import functools
import time
from pathlib import Path

import numpy as np

from eval.forecasters.base import Estimate
from whatif_jax import per_row

MODULE = "tests.eval.run_helpers"
# 44 tasks of one context, horizon, K and event shape: one program to compile.
WHERE = {
    "system": ["epanet"],
    "target": ["flowrate_11", "flowrate_12"]
    + [f"pressure_{node}" for node in (10, 11, 12, 13, 21, 22, 23, 31, 32)],
    "context_pair": ["C1"],
    "k": [1],
    "event_length": [32],
}
WHERE_OPTIONS = [f"--where={axis}={','.join(map(str, values))}" for axis, values in WHERE.items()]


def around(history, covariates, horizon, levels, spread=0.1):
    """Quantiles around the last value, wider with the primary covariate's future."""
    width = spread * np.abs(history).mean(axis=1)[:, None, None]
    steps = covariates[:, -horizon:, :1] / np.abs(covariates[..., :1]).max(axis=1, keepdims=True)
    return history[:, -1:, None] + width * steps * (np.asarray(levels, np.float32) - 0.5)


def make(spread: float = 0.1, api_key: str = "", max_cost: float | None = None):
    """A forecaster with settings, a secret one among them."""

    def forecast(history, covariates, horizon, levels):
        return around(history, covariates, horizon, levels, spread)

    forecast.name, forecast.version = "around", "3"
    forecast.settings = {
        "spread": spread,
        "api_key": api_key,
        "max_cost": max_cost,
        "headers": {"Authorization": api_key, "retries": 2},
    }
    return forecast


def make_slow(seconds: float = 0.0):
    """The same numbers, later; how much later is no setting."""

    def forecast(history, covariates, horizon, levels):
        time.sleep(seconds)
        return around(history, covariates, horizon, levels)

    forecast.name, forecast.version = "slow", "1"
    return forecast


def one_series(history, covariates, horizon, levels):
    """A python forecaster of one series, with no forecast for some."""
    if abs(float(history.sum())) % 1 < 0.2:
        return None
    return around(history[None], covariates[None], horizon, levels)[0]


def make_rows(log: str = ""):
    """Independent work a row. `log`: a folder where each process that works leaves its number."""

    def forecast(history, covariates, horizon, levels):
        import os

        if log:
            Path(log, str(os.getpid())).touch()
        return one_series(history, covariates, horizon, levels)

    return per_row(forecast, name="rows", parallel=True)


class Costly:
    """Knows what it would cost, and must not be called for that."""

    name = "costly"
    wants_info = True

    def estimate(self, history, covariates, horizon, levels, info=None):
        assert len(info.task_ids) == len(history)
        return Estimate(len(history) * history.shape[1], len(history) * horizon, 0.5 * len(history))

    def __call__(self, *args, **keywords):
        raise AssertionError("called")


def make_costly():
    return Costly()


def make_broken():
    """Fails inside, as a forecaster under development does."""

    def broken(history, covariates, horizon, levels):
        return np.zeros((2, 3)) @ history

    return broken


def make_unset(needed):
    """A factory with a setting that has no default, and is a number."""
    return functools.partial(around, spread=needed / 2)
