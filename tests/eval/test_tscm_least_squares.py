"""Linear algebra of the baselines against statsmodels, in float64, and a search by brute force.

Tolerances: 1e-3 of the coefficients, for float32 and the equations that shrink them.
"""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tscm_questions import estimated, linear_series, question_by_hand

from eval.tscm import autoregression, interrupted, least_squares, regression
from eval.tscm.autoregression import LAG, PENALTY
from eval.tscm.interrupted import LEAST

sm = pytest.importorskip("statsmodels.api")

ONSET, VALUE = 150, 2.0
CLOSE = dict(rtol=1e-3, atol=1e-3)
fitted = jax.jit(least_squares.least_squares)
coefficients = jax.jit(autoregression.coefficients)
segments_of = jax.jit(interrupted.segments_of)
two_stages = jax.jit(regression.two_stages)


def before(series, name, names):
    """A node's values at the step and one before, rows 1 to the onset."""
    values = series[:ONSET, names.split().index(name)]
    return values[1:], values[:-1]


def ols(target, *columns):
    return sm.OLS(target, sm.add_constant(np.column_stack(columns))).fit().params


@pytest.mark.parametrize("scale", [1e-3, 1.0, 300.0])
def test_least_squares_are_those_of_statsmodels_whatever_the_unit(scale):
    draw = np.random.default_rng(1)
    columns = np.column_stack([np.ones(40), draw.normal(2, 1, (40, 3)) * scale])
    target = draw.normal(0, scale, (40, 2))
    rows = np.arange(40) < 31
    found, left = fitted(*(jnp.asarray(v, jnp.float32) for v in (columns, target)), rows)
    for column in range(2):
        fit = sm.OLS(target[rows, column], columns[rows]).fit()
        np.testing.assert_allclose(found[:, column] * scale, fit.params * scale, **CLOSE)
        np.testing.assert_allclose(left[column], fit.ssr, rtol=1e-4)


def test_columns_that_tell_nothing_give_finite_coefficients():
    draw = np.random.default_rng(2)
    one = draw.normal(size=30)
    columns = jnp.asarray(np.column_stack([one, one, np.zeros(30)]), jnp.float32)
    target = jnp.asarray(3 * one[:, None], jnp.float32)
    found, _ = fitted(columns, target, jnp.ones(30, bool))
    np.testing.assert_allclose(found[:, 0], [1.5, 1.5, 0.0], rtol=1e-2, atol=1e-6)
    none, _ = fitted(columns, target, jnp.zeros(30, bool))
    assert not none.any()


def test_plain_regression_and_back_door_are_those_of_statsmodels():
    series = linear_series("back_door")
    question = question_by_hand("back_door", series, ONSET, VALUE)
    (a, a_1), (x, x_1), (y, y_1) = (before(series, name, "X A Y") for name in "AXY")
    dose = VALUE - series[:ONSET, 1].mean()
    level = series[:ONSET, 2].mean()
    for method, columns in (("regression", (a, a_1, y_1)), ("back_door", (a, a_1, y_1, x, x_1))):
        found = estimated(method, question, "back_door")
        expected = ols(y, *columns)[1] * dose
        np.testing.assert_allclose(found.effect, [expected], **CLOSE)
        np.testing.assert_allclose(found.value, [level + expected], **CLOSE)


def test_two_stage_least_squares_are_those_of_statsmodels():
    gmm = pytest.importorskip("statsmodels.sandbox.regression.gmm")
    series = linear_series("instrumental_variable")
    names = "U X A Y"
    (a, a_1), (z, z_1), (y, y_1) = (before(series, name, names) for name in "AXY")
    controls = sm.add_constant(np.column_stack([a_1, y_1, z_1]))
    fit = gmm.IV2SLS(y, np.column_stack([a, controls]), np.column_stack([z, controls])).fit()
    first = sm.OLS(a, np.column_stack([z, controls])).fit()
    single = [jnp.asarray(v, jnp.float32) for v in (a, y, z[:, None], controls)]
    found, stage, strength = two_stages(*single, jnp.ones(len(a), bool))
    np.testing.assert_allclose(found, fit.params, **CLOSE)
    np.testing.assert_allclose(stage, first.params, **CLOSE)
    expected = first.compare_f_test(sm.OLS(a, controls).fit())[0]
    np.testing.assert_allclose(strength, expected, rtol=1e-2)
    assert expected > 10
    question = question_by_hand("instrumental_variable", series, ONSET, VALUE)
    dose = VALUE - series[:ONSET, 2].mean()
    found = estimated("instrument", question, "instrumental_variable").effect
    np.testing.assert_allclose(found, [fit.params[0] * dose], **CLOSE)


def test_the_front_door_is_the_product_of_two_regressions_of_statsmodels():
    series = linear_series("front_door")
    names = "U A M Y"
    (a, a_1), (m, m_1), (y, y_1) = (before(series, name, names) for name in "AMY")
    effect = ols(m, a, a_1, m_1)[1] * ols(y, m, m_1, y_1, a, a_1)[1]
    question = question_by_hand("front_door", series, ONSET, VALUE)
    found = estimated("front_door", question, "front_door").effect
    np.testing.assert_allclose(found, [effect * (VALUE - series[:ONSET, 1].mean())], **CLOSE)


