"""Fracast-0 itself: its weights are inside its package, so that the real model is run."""

import numpy as np
import pytest

pytest.importorskip("fracast")

from eval.forecasters import make_forecaster
from eval.forecasters.foundation import ModelError

T, H = 512, 64
LEVELS = (0.1, 0.25, 0.5, 0.9)


def _rows():
    steps = np.arange(T)
    history = np.stack([5.0 + np.sin(2 * np.pi * steps / 24), 300.0 + 20.0 * np.cos(steps / 5)])
    covariates = np.ones((2, T + H, 1))
    covariates[:, 300:340] = 4.0
    covariates[:, T:] = 8.0
    return history.astype(np.float32), covariates.astype(np.float32)


@pytest.fixture(scope="module")
def forecaster():
    return make_forecaster("fracast", device="cpu")


def test_quantiles_are_the_packages_own(forecaster):
    import fracast

    history, covariates = _rows()
    answer = np.stack(forecaster(history, covariates, H, (0.1, 0.5, 0.9)))
    model = fracast.FracastModel.from_pretrained(weights="fp32")
    wanted = model.forecast_batch(history, horizon=H)
    own = [model.quantiles.index(level) for level in (0.1, 0.5, 0.9)]
    np.testing.assert_allclose(answer, wanted[..., own], rtol=1e-5)


def test_covariates_are_not_looked_at_and_rows_do_not_see_each_other(forecaster):
    history, covariates = _rows()
    both = np.stack(forecaster(history, covariates, H, LEVELS))
    assert both.shape == (2, H, 4)
    alone = forecaster(history[1:], 2.0 * covariates[1:], H, LEVELS)[0]
    np.testing.assert_allclose(alone, both[1], rtol=1e-3)


def test_with_the_gain_its_forecast_follows_the_factors():
    history, covariates = _rows()
    history *= covariates[:, :T, 0] ** 0.5
    alone = make_forecaster("fracast", device="cpu")(history, covariates, H, (0.5,))[0]
    gained = make_forecaster("fracast-gain", device="cpu")(history, covariates, H, (0.5,))[0]
    assert 2.0 < np.mean(gained) / np.mean(alone) < 3.6  # 8 ** 0.5 = 2.8


def test_a_model_that_is_not_there_is_named():
    with pytest.raises(ModelError, match="does not exist"):
        make_forecaster("fracast", model="/no/such/folder")
