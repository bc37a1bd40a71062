"""Windows in continuous time leave room for the queries behind them."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from whatif_jax.tasks.keys import root_key
from whatif_jax.tscm import load_prior
from whatif_jax.tscm.continuous import observation_times
from whatif_jax.tscm.intervention import draw_intervention, intervention_shapes
from whatif_jax.tscm.numbers import draw_numbers
from whatif_jax.tscm.sample import scm_of, scm_shapes

STEPS = 200


@pytest.mark.parametrize("kind", ["regular", "jittered", "poisson"])
def test_every_offset_behind_a_window_has_a_step_of_its_own(kind):
    prior = load_prior("continuous", {"time": {"observations": {kind: 1.0}}})
    shapes = scm_shapes(prior) | intervention_shapes(prior, 3) | {"observations": ()}

    def drawn(number):
        key = jax.random.fold_in(root_key(2), number)
        numbers = draw_numbers(key, shapes)
        times = observation_times(numbers, jax.random.uniform(key, (STEPS,)), prior)
        free = jnp.zeros(STEPS)
        given = draw_intervention(numbers, free, scm_of(numbers, prior), prior, times)
        return given.onset + given.length - 1, given.onset, times

    last, onset, times = jax.jit(jax.vmap(drawn))(jnp.arange(1000, dtype=jnp.uint32))
    most = max(prior.query.offsets)
    assert (np.asarray(last) + most < STEPS).all()
    assert np.asarray(last).max() + most >= STEPS - 3, "as late as they may be"
    row = np.arange(1000)
    span = np.asarray(times[:, -1] - times[:, 0])
    share = np.asarray(times[row, onset] - times[:, 0]) / span
    assert (share >= 0.3 - 1e-6).all(), "as early as the prior says"
