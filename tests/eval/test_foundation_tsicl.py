"""TS-ICL's adapter against a stub that has the package's call shape, and nothing of its model.

The package wants Python 3.12 and an older torch; where it is installed, `test_foundation` runs its
own classes as well. The stub is written from the package's documentation: what it does not know is
whether the package still answers so.
"""

import importlib.metadata
import sys
import types

import numpy as np
import pytest

pytest.importorskip("torch")

from eval.forecasters import tsicl
from eval.forecasters.foundation import ModelError

DECILES = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)


@pytest.fixture
def asked(monkeypatch):
    """Puts the stub in the package's place; what it is asked is collected here."""
    calls = []

    class Stub:
        max_context_length, max_target_length = 64, 32

        def __init__(self, model_path=None, checkpoint_version="v1", allow_auto_download=True):
            calls.append({"model_path": model_path, "download": allow_auto_download})

        def forecast(self, inputs, *, prediction_length, batch_size, quantile_levels, device,
                     squeeze_output=True):  # fmt: skip
            """Quantile q of a step: 100 q + its first covariate + the last target."""
            import torch

            whole = [float(level) for level in range(1, 100)]
            if not {100 * level for level in quantile_levels} <= set(whole):
                raise ValueError("Misspecified arg `quantile_levels`")
            if prediction_length > self.max_target_length:
                raise RuntimeError("Sizes of tensors must match except in dimension 0")
            calls.append({"levels": quantile_levels, "steps": prediction_length})
            rows = []
            for row in inputs:
                assert set(row["past_covariates"]) == set(row["future_covariates"])
                for past in row["past_covariates"].values():
                    assert past.shape == row["target"].shape
                first = row["future_covariates"][min(row["future_covariates"])]
                assert first.shape == (prediction_length,)
                rows.append(100 * np.array(quantile_levels) + first[:, None] + row["target"][-1])
            quantiles = torch.tensor(np.stack(rows)[:, None])
            assert not squeeze_output
            return quantiles.mean(-1, keepdim=True), quantiles

    monkeypatch.setitem(sys.modules, "tsicl", types.SimpleNamespace(TSICL=Stub))
    monkeypatch.setattr(importlib.metadata, "version", lambda name: f"stub of {name}")
    return calls


def _arrays(rows=3, horizon=20):
    history = np.tile(np.arange(rows, dtype=np.float32)[:, None] * 1000, (1, 50))
    covariates = np.zeros((rows, 50 + horizon, 2), np.float32)
    covariates[:, 50:, 0] = np.arange(horizon)
    return history, covariates


def test_rows_steps_and_levels_come_back_in_their_places(asked):
    forecaster = tsicl.make(device="cpu", batch_size=2)
    assert asked == [{"model_path": None, "download": True}]
    assert forecaster.version == "stub of tsicl"
    assert forecaster.settings == {"model": "taharnbl/TS-ICL"}
    history, covariates = _arrays()
    got = np.stack(forecaster(history, covariates, 20, (0.9, 0.1)))
    expected = np.array([90, 10]) + np.arange(20)[:, None] + 1000 * np.arange(3)[:, None, None]
    np.testing.assert_allclose(got, expected, rtol=1e-6)


def test_only_levels_that_the_package_takes_are_asked_for(asked):
    history, covariates = _arrays(rows=1)
    levels = (0.05, 0.07, 0.14, 0.5, 0.55)  # 100 * 0.07, 0.14 and 0.55 are no whole numbers
    got = tsicl.make(device="cpu")(history, covariates, 20, levels)[0]
    assert asked[-1]["levels"] == [0.05, *DECILES]
    np.testing.assert_allclose(got[0], 100 * np.array(levels), rtol=1e-5)  # linear in the level


def test_longer_horizons_go_in_blocks(asked):
    """The package's own way past its longest horizon fails with covariates."""
    history, covariates = _arrays(rows=1, horizon=70)
    got = tsicl.make(device="cpu")(history, covariates, 70, DECILES)[0]
    assert [call["steps"] for call in asked[1:]] == [32, 32, 6]
    # each block starts from the median at the end of the one before: 50 + 31, then 50 + 63 more
    assert got[32, 4] == pytest.approx(50 + 32 + (50 + 31))
    assert got.shape == (70, 9)


def test_a_shorter_context_is_said(asked):
    forecaster = tsicl.make(device="cpu")
    with pytest.warns(UserWarning, match="histories of 80 steps; the model reads the last 64"):
        forecaster(np.zeros((1, 80)), np.zeros((1, 90, 2)), 10, DECILES)


def test_checkpoints_are_files_or_folders_with_one(asked, tmp_path):
    with pytest.raises(ModelError, match="0 files .ckpt in the folder; expected one"):
        tsicl.make(str(tmp_path))
    (tmp_path / "a.ckpt").touch()
    for model in (tmp_path, tmp_path / "a.ckpt"):
        tsicl.make(str(model))
        assert asked[-1] == {"model_path": str(tmp_path / "a.ckpt"), "download": False}
    with pytest.raises(ModelError, match="'nobody/else'.*knows no hub id but taharnbl/TS-ICL"):
        tsicl.make("nobody/else")
