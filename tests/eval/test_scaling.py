"""The closed form: against SciPy in float64, exact cases by hand, masks and odd series."""

import functools

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.optimize import least_squares

from eval.forecasters import make_forecaster
from eval.forecasters.scaling import fit_scaling, scaling_quantiles
from eval.forecasters.scaling_baseline import autocorrelation, masked_quantiles
from eval.forecasters.scaling_gain import EVENTS, FORMS, LEAD, STEPS, box_cox, choose_steps
from whatif_jax.tasks.inputs import ForecastInputs

pytestmark = pytest.mark.slow  # together most of a minute or more on a busy machine

T, H, K = 512, 64, 8
LEVELS = (0.1, 0.5, 0.9)
STARTS, LENGTH = (250, 330, 420), 40
# for a program that runs a few times: what compiles it faster makes it slower
FAST = {"xla_backend_optimization_level": 0, "xla_llvm_disable_expensive_passes": True}


@eqx.filter_jit
def _both(inputs):
    fit = fit_scaling(inputs)
    return fit, scaling_quantiles(fit, jnp.asarray(LEVELS, jnp.float32))


def _season(noise=0.0, seed=0):
    rng = np.random.default_rng(seed)
    steps = np.arange(T + H)
    return 5.0 + 2.0 * np.sin(2 * np.pi * steps / 24) + noise * rng.normal(size=T + H)


def _factors(past=((2.0, 0.5), (4.0, 2.0), (0.5, 3.0)), future=(8.0, 0.25)):
    factors = np.ones((T + H, 2))
    for start, row in zip(STARTS, past, strict=False):
        factors[start : start + LENGTH] = row
    factors[T:] = future
    return factors


def _inputs(series, factors, units=(3.0, 7.0)):
    known = np.zeros((T + H, K))
    known[:, : factors.shape[1]] = factors * np.asarray(units)[: factors.shape[1]]
    return ForecastInputs(
        history=jnp.asarray(series[:T], jnp.float32),
        history_mask=jnp.ones(T, bool),
        covariates=jnp.asarray(known, jnp.float32),
        covariate_mask=jnp.arange(K) < factors.shape[1],
        future_mask=jnp.ones(H, bool),
    )


def _power_law(factors, exponents=(0.6, -0.4)):
    return np.prod(factors ** np.asarray(exponents), axis=1)


def test_a_power_law_over_a_season_is_forecast_to_a_thousandth():
    factors = _factors()
    series = _season() * _power_law(factors)
    fit, quantiles = _both(_inputs(series, factors))
    assert int(fit.baseline.period) == 24
    np.testing.assert_allclose(quantiles[:, 1], series[T:], rtol=1e-3)
    np.testing.assert_allclose(fit.fit.coefficients[0, :2], (0.6, -0.4), atol=1e-3)


def test_an_effect_that_a_power_law_cannot_make_is_added():
    factors = _factors(past=((2.0, 1.0), (4.0, 1.0), (8.0, 1.0)), future=(12.0, 1.0))
    season = _season() - 5.0  # a gain would turn its troughs down
    series = season + 3.0 * (factors[:, 0] - 1.0)
    _, quantiles = _both(_inputs(series, factors))
    np.testing.assert_allclose(quantiles[:, 1], series[T:], rtol=5e-3)


def test_a_future_at_base_is_the_baseline():
    factors = _factors(future=(1.0, 1.0))
    series = _season(noise=0.2) * _power_law(factors)
    fit, quantiles = _both(_inputs(series, factors))
    np.testing.assert_allclose(fit.response.gain, 1.0, atol=1e-6)
    np.testing.assert_allclose(fit.response.offset, 0.0, atol=1e-6)
    np.testing.assert_allclose(quantiles[:, 1], _season()[T:], rtol=0.1)


def test_a_replay_has_the_effect_that_its_event_had():
    factors = _factors(future=(4.0, 2.0))
    gain = np.ones(T + H)
    for start, effect in zip(STARTS, (1.9, 0.3, 1.2), strict=True):  # no law at all
        gain[start : start + LENGTH] = effect
    gain[T:] = 0.3
    _, quantiles = _both(_inputs(_season() * gain, factors))
    np.testing.assert_allclose(quantiles[:48, 1].mean(), 1.5, rtol=0.1)


def _weighted(fit, series):
    """Series, baseline, log factors and weights at the steps of events, in float64."""
    event = np.asarray(fit.events.event)
    inside = event < len(fit.events.mask)
    history = np.asarray(series[:T] / float(fit.unit))[inside]
    baseline = np.asarray(fit.baseline.past, float)[inside]
    weight = np.zeros(inside.sum())
    for row in np.unique(event[inside]):
        own = event[inside] == row
        level = max(np.abs(history[own]).mean(), np.abs(baseline[own]).mean())
        weight[own] = 1.0 / (own.sum() * level**2)
    return history, baseline, np.asarray(fit.log_factors, float)[:T][inside], weight


