"""Metric kernels against a hand computation in float64 and against fev, to 1e-6 relative."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.oracle import scores as oracle
from tests.score_cases import KINDS, LEVELS, Case, batch, random_case
from whatif_jax.evaluation import metrics

CLOSE = 1e-6  # relative, of float32 kernels to float64
SHAPES = [(2, 1), (300, 127), (1500, 864)]
MEDIAN = 4


def cases_of(context: int, horizon: int, seed: int = 0) -> list[Case]:
    rng = np.random.default_rng([seed, context, horizon])
    return [random_case(kind, rng, context, horizon) for kind in KINDS for _ in range(4)]


def _kernels(case: Case) -> dict[str, jax.Array]:
    target, baseline, history, quantiles, history_mask, mask = case
    point = quantiles[:, MEDIAN]
    scale = metrics.seasonal_error(history, history_mask)
    return {
        "wql": metrics.weighted_quantile_loss(target, quantiles, LEVELS, mask),
        "wape": metrics.weighted_absolute_percentage_error(target, point, mask),
        "scale": scale,
        "mase": metrics.mean_absolute_scaled_error(target, point, scale, mask),
        "rmse": metrics.root_mean_squared_error(target, point, mask),
        "coverage": metrics.coverage(target, quantiles, mask),
        "direction_accuracy": metrics.direction_accuracy(target, point, baseline, mask),
        "effect_size_error": metrics.effect_size_error(target, point, baseline, mask),
    }


kernels = jax.jit(_kernels)
kernels_of_batch = jax.jit(jax.vmap(_kernels))


def by_hand(case: Case) -> dict[str, float | np.ndarray]:
    target, baseline, history, quantiles, history_mask, mask = case
    point = quantiles[:, MEDIAN]
    scale = oracle.seasonal_error(history, history_mask)
    return {
        "wql": oracle.wql(target, quantiles, LEVELS, mask),
        "wape": oracle.wape(target, point, mask),
        "scale": scale,
        "mase": oracle.mase(target, point, scale, mask),
        "rmse": oracle.rmse(target, point, mask),
        "coverage": oracle.coverage(target, quantiles, mask),
        "direction_accuracy": oracle.direction_accuracy(target, point, baseline, mask),
        "effect_size_error": oracle.effect_size_error(target, point, baseline, mask),
    }


def test_gradients_are_finite_even_at_an_exact_forecast():
    """Also where a step is masked, and over the range of float32."""
    target = jnp.array([1.0, -2.0, 3e30, 0.0, 5.0], jnp.float32)
    mask = jnp.array([True, True, True, True, False])
    for point in (target, 2 * target, jnp.zeros_like(target)):
        for metric in (metrics.root_mean_squared_error, metrics.weighted_absolute_percentage_error):
            found = jax.grad(lambda forecast, metric=metric: metric(target, forecast, mask))(point)
            assert np.isfinite(found).all() and found[-1] == 0


@pytest.mark.parametrize("context, horizon", SHAPES)
def test_kernels_equal_the_hand_computation(context, horizon):
    cases = cases_of(context, horizon)
    ours = kernels_of_batch(batch(cases))
    theirs = [by_hand(case) for case in cases]
    for name, values in ours.items():
        expected = np.array([row[name] for row in theirs])
        np.testing.assert_allclose(values, expected, rtol=CLOSE, atol=0, err_msg=name)


@pytest.mark.parametrize("context, horizon", SHAPES[1:2])
def test_forecasts_that_are_not_finite(context, horizon):
    rng = np.random.default_rng(horizon)
    cases = []
    for number, case in enumerate(cases_of(context, horizon, seed=1)):
        case.quantiles[rng.integers(horizon), rng.integers(9)] = np.nan
        case.quantiles[rng.integers(horizon), MEDIAN] = (np.nan, np.inf, -np.inf)[number % 3]
        cases.append(case)
    ours = kernels_of_batch(batch(cases))
    theirs = [by_hand(case) for case in cases]
    assert np.isinf([row["wql"] for row in theirs]).sum() > len(cases) / 2
    for name, values in ours.items():
        expected = np.array([row[name] for row in theirs])
        np.testing.assert_allclose(values, expected, rtol=CLOSE, atol=0, err_msg=name)


def fev_score(fev, name: str, case: Case) -> float:
    """fev's metric of one series, in float64; padding is missing to fev."""
    target = np.where(case.future_mask, case.target, np.nan).astype(np.float64)
    past = np.where(case.history_mask, case.history, np.nan).astype(np.float64)
    quantiles = case.quantiles.astype(np.float64)[None, :, None, :]
    with np.errstate(all="ignore"):
        return fev.get_metric(name).compute(
            y_true=target[None, :, None],
            y_pred=quantiles[..., MEDIAN],
            y_past=past[:, None],
            y_past_lengths=np.array([len(past)]),
            q_pred=quantiles,
            seasonality=1,
            quantile_levels=list(LEVELS),
        )


