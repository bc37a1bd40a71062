"""Scores of forecasts against NumPy in float64 and scikit-learn."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import r2_score, root_mean_squared_error

from tests.tscm.score_sums import FIELDS, scored, sums
from whatif_jax.tscm.scores import ScoreTerms, score_terms, scores_of, truths_of


@pytest.mark.parametrize("size, shift", [(1.0, 0.0), (300.0, 50.0), (0.2, 0.0)])
def test_scores_are_those_of_scikit_learn_and_numpy(size, shift):
    rng = np.random.default_rng(0)
    target = (size * rng.standard_normal(500) + shift).astype(np.float32)
    forecast = (target + size * rng.standard_normal(500)).astype(np.float32)
    error, ratio, direction = scored(forecast, target)
    forecast, target = forecast.astype(np.float64), target.astype(np.float64)
    directed = np.abs(target) >= np.float32(0.1)
    assert directed.sum() > 0
    np.testing.assert_allclose(error, root_mean_squared_error(target, forecast), rtol=1e-6)
    np.testing.assert_allclose(ratio, 1 - r2_score(target, forecast), rtol=1e-5)
    np.testing.assert_allclose(direction, np.mean(forecast[directed] * target[directed] > 0))


def test_a_forecast_of_the_targets_mean_has_a_normalised_error_of_1():
    target = np.random.default_rng(1).normal(2.0, 3.0, 100).astype(np.float32)
    np.testing.assert_allclose(scored(np.full(100, target.mean()), target)[1], 1.0, rtol=1e-5)


def test_targets_near_zero_have_no_direction_and_neither_has_a_forecast_of_zero():
    target = [0.05, -0.0999, 0.1, -0.1, 2.0, -2.0]
    found = sums([-1.0, 1.0, 0.3, -0.3, 0.0, 5.0], target)
    assert (found.count, found.directed, found.right) == (6, 4, 2)
    assert scored([0.0] * 6, target)[2] == 0.0
    assert np.isnan(scored([1.0], [0.01])[2]), "nothing to score"


def test_equal_targets_have_no_normalised_error():
    error, ratio, _ = scored([1.0, 3.0], [2.0, 2.0])
    assert error == 1.0 and np.isnan(ratio)


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_a_forecast_that_is_not_finite_never_improves_a_score(data):
    numbers = st.floats(-50, 50, width=32)
    pairs = data.draw(st.lists(st.tuples(numbers, numbers), min_size=2, max_size=8))
    forecast, target = np.array(pairs, np.float32).T
    place = data.draw(st.integers(0, len(pairs) - 1))
    broken = forecast.copy()
    broken[place] = data.draw(st.sampled_from([np.nan, np.inf, -np.inf, 1e30]))
    before, after = scored(forecast, target), scored(broken, target)
    assert after[0] == np.inf
    assert after[1] == np.inf or np.isnan(before[1])
    assert after[2] <= before[2] or np.isnan(before[2])
    assert sums(broken, target).failed == 1


def test_sums_of_parts_are_those_of_the_whole_and_means_serve_as_well():
    rng = np.random.default_rng(2)
    target, forecast = rng.standard_normal((2, 4, 25))
    whole, parts = sums(forecast, target), sums(forecast, target, axis=1)
    for field in FIELDS:
        np.testing.assert_allclose(getattr(parts, field).sum(), getattr(whole, field), rtol=1e-12)
    means = ScoreTerms(**{field: getattr(whole, field) / 100 for field in FIELDS})
    for one, other in zip(
        jax.tree.leaves(scores_of(means)), jax.tree.leaves(scores_of(whole)), strict=True
    ):
        np.testing.assert_allclose(one, other, rtol=1e-12)


def test_scores_are_traced_under_strict_settings_and_have_derivatives():
    target = jnp.asarray(np.random.default_rng(3).standard_normal(20), jnp.float32)

    def error(forecast):
        terms = score_terms(forecast, target)
        return scores_of(jax.tree.map(jnp.sum, terms)).rmse

    with jax.numpy_dtype_promotion("strict"), jax.numpy_rank_promotion("raise"):
        value, slope = jax.jit(jax.value_and_grad(error))(target + 1.0)
    np.testing.assert_allclose(value, 1.0, rtol=1e-6)
    np.testing.assert_allclose(slope, np.full(20, 1 / 20), rtol=1e-5)


def test_truths_are_the_runs_at_the_query():
    class Query:
        node, steps = jnp.asarray(2), jnp.asarray([1, 4])

    runs = np.random.default_rng(4).standard_normal((3, 6, 3)).astype(np.float32)

    class Episode:
        query = Query
        interventional, counterfactual, factual = map(jnp.asarray, runs)

    found = truths_of(Episode)
    for one, run in zip(
        (found.interventional, found.counterfactual, found.factual), runs, strict=True
    ):
        np.testing.assert_array_equal(one, run[[1, 4], 2])
    np.testing.assert_array_equal(found.effect, (runs[1] - runs[2])[[1, 4], 2])
