"""Forecasters that tests of running hand to `--model tests.eval.run_helpers:FACTORY`."""

import os
import signal
import time
from pathlib import Path

import numpy as np

from whatif_jax.evaluation import per_row


def last_value(history, covariates, horizon, levels):
    return np.repeat(history[:, -1:, None], horizon, axis=1)


def make(spread: float = 0.1, api_key: str = "", max_cost: float | None = None):
    """Quantiles around the last value; NumPy alone, so that runs start in a moment."""

    def around(history, covariates, horizon, levels):
        around_last = history[:, -1:] * (1 + spread * (np.asarray(levels, np.float32) - 0.5))
        return np.repeat(around_last[:, None], horizon, axis=1)

    around.name, around.version = "around", "3"
    around.settings = {
        "spread": spread,
        "api_key": api_key,
        "max_cost": max_cost,
        "headers": {"Authorization": api_key},
    }
    return around
