"""One layout for streams and forecasters, and scaling by history."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from whatif_jax import inputs_from, inputs_of, load_systems, root_key, sample_task, scale_inputs
from whatif_jax.tasks.inputs import unscaled


@pytest.fixture(scope="module")
def task():
    sizes = dict(context=512, horizon=64, event_length=32)
    return sample_task(
        load_systems("epanet"), "epanet", "pressure_10", k=2, key=root_key(0), **sizes
    )


def joined(task):
    """A forecaster's arguments, as `evaluate` makes them of a task without padding."""
    both = np.concatenate([task.history_covariates, task.future_covariates], axis=-1)
    return np.asarray(task.history), both.T


def test_a_tasks_inputs_are_those_of_the_forecasters_arguments(task):
    ours, theirs = inputs_of(task), inputs_from(*map(jnp.asarray, joined(task)), 64)
    assert ours.horizon == theirs.horizon == 64
    for name, value in vars(ours).items():
        np.testing.assert_array_equal(value, getattr(theirs, name), err_msg=name)


def test_padding_to_a_width_adds_covariates_that_are_masked(task):
    history, covariates = map(jnp.asarray, joined(task))
    wide = inputs_from(history, covariates, 64, width=8)
    assert wide.covariates.shape == (576, 8)
    assert wide.covariate_mask.tolist() == [True, True] + 6 * [False]
    narrow = scale_inputs(inputs_from(history, covariates, 64))
    scaled = scale_inputs(wide)
    np.testing.assert_array_equal(scaled.log_factors[:, :2], narrow.log_factors)
    assert not np.any(scaled.log_factors[:, 2:])


def test_scaling_is_numpys_of_the_history_and_logarithms_of_factors(task):
    scaled = scale_inputs(inputs_of(task))
    history, covariates = (np.asarray(one, np.float64) for one in joined(task))
    np.testing.assert_allclose(scaled.location, history.mean(), rtol=1e-6)
    np.testing.assert_allclose(scaled.scale, history.std(), rtol=1e-5)
    expected = (history - history.mean()) / history.std()
    np.testing.assert_allclose(scaled.history, expected, atol=1e-5)
    np.testing.assert_allclose(scaled.log_factors, np.log(covariates / covariates[0]), atol=1e-6)
    back = unscaled(scaled.history, scaled.location, scaled.scale)
    np.testing.assert_allclose(back, history, rtol=1e-5)


def test_a_covariate_that_moves_in_the_future_alone_keeps_the_size_of_its_move():
    history = jnp.sin(jnp.arange(40.0))
    for factor in (2.0, 20.0):
        covariates = jnp.full((50, 1), 3.0).at[40:].multiply(factor)
        scaled = scale_inputs(inputs_from(history, covariates, 10))
        np.testing.assert_allclose(scaled.log_factors[40:, 0], np.log(factor), rtol=1e-6)


def test_what_is_missing_and_padded_on_the_left_changes_nothing():
    history = np.sin(np.arange(40.0)).astype(np.float32)
    covariates = np.linspace(1.0, 2.0, 50, dtype=np.float32)[:, None]
    whole = scale_inputs(inputs_from(jnp.asarray(history), jnp.asarray(covariates), 10))
    padded = scale_inputs(
        inputs_from(
            jnp.asarray(np.pad(history, (7, 0), constant_values=np.nan)),
            jnp.asarray(np.pad(covariates, ((7, 0), (0, 0)), constant_values=9.0)),
            10,
        )
    )
    np.testing.assert_allclose(padded.location, whole.location, rtol=1e-6)
    np.testing.assert_allclose(padded.history[7:], whole.history, atol=1e-6)
    assert not np.any(padded.history[:7])
    np.testing.assert_array_equal(padded.log_factors[7:], whole.log_factors)
    assert not np.any(padded.log_factors[:7])


@pytest.mark.parametrize("value", [0.0, 5.0, -3e37, 1e-40])
def test_a_history_that_does_not_move_is_scaled_finitely_with_a_gradient(value):
    covariates = jnp.ones((50, 1)).at[40:].set(4.0)

    def total(shift):
        scaled = scale_inputs(inputs_from(jnp.full(40, value) + shift, covariates, 10))
        return jnp.sum(scaled.history) + jnp.log(scaled.scale)

    assert jnp.isfinite(jnp.where(value == 0, 0.0, jax.grad(total)(1e-3 * value)))
    scaled = scale_inputs(inputs_from(jnp.full(40, value), covariates, 10))
    assert all(np.all(np.isfinite(leaf)) for leaf in jax.tree.leaves(scaled))
    assert float(scaled.scale) > 0


def test_a_base_of_zero_counts_as_unmoved_where_the_covariate_is_zero():
    covariates = jnp.zeros((50, 1)).at[40:].set(1.0)
    logs = scale_inputs(inputs_from(jnp.ones(40), covariates, 10)).log_factors[:, 0]
    np.testing.assert_allclose(logs, np.r_[np.zeros(40), np.full(10, np.log(2.0))], atol=1e-6)


def test_a_covariate_without_a_known_base_counts_as_unmoved():
    base = jnp.asarray([jnp.nan, 2.0, 4.0])[:, None]
    inputs = inputs_from(jnp.asarray([1.0, 2.0]), base, 1)
    np.testing.assert_array_equal(scale_inputs(inputs).log_factors, 0.0)


def test_arguments_that_do_not_fit_are_refused_by_name():
    with pytest.raises(ValueError, match=r"covariates: 49 steps; expected 40 of history \+ 10"):
        inputs_from(jnp.ones(40), jnp.ones((49, 1)), 10)
    with pytest.raises(ValueError, match="covariates: 3; expected at most 2"):
        inputs_from(jnp.ones(40), jnp.ones((50, 3)), 10, width=2)
