"""The training loss against the metric and against finite differences."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from whatif_jax import LEVELS, quantile_loss
from whatif_jax.evaluation.metrics import weighted_quantile_loss

H = 12
MASK = np.arange(H) < 9


def example(seed=0):
    draw = np.random.default_rng(seed)
    truth = draw.normal(5, 2, H).astype(np.float32)
    return truth, draw.normal(5, 2, (H, len(LEVELS))).astype(np.float32)


@pytest.mark.parametrize("seed", range(5))
def test_it_is_the_metric_without_its_normalisation(seed):
    """Relative tolerance 1e-6: both sum a hundred float32 numbers."""
    truth, forecast = example(seed)
    metric = weighted_quantile_loss(
        jnp.asarray(truth), jnp.asarray(forecast), LEVELS, jnp.asarray(MASK)
    )
    size = np.abs(truth[MASK]).sum() / MASK.sum()
    found = quantile_loss(forecast, truth, MASK, LEVELS)
    np.testing.assert_allclose(found, float(metric) * size, rtol=1e-6)


def test_it_is_what_a_loop_over_steps_and_levels_sums():
    truth, forecast = example()
    total = 0.0
    for step in np.flatnonzero(MASK):
        for column, level in enumerate(LEVELS):
            x, q = float(truth[step]), float(forecast[step, column])
            total += 2 * abs(x - q) * ((1 - level) if x <= q else level)
    expected = total / (MASK.sum() * len(LEVELS))
    np.testing.assert_allclose(quantile_loss(forecast, truth, MASK, LEVELS), expected, rtol=1e-6)


def test_its_gradient_is_that_of_finite_differences():
    """In float64; between kinks the loss is linear, so differences are exact to rounding."""
    truth, forecast = example()
    with jax.enable_x64(True):
        forecast = forecast.astype(np.float64)
        gradient = jax.grad(quantile_loss)(jnp.asarray(forecast), truth, MASK, LEVELS)
        for step, column in ((0, 0), (3, 4), (8, 8), (10, 2)):
            moved = np.zeros_like(forecast)
            moved[step, column] = 1e-5
            up, down = (
                float(quantile_loss(jnp.asarray(forecast + sign * moved), truth, MASK, LEVELS))
                for sign in (1, -1)
            )
            np.testing.assert_allclose(gradient[step, column], (up - down) / 2e-5, atol=1e-9)


def test_what_stands_at_masked_steps_has_no_say_in_value_and_gradient():
    truth, forecast = example()
    value, gradient = jax.value_and_grad(quantile_loss)(jnp.asarray(forecast), truth, MASK, LEVELS)
    truth[~MASK], forecast[~MASK] = np.nan, [[np.nan] * 4 + [np.inf] * 5]
    again, other = jax.value_and_grad(quantile_loss)(jnp.asarray(forecast), truth, MASK, LEVELS)
    assert value == again
    np.testing.assert_array_equal(gradient, other)
    assert not np.any(np.asarray(gradient)[~MASK])


def test_a_missing_truth_does_not_count():
    truth, forecast = example()
    without = MASK.copy()
    without[2] = False
    expected = quantile_loss(forecast, truth, without, LEVELS)
    truth[2] = np.nan
    assert quantile_loss(forecast, truth, MASK, LEVELS) == expected


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_a_forecast_that_is_not_finite_is_never_a_finite_loss(value):
    truth, forecast = example()
    forecast[3, 3] = value
    assert not np.isfinite(quantile_loss(forecast, truth, MASK, LEVELS))


def test_no_step_is_no_loss():
    truth, forecast = example()
    assert quantile_loss(forecast, truth, np.zeros(H, bool), LEVELS) == 0


def test_it_works_under_jax_strictest_flags():
    truth, forecast = example()
    with (
        jax.numpy_dtype_promotion("strict"),
        jax.numpy_rank_promotion("raise"),
        jax.debug_nans(True),
    ):
        loss = jax.jit(quantile_loss, static_argnums=3)(
            jnp.asarray(forecast), jnp.asarray(truth), jnp.asarray(MASK), LEVELS
        )
    assert loss.dtype == jnp.float32
