"""Forecasters as baselines: what they are given, what is made of it, and Chronos-2's tiny self."""

import jax
import numpy as np
import pytest
from tiny_models import build
from tscm_questions import linear_series, question_by_hand, stacked

from eval.tscm import baselines
from eval.tscm.forecasting import Forecasting

SERIES = linear_series("back_door", steps=120)
ASKED = [
    question_by_hand("back_door", SERIES, onset, value, length=length, kind=kind, offsets=(0, 3))
    for onset, value, length, kind in
    ((100, 3.0, 1, "hard"), (40, -2.0, 9, "hard"), (60, 1.5, 2, "soft"), (5, 1.0, 1, "hard"))
]  # fmt: skip


class Adds:
    """The last value of the history plus the covariate of the step; says what it was given."""

    def __init__(self):
        self.given = []

    def __call__(self, history, covariates, horizon, levels):
        self.given.append((history, covariates, horizon, levels))
        return list(history[:, -1:, None] + covariates[:, -horizon:, :1])


def test_a_forecast_has_the_treatment_as_its_known_covariate():
    own = Adds()
    found = Forecasting("adds", "Adds", lambda: own).estimate_many(stacked(ASKED), "back_door")
    a, y = SERIES[:, 1], SERIES[:, 2]
    for row, (onset, values) in enumerate(((100, (3, None)), (40, (-2, -2)), (60, (1.5, None)))):
        mean = a[:onset].mean()
        held = [mean if v is None else v + (mean if onset == 60 else 0) for v in values]
        np.testing.assert_allclose(found.value[row], y[onset - 1] + np.array(held), rtol=1e-4)
        np.testing.assert_allclose(found.effect[row], np.array(held) - mean, rtol=1e-3, atol=1e-5)
    np.testing.assert_allclose(found.value[3], [y[:5].mean()] * 2, rtol=1e-4)
    assert not found.effect[3].any(), "five steps are too few"
    history, covariates, horizon, levels = own.given[0]
    assert history.shape == (3, 100) and covariates.shape == (3, 104, 1)
    assert horizon == 4 and levels == (0.5,)
    shortest = np.isnan(history).sum(axis=1).argmax()
    assert np.isnan(history[shortest]).sum() == 60
    np.testing.assert_array_equal(np.isnan(history), np.isnan(covariates[:, :100, 0]))


@pytest.mark.parametrize("answer", [None, np.full((8, 1), np.nan, np.float32)])
def test_a_missing_forecast_is_no_estimate_and_a_short_history_gives_the_mean(answer):
    found = Forecasting("none", "None", lambda: lambda h, *_: [answer] * len(h)).estimate_many(
        stacked(ASKED), "back_door"
    )
    assert np.isnan(found.value[:3]).all() and np.isnan(found.effect[:3]).all()
    np.testing.assert_allclose(found.value[3], [SERIES[:5, 2].mean()] * 2, rtol=1e-4)
    assert not found.effect[3].any()


def test_a_forecast_that_is_not_finite_stays_so_and_is_scored_as_failed():
    def broken(history, covariates, horizon, levels):
        return [np.full((horizon, 1), np.nan, np.float32) for _ in history]

    found = Forecasting("nan", "NaN", lambda: broken).estimate_many(stacked(ASKED), "back_door")
    assert np.isnan(found.value[:3]).all() and np.isnan(found.effect[:3]).all()
    assert np.isfinite(found.value[3]).all(), "not asked for: five steps are too few"


def test_chronos_forecasts_alike_alone_and_beside_longer_histories(tmp_path):
    model = build("chronos-2", tmp_path / "chronos")
    method = baselines(chronos={"model": str(model), "device": "cpu"})["chronos-2"]
    assert method.applies("") and method.applies("bow_graph")
    together = method.estimate_many(stacked(ASKED[:3]), "back_door")
    assert np.abs(together.effect).min() > 0
    alone = [method.estimate_many(stacked([one]), "back_door") for one in ASKED[:3]]
    alone = jax.tree.map(lambda *leaves: np.concatenate(leaves), *alone)
    np.testing.assert_allclose(together.value, alone.value, rtol=1e-3, atol=1e-3)
