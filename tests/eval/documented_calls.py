"""Each package called once, as its documentation prints it: what its adapter must agree with."""

import numpy as np

from tests.eval.tiny_models import DECILES


def documented(name, folder, target, past, ahead):
    """Deciles [H, 9] by the call that the package's own documentation prints, for one series.

    Args:
        name: of the forecaster.
        folder: holds the model.
        target: [T].
        past: covariates over the history [K, T].
        ahead: covariates over the horizon [K, H].
    """
    import torch

    steps, whole = ahead.shape[1], np.concatenate([past, ahead], axis=1)
    if name == "chronos-2":
        from chronos import Chronos2Pipeline

        names = [f"x{k}" for k in range(len(past))]
        series = dict(
            target=target,
            past_covariates=dict(zip(names, past, strict=True)),
            future_covariates=dict(zip(names, ahead, strict=True)),
        )
        pipeline = Chronos2Pipeline.from_pretrained(folder)
        quantiles, _ = pipeline.predict_quantiles([series], steps, quantile_levels=list(DECILES))
        return quantiles[0][0].numpy()
    if name == "timesfm-3":
        from timesfm3 import TimesFM3Forecaster

        forecaster = TimesFM3Forecaster.from_pretrained(str(folder), device="cpu")
        found = forecaster.predict(
            target, steps, past_future_covariates=whole, return_quantiles=True, sort_quantiles=False
        )
        return found.quantiles
    if name == "tirex-2":
        from tirex2 import TimeseriesType, load_model

        series = TimeseriesType(
            target=torch.tensor(target[None]),
            past_covariates=None,
            future_covariates=torch.tensor(whole),
        )
        return load_model(folder, device="cpu").forecast([series], steps)[0][0].numpy().T
    if name == "t0":
        from t0 import T0Forecaster

        found = T0Forecaster.from_pretrained(folder).predict(
            target[None], steps, DECILES, future_covariates=whole[None]
        )
        return found.quantiles[0].numpy()
    if name == "timestral":
        from timestral import TimestralForecaster

        found = TimestralForecaster.from_pretrained(folder).forecast(
            target, steps, known_covariates=whole[None]
        )
        return np.stack([found.quantile(level)[0, 0].numpy() for level in DECILES], axis=-1)
    from tsicl import TSICL

    found = TSICL(model_path=folder / "tiny.ckpt").forecast(
        target[None], covars=whole.T[None], prediction_length=steps, squeeze_output=False
    )
    return found[1][0, 0].numpy()
