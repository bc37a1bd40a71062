"""Batches: rows are functions of their keys alone, on any number of devices, by few programs."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.tscm.test_worlds import draw, noise_for, root_key_of, run, tame
from whatif_jax.tscm import EpisodeStream, load_prior, sample_episodes, simulate
from whatif_jax.tscm.episode import _episodes
from whatif_jax.tscm.stream import _make_batch

STEPS = 24


def equal(ours, theirs):
    for one, other in zip(jax.tree.leaves(ours), jax.tree.leaves(theirs), strict=True):
        np.testing.assert_array_equal(np.asarray(one), np.asarray(other))


def close(ours, theirs):
    """Whole numbers to the bit, others to the rounding of other fusions."""
    for one, other in zip(jax.tree.leaves(ours), jax.tree.leaves(theirs), strict=True):
        one, other = np.asarray(one), np.asarray(other)
        if one.dtype.kind == "f":
            np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-5)
        else:
            np.testing.assert_array_equal(one, other)


def test_a_world_alone_is_its_row_of_a_batch():
    many = jax.jit(jax.vmap(draw))(jnp.arange(12))
    for row in (0, 7):
        close(draw(row), jax.tree.map(lambda leaf, row=row: leaf[row], many))


def test_a_run_alone_is_its_row_of_a_batch():
    """As many lanes as one: the same sums in the same order, to 1e-6."""
    scms = [tame(draw(seed)) for seed in range(3)]
    noises = [noise_for(scm, seed, STEPS) for seed, scm in enumerate(scms)]
    worlds, noise = (
        jax.tree.map(lambda *leaves: jnp.stack(leaves), *trees) for trees in (scms, noises)
    )
    many = jax.jit(jax.vmap(simulate))(worlds, noise)
    for row in range(3):
        alone = run(scms[row], noises[row], burn_in=0)
        np.testing.assert_allclose(alone, many[row], rtol=1e-6, atol=1e-6)


@pytest.mark.slow
def test_a_row_is_the_same_to_the_bit_wherever_it_stands():
    """Other places, other neighbours, another length of the batch; the lanes are as many."""
    changes = {"intervention": {"values": {"observed_uniform": 1.0}}, "stability": {"limit": 1.2}}
    prior = load_prior("bi_variate", changes)
    keys = jax.vmap(root_key_of)(jnp.arange(40))
    order = np.random.default_rng(0).permutation(40)

    def made(keys):
        return jax.device_get(sample_episodes(keys=keys, prior=prior, steps=STEPS, lanes=16))

    whole = made(keys)
    equal(made(keys[order]), jax.tree.map(lambda leaf: leaf[order], whole))
    equal(made(keys[5:26]), jax.tree.map(lambda leaf: leaf[5:26], whole))
    assert whole.redraws.max() > 0, "some were drawn again"


@pytest.mark.slow
def test_rows_are_the_same_on_two_devices():
    """To the bit, where each device has as many lanes as one has alone."""
    prior = load_prior("bi_variate")
    mesh = jax.make_mesh((2,), ("rows",), devices=jax.devices()[:2])
    sharding = jax.NamedSharding(mesh, jax.P("rows"))
    one = EpisodeStream(7, 256, [prior], steps=STEPS)
    two = EpisodeStream(7, 256, [prior], steps=STEPS, sharding=sharding)
    for step in (0, 2**33 + 5):
        ours, theirs = one.batch_at(step), two.batch_at(step)
        assert len(theirs.verified.sharding.device_set) == 2
        equal(jax.device_get(ours), jax.device_get(theirs))


@pytest.mark.slow
def test_a_mixed_stream_compiles_one_program_a_bucket():
    names = ["bi_variate", "back_door", "bi_variate", "chain"]
    changes = {"time": {"burn_in": 2}}
    priors = [load_prior(name, changes) for name in names]
    stream = EpisodeStream(1, 4, priors, steps=STEPS)
    _make_batch.clear_cache()
    _episodes.clear_cache()
    shapes = set()
    for step in range(12):
        batch = stream.check(stream.batch_at(step))
        shapes.add(batch.episode.factual.shape)
    assert _make_batch._cache_size() == 3
    assert shapes == {(4, STEPS, 2), (4, STEPS, 3), (4, STEPS, 7)}
