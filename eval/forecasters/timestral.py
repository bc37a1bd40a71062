"""Timestral, through `timecopilot-timestral` (module `timestral`).

References:
    Mistral AI, Timestral, 2026. Paper, Appendix D.1.
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
    model: Text = "mistralai/Timestral-209M",
    device: Device = None,
    batch_size: Count = 32,
    symmetric_averaging: Flag = True,
    clip_nonnegative: Flag = True,
) -> FoundationForecaster:
    """Timestral as a forecaster.

    Args:
        model: hub id or local folder.
        device: of torch; None for the accelerator if there is one.
        batch_size: tasks of one pass.
        symmetric_averaging: average with the mirrored forecast of the negated series, whose
            covariates are negated too; on, as in the package.
        clip_nonnegative: clip at zero where the history is; on, as in the package.

    Raises:
        ImportError: the package is not installed; names the extra.
        ModelError: the model cannot be loaded, or reads no covariates known ahead.
        ValueError: a flag is neither true nor false.
    """
    options = {
        "symmetric_averaging": symmetric_averaging,
        "clip_nonnegative": clip_nonnegative,
    }
    timestral = require("timestral", "timestral")
    on = choose_device(device, "timestral")
    with loading(model) as source:
        forecaster = timestral.TimestralForecaster.from_pretrained(source, device=on)
        if not forecaster.supports_known_covariates:
            raise ValueError("this checkpoint reads no covariates known ahead")
    return FoundationForecaster(
        "timestral",
        functools.partial(_predict, forecaster, options),
        model=model,
        distribution="timecopilot-timestral",
        batch_size=batch_size,
        settings=options,
        max_context=forecaster.max_context,
    )


def _predict(
    forecaster: Any,
    options: dict[str, bool],
    history: np.ndarray,
    covariates: np.ndarray,
    horizon: int,
    levels: Sequence[float],
) -> list[np.ndarray | None]:
    try:
        forecast = forecaster.forecast(
            history[:, None],
            horizon,
            known_covariates=covariates.transpose(0, 2, 1).copy(),
            **options,
        )
    except ValueError as error:
        if "NaN" not in str(error):
            raise
        # It refuses the whole batch for one row's NaN: that row alone has no forecast.
        if len(history) == 1:
            return [None]
        rows = [slice(row, row + 1) for row in range(len(history))]
        each = [
            _predict(forecaster, options, history[row], covariates[row], horizon, levels)
            for row in rows
        ]
        return [only for (only,) in each]
    quantiles = forecast.quantiles[:, 0].float().cpu().numpy()
    return list(select_levels(quantiles, forecast.quantile_levels, levels))