def test_an_effect_goes_on_by_the_fitted_lags():
    """A window and steps behind it, by hand from statsmodels' coefficients."""
    series = linear_series("mediator")
    offsets = (0, 1, 2, 3, 5)
    question = question_by_hand("mediator", series, ONSET, VALUE, length=2, offsets=offsets)
    (a, a_1), (y, y_1) = (before(series, name, "A M Y") for name in "AY")
    now, lag, own = ols(y, a, a_1, y_1)[1:]
    keeps = ols(a, a_1)[1]
    dose = VALUE - series[:ONSET, 0].mean()
    moved = dose * np.array([1, 1, keeps, keeps**2, keeps**3, keeps**4])
    effect = [now * moved[0]]
    for step in range(1, 6):
        effect.append(now * moved[step] + lag * moved[step - 1] + own * effect[-1])
    expected = np.array(effect)[list(offsets)]
    found = estimated("regression", question, "mediator").effect
    np.testing.assert_allclose(found, expected, **CLOSE)


def rolled(series, weights, mean, onset, last, target=None, value=0.0, soft=False):
    past = [row - mean for row in series[:onset][-LAG:][::-1]]
    for step in range(onset, last + 1):
        now = sum(weights[lag].T @ past[lag] for lag in range(LAG))
        if target is not None and step == onset:
            now[target] = now[target] + value if soft else value - mean[target]
        past = [now, *past[:-1]]
    return past[0] + mean


@pytest.mark.parametrize("kind", ["hard", "soft"])
def test_an_autoregression_is_ridge_by_statsmodels_rolled_forward(kind):
    series = linear_series("mediator")
    mean = series[:ONSET].mean(axis=0)
    centred = series[:ONSET] - mean
    columns = np.hstack([centred[LAG - back : ONSET - back] for back in range(1, LAG + 1)])
    size = columns.shape[1]
    # ridge is least squares with an equation more a coefficient
    augmented = np.vstack([columns, np.sqrt(PENALTY) * np.eye(size)])
    targets = np.vstack([centred[LAG:], np.zeros((size, 3))])
    expected = np.stack([sm.OLS(targets[:, n], augmented).fit().params for n in range(3)], axis=1)
    rows = jnp.arange(ONSET) >= LAG
    found = coefficients(jnp.asarray(centred, jnp.float32), rows)
    np.testing.assert_allclose(found.reshape(size, 3), expected, **CLOSE)
    question = question_by_hand("mediator", series, ONSET, VALUE, kind=kind, offsets=(0, 1, 4))
    estimate = estimated("var", question, "mediator")
    weights = expected.reshape(LAG, 3, 3)
    for place, offset in enumerate((0, 1, 4)):
        last = ONSET + offset
        acted = rolled(series, weights, mean, ONSET, last, 0, VALUE, kind == "soft")[2]
        without = rolled(series, weights, mean, ONSET, last)[2]
        np.testing.assert_allclose(estimate.value[place], acted, **CLOSE)
        np.testing.assert_allclose(estimate.effect[place], acted - without, **CLOSE)
    assert estimate.effect[0] == 0 and abs(estimate.effect[1]) > 0.1


def test_segments_are_the_best_of_all_partitions():
    """Every partition into at most three segments, by lines of NumPy; the rest cost more."""
    draw = np.random.default_rng(5)
    steps, seen = 50, 48
    values = np.r_[np.linspace(0, 1, 15), np.full(20, 3.0), np.linspace(2, -1, 15)]
    values = values + draw.normal(0, 0.4, steps)
    places = range(0, steps, LEAST // 2)

    def squares(begin, end):
        time = np.arange(begin, min(end, seen))
        if len(time) < LEAST:
            return np.inf
        line = np.polyfit(time, values[time], 1)
        return np.sum((values[time] - np.polyval(line, time)) ** 2)

    best = (np.inf, ())
    for number in (1, 2, 3):
        for inner in itertools.combinations(list(places)[1:], number - 1):
            ends = [0, *inner, steps]
            total = sum(squares(a, b) for a, b in itertools.pairwise(ends))
            criterion = seen * np.log(total / seen) + (3 * number - 1) * np.log(seen)
            best = min(best, (criterion, inner))
    shown = jnp.asarray(np.where(np.arange(steps) < seen, values, 0), jnp.float32)
    segment, number, begins = segments_of(shown, jnp.arange(steps) < seen)
    assert best[1] == (15, 35)
    assert int(number) == 3 and begins.tolist() == [35, 15, 0, 0, 0]
    assert segment.tolist() == [2] * 15 + [1] * 20 + [0] * 15


def test_no_fit_calls_lapack_whose_threads_wait_for_one_another():
    shapes = jnp.ones((8, 40, 3)), jnp.ones((8, 40, 1)), jnp.ones((8, 40), bool)
    lowered = jax.jit(jax.vmap(least_squares.least_squares)).lower(*shapes).as_text()
    assert "lapack" not in lowered and "custom_call" not in lowered
