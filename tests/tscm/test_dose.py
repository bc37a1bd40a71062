"""The derivative of an outcome in the dose, for every kind of intervention.

Against central differences of the float64 oracle, which knows nothing of JAX. Relative error below
1e-3 of the largest; float32 rounds, the oracle does not.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.tscm import oracle
from tests.tscm.test_worlds import draw, noise_for, root_key_of, tame
from whatif_jax.tscm import Noise, intervene, load_prior, sample_scm, simulate, simulate_continuous
from whatif_jax.tscm.names import KINDS

STEPS, BURN_IN, WIDTH = 20, 4, 1e-6


class Exact:
    """An intervention with values in float64."""

    def __init__(self, given, values):
        self.targets, self.active, self.hard = given.targets, given.active, given.hard
        self.values = np.stack([values, values], axis=1)


def agree(found, outcome, at, active):
    """Derivatives `found` of a function of a vector are its central differences."""
    active = np.asarray(active)
    np.testing.assert_array_equal(found[~active], 0.0)
    expected = []
    for place in np.flatnonzero(active):
        way = np.eye(len(at))[place] * WIDTH
        expected.append((outcome(at + way) - outcome(at - way)) / (2 * WIDTH))
    size = np.abs(expected).max()
    assert size > 1e-2, "the dose has an effect"
    np.testing.assert_allclose(found[active], expected, rtol=1e-3, atol=1e-3 * size)


@jax.jit
@jax.grad
def gradient(dose, act, scm, noise):
    """In the doses of all steps, of a smooth outcome; one program for all kinds."""
    given = eqx.tree_at(lambda it: it.values, act, jnp.stack([dose, dose], axis=1))
    return jnp.sum(jnp.sin(simulate(scm, noise, given, burn_in=BURN_IN)))


@jax.jit
@jax.grad
def gradient_in_time(dose, act, scm, noise, times):
    given = eqx.tree_at(lambda it: it.values, act, jnp.stack([dose, dose], axis=1))
    return jnp.sum(jnp.sin(simulate_continuous(scm, noise, times, given, substeps=4)))


@pytest.mark.parametrize("kind", KINDS)
def test_the_derivative_in_the_dose_is_the_oracles(kind):
    dose = np.linspace(-0.8, 1.3, STEPS)
    for seed in (3, 11):
        scm = tame(draw(seed), 0.5)
        noise = noise_for(scm, seed, STEPS + BURN_IN)
        act = intervene((0, 1), 0.0, onset=5, length=4, steps=STEPS, kind=kind)
        found = np.asarray(gradient(jnp.asarray(dose, jnp.float32), act, scm, noise))

        def outcome(values, scm=scm, noise=noise, act=act):
            return np.sin(oracle.run(scm, noise, Exact(act, values), BURN_IN)).sum()

        agree(found, outcome, dose, act.active)


@pytest.mark.parametrize("kind", ["hard", "soft"])
def test_the_derivative_in_the_dose_is_the_oracles_in_continuous_time(kind):
    prior = load_prior("continuous")
    scm = jax.jit(lambda: sample_scm(key=root_key_of(2), prior=prior))()
    rng = np.random.default_rng(1)
    times = jnp.asarray(np.cumsum(np.r_[0.0, rng.uniform(0.3, 1.2, STEPS - 1)]), jnp.float32)
    normal = jnp.asarray(rng.normal(size=(STEPS * 4, 3)), jnp.float32)
    dose = np.linspace(-0.8, 1.3, STEPS)

    act = intervene(1, 0.0, onset=5, length=4, steps=STEPS, kind=kind)
    noise = Noise(normal, normal[:, 0])
    found = np.asarray(gradient_in_time(jnp.asarray(dose, jnp.float32), act, scm, noise, times))

    def outcome(values):
        return np.sin(oracle.path(scm, normal, times, Exact(act, values), 4)).sum()

    agree(found, outcome, dose, act.active)
