"""One step of training, and its parts, on tasks made by hand."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from tests.training.training_helpers import tiny
from training.fit import checked
from training.stand_in import make_model
from training.step import loss_scale, make_losses, make_step, start
from training.stopping import NonFiniteLossError
from whatif_jax import Task, inputs_of, root_key

B, C, H, K = 4, 32, 8, 2


def tasks(seed=0):
    draw = np.random.default_rng(seed)

    def normal(*shape):
        return draw.normal(10, 1, shape).astype(np.float32)

    fields = dict(
        history=normal(B, C),
        future=normal(B, H) * np.float32([1, 2, 50, 1])[:, None],
        future_baseline=normal(B, H),
        history_covariates=np.ones((B, K, C), np.float32),
        future_covariates=np.full((B, K, H), 2, np.float32),
        history_mask=np.ones((B, C), bool),
        future_mask=np.ones((B, H), bool),
        covariate_mask=np.ones((B, K), bool),
    )
    return Task(**jax.tree.map(jnp.asarray, fields))


def begun(**changes):
    config = tiny(**changes)
    return config, *start(make_model("tiny", key=root_key(0)), config)


def test_the_scale_is_of_the_history_or_of_the_move_where_that_is_larger():
    batch = tasks()
    history = np.float64(batch.history)
    found = jax.vmap(lambda task: loss_scale(inputs_of(task), task.future, task.future_mask))(batch)
    mean, deviation = history.mean(1), history.std(1)
    far = np.abs(np.float64(batch.future) - mean[:, None]).mean(1)
    np.testing.assert_allclose(found, np.maximum(deviation, far), rtol=1e-5)


def test_no_task_decides_a_gradient():
    """A future fifty times the history's level counts as any other."""
    config, state, static = begun()
    losses, batch = make_losses(static, config), tasks()

    def norm(row):
        one = jax.tree.map(lambda leaf: leaf[row : row + 1], batch)
        gradient = jax.grad(lambda parameters: losses(parameters, one)[0])(state.parameters)
        return float(optax.tree.norm(gradient))

    norms = [norm(row) for row in range(B)]
    assert max(norms) < 10 and float(losses(state.parameters, batch).max()) < 3


def test_a_history_of_zeros_has_a_finite_loss():
    config, state, static = begun()
    batch = eqx.tree_at(lambda t: t.history, tasks(), jnp.zeros((B, C), jnp.float32))
    zeros = eqx.tree_at(lambda t: t.future, batch, jnp.zeros((B, H), jnp.float32))
    for each in (batch, zeros):
        losses = make_losses(static, config)(state.parameters, each)
        assert np.all(np.isfinite(losses))


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_parameters_optimiser_and_average_stay_float32(precision):
    config, state, static = begun(precision=precision)
    with jax.numpy_dtype_promotion("strict"), jax.numpy_rank_promotion("raise"):
        make_losses(static, config)(state.parameters, tasks())  # optax itself is not that strict
    state, report = make_step(static, config)(state, tasks(), np.float32(0.5))
    leaves = jax.tree.leaves((state, report))
    assert {str(leaf.dtype) for leaf in leaves} == {"float32", "int32", "bool"}
    assert np.all(np.isfinite(report.losses))


def test_the_computation_is_in_bfloat16_where_asked_for():
    batch = tasks()
    found = {}
    for precision in ("float32", "bfloat16"):
        config, state, static = begun(precision=precision)
        found[precision] = np.asarray(make_losses(static, config)(state.parameters, batch))
    assert np.any(found["float32"] != found["bfloat16"])
    np.testing.assert_allclose(found["bfloat16"], found["float32"], rtol=0.03)


def test_a_step_is_adamw_with_clipping_and_an_average():
    """Written out in float64 for the first step; relative tolerance 1e-4."""
    config, state, static = begun(clip=0.01, weight_decay=0.1, warmup=0.5)
    batch = tasks()
    losses = make_losses(static, config)
    gradient = jax.grad(lambda p: jnp.mean(losses(p, batch)))(state.parameters)
    before = jax.tree.map(np.array, state.parameters)
    after, report = make_step(static, config)(state, batch, np.float32(0.25))
    norm = np.sqrt(sum(np.sum(np.float64(leaf) ** 2) for leaf in jax.tree.leaves(gradient)))
    np.testing.assert_allclose(report.gradient_norm, norm, rtol=1e-5)
    rate = config.learning_rate * (0.1 + 0.9 * 0.5)  # half way through the warm-up
    np.testing.assert_allclose(report.learning_rate, rate, rtol=1e-5)
    for name, decay in (("weights", 0.1), ("bias", 0.0)):
        clipped = np.float64(getattr(gradient, name)) * 0.01 / norm
        old = np.float64(getattr(before, name))
        expected = old - rate * (clipped / (np.abs(clipped) + 1e-8) + decay * old)
        np.testing.assert_allclose(getattr(after.parameters, name), expected, rtol=1e-4, atol=1e-6)
        average = 0.1 * old + 0.9 * expected  # the first decay is 1 / 10
        np.testing.assert_allclose(getattr(after.average, name), average, rtol=1e-4, atol=1e-6)


def test_parameters_that_overflow_end_a_run_before_their_loss_does(tmp_path):
    config, state, static = begun(learning_rate=1e30, weight_decay=1.0)
    step = make_step(static, config)
    state, first = step(state, tasks(), np.float32(0.0))
    checked(first, 0, tmp_path)
    state, second = step(state, tasks(), np.float32(0.1))
    assert np.all(np.isfinite(second.losses))
    with pytest.raises(NonFiniteLossError, match="parameters: not finite at step 1, rows unknown"):
        checked(second, 1, tmp_path)


def test_a_gradient_that_is_not_finite_is_no_step(tmp_path):
    config, state, static = begun()
    _, report = make_step(static, config)(state, tasks(), np.float32(0.0))
    bad = eqx.tree_at(lambda found: found.gradient_norm, report, jnp.float32(np.inf))
    with pytest.raises(NonFiniteLossError, match="gradient: not finite at step 7"):
        checked(bad, 7, tmp_path)
