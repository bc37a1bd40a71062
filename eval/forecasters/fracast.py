"""Fracast-0, through `fracast`: 85,001 parameters, univariate; its weights are inside the package.

References:
    https://github.com/ztxtech/fracast-0 (Apache-2.0).
"""

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np

from .base import require, select_levels
from .foundation import FoundationForecaster, choose_device, loading
from .settings import Count, Device, TextOrNone, checked_settings

__all__ = ["make"]

PACKAGED = "fracast-0"  # what a run records where the package's own weights are used


@checked_settings
def make(
    model: TextOrNone = None, device: Device = None, batch_size: Count = 64
) -> FoundationForecaster:
    """Fracast-0 as a forecaster.

    It looks at no covariates. Beyond 48 steps it goes on from its own median, block by block, as
    the package does.

    Args:
        model: hub id or local folder; None for the weights inside the package.
        device: of torch; None for the accelerator if there is one.
        batch_size: tasks of one pass.

    Raises:
        ImportError: the package is not installed; names the extra.
        ModelError: the model cannot be loaded.
    """
    fracast = require("fracast", "fracast")
    on = choose_device(device, "fracast")
    if model is None:
        network = fracast.FracastModel.from_pretrained(weights="fp32", device=on)
    else:
        with loading(model) as source:
            network = fracast.FracastModel.from_pretrained(source, weights="fp32", device=on)
    return FoundationForecaster(
        "fracast",
        functools.partial(_predict, network),
        model=PACKAGED if model is None else model,
        distribution="fracast",
        batch_size=batch_size,
        max_context=network.context_length,
    )


def _predict(
    network: Any,
    history: np.ndarray,
    covariates: np.ndarray,
    horizon: int,
    levels: Sequence[float],
) -> np.ndarray:
    quantiles = network.forecast_batch(history, horizon=horizon)
    return select_levels(quantiles, network.quantiles, levels).astype(np.float32)
