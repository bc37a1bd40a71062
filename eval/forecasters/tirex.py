"""TiRex-2, through `tirex-2` (module `tirex2`).

References:
    Podest et al., TiRex-2: generalizing TiRex to multivariate data and streaming.
    arXiv:2607.01204. Paper, Appendix D.1.
"""

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

from .base import require, select_levels
from .foundation import FoundationForecaster, choose_device, in_blocks, loading
from .settings import Count, Device, LongHorizon, Text, checked_settings

__all__ = ["make"]


@checked_settings
def make(
    model: Text = "NX-AI/TiRex-2",
    device: Device = None,
    batch_size: Count = 32,
    long_horizon: LongHorizon = "blocks",
) -> FoundationForecaster:
    """TiRex-2 as a forecaster.

    The package cuts a horizon at the length the checkpoint was trained for (320 steps for the
    published one, https://github.com/NX-AI/tirex-2/issues/53), where horizons of the suite reach
    864. How the paper went on from there is not known.

    Args:
        model: hub id or local folder.
        device: "cpu", "cuda" or "mps"; None for "cuda" if there is one. On CUDA the package
            compiles a kernel with `nvcc` at the first forecast.
        batch_size: tasks of one pass.
        long_horizon: beyond the trained length, "blocks" forecasts one such length after another
            and takes medians for history; "widen" forecasts all steps in one pass, which the
            model was not trained for.

    Raises:
        ImportError: the package is not installed; names the extra.
        ModelError: the model cannot be loaded.
        ValueError: another `long_horizon`.
    """
    tirex = require("tirex2", "tirex")
    on = choose_device(device, "tirex")
    with loading(model) as source:
        forecaster = tirex.load_model(source, device=on)
    return FoundationForecaster(
        "tirex-2",
        _Prediction(tirex, forecaster, long_horizon),
        model=model,
        distribution="tirex-2",
        batch_size=batch_size,
        settings={"long_horizon": long_horizon},
        max_context=int(forecaster.context_len),
    )


class _Prediction:
    def __init__(self, tirex: Any, forecaster: Any, long_horizon: str):
        self._tirex, self._forecaster, self._long_horizon = tirex, forecaster, long_horizon
        self._trained = int(forecaster.future_len)
        self._warned = False

    def __call__(
        self, history: np.ndarray, covariates: np.ndarray, horizon: int, levels: Sequence[float]
    ) -> np.ndarray:
        known = [float(level) for level in self._forecaster.quantiles]
        if horizon > self._trained and not self._warned:
            self._warned = True
            how = {"blocks": "in blocks of that length", "widen": "in one pass"}
            warnings.warn(
                f"tirex-2: a horizon of {horizon} steps; the model was trained for "
                f"{self._trained} and forecasts {how[self._long_horizon]}",
                stacklevel=4,
            )
        if self._long_horizon == "blocks":
            longest = self._trained
            quantiles = in_blocks(self._once, history, covariates, horizon, longest, known)
        else:
            quantiles = self._widened(history, covariates, horizon)
        return select_levels(quantiles, known, levels)

    def _widened(self, history: np.ndarray, covariates: np.ndarray, horizon: int) -> np.ndarray:
        network = self._forecaster.model
        patches = -(-max(horizon, self._trained) // network.output_patch_size)
        network.future_len = patches * network.output_patch_size  # no weight depends on it
        try:
            return self._once(history, covariates, horizon)
        finally:
            network.future_len = self._trained

    def _once(self, history: np.ndarray, covariates: np.ndarray, horizon: int) -> np.ndarray:
        torch = require("torch", "tirex")
        series = [
            self._tirex.TimeseriesType(
                target=torch.from_numpy(target[None]),
                past_covariates=None,
                future_covariates=torch.from_numpy(known.T.copy()),
            )
            for target, known in zip(history, covariates, strict=True)
        ]
        rows = self._forecaster.forecast(
            series, horizon, output_type="numpy", batch_size=len(series)
        )
        return np.stack([row[0].T for row in rows])  # each (1, levels, H)
