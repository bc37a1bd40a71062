"""What a user may give to runs and interventions, and what is refused."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.tscm.test_worlds import STEPS, draw, noise_for, tame
from whatif_jax.tasks.keys import root_key
from whatif_jax.tscm import Noise, intervene, load_prior, sample_scm, simulate, simulate_continuous
from whatif_jax.tscm.continuous import observation_times

GIVEN = {"target": 1, "value": 1.0, "onset": 3, "length": 2, "steps": STEPS}
flowing = jax.jit(lambda: sample_scm(key=root_key(0), prior="continuous"))
run = jax.jit(simulate)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"target": 1.5}, "target: 1.5; expected a whole number"),
        ({"target": True}, "target: True; expected a whole number"),
        ({"target": "A"}, "target: 'A'; expected a whole number"),
        ({"target": (0, -1)}, "expected one node, or two different ones"),
        ({"onset": 10.5}, "onset: 10.5; expected a whole number"),
        ({"length": 1.5}, "length: 1.5; expected a whole number"),
        ({"steps": 40.0}, "steps: 40.0; expected a whole number"),
        ({"value": np.nan}, "value: nan; expected finite"),
        ({"value": np.full(STEPS, np.inf)}, "value: inf; expected finite"),
    ],
)
def test_interventions_of_no_meaning_are_refused(changes, words):
    with pytest.raises(ValueError, match=words):
        intervene(**(GIVEN | changes))


def test_arrays_of_one_number_and_of_two_targets_are_taken():
    one = intervene(**(GIVEN | {"target": jnp.int32(1), "onset": np.int64(3)}))
    np.testing.assert_array_equal(one.targets, [1, -1])
    two = intervene(**(GIVEN | {"target": np.array([1, 0])}))
    np.testing.assert_array_equal(two.targets, [1, 0])


def test_targets_and_onsets_can_be_mapped_over():
    target, onset = jnp.array([0, 1, 2]), jnp.array([4, 6, 8])

    def act(target, onset):
        return intervene(**(GIVEN | {"target": target, "onset": onset}))

    many = jax.vmap(act)(target, onset)
    for row in range(3):
        alone = act(int(target[row]), int(onset[row]))
        for ours, expected in zip(jax.tree.leaves(many), jax.tree.leaves(alone), strict=True):
            np.testing.assert_array_equal(ours[row], expected)


def test_a_target_that_a_world_does_not_have_is_refused():
    """It would do nothing, and look as if the intervention had no effect."""
    scm = draw(0)
    with pytest.raises(ValueError, match=r"targets \[ 7 -1\]; expected some of 5 nodes"):
        simulate(scm, noise_for(scm, steps=STEPS), intervene(**(GIVEN | {"target": 7})))


def test_a_world_of_the_other_kind_of_time_is_refused():
    noise = Noise(jnp.zeros((STEPS, 3)), jnp.zeros(STEPS))
    with pytest.raises(ValueError, match="scm: of continuous time"):
        simulate(flowing(), noise)
    with pytest.raises(ValueError, match="scm: of discrete time"):
        simulate_continuous(draw(0), noise, jnp.arange(STEPS), substeps=1)
    with pytest.raises(ValueError, match=r"times: a gap of -1"):
        simulate_continuous(flowing(), noise, -np.arange(STEPS), substeps=1)
    with pytest.raises(ValueError, match=r"substeps: 1.0"):
        simulate_continuous(flowing(), noise, np.arange(STEPS), substeps=1.0)
    with pytest.raises(ValueError, match=r"burn_in: 1.0"):
        simulate(draw(0), noise, burn_in=1.0)


def test_worlds_and_noise_of_64_bits_are_run_in_32():
    scm = tame(draw(1))
    noise = noise_for(scm, 1, STEPS)
    expected = run(scm, noise, intervene(**GIVEN))

    def wide(tree):
        return jax.tree.map(
            lambda leaf: leaf.astype(np.float64) if leaf.dtype == np.float32 else leaf, tree
        )

    with jax.enable_x64(True), jax.numpy_dtype_promotion("strict"):
        found = run(*jax.tree.map(jnp.asarray, (wide(scm), wide(noise), wide(intervene(**GIVEN)))))
        times = jnp.arange(STEPS)
        path = jax.eval_shape(
            lambda: simulate_continuous(wide(flowing()), wide(noise_of_three), times, substeps=1)
        )
    assert found.dtype == path.dtype == np.float32
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


noise_of_three = Noise(np.zeros((STEPS, 3), np.float32), np.zeros(STEPS, np.float32))


@pytest.mark.parametrize("kind", ["regular", "jittered", "poisson"])
@pytest.mark.parametrize("steps", [21, 200, 8192])
def test_times_rise_however_long_the_series(kind, steps):
    """Sums of float32 had gaps of 0; those of whole units have none, nor an error of rounding."""
    prior = load_prior("continuous", {"time": {"observations": {kind: 1.0}, "spacing": 0.1}})
    gaps = np.random.default_rng(0).integers(0, 2**24, (16, steps)).astype(np.float32) / 2**24
    gaps[:, 1::7] = 0.0
    numbers = {"observations": jnp.float32(0.5)}
    times = jax.jit(jax.vmap(lambda gap: observation_times(numbers, gap, prior)))(gaps)
    assert times.dtype == np.float32
    assert (np.diff(times, axis=1) > 0).all()
    wanted = {
        "regular": np.ones_like(gaps, float),
        "jittered": 1 + 0.3 * (2.0 * gaps - 1),
        "poisson": -np.log1p(-gaps.astype(float)),
    }[kind]
    wanted[:, 0] = 0.0
    # a unit is at most 2 / 2**22 of the number of steps, and a gap is at least one
    unit = 0.1 * 2.0 ** ((steps - 1).bit_length() - 22)
    expected = 0.1 * np.cumsum(wanted, axis=1)
    allowed = 0.0 if kind == "regular" else 1.5 * unit * np.arange(steps)
    np.testing.assert_array_less(np.abs(times - expected), allowed + 1e-6 * (1 + expected))
