"""Paired training and XGBoost, and the registry that names all forecasters."""

import sys

import jax
import numpy as np
import pytest

from eval.forecasters import FORECASTERS, PAIRED_FEATURES, make_forecaster
from eval.forecasters.base import require, select_levels
from eval.forecasters.pairs import draw_pairs, feature_rows, pair_count
from eval.forecasters.tuned import sample_pairs
from tests.evaluation_helpers import batches_of
from whatif_jax import BatchInfo, check_rows, evaluate, evaluate_batch

ROUNDING, EXACT = 1e-6, 1e-12  # as in test_regressions


@pytest.mark.parametrize("draw", [draw_pairs, sample_pairs])
def test_pairs_lie_in_the_history_and_depend_on_the_task_alone(draw):
    context, horizon = 1024, 128
    origin, ahead = (np.asarray(values) for values in draw(17, context, horizon))
    assert len(origin) == len(ahead) == 8_000
    assert ahead.min() == 1 and ahead.max() == horizon
    assert origin.min() == 31 and (origin + ahead).max() == context - 1
    # steps ahead are uniform: 62.5 of each expected, far outside is wrong
    counts = np.bincount(ahead, minlength=horizon + 1)[1:]
    assert counts.min() > 25 and counts.max() < 110
    # and so are origins, given the step ahead
    where = (origin - 31) / (context - ahead - 32)
    assert abs(where.mean() - 0.5) < 0.02
    assert abs(np.corrcoef(where, ahead)[0, 1]) < 0.05
    again = draw(17, context, horizon)
    np.testing.assert_array_equal(origin, again[0])
    other = draw(18, context, horizon)
    assert np.mean(np.asarray(other[0]) == origin) < 0.05


def test_short_series_have_fewer_pairs_or_are_refused():
    assert pair_count(40, 4) == 8 + 7 + 6 + 5
    assert pair_count(34, 2) == 2 + 1
    origin, ahead = draw_pairs(0, 34, 2)
    assert set(zip(origin.tolist(), ahead.tolist(), strict=True)) <= {(31, 1), (32, 1), (31, 2)}
    with pytest.raises(ValueError, match=r"context: 33 steps; expected at least 32 \+ horizon"):
        pair_count(33, 2)


def test_features_by_a_plain_loop():
    generator = np.random.default_rng(0)
    history, covariates = generator.normal(size=60), generator.normal(size=(2, 70))
    origin, ahead = np.array([31, 40, 59]), np.array([1, 10, 7])
    features = PAIRED_FEATURES["all"]
    for xp in (np, jax.numpy):
        with jax.enable_x64(True):
            found = np.asarray(
                feature_rows(*map(xp.asarray, (history, covariates, origin, ahead)), features, xp)
            )
        assert found.shape == (2 + 2 + 2 + 2 + 3 + 1, 3)
        for column, (tau, h) in enumerate(zip(origin, ahead, strict=True)):
            z, before, now = covariates[:, [tau + h, tau + h - 1, tau]].T
            last = history[tau - 31 : tau + 1]
            slope = np.polyfit(np.arange(32), last, 1)[0]
            row = [*z, *before, *now, *(z - now), last.mean(), last.std(), slope, h]
            np.testing.assert_allclose(found[:, column], row, atol=1e-12)


@pytest.mark.parametrize(
    "kind, variant", [*(("linear", variant) for variant in PAIRED_FEATURES), ("ridge", "all")]
)
def test_equal_to_scikit_learn_on_the_same_pairs(few, kind, variant):
    linear = pytest.importorskip("sklearn.linear_model")
    preprocessing = pytest.importorskip("sklearn.preprocessing")
    forecaster, compared = make_forecaster(f"{kind}-paired-{variant}"), 0
    for ids in batches_of(few)[:4]:
        ours = evaluate_batch(forecaster, few, ids[:3], batch_size=16).quantiles
        ours = dict(zip(sorted(ids[:3].tolist()), ours, strict=True))
        task = few.batch(ids[:3]).task
        horizon = task.future.shape[1]
        for i, task_id in enumerate(ids[:3].tolist()):
            past = np.asarray(task.history[i], np.float64)
            parts = task.history_covariates[i], task.future_covariates[i]
            real = np.asarray(task.covariate_mask[i])
            known = np.concatenate(parts, axis=1)[real].astype(np.float64)
            origin, ahead = map(np.asarray, sample_pairs(task_id, len(past), horizon))
            steps, now = np.arange(1, horizon + 1), np.full(horizon, len(past) - 1)
            features = PAIRED_FEATURES[variant]
            rows = feature_rows(past, known, origin, ahead, features, np).T
            after = feature_rows(past, known, now, steps, features, np).T
            scaler = preprocessing.StandardScaler().fit(rows)
            values = np.linalg.svd(scaler.transform(rows), compute_uv=False) / 100
            if np.any((values > EXACT * values[0]) & (values < ROUNDING * values[0])):
                continue  # rounding to float32 as a direction: see linear.py
            target = past[origin + ahead]
            model = linear.LinearRegression() if kind == "linear" else linear.Ridge(10.0)
            model.fit(scaler.transform(rows), target)
            theirs = model.predict(scaler.transform(after))
            wrong = np.abs(ours[task_id][:, 0] - theirs).max() / np.abs(past).max()
            assert wrong < 1e-4, task_id
            compared += 1
    assert compared >= 8


