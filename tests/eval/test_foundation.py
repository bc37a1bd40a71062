"""Adapters of the foundation models, each end to end with a tiny random model of its package.

What such a model forecasts means nothing; how its adapter asks and reads does.
"""

import dataclasses
import gc
import warnings

import numpy as np
import pytest

pytest.importorskip("torch")

from eval.forecasters.foundation import FoundationForecaster, in_blocks
from tests.eval.documented_calls import documented
from tests.eval.tiny_models import DECILES, PACKAGES, build, make
from whatif_jax import evaluate, load_suite

CONTEXT, HORIZON, ROWS = 1024, 128, 3
OTHER_LEVELS = (0.05, 0.25, 0.5, 0.75, 0.95)
OWN_LEVELS = ("chronos-2", "timesfm-3", "tirex-2", "t0", "timestral")  # whose levels are set freely
MIRRORED = {"t0": {"recommended": True}, "timesfm-3": {"symmetric_averaging": True}}


@pytest.fixture(autouse=True)
def eager():
    """Without torch.compile, which TiRex-2 uses everywhere and which takes half a minute."""
    import torch

    with torch.compiler.set_stance("force_eager"):
        yield


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Builds each model once."""
    base, built = tmp_path_factory.mktemp("models"), {}
    gc.freeze()  # TimesFM-3 collects garbage at every call: not that of torch and JAX

    def of(name, **settings):
        key = (name, *settings.items())
        if key not in built:
            built[key] = build(name, base / f"{name}-{len(built)}", **settings)
        return built[key]

    yield of
    gc.unfreeze()


@pytest.fixture(params=PACKAGES)
def forecaster(request, folder):
    return make(request.param, folder(request.param))


def _arrays(rows=ROWS, horizon=HORIZON, k=2, context=CONTEXT):
    """Rows at different heights, whose covariates moved once before they move ahead."""
    rng = np.random.default_rng(3)
    steps = np.arange(context)
    history = 50 + 10 * np.sin(steps / 20) + rng.normal(size=(rows, context))
    history += 7.0 * np.arange(rows)[:, None]
    covariates = np.tile(np.array([3000.0, 4.0, 0.5])[:k], (rows, context + horizon, 1))
    covariates[:, 600:664] *= 2.0
    covariates[:, context:] *= 4.0
    return history.astype(np.float32), covariates.astype(np.float32)


def _forecast(forecaster, history, covariates, levels=DECILES):
    horizon = covariates.shape[1] - history.shape[1]
    return np.stack(forecaster(history, covariates, horizon, levels))


def test_quantiles_of_every_row_in_order(forecaster):
    history, covariates = _arrays()
    history[1] *= 40.0
    quantiles = _forecast(forecaster, history, covariates)
    assert quantiles.shape == (ROWS, HORIZON, 9)
    assert np.isfinite(quantiles).all()
    # a row forty times as high is forecast far higher than its neighbours
    middle = np.abs(np.median(quantiles, axis=(1, 2)))
    assert middle[1] > 5 * max(middle[0], middle[2])
    swapped = _forecast(forecaster, history[::-1], covariates[::-1])
    np.testing.assert_allclose(swapped[::-1], quantiles, atol=1e-4 * np.abs(quantiles).max())


def test_it_forecasts_what_the_documented_call_does(forecaster, folder):
    history, covariates = _arrays(rows=2)
    got = _forecast(forecaster, history, covariates)[1]
    series = history[1], covariates[1, :CONTEXT].T.copy(), covariates[1, CONTEXT:].T.copy()
    expected = documented(forecaster.name, folder(forecaster.name), *series)
    np.testing.assert_allclose(got, expected, atol=1e-5 * np.abs(expected).max())


def test_covariates_of_the_horizon_move_the_forecast(forecaster):
    history, covariates = _arrays()
    before = _forecast(forecaster, history, covariates)
    for k in range(covariates.shape[2]):
        changed = covariates.copy()
        changed[1, CONTEXT + 32 :, k] *= 0.5
        moved = np.abs(_forecast(forecaster, history, changed) - before).max(axis=(1, 2))
        noise = 1e-6 * np.abs(before).max(axis=(1, 2))
        assert moved[1] > 100 * noise[1], k
        assert (moved[[0, 2]] <= noise[[0, 2]]).all(), k  # of that row alone


def test_rows_do_not_depend_on_their_companions(forecaster):
    history, covariates = _arrays(rows=5)
    together = _forecast(forecaster, history, covariates)
    scale = np.abs(together).max(axis=(1, 2))
    for row in (0, 3):
        alone = _forecast(forecaster, history[row : row + 1], covariates[row : row + 1])
        assert np.abs(alone[0] - together[row]).max() <= 1e-5 * scale[row]
    forecaster.batch_size = 2  # an odd row is left for the last call
    parts = _forecast(forecaster, history, covariates)
    assert (np.abs(parts - together).max(axis=(1, 2)) <= 1e-5 * scale).all()


def test_levels_are_asked_for_in_any_order(forecaster):
    history, covariates = _arrays(rows=1)
    deciles = _forecast(forecaster, history, covariates)
    picked = _forecast(forecaster, history, covariates, (0.9, 0.2, 0.5))
    np.testing.assert_allclose(picked, deciles[..., [8, 1, 4]], rtol=1e-6)


@pytest.mark.parametrize("name", OWN_LEVELS)
def test_quantiles_are_read_by_level(name, folder):
    """A model of other levels: those it has as they are, between them interpolated."""
    history, covariates = _arrays(rows=2)
    forecaster = make(name, folder(name, levels=OTHER_LEVELS))
    own = _forecast(forecaster, history, covariates, OTHER_LEVELS)
    assert len({own[..., level].tobytes() for level in range(5)}) == 5
    got = _forecast(forecaster, history, covariates, (0.25, 0.5, 0.75))
    np.testing.assert_allclose(got, own[..., 1:4], rtol=1e-6)
    between = _forecast(forecaster, history, covariates, (0.4, 0.5, 0.9))
    np.testing.assert_allclose(
        between[..., 0], 0.4 * own[..., 1] + 0.6 * own[..., 2], rtol=1e-4, atol=1e-3
    )
    np.testing.assert_allclose(
        between[..., 2], 0.25 * own[..., 3] + 0.75 * own[..., 4], rtol=1e-4, atol=1e-3
    )


@pytest.mark.parametrize("name", ["chronos-2", "timesfm-3", "tirex-2"])
def test_a_model_may_hold_its_levels_in_any_order(name, folder):
    """The same weights with the levels renamed: each name must take its own quantiles along."""
    history, covariates = _arrays(rows=1)
    ordered = _forecast(
        make(name, folder(name, levels=OTHER_LEVELS)), history, covariates, OTHER_LEVELS
    )
    shuffled = (0.75, 0.05, 0.5, 0.95, 0.25)
    renamed = _forecast(
        make(name, folder(name, levels=shuffled)), history, covariates, OTHER_LEVELS
    )
    assert (np.diff(ordered, axis=-1) < 0).any()  # unsorted: evaluation counts what crosses
    order = [shuffled.index(level) for level in OTHER_LEVELS]
    np.testing.assert_allclose(renamed, ordered[..., order], rtol=1e-5)


def test_a_horizon_longer_than_one_pass(forecaster):
    history, covariates = _arrays(rows=2, horizon=864)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # packages advise against it
        before = _forecast(forecaster, history, covariates)
        assert before.shape == (2, 864, 9)
        assert np.isfinite(before).all()
        covariates[:, CONTEXT + 800 :] *= 0.5  # known to the very end
        after = _forecast(forecaster, history, covariates)
    assert np.abs(after - before)[:, 832:].max() > 1e-4 * np.abs(before).max()


@pytest.mark.parametrize("long_horizon", ["blocks", "widen"])
def test_tirex_goes_beyond_its_trained_horizon_as_it_is_told(long_horizon, folder):
    history, covariates = _arrays(rows=2, horizon=400)
    forecaster = make("tirex-2", folder("tirex-2"), long_horizon=long_horizon)
    with pytest.warns(UserWarning, match="400 steps; the model was trained for 320"):
        quantiles = _forecast(forecaster, history, covariates)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # said once
        again = _forecast(forecaster, history, covariates)
    np.testing.assert_array_equal(again, quantiles)
    assert forecaster.settings["long_horizon"] == long_horizon
    short = _forecast(forecaster, history, covariates[:, : CONTEXT + 320])
    if long_horizon == "blocks":  # the first block is what the model forecasts alone
        np.testing.assert_allclose(quantiles[:, :320], short, rtol=1e-5)
    else:
        assert np.abs(quantiles[:, :320] - short).max() > 1e-3


def test_tirex_refuses_another_way_to_go_on():
    pytest.importorskip("tirex2")
    with pytest.raises(ValueError, match="long_horizon: 'guess'; expected one of blocks, widen"):
        make("tirex-2", "anywhere", long_horizon="guess")


def test_blocks_feed_the_median_back_and_keep_covariates_aligned():
    seen = []

    def predict(history, covariates, steps):
        seen.append((history.copy(), covariates.shape[1], steps))
        known = covariates[:, history.shape[1] :, 0]
        assert known.shape[1] == steps
        return np.stack([known + 1, known, known - 1], axis=-1)  # its levels fall

    history = np.zeros((2, 4), np.float32)
    covariates = np.arange(2 * 11, dtype=np.float32).reshape(2, 11, 1)
    got = in_blocks(predict, history, covariates, 7, 3, (0.9, 0.5, 0.1))
    np.testing.assert_array_equal(got[..., 1], covariates[:, 4:, 0])
    assert [(past.shape[1], width, steps) for past, width, steps in seen] == [
        (4, 7, 3),
        (7, 10, 3),
        (10, 11, 1),
    ]
    np.testing.assert_array_equal(seen[2][0][:, 4:], covariates[:, 4:10, 0])


@pytest.mark.parametrize("name", ["chronos-2", "tirex-2", "timestral", "ts-icl"])
def test_a_shorter_context_of_the_model_is_said_once(name, folder):
    history, covariates = _arrays(rows=1)
    forecaster = make(name, folder(name, context=512))
    said = f"{name}: histories of 1024 steps; the model reads the last 512"
    with pytest.warns(UserWarning, match=said):
        short = _forecast(forecaster, history, covariates)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        _forecast(forecaster, history, covariates)
    history[:, :480] += 100.0
    np.testing.assert_array_equal(_forecast(forecaster, history, covariates)[..., 4], short[..., 4])


def test_the_whole_history_is_read(forecaster):
    history, covariates = _arrays(rows=1)
    before = _forecast(forecaster, history, covariates)
    history[:, :32] += 100.0
    moved = np.abs(_forecast(forecaster, history, covariates) - before).max()
    assert moved > 1e-5 * np.abs(before).max()


def test_what_it_calls_itself(forecaster, folder):
    from importlib.metadata import version

    assert forecaster.name in PACKAGES
    assert forecaster.settings["model"] == str(folder(forecaster.name))
    packages = {"chronos-2": "chronos-forecasting", "t0": "tfc-t0", "timestral":
                "timecopilot-timestral", "timesfm-3": "timesfm", "ts-icl": "tsicl"}  # fmt: skip
    assert forecaster.version == version(packages.get(forecaster.name, forecaster.name))
    assert "device" not in forecaster.settings and "batch_size" not in forecaster.settings


@pytest.mark.parametrize("name", MIRRORED)
def test_adjustments_of_a_package_are_settings(name, folder):
    history, covariates = _arrays(rows=1)
    plain = make(name, folder(name))
    other = make(name, folder(name), **MIRRORED[name])
    assert plain.settings != other.settings
    moved = _forecast(plain, history, covariates) - _forecast(other, history, covariates)
    assert np.abs(moved).max() > 0


def test_timestral_mirrors_unless_told_otherwise(folder):
    history, covariates = _arrays(rows=1)
    default = make("timestral", folder("timestral"))
    plain = make("timestral", folder("timestral"), symmetric_averaging=False)
    assert default.settings["symmetric_averaging"] and not plain.settings["symmetric_averaging"]
    moved = _forecast(default, history, covariates) - _forecast(plain, history, covariates)
    assert np.abs(moved).max() > 0


def test_a_row_that_timestral_refuses_has_no_forecast(folder):
    history, covariates = _arrays(rows=3)
    forecaster = make("timestral", folder("timestral"))
    fine = _forecast(forecaster, history, covariates)
    real = forecaster._predict.args[0].forecast

    class Refusing:
        def forecast(self, context, *args, **kwargs):
            if (context[:, 0, 0] > 1e9).any():
                raise ValueError("forecast produced 3 NaN values; the input is degenerate")
            return real(context, *args, **kwargs)

    forecaster._predict = type(forecaster._predict)(
        forecaster._predict.func, Refusing(), *forecaster._predict.args[1:]
    )
    history[1, 0] = 2e9
    rows = forecaster(history, covariates, HORIZON, DECILES)
    assert rows[1] is None
    np.testing.assert_allclose(rows[0], fine[0], rtol=1e-5)
    np.testing.assert_allclose(rows[2], fine[2], rtol=1e-5)


def test_what_is_not_finite_is_passed_on():
    """Evaluation imputes it and counts it; an adapter must not hide it."""

    def predict(history, covariates, horizon, levels):
        return np.full((len(history), horizon, len(levels)), np.nan)

    forecaster = FoundationForecaster(
        "nothing", predict, model="m", distribution="torch", batch_size=2
    )
    assert np.isnan(_forecast(forecaster, *_arrays())).all()


@pytest.fixture(scope="module")
def suite():
    """Targets whose events are all steps at K = 2, so that one program makes each shape."""
    targets = ["pressure_10", "flow_loop_e_0_near", "cpu_time_idle_1019"]
    return load_suite("whatif-v1").where(k=2, target=targets)


def _evaluate(forecaster, tasks):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return evaluate(forecaster, tasks, batch_size=4).scores


def test_tasks_of_the_suite_end_to_end(forecaster, suite):
    """Four tasks of the smallest shape; their rows are checked one against another."""
    smallest = suite.where(context=1024, horizon=128)
    tasks = smallest.take(np.linspace(0, len(smallest) - 1, 4).astype(int))
    scores = _evaluate(forecaster, tasks)
    assert scores.column("task_id").to_pylist() == sorted(tasks.column("task_id").tolist())
    assert not any(scores.column("imputed").to_pylist())
    for name in ("wql", "wape", "mase", "rmse"):
        values = scores.column(name).to_numpy()
        assert np.isfinite(values).all() and (values > 0).all()
    metadata = scores.schema.metadata
    assert metadata[b"forecaster"].decode() == forecaster.name
    assert metadata[b"version"].decode() == forecaster.version
    assert forecaster.settings["model"] in metadata[b"settings"].decode()
    assert metadata[b"point"] == b"false"


@pytest.mark.slow
@pytest.mark.parametrize("name", ["chronos-2", "tirex-2", "timestral", "ts-icl"])
def test_a_task_of_the_longest_horizon_end_to_end(name, folder, suite):
    """For models that forecast fewer steps at once and read fewer than 7,328."""
    task = suite.where(context=7328, horizon=864).take([0])
    scores = _evaluate(make(name, folder(name)), task)
    assert scores.column("imputed").to_pylist() == [False]
    assert 0 < scores.column("wql")[0].as_py() < np.inf


def test_settings_are_plain_values(forecaster):
    assert not any(dataclasses.is_dataclass(value) for value in forecaster.settings.values())
    assert all(isinstance(value, str | bool) for value in forecaster.settings.values())