def test_coefficients_are_those_of_ridge_in_float64():
    factors = _factors()
    series = _season(noise=0.3) * _power_law(factors, (0.9, -0.2))
    fit, _ = _both(_inputs(series, factors))
    history, baseline, logs, weight = _weighted(fit, series)
    relative = np.where(np.arange(K) == 0, 1.0, LEAD)
    for number, (acts, power, penalty, _) in enumerate(FORMS):
        if acts == "power" and power == 0.0:

            def residuals(c, penalty=penalty):
                misfit = np.sqrt(weight) * (history - baseline * np.exp(logs @ c))
                return np.append(misfit, np.sqrt(penalty * relative) * c)

            wanted = least_squares(residuals, np.zeros(K), xtol=1e-12).x
        elif acts == "multiply":
            design = baseline[:, None] * np.asarray(box_cox(jnp.asarray(logs), jnp.float32(power)))
            gram = (design * weight[:, None]).T @ design
            least = penalty + 4e-6 * gram.diagonal().max()
            cross = (design * weight[:, None]).T @ (history - baseline)
            wanted = np.linalg.solve(gram + least * np.diag(relative), cross)
        else:
            continue
        np.testing.assert_allclose(fit.fit.coefficients[number], wanted, atol=2e-3)


@pytest.mark.parametrize("number", [0, 100, STEPS, 1500])
def test_of_many_steps_of_events_an_even_choice_is_read(number):
    steps = np.arange(2000)
    event = np.where((steps >= 200) & (steps < 200 + number), steps // 500, EVENTS)
    use = jnp.asarray(steps % 7 != 0)
    there = np.flatnonzero((event < EVENTS) & np.asarray(use))
    series = jnp.asarray(steps, jnp.float32)
    found = choose_steps(series, 2 * series, series[:, None], jnp.asarray(event), use)
    place = np.asarray(found.place)[np.asarray(found.mask)]
    assert len(place) == min(len(there), STEPS) and set(place) <= set(there)
    rank = np.searchsorted(there, place)
    gap = len(there) / max(len(place), 1)
    assert np.all(np.abs(np.diff(rank) - gap) < 1)
    np.testing.assert_array_equal(found.event[: len(place)], event[place])
    np.testing.assert_array_equal(found.event[len(place) :], EVENTS)
    np.testing.assert_array_equal(found.baseline[: len(place)], 2.0 * place)


def test_autocorrelation_of_a_series_with_gaps_is_that_of_its_pairs():
    rng = np.random.default_rng(1)
    values, mask = rng.normal(size=60).cumsum(), rng.random(60) < 0.7
    found, pairs = autocorrelation(jnp.asarray(values, jnp.float32), jnp.asarray(mask))
    deviation = values - values[mask].mean()
    for lag in (1, 5, 20):
        both = mask[lag:] & mask[:-lag]
        assert int(pairs[lag]) == both.sum()
        wanted = (deviation[lag:] * deviation[:-lag])[both].mean() / deviation[mask].var()
        np.testing.assert_allclose(found[lag], np.clip(wanted, -1, 1), atol=1e-4)


def test_quantiles_under_a_mask_are_numpys():
    values = np.random.default_rng(2).normal(size=50).astype(np.float32)
    mask = np.arange(50) % 3 > 0
    found = masked_quantiles(jnp.asarray(values), jnp.asarray(mask), jnp.asarray(LEVELS))
    np.testing.assert_allclose(found, np.quantile(values[mask], LEVELS), rtol=1e-5)


def test_what_stands_under_a_mask_changes_nothing():
    factors = _factors()
    inputs = _inputs(_season(noise=0.1) * _power_law(factors), factors)
    gone = (jnp.arange(T) < 30) | (jnp.arange(T) % 11 == 5)  # padding on the left, missing values

    def masked(history, covariate):
        return eqx.tree_at(
            lambda each: (each.history, each.history_mask, each.covariates),
            inputs,
            (
                jnp.where(gone, history, inputs.history),
                ~gone,
                jnp.where(inputs.covariate_mask, inputs.covariates, covariate),
            ),
        )

    one, other = _both(masked(0.0, 0.0))[1], _both(masked(1e6, 5.0))[1]
    np.testing.assert_array_equal(one, other)
    np.testing.assert_allclose(one[:, 1], _both(inputs)[1][:, 1], rtol=0.1)


ODD = {
    "zeros": np.zeros(T + H),
    "constant": np.full(T + H, 7.0),
    "large": 1e30 * _season(),
    "small": 1e-30 * _season(),
    "negative": -_season(noise=0.5),
    "on and off": (np.sin(np.arange(T + H)) > 0.8).astype(float),
    "missing": np.full(T + H, np.nan),
}


@pytest.mark.parametrize("name", ODD)
@pytest.mark.parametrize("events", [0, 1, 3])
def test_forecasts_are_finite_and_ascend(name, events):
    factors = _factors(past=((6.0, 0.1), (4.0, 2.0), (0.5, 3.0))[:events], future=(20.0, 0.01))
    inputs = _inputs(ODD[name] * _power_law(factors), factors)
    real = jnp.isfinite(inputs.history)
    inputs = eqx.tree_at(lambda each: each.history_mask, inputs, real)
    quantiles = np.asarray(_both(inputs)[1])
    assert np.isfinite(quantiles).all()
    assert (np.diff(quantiles, axis=1) >= 0.0).all()


@pytest.mark.parametrize("steps", [1, 2])
def test_a_history_of_one_or_two_steps_has_a_forecast(steps):
    """No lag has neighbours on both sides, so that no season can be proposed."""
    known = jnp.ones((1, steps + 2, 1), jnp.float32)
    answer = make_forecaster("scaling")(jnp.full((1, steps), 3.0), known, 2, LEVELS)
    np.testing.assert_allclose(answer, 3.0, rtol=1e-2)


def test_missing_values_are_not_taken_for_the_last_one_seen():
    """NaN is missing; the last value in its place would flatten a whole season."""
    factors = _factors()
    row = _inputs(_season() * _power_law(factors), factors)
    history, known = np.array(row.history)[None], np.array(row.covariates[None, :, :2])
    forecaster = make_forecaster("scaling")
    assert forecaster.takes_missing
    lost = history.copy()
    lost[:, 100:112] = np.nan
    whole, holed = (
        np.asarray(forecaster(jnp.asarray(each), jnp.asarray(known), H, LEVELS))[0, :, 1]
        for each in (history, lost)
    )
    np.testing.assert_allclose(holed, whole, rtol=1e-2)


def test_rows_do_not_see_each_other_and_a_batch_is_its_rows():
    factors = _factors()
    rows = [_inputs(_season(0.1, seed) * _power_law(factors), factors) for seed in range(5)]
    history = np.stack([row.history for row in rows])
    known = np.stack([row.covariates[:, :2] for row in rows])
    forecaster = make_forecaster("scaling")
    batch = np.asarray(forecaster(history, known, H, LEVELS))  # as NumPy arrays, too
    for number, row in enumerate(rows):
        np.testing.assert_allclose(batch[number], _both(row)[1], rtol=1e-3)
    assert forecaster.trained_on == "nothing"
    assert forecaster.informed


def test_gradients_through_the_fit_are_finite():
    factors = _factors()
    inputs = _inputs(_season(noise=0.1) * _power_law(factors), factors)

    def total(history):
        moved = eqx.tree_at(lambda each: each.history, inputs, history)
        return jnp.sum(_both(moved)[1])

    assert np.isfinite(jax.grad(total)(inputs.history)).all()


@functools.partial(jax.jit, compiler_options=FAST)
@jax.value_and_grad
def _median(log_factor, inputs):
    """Mean median of a forecast when the first covariate is moved by a factor more."""
    moved = inputs.covariates.at[T:, 0].multiply(jnp.exp(log_factor))
    fit = fit_scaling(eqx.tree_at(lambda each: each.covariates, inputs, moved))
    return jnp.mean(scaling_quantiles(fit, jnp.asarray([0.5], jnp.float32)))


@pytest.mark.parametrize("ahead", [(8.0, 0.25), (1.0, 1.0)])
def test_the_slope_by_a_factor_is_that_of_finite_differences(ahead):
    """At base too, where a search of scenarios may begin: relative tolerance 2e-2 of float32."""
    factors = _factors(future=ahead)
    series = _season() * _power_law(factors)
    inputs = _inputs(series, factors)

    _, slope = _median(jnp.float32(0.0), inputs)
    step = 0.02
    above, below = (float(_median(jnp.float32(way * step), inputs)[0]) for way in (1, -1))
    assert slope > 0.5  # near 0.6 times the median, of the power law
    np.testing.assert_allclose(slope, (above - below) / (2 * step), rtol=2e-2)


def test_a_series_that_is_zero_but_for_its_events_has_them_again():
    """No baseline is there to be multiplied, nor to be the unit of what is added."""
    factors = _factors(past=((2.0, 1.0), (4.0, 1.0), (3.0, 1.0)), future=(4.0, 1.0))
    series = 5.0 * (factors[:, 0] - 1.0)
    _, quantiles = _both(_inputs(series, factors))
    np.testing.assert_allclose(quantiles[:, 1], 15.0, rtol=2e-2)