def test_a_task_has_the_same_pairs_in_any_batch(few):
    """`evaluate`'s own check of rows passes, and padding brings no other task's pairs."""
    forecaster = make_forecaster("linear-paired-z-s")
    ids = batches_of(few)[0]
    whole = evaluate_batch(forecaster, few, ids, batch_size=16).scores.to_pylist()
    check_rows(forecaster, few, ids[:4], batch_size=16)
    alone = evaluate_batch(forecaster, few, ids[1:2], batch_size=16).scores.to_pylist()
    assert alone[0]["wql"] == pytest.approx(whole[1]["wql"], rel=1e-5)


@pytest.mark.parametrize("kind", ["linear", "ridge"])
def test_paired_training_of_a_short_context_is_refused(kind):
    info = BatchInfo(np.arange(1), np.ones(1))
    arrays = jax.numpy.ones((1, 40)), jax.numpy.ones((1, 52, 1))
    with pytest.raises(ValueError, match="context: 40 steps"):
        make_forecaster(f"{kind}-paired-z")(*arrays, 12, (0.5,), info=info)


def test_xgboost_is_what_the_spec_asks_for(few, arrays):
    """Equal to `XGBRegressor` with scores.md's settings, and its rows are independent."""
    xgboost = pytest.importorskip("xgboost")
    pytest.importorskip("sklearn")
    two = few.take([0, 20])
    table = evaluate(make_forecaster("xgboost"), two, batch_size=16, check=False).scores
    for task_id, wape in zip(*(table.column(n).to_pylist() for n in ("task_id", "wape")),
                             strict=True):  # fmt: skip
        task = arrays[task_id]
        model = xgboost.XGBRegressor(
            n_estimators=150, max_depth=6, learning_rate=0.05, subsample=0.9,
            colsample_bytree=0.9, tree_method="hist", random_state=0, n_jobs=1,
        )  # fmt: skip
        model.fit(task["history_covariates"].T, task["history"])
        wrong = np.abs(model.predict(task["future_covariates"].T) - task["future"])
        assert wape == pytest.approx(wrong.sum() / np.abs(task["future"]).sum(), rel=1e-5)


def test_xgboost_with_paired_training(few):
    pytest.importorskip("xgboost")
    forecaster = make_forecaster("xgboost-paired-z-zt-s-h")
    assert forecaster.parallel and forecaster.name == "xgboost-paired-z-zt-s-h"
    history = np.random.default_rng(0).normal(size=(2, 120)).astype(np.float32)
    covariates = np.random.default_rng(1).normal(size=(2, 130, 2)).astype(np.float32)
    history += 3 * covariates[:, :120, 0]
    info = BatchInfo(np.array([5, 6]), np.ones(2))
    both = forecaster(history, covariates, 10, (0.5,), info=info)
    assert both.shape == (2, 10, 1)
    alone = forecaster(history[1:], covariates[1:], 10, (0.5,), info=info.take(slice(1, None)))
    np.testing.assert_array_equal(both[1:], alone)
    assert np.corrcoef(both[:, :, 0].ravel(), covariates[:, 120:, 0].ravel())[0, 1] > 0.8


def test_every_name_of_the_registry_has_a_factory():
    for name, home in FORECASTERS.items():
        module, _, factory = home.partition(":")
        assert module.startswith("eval.forecasters.") and factory.startswith("make"), name
    for kind in ("linear", "ridge", "xgboost"):
        assert sum(name.startswith(f"{kind}-paired-") for name in FORECASTERS) == 4  # Table 19
    for name in ("naive", "linear", "ridge", "linear-paired-all", "ridge-paired-z"):
        assert make_forecaster(name).name == name
    assert make_forecaster("ridge", alpha=2).settings == {"alpha": 2.0}


def test_unknown_names_and_settings_are_refused():
    with pytest.raises(ValueError, match="'linaer'; expected one of 'naive', 'linear'"):
        make_forecaster("linaer")
    with pytest.raises(ValueError, match="settings of ridge: alhpa; expected 'alpha'"):
        make_forecaster("ridge", alhpa=1)
    with pytest.raises(ValueError, match="settings of linear-paired-z: features; .*'standardise'"):
        make_forecaster("linear-paired-z", features="all")


def test_missing_packages_name_their_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "xgboost", None)
    with pytest.raises(ImportError, match=r"xgboost .*pip install -e '.\[xgboost\]'"):
        make_forecaster("xgboost")
    with pytest.raises(ImportError, match="no_such_package is not installed"):
        require("no_such_package.part".partition(".")[0], "extra")
    assert require("json", "extra").__name__ == "json"


def test_quantiles_are_selected_by_level():
    quantiles = np.array([[3.0, 1.0, 2.0], [30.0, 10.0, np.nan]], np.float32)  # 0.9, 0.1, 0.5
    found = select_levels(quantiles, (0.9, 0.1, np.float32(0.5)), (0.05, 0.1, 0.3, 0.5, 0.6, 0.95))
    np.testing.assert_allclose(found[0], [1.0, 1.0, 1.5, 2.0, 2.25, 3.0], rtol=1e-6)
    np.testing.assert_array_equal(np.isnan(found[1]), [False, False, True, True, True, False])
    assert found.dtype == np.float32
    for bad in ((0.1, 0.1, 0.5), (0.0, 0.1, 0.2), (0.1, 0.2)):
        with pytest.raises(ValueError, match="expected"):
            select_levels(quantiles, bad, (0.5,))
    with pytest.raises(ValueError, match="levels"):
        select_levels(quantiles, (0.9, 0.1, 0.5), (1.0,))
