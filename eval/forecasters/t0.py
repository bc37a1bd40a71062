"""t0-gamma, through `tfc-t0[torch]` 0.6 or newer: older ones load gamma silently wrong.

References:
    Meyer et al., t0, 2026. Paper, Appendix D.1.
"""

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np

from .base import require, select_levels
from .foundation import FoundationForecaster, choose_device, loading
from .settings import Count, Device, Flag, Text, checked_settings

__all__ = ["make"]


@checked_settings
def make(
    model: Text = "theforecastingcompany/t0-gamma",
    device: Device = None,
    batch_size: Count = 32,
    recommended: Flag = False,
) -> FoundationForecaster:
    """t0 as a forecaster.

    Args:
        model: hub id or local folder.
        device: of torch; None for the accelerator if there is one.
        batch_size: tasks of one pass.
        recommended: the four adjustments that the package recommends and leaves off: trim missing
            values, average with the mirrored forecast of the negated series and covariates, clip
            at zero, snap to integers.

    Raises:
        ImportError: the package is not installed, or too old; names the extra.
        ModelError: the model cannot be loaded.
        ValueError: `recommended` is neither true nor false.
    """
    t0 = require("t0.torch", "t0")
    on = choose_device(device, "t0")
    with loading(model) as source:
        forecaster = t0.T0Forecaster.from_pretrained(source).to(on).eval()
    return FoundationForecaster(
        "t0",
        functools.partial(_predict, forecaster, recommended),
        model=model,
        distribution="tfc-t0",
        batch_size=batch_size,
        settings={"recommended": recommended},
    )


_ADJUSTMENTS = ("trim_leading_missing", "symmetric_averaging", "clip_nonnegative", "snap_integers")


def _predict(
    forecaster: Any,
    recommended: Flag,
    history: np.ndarray,
    covariates: np.ndarray,
    horizon: int,
    levels: Sequence[float],
) -> np.ndarray:
    forecast = forecaster.predict(
        history,
        horizon,
        sorted(levels),  # the package takes no other order
        future_covariates=covariates.transpose(0, 2, 1).copy(),
        **dict.fromkeys(_ADJUSTMENTS, recommended),
    )
    quantiles = forecast.quantiles.float().cpu().numpy()
    return select_levels(quantiles, forecast.quantile_levels, levels)
