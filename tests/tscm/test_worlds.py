"""Worlds against NumPy float64: mechanisms, runs, graphs, stability, derivatives."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.tscm import oracle
from whatif_jax.tasks.keys import root_key
from whatif_jax.tscm import (
    Noise,
    companion,
    descendants,
    intervene,
    load_prior,
    mechanism,
    reached,
    sample_scm,
    simulate,
    simulate_continuous,
    spectral_radius,
    summary_graph,
)
from whatif_jax.tscm.names import MECHANISMS
from whatif_jax.tscm.sample import scaled, unit_rows

SMALL = load_prior("diverse", {"nodes": [3, 5], "lags": [1, 2]})
STEPS, BURN_IN = 24, 6

draw = jax.jit(lambda seed: sample_scm(key=root_key_of(seed), prior=SMALL))
run = jax.jit(simulate, static_argnames="burn_in")
run_path = jax.jit(simulate_continuous, static_argnames="substeps")


def root_key_of(seed):
    return jax.random.fold_in(
        jax.random.wrap_key_data(jnp.zeros(2, jnp.uint32), impl="threefry2x32"), seed
    )


def noise_for(scm, seed=0, steps=STEPS + BURN_IN):
    rng = np.random.default_rng(seed)
    scale = np.asarray(scm.scale)
    values = rng.normal(size=(steps, len(scale))) * np.minimum(scale, 0.5)
    return Noise(jnp.asarray(values, jnp.float32), jnp.asarray(rng.random(steps), jnp.float32))


def tame(scm, size=0.3):
    """Weights so small that square mechanisms do not run away."""
    return eqx.tree_at(lambda it: (it.weights, it.bias), scm, (scm.weights * size, scm.bias * size))


@pytest.mark.parametrize("name", MECHANISMS)
def test_a_mechanism_is_numpys(name):
    u = np.linspace(-40.0, 40.0, 4001)
    found = mechanism(jnp.asarray(MECHANISMS.index(name)), jnp.asarray(u, jnp.float32))
    expected = oracle.PLAIN[name](np.float64(np.float32(u)))
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=2e-6)


@pytest.mark.parametrize("kind", [None, "hard", "soft", "varying"])
def test_a_run_is_the_recursion(kind):
    for seed in range(4):
        scm = tame(draw(seed))
        noise = noise_for(scm, seed)
        profile = np.sin(np.arange(STEPS)).astype(np.float32)
        value = profile if kind == "varying" else 1.5
        given = None
        if kind is not None:
            given = intervene((0, 1), value, onset=5, length=9, steps=STEPS, kind=kind)
        found = run(scm, noise, given, burn_in=BURN_IN)
        np.testing.assert_allclose(
            found, oracle.run(scm, noise, given, BURN_IN), rtol=1e-5, atol=1e-5
        )


def test_regimes_follow_their_chain_and_read_their_parents():
    prior = load_prior("regime", {"nodes": [3, 4], "lags": [1, 1]})
    make = jax.jit(lambda seed: sample_scm(key=root_key_of(seed), prior=prior))
    seen = set()
    for seed in range(4):
        scm = tame(make(seed))
        noise = noise_for(scm, seed)
        regimes = oracle.regimes_of(scm, noise.regime)
        seen |= {len(set(regimes))}
        given = intervene(0, 2.0, onset=4, length=3, steps=STEPS)
        expected = oracle.run(scm, noise, given, BURN_IN, regimes)
        np.testing.assert_allclose(
            run(scm, noise, given, burn_in=BURN_IN), expected, rtol=1e-5, atol=1e-5
        )
    assert max(seen) > 1


def test_a_continuous_run_is_euler_and_maruyamas():
    scm = jax.jit(lambda: sample_scm(key=root_key(3), prior="continuous"))()
    rng = np.random.default_rng(0)
    times = jnp.asarray(np.cumsum(np.r_[0.0, rng.exponential(size=19)]), jnp.float32)
    z = jnp.asarray(rng.normal(size=(80, 3)), jnp.float32)
    given = intervene(1, 1.2, onset=7, length=6, steps=20)
    noise = Noise(z, jnp.zeros(80))
    found = run_path(scm, noise, times, given, substeps=4)
    np.testing.assert_allclose(found, oracle.path(scm, z, times, given, 4), rtol=1e-4, atol=1e-5)


@pytest.mark.slow
@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 2**31), target=st.integers(0, 4), length=st.integers(1, 9))
def test_effects_reach_descendants_only_and_are_cut_at_the_node(seed, target, length):
    scm = tame(draw(seed))
    nodes = int(np.sum(scm.node))
    target %= nodes
    noise = noise_for(scm, seed)
    act = intervene(target, 3.0, onset=8, length=length, steps=STEPS)
    factual, acted = run(scm, noise, burn_in=BURN_IN), run(scm, noise, act, burn_in=BURN_IN)
    moved = np.asarray(factual != acted)
    assert not moved[:8].any(), "before the onset, equal to the bit"
    hit = jnp.arange(5) == target
    allowed = np.asarray(reached(scm, hit, act.active))
    assert not (moved & ~allowed).any()
    window = slice(8, 8 + length)
    np.testing.assert_array_equal(np.asarray(acted)[window, target], np.float32(3.0))
    below = np.asarray(descendants(summary_graph(scm)))[:, target] | np.asarray(hit)
    assert not (moved & ~below).any()
    assert not (allowed & ~below).any()


def test_reach_needs_the_time_of_its_lags():
    scm = sample_scm(key=root_key(0), prior="mediator")
    hit, active = jnp.asarray([True, False, False]), jnp.arange(6) == 2
    found = np.asarray(reached(scm, hit, active))  # A(t-1) > M(t) > Y(t), all with self-edges
    assert not found[:2].any()
    np.testing.assert_array_equal(found[2], [True, False, False])
    np.testing.assert_array_equal(found[3], [True, True, True])


def test_the_counterfactual_is_differentiable_in_value_weights_and_noise():
    scm = tame(draw(11))
    noise = noise_for(scm, 1)

    def outcome(value, weights, values):
        world = eqx.tree_at(lambda it: it.weights, scm, weights)
        act = intervene(0, value, onset=6, length=5, steps=STEPS)
        found = simulate(world, Noise(values, noise.regime), act, burn_in=BURN_IN)
        return jnp.sum(jnp.sin(found))

    at = (jnp.float32(0.7), scm.weights, noise.values)
    slopes = jax.jit(jax.grad(outcome, argnums=(0, 1, 2)))(*at)
    value = jax.jit(outcome)
    rng = np.random.default_rng(2)
    for place, slope in enumerate(slopes):
        assert bool(jnp.all(jnp.isfinite(slope)))
        way = jnp.asarray(rng.normal(size=np.shape(at[place])), jnp.float32)
        ends = []
        for sign in (1.0, -1.0):
            moved = list(at)
            moved[place] = at[place] + sign * 2e-3 * way
            ends.append(float(value(*moved)))
        expected = (ends[0] - ends[1]) / 4e-3
        np.testing.assert_allclose(float(jnp.sum(slope * way)), expected, rtol=2e-2, atol=2e-2)


def test_the_spectral_radius_is_numpys():
    rng = np.random.default_rng(5)
    radius = jax.jit(lambda w: spectral_radius(companion(w)))
    shrunk = jax.jit(lambda w: spectral_radius(companion(scaled(w, 0.8))))
    for _ in range(10):
        weights = rng.normal(size=(3, 5, 5)) * (rng.random((3, 5, 5)) < 0.5)
        weights[0] = np.tril(weights[0], -1)
        inverse = np.linalg.inv(np.eye(5) - weights[0])
        matrix = np.zeros((10, 10))
        matrix[:5] = np.hstack([inverse @ weights[1], inverse @ weights[2]])
        matrix[5:, :5] = np.eye(5)
        expected = np.abs(np.linalg.eigvals(matrix)).max()
        found = jnp.asarray(weights, jnp.float32)
        np.testing.assert_allclose(radius(found), expected, rtol=1e-2, atol=1e-6)
        assert float(shrunk(found)) <= min(expected, 0.8) * 1.01


def test_unit_rows_have_norm_one_or_none():
    weights = jnp.asarray(np.random.default_rng(0).normal(size=(2, 3, 4, 4)), jnp.float32)
    weights = weights.at[0, :, 1].set(0.0)
    size = np.sqrt(np.sum(np.asarray(unit_rows(weights)) ** 2, axis=(1, 3)))
    expected = np.ones((2, 4))
    expected[0, 1] = 0.0
    np.testing.assert_allclose(size, expected, rtol=1e-6)


def test_random_graphs_are_acyclic_with_a_node_that_has_parent_and_child():
    scms = jax.jit(jax.vmap(draw))(jnp.arange(400))
    edges, node = np.asarray(scms.edges), np.asarray(scms.node)
    assert not np.triu(edges[:, 0, 0].swapaxes(-1, -2).swapaxes(-1, -2), 0).any()
    size = node.sum(1)
    assert set(size) == {3, 4, 5}
    now = edges[:, 0, 0]
    both = now.any(axis=2) & now.any(axis=1)
    assert both.any(axis=1).all()
    outside = ~(node[:, :, None] & node[:, None, :])
    assert not (edges.any(axis=(1, 2)) & outside).any()
    assert ((node & ~np.asarray(scms.latent)).sum(1) >= 2).all()
    assert np.isfinite(np.asarray(scms.weights)).all()


def test_shapes_that_do_not_fit_are_refused():
    scm = draw(0)
    noise = noise_for(scm)
    with pytest.raises(ValueError, match="intervention: values of shape"):
        simulate(scm, noise, intervene(0, 1.0, onset=0, length=1, steps=9), burn_in=BURN_IN)
    with pytest.raises(ValueError, match="burn_in: 99"):
        simulate(scm, noise, burn_in=99)
    with pytest.raises(ValueError, match="expected a window inside"):
        intervene(0, 1.0, onset=5, length=9, steps=9)
    with pytest.raises(ValueError, match="expected one of hard, soft, varying"):
        intervene(0, 1.0, onset=0, length=1, steps=9, kind="firm")
    with pytest.raises(ValueError, match="expected one node, or two"):
        intervene((1, 1), 1.0, onset=0, length=1, steps=9)
    with pytest.raises(ValueError, match="one number, or one a step"):
        intervene(1, np.zeros(3), onset=0, length=1, steps=9)
