"""The short run that finds worlds that leave the limit changes no episode."""

import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from whatif_jax.tasks.keys import root_key
from whatif_jax.tscm import load_prior, sample_episodes

STEPS = 152
SMALL = {
    "nodes": [3, 4],
    "lags": [1, 1],
    "stability": {"limit": 30.0, "attempts": 4},
    "time": {"burn_in": 5},
}


@pytest.mark.slow  # two programs
@pytest.mark.parametrize("regimes", [1, 2])
def test_episodes_are_the_same_with_the_short_run_and_without(monkeypatch, regimes):
    module = sys.modules["whatif_jax.tscm.episode"]
    prior = load_prior("diverse", SMALL | {"regimes": {"number": [regimes]}})
    fold = jax.vmap(lambda number: jax.random.fold_in(root_key(3), number))
    keys = fold(jnp.arange(200, dtype=jnp.uint32))
    with_it = jax.device_get(sample_episodes(keys=keys, prior=prior, steps=STEPS, lanes=32))
    monkeypatch.setattr(module, "_screen_steps", lambda prior, steps: 0)
    module._episodes.clear_cache()
    try:
        without = jax.device_get(sample_episodes(keys=keys, prior=prior, steps=STEPS, lanes=32))
    finally:
        module._episodes.clear_cache()
    np.testing.assert_array_equal(with_it.redraws, without.redraws)
    np.testing.assert_array_equal(with_it.finite, without.finite)
    assert 0 < (~with_it.finite).sum() < 100, "some fail at every attempt, and the last one stands"
    assert (with_it.redraws > 0).mean() > 0.1
    for name in ("factual", "interventional", "counterfactual"):
        values, others = getattr(with_it, name), getattr(without, name)
        # the last attempt stands whatever it is; its values may be without bounds
        np.testing.assert_array_equal(values, others)
