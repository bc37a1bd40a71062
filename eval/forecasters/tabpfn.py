"""TabPFN-3.5, through the TabPFN-TS harness (`tabpfn-time-series`).

Its weights are for non-commercial use and are handed out after a licence is accepted: set
TABPFN_TOKEN. Nothing is sent to the vendor's service: the model runs here.

References:
    Hoo et al., TabPFN-TS, 2025; Jäger et al., TabPFN-3.5, 2026. Paper, Appendix D.1.
"""

import functools
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from .base import require, select_levels
from .foundation import FoundationForecaster, ModelError, loading
from .settings import Count, Device, Text, checked_settings

__all__ = ["adapt", "make"]

HUB = "Prior-Labs/tabpfn_3_5"
START = np.datetime64("2000-01-01T00:00:00", "us")  # where exported tasks start too


@checked_settings
def make(model: Text = HUB, device: Device = None, batch_size: Count = 64) -> FoundationForecaster:
    """TabPFN-TS as a forecaster.

    The harness fits one regression a task, on its covariates and on features of its timestamps.
    Those start at the turn of the year 2000 in every task and follow its system's step.

    Args:
        model: the hub id, or a local checkpoint file.
        device: of torch; None lets the package choose.
        batch_size: tasks of one call; the package runs them in parallel.

    Raises:
        ImportError: the package is not installed; names the extra.
        ModelError: the weights cannot be loaded; names TABPFN_TOKEN.
    """
    os.environ.setdefault("TABPFN_DISABLE_TELEMETRY", "1")  # before its modules are imported
    harness = require("tabpfn_time_series", "tabpfn")
    config = {} if device is None else {"device": device}
    try:
        with loading(model) as source:
            if Path(source).exists():
                config["model_path"] = source
            elif source != HUB:
                raise ValueError(f"the package loads {HUB} or a checkpoint file")
            pipeline = harness.TabPFNTSPipeline(tabpfn_model_config=config)
            # The package goes on after a download that failed, and then fails at every task.
            weights = pipeline.predictor.inference_routine.__self__.model_config["model_path"]
            if not Path(weights).exists():
                raise FileNotFoundError(f"{weights} could not be fetched")
    except ModelError as error:
        raise ModelError(
            f"{error}; these weights are gated: accept their licence at https://ux.priorlabs.ai "
            "and set TABPFN_TOKEN"
        ) from error.__cause__
    return adapt(pipeline, model, batch_size)


def adapt(pipeline: Any, model: str, batch_size: int = 64) -> FoundationForecaster:
    """A pipeline of the package as a forecaster.

    Args:
        pipeline: a `TabPFNTSPipeline`.
        model: its name.
        batch_size: tasks of one call.
    """
    return FoundationForecaster(
        "tabpfn-ts",
        functools.partial(_predict, pipeline),
        model=model,
        distribution="tabpfn-time-series",
        batch_size=batch_size,
        max_context=int(pipeline.max_context_length),
        wants_info=True,
    )


def _predict(
    pipeline: Any,
    history: np.ndarray,
    covariates: np.ndarray,
    horizon: int,
    levels: Sequence[float],
    step_seconds: np.ndarray,
) -> list[np.ndarray | None]:
    rows: list[np.ndarray | None] = [None] * len(history)
    for seconds in np.unique(step_seconds):  # the package's tables have one frequency
        same = np.flatnonzero(step_seconds == seconds)
        found = _predict_table(
            pipeline, history[same], covariates[same], horizon, levels, float(seconds)
        )
        for row, quantiles in zip(same, found, strict=True):
            rows[row] = quantiles
    return rows


def _predict_table(
    pipeline: Any,
    history: np.ndarray,
    covariates: np.ndarray,
    horizon: int,
    levels: Sequence[float],
    seconds: float,
) -> list[np.ndarray | None]:
    pandas = require("pandas", "tabpfn")
    steps, count = history.shape[1], covariates.shape[2]
    step = np.timedelta64(round(seconds * 1e6), "us")
    time = START + np.arange(steps + horizon) * step

    def table(rows: slice, target: np.ndarray | None) -> Any:
        known = covariates[:, rows]
        columns = {
            "item_id": np.repeat(np.arange(len(known)), known.shape[1]),
            "timestamp": np.tile(time[rows], len(known)),
            **{f"covariate_{k:03d}": known[:, :, k].ravel() for k in range(count)},
        }
        return pandas.DataFrame(columns if target is None else columns | {"target": target.ravel()})

    found = pipeline.predict_df(
        table(slice(0, steps), history),
        future_df=table(slice(steps, None), None),
        quantiles=[float(level) for level in sorted(levels)],
    )
    # Columns of quantiles are named by their level. On several accelerators the package returns
    # its nine default levels whatever it was asked for.
    own = [column for column in found.columns if isinstance(column, float)]
    results: list[np.ndarray | None] = []
    for item in range(len(history)):
        one = found.xs(item, level="item_id").reindex(time[steps:])
        quantiles = one[own].to_numpy(np.float32)
        results.append(select_levels(quantiles, own, levels))
    return results
