"""TabPFN-TS: its harness with a ridge regression where TabPFN would be, whose weights are gated.

Tables, timestamps, features, levels and rows go the package's own way; TabPFN itself is not run.
"""

import os
import warnings

import numpy as np
import pytest

os.environ["TABPFN_DISABLE_TELEMETRY"] = "1"
pytest.importorskip("tabpfn_time_series")

from eval.forecasters import tabpfn
from eval.forecasters.foundation import ModelError
from whatif_jax import BatchInfo, evaluate, load_suite

CONTEXT, HORIZON = 1024, 128
SECONDS = np.array([300.0, 60.0, 300.0])


def _pipeline(regressor, adapter="from_point_prediction_regressor"):
    from tabpfn_time_series import FeatureTransformer, TabPFNTSPipeline
    from tabpfn_time_series.pipeline import TABPFN_TS_DEFAULT_FEATURES
    from tabpfn_time_series.predictor import TimeSeriesPredictor

    pipeline = object.__new__(TabPFNTSPipeline)  # its constructor fetches weights
    pipeline.max_context_length, pipeline.max_featurize_rows = 32768, None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # slow without an accelerator
        pipeline.predictor = getattr(TimeSeriesPredictor, adapter)(regressor)
    pipeline.predictor._worker.num_workers = 1  # no processes for a ridge
    pipeline.feature_transformer = FeatureTransformer(TABPFN_TS_DEFAULT_FEATURES)
    return pipeline


@pytest.fixture(scope="module")
def forecaster():
    from sklearn.linear_model import Ridge

    return tabpfn.adapt(_pipeline(Ridge), "ridge in the place of TabPFN")


def _arrays(rows=3):
    rng = np.random.default_rng(3)
    covariates = np.tile(np.array([3000.0, 4.0]), (rows, CONTEXT + HORIZON, 1))
    covariates[:, 600:664] *= 2.0
    covariates[:, CONTEXT:] *= 4.0
    history = covariates[:, :CONTEXT, 0] / 100 + rng.normal(size=(rows, CONTEXT))
    history += 500.0 * np.arange(rows)[:, None]
    return history.astype(np.float32), covariates.astype(np.float32)


def _forecast(forecaster, history, covariates, levels=(0.1, 0.5, 0.9), seconds=SECONDS):
    info = BatchInfo(np.arange(len(history)), seconds[: len(history)])
    return np.stack(forecaster(history, covariates, HORIZON, levels, info=info))


def test_rows_of_different_steps_come_back_in_order(forecaster):
    history, covariates = _arrays()
    quantiles = _forecast(forecaster, history, covariates)
    assert quantiles.shape == (3, HORIZON, 3)
    level = np.median(quantiles, axis=(1, 2))
    np.testing.assert_allclose(np.diff(level), 500.0, atol=60.0)
    alone = _forecast(forecaster, history[2:], covariates[2:])
    np.testing.assert_allclose(alone[0], quantiles[2], rtol=1e-6)


def test_covariates_known_ahead_are_used(forecaster):
    """Ridge extends the line that the history shows: 1 for 100 of the first covariate."""
    history, covariates = _arrays()
    before = _forecast(forecaster, history, covariates)
    changed = covariates.copy()
    changed[1, CONTEXT + 64 :] *= 0.5
    moved = _forecast(forecaster, history, changed) - before
    assert np.abs(moved[[0, 2]]).max() < 1e-3
    assert np.abs(moved[1, :64]).max() < 1e-3
    np.testing.assert_allclose(moved[1, 64:], -60.0, atol=3.0)


def test_timestamps_follow_the_step_of_the_system(forecaster):
    """A day is 288 steps of 300 s and 1,440 of 60 s: the features of the calendar differ."""
    history, covariates = _arrays(rows=1)
    history += 20 * np.sin(np.arange(CONTEXT) * 2 * np.pi / 288)
    five, one = (
        _forecast(forecaster, history, covariates, seconds=np.array([step]))
        for step in (300.0, 60.0)
    )
    assert np.abs(five - one).max() > 1.0


class _Levels:
    """A regressor with TabPFN's way of answering quantiles, at 100 times their level."""

    def fit(self, features, target):
        return self

    def predict(self, features, quantiles, output_type=None):
        return {
            "median": np.zeros(len(features)),
            "quantiles": [np.full(len(features), 100.0 * level) for level in quantiles],
        }


def test_quantiles_are_read_by_level(monkeypatch):
    from tabpfn_time_series.worker import BaseModelAdapter, TabPFNModelAdapter

    class Adapter(BaseModelAdapter):
        tabpfn_output_selection = "median"
        postprocess_pred_output = TabPFNModelAdapter.postprocess_pred_output

    from sklearn.linear_model import Ridge

    pipeline = _pipeline(Ridge)
    pipeline.predictor._worker.inference_routine = Adapter(_Levels, {}).predict
    forecaster = tabpfn.adapt(pipeline, "levels")
    history, covariates = _arrays(rows=2)
    levels = (0.9, 0.05, 0.5)
    quantiles = _forecast(forecaster, history, covariates, levels)
    np.testing.assert_allclose(quantiles[1, 7], 100 * np.array(levels), rtol=1e-6)

    # on several accelerators the package drops the levels it was asked for
    real = pipeline.predict_df
    deciles = [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9]
    monkeypatch.setattr(
        pipeline,
        "predict_df",
        lambda *args, quantiles, **rest: real(*args, quantiles=deciles, **rest),
    )
    quantiles = _forecast(forecaster, history, covariates, (0.55, 0.2))
    np.testing.assert_allclose(quantiles[0, 7], [55, 20], rtol=1e-6)


def test_tasks_of_the_suite_end_to_end(forecaster):
    suite = load_suite("whatif-v1").where(context=1024, horizon=128, k=2)
    tasks = suite.where(target=["pressure_10", "flow_loop_e_0_near"]).take([0, 1, 30])
    scores = evaluate(forecaster, tasks, batch_size=4).scores
    assert not any(scores.column("imputed").to_pylist())
    assert all(0 < value < np.inf for value in scores.column("wql").to_pylist())


def test_weights_that_cannot_be_had_name_the_token(tmp_path, monkeypatch):
    import huggingface_hub

    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    monkeypatch.setenv("TABPFN_MODEL_CACHE_DIR", str(tmp_path))
    with pytest.raises(ModelError, match="Prior-Labs/tabpfn_3_5.*set TABPFN_TOKEN"):
        tabpfn.make()
    with pytest.raises(ModelError, match="does not exist.*set TABPFN_TOKEN"):
        tabpfn.make(str(tmp_path / "missing.ckpt"))
    with pytest.raises(ModelError, match="nobody/else.*loads Prior-Labs/tabpfn_3_5"):
        tabpfn.make("nobody/else")
