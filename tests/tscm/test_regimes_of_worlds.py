"""Worlds of fewer regimes than their bucket, and what may be asked of them."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from whatif_jax.tasks.keys import root_key
from whatif_jax.tscm import descendants, load_prior, sample_scm, summary_graph
from whatif_jax.tscm.episode import _below, _query
from whatif_jax.tscm.intervention import intervene

PRIOR = load_prior("regime", {"nodes": [3, 5], "lags": [1, 2]})


@pytest.fixture(scope="module")
def worlds():
    fold = jax.vmap(lambda number: jax.random.fold_in(root_key(8), number))
    draw = jax.jit(jax.vmap(lambda key: sample_scm(key=key, prior=PRIOR)))
    return jax.device_get(draw(fold(jnp.arange(400, dtype=jnp.uint32))))


def test_a_regime_that_a_world_does_not_have_is_without_edges(worlds):
    """They would stand in its graph, and in what an intervention is said to reach."""
    has = np.arange(3) < worlds.regimes[:, None]
    assert 100 < (~has).sum() < 300
    per_regime = worlds.edges.any(axis=(2, 3, 4))
    np.testing.assert_array_equal(per_regime, has)
    assert not worlds.weights[~has].any()


def test_where_nothing_moved_a_query_asks_for_what_lies_below_a_target(worlds):
    steps = 24
    still = np.zeros((steps, 5, 3, 1), np.float32)
    rng, asked = np.random.default_rng(0), 0
    act = [intervene(node, 1.0, onset=12, length=3, steps=steps) for node in range(5)]

    @jax.jit
    def answer(scm, act, rank):
        lanes = jax.tree.map(lambda leaf: leaf[..., None], (act, scm))
        return _query(still, *lanes, rank, _below(scm, act)[:, None], PRIOR).node[0]

    below = jax.vmap(lambda scm: descendants(summary_graph(scm)))(worlds)
    for row in range(60):
        scm = jax.tree.map(lambda leaf, row=row: leaf[row], worlds)
        target = int(rng.choice(np.flatnonzero(scm.node)))
        could = np.asarray(below)[row, :, target] & scm.node & ~scm.latent
        could[target] = False
        if could.any():
            assert could[int(answer(scm, act[target], rng.random((5, 1)).astype(np.float32)))]
            asked += 1
    assert asked > 20
