"""Worlds, runs, derivatives and streams are the same under every setting of JAX at once.

`tests/test_jax_flags.py` sets them one by one; here they are stacked, so that samplers compile once
more and not once a flag.
"""

from contextlib import ExitStack, contextmanager

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.tscm.test_worlds import SMALL, noise_for, root_key_of
from whatif_jax.tscm import (
    EpisodeStream,
    intervene,
    load_prior,
    sample_episode,
    sample_episodes,
    sample_scm,
    simulate,
)

STEPS = 24
MIXED = load_prior(
    "bi_variate",
    {
        "intervention": {
            "kinds": {"hard": 1.0, "soft": 1.0, "varying": 1.0},
            "values": {"prior": 1.0, "positivity_aware": 1.0},
        },
        "noise": {"kinds": {"gaussian": 1.0, "uniform": 1.0, "laplace": 1.0}},
        "regimes": {"number": [2]},
        "time": {"burn_in": 4},
    },
)


def a_world():
    return jax.jit(lambda key: sample_scm(key=key, prior=SMALL))(root_key_of(3))


def a_run_and_its_gradient():
    scm = eqx.tree_at(lambda it: it.weights, a_world(), a_world().weights * np.float32(0.3))
    noise = noise_for(scm, 1, STEPS)

    def outcome(dose, weights):
        act = intervene((0, 1), dose, onset=6, length=5, steps=STEPS)
        world = eqx.tree_at(lambda it: it.weights, scm, weights)
        found = simulate(world, noise, act)
        return jnp.sum(jnp.sin(found)), found

    return jax.jit(jax.value_and_grad(outcome, argnums=(0, 1), has_aux=True))(
        np.float32(0.7), scm.weights
    )


def an_episode():
    return sample_episode(key=root_key_of(1), prior=MIXED, steps=STEPS)


def a_stream_batch():
    stream = EpisodeStream(3, 4, [MIXED], steps=STEPS)
    return stream.check(stream.batch_at(2**32 + 1))


def a_continuous_episode():
    changes = {"time": {"substeps": 2, "observations": {"jittered": 1.0, "poisson": 1.0}}}
    prior = load_prior("continuous", {"structure": "bi_variate", **changes})
    return sample_episode(key=root_key_of(1), prior=prior, steps=STEPS)


@contextmanager
def every_flag():
    with ExitStack() as flags:
        for flag in (
            jax.numpy_dtype_promotion("strict"),
            jax.numpy_rank_promotion("raise"),
            jax.enable_x64(True),
            jax.threefry_partitionable(False),
            jax.default_prng_impl("rbg"),
            jax.debug_nans(True),
        ):
            flags.enter_context(flag)
        yield


@pytest.mark.parametrize(
    "name",
    [
        "diverse_small",
        "continuous",
        *[
            pytest.param(name, marks=pytest.mark.slow)
            for name in ("chain", "regime_small", "oscillating", "wide")
        ],
    ],
)
def test_a_sampler_is_traced_under_every_flag(name):
    """All of its types are those of 32 bits; nothing is compiled."""
    prior = load_prior(name, {"intervention": {"values": {"prior": 1.0, "observed_uniform": 1.0}}})
    keys = jax.vmap(root_key_of)(jnp.arange(4))

    def traced():
        return jax.eval_shape(lambda: sample_episodes(keys=keys, prior=prior, steps=STEPS))

    expected = jax.tree.leaves(traced())
    with every_flag():
        found = jax.tree.leaves(traced())
    for ours, theirs in zip(found, expected, strict=True):
        assert ours.dtype == theirs.dtype and ours.shape == theirs.shape


@pytest.mark.parametrize(
    "make",
    [
        a_world,
        *[
            pytest.param(make, marks=pytest.mark.slow)
            for make in (a_run_and_its_gradient, an_episode, a_stream_batch, a_continuous_episode)
        ],
    ],
    ids=lambda make: make.__name__,
)
def test_flags_change_nothing(make):
    """Types and whole numbers to the bit, float32 to rounding: 1e-5, as other fusions round."""
    expected = jax.tree.map(np.asarray, make())
    with every_flag():
        found = jax.tree.map(np.asarray, make())
    leaves = zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True)
    for ours, theirs in leaves:
        assert ours.dtype == theirs.dtype and ours.shape == theirs.shape
        if ours.dtype.kind == "f":
            size = np.abs(theirs).max(initial=1e-30)
            np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-5 * size)
        else:
            np.testing.assert_array_equal(ours, theirs)
