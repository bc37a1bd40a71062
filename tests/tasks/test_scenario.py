"""A task as a function of its future's factors, onset and width."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from whatif_jax import (
    Scenario,
    Sizes,
    bucket_for,
    load_systems,
    realize,
    root_key,
    sample_spec,
    scenario_task,
    with_factors,
)
from whatif_jax.tasks.events import SHAPES, profiles
from whatif_jax.tasks.scenario import window_shares

HORIZON = 64
K = 3
TARGETS = [("epanet", "pressure_10"), ("opendc", "power_draw_host-0"), ("sumo", None)]


def drawn(systems, system, target, **sizes):
    target = target or next(name for owner, name in systems.targets if owner == system)
    asked = dict(k=K, event_length=32, n_events=2, future="novel", context=512, horizon=HORIZON)
    sizes = Sizes(systems.row(system, target), **(asked | sizes))
    return sample_spec(sizes, systems, bucket_for(sizes), key=root_key(3))


@pytest.fixture(scope="module")
def specs(systems):
    return [drawn(systems, *names) for names in TARGETS]


@pytest.fixture(scope="module")
def systems64():
    """In float64, for finite differences."""
    with jax.enable_x64(True):
        yield load_systems(["epanet", "opendc"], dtype=np.float64)


@jax.jit
def under(task, factors, onset, width):
    return task(factors, onset, width)


@jax.jit
def total(task, factors, onset, width):
    """One number that every step of the future has its own part in."""
    outcome = task(factors, onset, width)
    weights = 1.0 + jnp.arange(HORIZON, dtype=factors.dtype) / HORIZON
    return jnp.sum(weights * (outcome.future - outcome.future_baseline))


slopes = jax.jit(jax.grad(total, argnums=(1, 2, 3)))


def test_an_event_over_the_whole_horizon_is_the_task(systems, specs):
    """To one rounding of float32: programs of another form round another way."""
    for spec in specs:
        task = scenario_task(spec, systems)
        for scale in (1.0, 0.5):
            factors = scale * spec.future_factors
            made = under(task, factors, jnp.float32(0), jnp.float32(HORIZON))
            expected = jax.jit(realize)(with_factors(spec, factors), systems)
            for name, value in vars(expected).items():
                found = getattr(made, name)
                assert found.dtype == value.dtype and found.shape == value.shape
                if name in ("future", "future_covariates"):
                    np.testing.assert_allclose(found, value, rtol=3e-7, err_msg=name)
                else:
                    np.testing.assert_array_equal(found, value, err_msg=name)


def test_a_scenario_without_an_event_is_the_baseline(systems, specs):
    for spec in specs:
        task = scenario_task(spec, systems)
        for factors, onset, width in [
            (jnp.ones(K, jnp.float32), 0, HORIZON),
            (spec.future_factors, 7, 0),
            (spec.future_factors, HORIZON, 20),
        ]:
            made = under(task, factors, jnp.float32(onset), jnp.float32(width))
            np.testing.assert_array_equal(made.future, made.future_baseline)
            np.testing.assert_array_equal(
                made.future_covariates, np.repeat(task.base[:, None], HORIZON, axis=1)
            )


def test_an_event_inside_is_zero_before_and_after(systems, specs):
    for spec in specs:
        made = under(
            scenario_task(spec, systems), spec.future_factors, jnp.float32(10), jnp.float32(20)
        )
        effect = np.asarray(made.future != made.future_baseline)
        assert not effect[:10].any() and not effect[30:].any() and effect[15:25].all()


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 40), st.integers(1, 60))
def test_whole_windows_have_the_profiles_of_events(onset, width):
    found = np.asarray(_shares(jnp.float32(onset), jnp.float32(width)))
    expected = np.zeros((len(SHAPES), HORIZON), np.float32)
    seen = min(width, HORIZON - onset)
    expected[:, onset : onset + seen] = _profiles(jnp.float32(width))[:, :seen]
    np.testing.assert_allclose(found, expected, atol=2e-6)  # both ends' sine, in float32


@settings(max_examples=60, deadline=None)
@given(st.floats(0, 50, width=32), st.floats(1, 70, width=32))
def test_between_whole_steps_a_step_is_the_share_that_the_event_covers(onset, width):
    shares = np.asarray(_shares(jnp.float32(onset), jnp.float32(width)))
    begin, end = np.float64(np.float32(onset)), np.float64(np.float32(onset + width))
    step = np.arange(HORIZON)
    covered = np.clip(np.minimum(step + 1, end) - np.maximum(step, begin), 0, 1)
    if width >= 2:  # a narrower one has both edges in one step
        np.testing.assert_allclose(shares[0], covered, atol=2e-5)
    assert np.all(shares >= 0) and np.all(shares <= 1 + 1e-6)


_profiles = jax.jit(lambda length: profiles(jnp.arange(HORIZON), length))
_shares = jax.jit(lambda onset, width: window_shares(onset, width, HORIZON))


@settings(max_examples=40, deadline=None)
@given(st.floats(0, 50, width=32), st.floats(0, 60, width=32), st.sampled_from([1e-3, -1e-3]))
def test_shares_are_continuous(onset, width, moved):
    """Nowhere does a thousandth of a step move a share by more than a few thousandths."""
    before = _shares(jnp.float32(onset), jnp.float32(width))
    for after in (
        _shares(jnp.float32(onset + moved), jnp.float32(width)),
        _shares(jnp.float32(onset), jnp.float32(width + moved)),
    ):
        assert np.abs(np.asarray(after) - np.asarray(before)).max() < 5e-3


@pytest.mark.parametrize(
    "onset, width, factor", [(1.7, 20.6, 0.8), (10.0, 20.0, 0.8), (10.3, 20.0, 1.0)]
)
@pytest.mark.parametrize("names", TARGETS[:2], ids=lambda names: names[0])
def test_gradients_are_central_differences(systems64, names, onset, width, factor):
    """In float64: at real and at whole steps, and at a factor of exactly 1 (relative 1e-5)."""
    with jax.enable_x64(True):
        spec = drawn(systems64, *names)
        task = scenario_task(spec, systems64)
        factors = jnp.array([factor, 1.3, 2.0])
        at = (factors, jnp.float64(onset), jnp.float64(width))
        found = slopes(task, *at)
        # the responses are straight within 1e-6 of a factor of 1 (responses.LINEAR_CORE)
        for place in range(K):
            apart = 4e-7 * jnp.eye(K)[place]
            rise = total(task, factors + apart, *at[1:]) - total(task, factors - apart, *at[1:])
            np.testing.assert_allclose(found[0][place], rise / 8e-7, rtol=1e-5, atol=1e-4)
        for place in (1, 2):
            ahead, behind = list(at), list(at)
            ahead[place], behind[place] = at[place] + 1e-6, at[place] - 1e-6
            rise = total(task, *ahead) - total(task, *behind)
            np.testing.assert_allclose(found[place], rise / 2e-6, rtol=1e-5, atol=1e-4)
            assert abs(float(found[place])) > 0.1 or factor == 1.0


def test_scenarios_vmap(systems, specs):
    task = scenario_task(specs[0], systems)
    many = Scenario(
        jnp.stack([specs[0].future_factors, 0.5 * specs[0].future_factors]),
        jnp.array([3.5, 0.0], jnp.float32),
        jnp.array([30.0, 64.0], jnp.float32),
    )
    made = jax.jit(jax.vmap(task))(many.factors, many.onset, many.width)
    for row in range(2):
        alone = under(task, many.factors[row], many.onset[row], many.width[row])
        np.testing.assert_allclose(made.future[row], alone.future, rtol=1e-6)


def test_what_is_no_spec_is_refused(systems):
    with pytest.raises(ValueError, match="^spec: 3; expected a TaskSpec"):
        scenario_task(3, systems)
