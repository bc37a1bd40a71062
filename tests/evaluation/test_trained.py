"""A trained model as a forecaster."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.evaluation_helpers import batches_of
from whatif_jax import (
    LEVELS,
    ForecastInputs,
    TrainedForecaster,
    check_rows,
    evaluate,
    scale_inputs,
)
from whatif_jax.evaluation.forecaster import per_row

OWN = (0.9, 0.1, 0.5)  # in an order of its own


class Spread(eqx.Module):
    """The last value, and levels at distances from it; the last covariate moves all of them."""

    width: jax.Array

    def __call__(self, inputs: ForecastInputs) -> jax.Array:
        scaled = scale_inputs(inputs)
        moved = jnp.sum(scaled.log_factors[-inputs.horizon :], axis=1)
        levels = self.width * jnp.asarray(OWN)
        return inputs.history[-1] + moved[:, None] + levels[None, :]


def forecaster():
    return TrainedForecaster(Spread(jnp.float32(10.0)), "spread", levels=OWN)


def test_levels_are_taken_by_their_value_and_between_them_interpolated():
    history = jnp.arange(6, dtype=jnp.float32).reshape(2, 3)
    answer = forecaster()(history, jnp.ones((2, 5, 2)), 2, (0.05, 0.1, 0.3, 0.5, 0.9))
    assert answer.shape == (2, 2, 5) and answer.dtype == jnp.float32
    expected = np.array([2.0, 5.0])[:, None, None] + 10 * np.array([0.1, 0.1, 0.3, 0.5, 0.9])
    np.testing.assert_allclose(answer, np.broadcast_to(expected, answer.shape), rtol=1e-6)


def test_its_rows_do_not_look_at_each_other(few):
    company = next(ids for ids in batches_of(few) if len(ids) > 2)
    check_rows(forecaster(), few, company, batch_size=16)


def test_it_scores_as_the_same_function_of_a_row(few):
    """Relative tolerance 1e-5: one in NumPy, one in JAX."""

    def one(history, covariates, horizon, levels):
        base = covariates[0]
        moved = np.log(covariates[-horizon:] / base).sum(axis=1)
        return history[-1] + moved[:, None] + 10 * np.array(levels)[None, :]

    ours = evaluate(forecaster(), few, batch_size=16).scores["wql"].to_numpy()
    theirs = evaluate(per_row(one), few, batch_size=16).scores["wql"].to_numpy()
    np.testing.assert_allclose(ours, theirs, rtol=1e-5)


def test_it_compiles_once_for_any_number_of_covariates():
    traced = []

    class Counting(Spread):
        def __call__(self, inputs):
            traced.append(inputs.covariates.shape)
            return super().__call__(inputs)

    counting = TrainedForecaster(Counting(jnp.float32(1.0)), "counting", levels=OWN)
    history = jnp.ones((2, 4))
    for k in (1, 3, 8):
        counting(history, jnp.ones((2, 6, k)), 2, LEVELS)
    assert traced == [(6, 8)]
    with pytest.raises(ValueError, match="covariates: 9; expected at most 8"):
        counting(history, jnp.ones((2, 6, 9)), 2, LEVELS)


def test_a_missing_history_is_masked():
    history = jnp.asarray([[1.0, np.nan, 3.0]])
    answer = forecaster()(history, jnp.ones((1, 5, 1)), 2, (0.5,))
    np.testing.assert_allclose(answer[0, :, 0], [8.0, 8.0])


def test_it_declares_what_it_was_trained_on():
    made = TrainedForecaster(
        Spread(jnp.float32(1.0)),
        "spread",
        trained_on="in-distribution",
        version="2",
        settings={"size": "tiny"},
        training={"systems": ["epanet"]},
    )
    assert (made.name, made.version, made.trained_on) == ("spread", "2", "in-distribution")
    assert made.settings == {"size": "tiny"} and made.training == {"systems": ["epanet"]}
    assert made.on_device and made.fixed_batch
