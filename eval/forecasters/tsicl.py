"""TS-ICL, through `tsicl`. Its code and its weights are for non-commercial use.

The package wants Python 3.12 and torch below 2.10, so it needs an environment of its own:
`python3.12 -m venv tsicl && tsicl/bin/pip install -e '.[eval,tsicl]'`.

References:
    Le Naour et al., TS-ICL, arXiv:2606.05878. Paper, Appendix D.1.
"""

import functools
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from .base import require, select_levels
from .foundation import (
    DECILES,
    FoundationForecaster,
    choose_device,
    in_blocks,
    loading,
    named_series,
)
from .settings import Count, Device, Text, checked_settings

__all__ = ["make"]

HUB = "taharnbl/TS-ICL"


@checked_settings
def make(model: Text = HUB, device: Device = None, batch_size: Count = 32) -> FoundationForecaster:
    """TS-ICL as a forecaster.

    Args:
        model: the hub id, a checkpoint file, or a local folder with one `.ckpt` file.
        device: of torch; None for the accelerator if there is one.
        batch_size: tasks of one pass.

    Raises:
        ImportError: the package is not installed; names the extra.
        ModelError: the model cannot be loaded.
    """
    tsicl = require("tsicl", "tsicl")
    torch = require("torch", "tsicl")
    on = torch.device(choose_device(device, "tsicl"))
    with loading(model) as source:
        forecaster = tsicl.TSICL(model_path=_checkpoint(source), allow_auto_download=source == HUB)
    return FoundationForecaster(
        "ts-icl",
        functools.partial(_predict, forecaster, on),
        model=model,
        distribution="tsicl",
        batch_size=batch_size,
        max_context=int(forecaster.max_context_length),
    )


def _checkpoint(source: str) -> str | None:
    """What the package calls a model path: None for its own hub id."""
    path = Path(source)
    if path.is_dir():
        found = sorted(path.glob("*.ckpt"))
        if len(found) != 1:
            raise ValueError(f"{len(found)} files .ckpt in the folder; expected one")
        return str(found[0])
    if not path.exists() and source != HUB:
        raise ValueError(f"the package knows no hub id but {HUB}")
    return None if source == HUB else source


def _predict(
    forecaster: Any,
    device: Any,
    history: np.ndarray,
    covariates: np.ndarray,
    horizon: int,
    levels: Sequence[float],
) -> np.ndarray:
    # The package compares 100 * level with whole numbers as floats, which 0.07 and 0.55 fail.
    asked = sorted({*DECILES, *(level for level in levels if 100 * level == round(100 * level))})

    def once(history: np.ndarray, covariates: np.ndarray, horizon: int) -> np.ndarray:
        _, quantiles = forecaster.forecast(
            named_series(history, covariates),
            prediction_length=horizon,
            batch_size=len(history),
            quantile_levels=asked,
            device=device,
            squeeze_output=False,  # it would drop the axis of one row
        )
        return np.stack([row[0].float().cpu().numpy() for row in quantiles])  # each (1, H, levels)

    # In 0.2.1 the package's own way past its longest horizon joins the covariates of history and
    # horizon along the batch axis, and fails.
    longest = int(forecaster.max_target_length)
    quantiles = in_blocks(once, history, covariates, horizon, longest, asked)
    return select_levels(quantiles, asked, levels)
