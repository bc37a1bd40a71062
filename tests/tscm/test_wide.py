"""The largest worlds: 64 nodes, 8 lags, 8,192 steps."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.tscm import oracle
from tests.tscm.test_worlds import root_key_of
from whatif_jax.tscm import (
    Noise,
    descendants,
    intervene,
    load_prior,
    sample_episodes,
    sample_scm,
    simulate,
    summary_graph,
)
from whatif_jax.tscm.names import MECHANISMS

pytestmark = pytest.mark.slow

NODES, LAGS, STEPS, BURN_IN = 64, 8, 8192, 8
PRIOR = load_prior("wide", {"nodes": [NODES, NODES], "lags": [LAGS, LAGS]})


@pytest.fixture(scope="module")
def run():
    """A world, its noise, an intervention and its run, all of them of the largest size."""
    scm = jax.jit(lambda key: sample_scm(key=key, prior=PRIOR))(root_key_of(1))
    values = np.random.default_rng(0).normal(size=(STEPS + BURN_IN, NODES)) * np.asarray(scm.scale)
    noise = Noise(jnp.asarray(values, jnp.float32), jnp.zeros(STEPS + BURN_IN))
    act = intervene((3, 40), 1.5, onset=4000, length=600, steps=STEPS, kind="soft")
    found = jax.jit(simulate, static_argnames="burn_in")(scm, noise, act, burn_in=BURN_IN)
    return jax.device_get((scm, noise, act, found))


def test_every_step_of_a_long_run_follows_from_the_steps_before_it(run):
    """In float64, from our own values at the steps before, so that small errors do not grow.

    2e-5 of the sum of absolute terms, 576 of which are added in float32.
    """
    scm, noise, act, found = run
    assert np.isfinite(found).all() and np.abs(found).max() < PRIOR.stability.limit
    weights = np.where(scm.edges, scm.weights, 0.0)[0].astype(np.float64)
    past, start = found.astype(np.float64), LAGS
    total = np.broadcast_to(scm.bias[0].astype(np.float64), (STEPS - start, NODES)).copy()
    size = np.abs(total)
    for lag in range(LAGS + 1):
        values = past[start - lag : STEPS - lag]
        total += values @ weights[lag].T
        size += np.abs(values) @ np.abs(weights[lag]).T
    expected = np.stack(
        [oracle.PLAIN[MECHANISMS[kind]](total[:, i]) for i, kind in enumerate(scm.mechanism[0])],
        axis=1,
    )
    parents = scm.edges[0].any(axis=(0, 2))
    expected = np.where(parents, expected, 0.0) + noise.values[BURN_IN + start :]
    hit = act.active[start:, None] & np.isin(np.arange(NODES), act.targets)
    expected += np.where(hit, act.values[start:, :1], 0.0)
    assert hit.sum() == 1200
    # tanh of a square has the steepest mechanism, below 1.5 where it is steep
    error = np.abs(found[start:] - expected)
    assert (error <= 2e-5 * (1.0 + size)).all()


def test_the_first_steps_are_the_oracles(run):
    scm, noise, _, found = run
    steps = 40
    short = Noise(noise.values[: steps + BURN_IN], noise.regime[: steps + BURN_IN])
    expected = oracle.run(scm, short, None, BURN_IN)
    np.testing.assert_allclose(found[:steps], expected, rtol=1e-4, atol=1e-4)


def test_episodes_of_the_largest_size_are_finite_and_reach_descendants_only():
    keys = jax.vmap(root_key_of)(jnp.arange(4))
    made = jax.device_get(sample_episodes(keys=keys, prior=PRIOR, steps=STEPS))
    assert made.finite.all()
    for row in range(4):
        runs = [leaf[row] for leaf in (made.factual, made.interventional, made.counterfactual)]
        assert all(leaf.shape == (STEPS, NODES) and np.isfinite(leaf).all() for leaf in runs)
        assert all((leaf.std(axis=0) > 0).all() for leaf in runs)
        scm = jax.tree.map(lambda leaf, row=row: leaf[row], made.scm)
        targets = [one for one in made.intervention.targets[row] if one >= 0]
        below = np.asarray(descendants(summary_graph(scm)))[:, targets].any(axis=1)
        below[targets] = True
        moved = runs[2] != runs[0]
        assert not moved[:, ~below].any() and not moved[: made.intervention.onset[row]].any()
        assert moved[:, targets].any()


def test_the_prior_of_wide_worlds_draws_every_size():
    scms = jax.vmap(lambda key: sample_scm(key=key, prior="wide"))
    drawn = jax.device_get(jax.jit(scms)(jax.vmap(root_key_of)(jnp.arange(300))))
    sizes = drawn.node.sum(axis=1)
    assert sizes.min() < 8 and sizes.max() > 60 and drawn.node.shape == (300, 64)
    lags = 1 + np.array([np.flatnonzero(row[0, 1:].any(axis=(1, 2)))[-1] for row in drawn.edges
                         if row[0, 1:].any()])  # fmt: skip
    assert set(lags) == set(range(1, 9))
