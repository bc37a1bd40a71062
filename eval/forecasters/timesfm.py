"""TimesFM-3, through `timesfm[torch]` (module `timesfm3`). Its weights are for non-commercial use.

References:
    Google Research, TimesFM-3.0, 2026. Paper, Appendix D.1.
"""

import functools
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from .base import require, select_levels
from .foundation import FoundationForecaster, choose_device, loading
from .settings import Count, Device, Flag, Text, checked_settings

__all__ = ["make"]


@checked_settings
def make(
    model: Text = "google/timesfm-3.0-pytorch",
    device: Device = None,
    batch_size: Count = 32,
    symmetric_averaging: Flag = False,
) -> FoundationForecaster:
    """TimesFM-3 as a forecaster.

    Args:
        model: hub id or local folder.
        device: of torch; None for the accelerator if there is one.
        batch_size: tasks of one pass.
        symmetric_averaging: average with the mirrored forecast of the negated series and
            covariates; off, as in the package.

    Raises:
        ImportError: the package is not installed; names the extra.
        ModelError: the model cannot be loaded.
        ValueError: `symmetric_averaging` is neither true nor false.
    """
    timesfm = require("timesfm3.torch", "timesfm")
    on = choose_device(device, "timesfm")
    with loading(model) as source:
        if Path(source).is_dir() and not (Path(source) / "config.json").exists():
            # The package would build a full-sized network before it misses the weights.
            raise FileNotFoundError("no config.json in the folder")
        forecaster = timesfm.TimesFM3Forecaster.from_pretrained(
            source, device=on, per_core_batch_size=batch_size
        )
    return FoundationForecaster(
        "timesfm-3",
        functools.partial(_predict, forecaster, symmetric_averaging),
        model=model,
        distribution="timesfm",
        batch_size=batch_size,
        settings={"symmetric_averaging": symmetric_averaging},
        max_context=forecaster.global_context,
    )


def _predict(
    forecaster: Any,
    symmetric_averaging: Flag,
    history: np.ndarray,
    covariates: np.ndarray,
    horizon: int,
    levels: Sequence[float],
) -> np.ndarray:
    outputs = forecaster.predict_batch(
        contexts=list(history),
        horizon=horizon,
        past_future_covariates=list(covariates.transpose(0, 2, 1)),
        return_quantiles=True,
        use_symmetric_averaging=symmetric_averaging,
        # Evaluation sorts, and counts what crossed. Mirroring assumes ascending quantiles.
        sort_quantiles=symmetric_averaging,
    )
    quantiles = np.stack([output.quantiles for output in outputs])
    return select_levels(quantiles, forecaster.config.quantiles, levels)
