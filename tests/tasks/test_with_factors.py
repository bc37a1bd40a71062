"""A task under other events."""

import inspect

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from whatif_jax import realize, with_factors


@pytest.fixture(scope="module")
def spec(suite):
    """Of a task of two covariates among five columns."""
    part = suite.where(system="epanet", k=2, context=1024)
    return part.spec(int(part.column("task_id")[0]))


def test_factors_of_a_future_replace_its_own(spec, suite):
    own = np.asarray(spec.future_factors)[:2]
    turned = with_factors(spec, [own[0] * 2, own[1]])
    before, after = realize(spec, suite.systems), realize(turned, suite.systems)
    np.testing.assert_array_equal(before.history, after.history)
    np.testing.assert_array_equal(before.future_baseline, after.future_baseline)
    np.testing.assert_allclose(
        after.future_covariates[0], 2 * before.future_covariates[0], rtol=1e-6
    )
    assert not np.allclose(before.future, after.future)
    same = with_factors(spec)
    assert same is spec


def test_factors_of_ones_leave_the_series_as_it_is(spec, suite):
    events = int(spec.n_events)
    idle = with_factors(spec, future_factors=[1, 1], factors=np.ones((events, 2)))
    assert idle.factors.shape == spec.factors.shape
    task = realize(idle, suite.systems)
    np.testing.assert_array_equal(task.future, task.future_baseline)
    start = int(spec.window_start)
    series = suite.systems.series(int(spec.target))
    np.testing.assert_array_equal(task.history, series[start : start + 1024])


def test_it_can_be_differentiated_and_vmapped(spec, suite):
    def effect(factors):
        task = realize(with_factors(spec, factors), suite.systems)
        return jnp.mean(task.future - task.future_baseline)

    factors = spec.future_factors
    slope = jax.jit(jax.grad(effect))(factors)
    assert np.all(np.isfinite(slope)) and np.any(slope[:2] != 0) and not np.any(slope[2:])
    many = jax.vmap(effect)(jnp.stack([factors, factors]))
    np.testing.assert_allclose(many, effect(factors), rtol=1e-5)


@pytest.mark.parametrize(
    "given, message",
    [
        ({"future_factors": [1.0]}, r"^future_factors: shape \(1,\); expected \(2,\) or \(5,\)"),
        ({"future_factors": 2.0}, r"^future_factors: shape \(\); expected"),
        ({"future_factors": [1.0, 0.0]}, r"^future_factors: \[1.0, 0.0\]; expected finite"),
        ({"future_factors": [1.0, float("nan")]}, "expected finite factors above 0"),
        ({"future_factors": [1.0, 1e39]}, "expected finite factors above 0"),
        ({"future_factors": ["a", "b"]}, r"^future_factors: \['a', 'b'\]; expected numbers"),
        ({"future_factors": [True, True]}, r"^future_factors: \[True, True\]; expected numbers"),
        ({"future_factors": [True, 2.0]}, r"^future_factors: \[True, 2.0\]; expected numbers"),
        ({"future_factors": np.ones(2, bool)}, "^future_factors: .*expected numbers"),
        ({"future_factors": jnp.ones(2, bool)}, "^future_factors: .*expected numbers"),
        ({"factors": [[1.0, 1.0]] * 999}, r"^factors: shape \(999, 2\); expected"),
        ({"factors": [[-1.0] * 5] * 8}, "^factors: .*expected finite factors above 0"),
    ],
)
def test_what_are_no_factors_is_refused(spec, given, message):
    assert spec.factors.shape == (8, 5)
    with pytest.raises(ValueError, match=message):
        with_factors(spec, **given)


def test_traced_truths_are_no_factors(spec):
    with pytest.raises(ValueError, match="^future_factors: .*expected numbers"):
        jax.jit(lambda factors: with_factors(spec, factors))(jnp.ones(2, bool))


@pytest.mark.parametrize("given", ["x", None, 3])
def test_what_is_no_spec_is_refused(given):
    with pytest.raises(ValueError, match=f"^spec: {given}; expected a TaskSpec"):
        # without the check of types, which users do not have
        inspect.unwrap(with_factors)(given, future_factors=[1.0])