@pytest.mark.filterwarnings("ignore:Mean of empty slice:RuntimeWarning")
@pytest.mark.parametrize("context, horizon", SHAPES)
def test_kernels_equal_fev(context, horizon):
    fev = pytest.importorskip("fev.metrics")
    cases = cases_of(context, horizon, seed=2)
    ours = kernels_of_batch(batch(cases))
    for name in ("WQL", "WAPE", "MASE", "RMSE"):
        theirs = np.array([fev_score(fev, name, case) for case in cases])
        values = np.asarray(ours[name.lower()])
        defined = ~np.isnan(theirs)
        assert defined.mean() > 0.7
        if name == "MASE":  # fev leaves out what we score 0 or infinite
            assert set(values[~defined]) <= {0, np.inf}
        else:  # 0/0, or no step at all
            assert (values[~defined] == 0).all()
        np.testing.assert_allclose(values[defined], theirs[defined], rtol=CLOSE, err_msg=name)


def small_case(**changes) -> Case:
    """A case of four steps that can be computed in the head."""
    case = Case(
        target=np.array([10, 20, 30, 40], np.float32),
        future_baseline=np.array([8, 20, 40, 40.5], np.float32),
        history=np.array([1, 2, 4], np.float32),
        quantiles=np.repeat(np.array([[12], [19], [36], [41]], np.float32), 9, axis=1),
        history_mask=np.ones(3, bool),
        future_mask=np.ones(4, bool),
    )
    return case._replace(**changes)


def test_numbers_that_a_reader_can_check():
    found = kernels(small_case())
    assert found["scale"] == 1.5
    assert found["wape"] == pytest.approx(10 / 100)
    assert found["wql"] == pytest.approx((9 * 0.5 * 2 + 1 * 0.5 * 2) / 100)
    assert found["mase"] == pytest.approx(2.5 / 1.5)
    assert found["rmse"] == pytest.approx(np.sqrt((4 + 1 + 36 + 1) / 4))
    np.testing.assert_allclose(found["coverage"], 0.75)
    # true effects 2, 0, -10, -0.5 (dead zone 0.27); forecast 4, -1, -4, 0.5
    assert found["direction_accuracy"] == pytest.approx(2 / 3)
    assert found["effect_size_error"] == pytest.approx(8 / 8.5)


def test_a_dead_zone_of_one_percent():
    baseline = np.full(4, 100, np.float32)
    case = small_case(
        target=np.array([101, 99, 103, 97], np.float32),
        future_baseline=baseline,
        quantiles=np.repeat(np.array([[150], [50], [101], [98.5]], np.float32), 9, axis=1),
    )
    # steps 0 and 1 have no true effect; step 2's forecast lies in the dead zone; step 3 is right
    assert kernels(case)["direction_accuracy"] == 0.5


def test_levels_are_weighted_as_they_are_named():
    @jax.jit
    def losses(quantile):
        return [
            metrics.weighted_quantile_loss(
                jnp.array([10.0]), quantile[None, None], (level,), jnp.array([True])
            )
            for level in (0.1, 0.9)
        ]

    assert losses(11.0) == pytest.approx([2 * 0.9 * 0.1, 2 * 0.1 * 0.1])
    assert losses(9.0) == pytest.approx([2 * 0.1 * 0.1, 2 * 0.9 * 0.1])


@pytest.mark.parametrize("season", [1, 2, 24])
def test_a_season(season):
    case = random_case("missing targets", np.random.default_rng(3), 100, 5)
    found = jax.jit(metrics.seasonal_error, static_argnums=2)(
        case.history, case.history_mask, season
    )
    expected = oracle.seasonal_error(case.history, case.history_mask, season)
    assert found == pytest.approx(expected, rel=CLOSE)


def test_a_season_that_cannot_be():
    history, mask = jnp.arange(3.0), jnp.ones(3, bool)
    assert jnp.isnan(metrics.seasonal_error(history, mask, 3))
    with pytest.raises(ValueError, match="season is 0; expected 1 step or more"):
        metrics.seasonal_error(history, mask, 0)


def test_a_mean_effect_that_cancels():
    """The errors add up to almost nothing: of that a plain float32 sum keeps no digit."""
    rng = np.random.default_rng(4)
    target = np.float32(rng.lognormal(size=864))
    point = np.float32(target * rng.lognormal(size=864))
    point[-1] = target[-1] - math.fsum([*point[:-1].astype(float), *-target[:-1].astype(float)])
    mask = np.ones(864, bool)
    baseline = np.zeros(864, np.float32)
    expected = oracle.effect_size_error(target, point, baseline, mask)
    plain = abs(np.mean(point - target)) / abs(np.mean(target))
    assert abs(plain - expected) > 1e-4 * expected
    found = jax.jit(metrics.effect_size_error)(target, point, baseline, mask)
    assert found == pytest.approx(expected, rel=CLOSE)
