"""Chronos-2, through `chronos-forecasting`.

References:
    Ansari et al., Chronos-2: from univariate to universal forecasting. arXiv:2510.15821.
    Paper, Appendix D.1.
"""

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np

from .base import require, select_levels
from .foundation import DECILES, FoundationForecaster, choose_device, loading, named_series
from .settings import Count, Device, Text, checked_settings
from .training_record import declare_training

__all__ = ["make"]


@checked_settings
def make(
    model: Text = "amazon/chronos-2", device: Device = None, batch_size: Count = 32
) -> FoundationForecaster:
    """Chronos-2 as a forecaster.

    Args:
        model: hub id or local folder, such as `training.recipes.chronos2` writes.
        device: of torch; None for the accelerator if there is one.
        batch_size: tasks of one pass; each takes 1 + K rows of the model.

    Raises:
        ImportError: the package is not installed; names the extra.
        ModelError: the model cannot be loaded.
    """
    chronos = require("chronos", "chronos")
    on = choose_device(device, "chronos")
    with loading(model) as source:
        pipeline = chronos.Chronos2Pipeline.from_pretrained(source, device_map=on)
    forecaster = FoundationForecaster(
        "chronos-2",
        functools.partial(_predict, pipeline),
        model=model,
        distribution="chronos-forecasting",
        batch_size=batch_size,
        max_context=pipeline.model_context_length,
    )
    declare_training(forecaster, model)
    return forecaster


def _predict(
    pipeline: Any,
    history: np.ndarray,
    covariates: np.ndarray,
    horizon: int,
    levels: Sequence[float],
) -> np.ndarray:
    known = list(pipeline.quantiles)
    # The quantiles that a horizon beyond one pass is continued from must be the model's own.
    deciles = [level for level in DECILES if level in known]
    rows = pipeline.predict(
        named_series(history, covariates),
        prediction_length=horizon,
        batch_size=len(history) * (1 + covariates.shape[2]),
        cross_learning=False,  # it would mix the rows of a batch
        unrolled_quantiles=deciles or known,
    )
    quantiles = np.stack([row[0].numpy().T for row in rows])  # each (1, levels, H)
    return select_levels(quantiles, known, levels)
