"""Random numbers are those of JAX's generator, whatever its flags, and each decides one thing."""

import jax
import numpy as np
import pytest

from whatif_jax import Bucket, Sizes, root_key, sample_spec
from whatif_jax.tasks.keys import as_threefry, random_words, uniform_shares

COUNT = 300
LOW = np.arange(COUNT, dtype=np.uint32)
SIZES = dict(k=2, event_length=32, n_events=2, future="novel")
IMPLEMENTATIONS = ("threefry2x32", "rbg", "unsafe_rbg")


@pytest.mark.parametrize("seed", [0, 7, 2**32 - 1])
def test_numbers_equal_jax_random_in_its_partitionable_mode(seed):
    key = jax.random.fold_in(root_key(seed), 3)
    with jax.threefry_partitionable(True):
        words = jax.random.bits(key, (COUNT,), np.uint32)
        shares = jax.random.uniform(key, (COUNT,), np.float32)
    np.testing.assert_array_equal(random_words(key, 0 * LOW, LOW), words)
    np.testing.assert_array_equal(uniform_shares(key, 0 * LOW, LOW), shares)


def test_a_word_depends_on_the_key_and_its_counter_alone():
    key, high = root_key(1), np.arange(COUNT, dtype=np.uint32)[::-1].copy()
    words = np.asarray(random_words(key, high, LOW))
    order = np.random.default_rng(0).permutation(COUNT)[:50]
    np.testing.assert_array_equal(random_words(key, high[order], LOW[order]), words[order])
    assert len(set(words.tolist())) == COUNT


@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
def test_keys_of_any_implementation_serve(implementation):
    keys = [as_threefry(jax.random.key(seed, impl=implementation)) for seed in range(4)]
    assert {str(jax.random.key_impl(key)) for key in keys} == {"threefry2x32"}
    words = [tuple(np.asarray(jax.random.key_data(key)).tolist()) for key in keys]
    assert len(set(words)) == 4
    if implementation == "threefry2x32":
        np.testing.assert_array_equal(words[3], jax.random.key_data(root_key(3)))


def test_a_seed_means_the_same_key_whatever_offset_a_flag_adds():
    plain = jax.random.key_data(root_key(7))
    jax.config.update("jax_random_seed_offset", 5)
    try:
        np.testing.assert_array_equal(jax.random.key_data(root_key(7)), plain)
    finally:
        jax.config.update("jax_random_seed_offset", 0)
    np.testing.assert_array_equal(
        jax.random.key_data(jax.random.key(7, impl="threefry2x32")), plain
    )


def test_a_users_own_jit_may_close_over_systems(systems):
    sizes = Sizes(systems.row("epanet", "pressure_10"), **SIZES)

    def draw(key):
        return sample_spec(sizes, systems, Bucket(512, 64, 2, 2, 32), key=key).factors

    np.testing.assert_array_equal(jax.jit(draw)(root_key(5)), draw(root_key(5)))


def test_neither_padding_nor_one_more_covariate_or_event_changes_the_other_numbers(systems):
    row = systems.row("epanet", "pressure_10")

    def draw(bucket, **changes):
        sizes = Sizes(row, **(SIZES | changes))
        return sample_spec(sizes, systems, bucket, key=root_key(5))

    small = draw(Bucket(512, 64, 2, 2, 32))
    for other in (
        draw(Bucket(512, 64, 5, 64, 1024)),
        draw(Bucket(512, 64, 4, 3, 64), k=4),
        draw(Bucket(512, 64, 2, 4, 64), n_events=3),
    ):
        assert other.window_start == small.window_start
        np.testing.assert_array_equal(other.factors[:2, :2], small.factors)
    np.testing.assert_array_equal(
        draw(Bucket(512, 64, 4, 3, 64), k=4).future_factors[:2], small.future_factors
    )
