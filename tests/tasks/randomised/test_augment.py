"""Augmentations and missing spans: each change against its definition, alone and in its share."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from whatif_jax.tasks.keys import root_key
from whatif_jax.tasks.randomised.augment import augment, missing_spans
from whatif_jax.tasks.randomised.series_family import augmentation, missingness, read_series_file

STEPS, COUNT = 200, 512


def keys(count=COUNT):
    return jax.vmap(lambda n: jax.random.fold_in(root_key(1), n))(jnp.arange(count))


@pytest.fixture(scope="module")
def series():
    """Daily power with noise, [COUNT, STEPS]."""
    rng = np.random.default_rng(0)
    day = 5 + np.sin(2 * np.pi * (np.arange(STEPS) / 48 + rng.uniform(size=(COUNT, 1))))
    return (40 * day + rng.normal(size=day.shape)).astype(np.float32)


@jax.jit
def augmented(settings, series, others):
    return jax.vmap(lambda one, other, key: augment(one, other, settings, key=key))(
        series, others, keys()
    )


def only(*names, **ranges):
    settings = augmentation()
    fixed = {name: jnp.float32([value, value]) for name, value in ranges.items()}
    return dataclasses.replace(
        settings,
        shares={name: jnp.float32(name in names) for name in settings.shares},
        log_ranges={name: fixed.get(name, ends) for name, ends in settings.log_ranges.items()},
        ranges={name: fixed.get(name, ends) for name, ends in settings.ranges.items()},
    )


def test_without_a_change_a_series_is_itself(series):
    np.testing.assert_array_equal(augmented(only(), series, series[::-1]), series)


def test_scale_shift_and_sign_are_those_of_numpy(series):
    """To 1e-5 of the largest value."""
    wide = series.astype(np.float64)
    size = np.abs(wide).mean(1, keepdims=True)
    low, high = wide.min(1, keepdims=True), wide.max(1, keepdims=True)
    for settings, expected in (
        (only("scale", scale=3.0), 3 * wide),
        (only("shift", shift=0.5), wide + 0.5 * size),
        (only("sign"), low + high - wide),
        (only("sign", "scale", "shift", scale=2.0, shift=1.0), None),
    ):
        found = augmented(settings, series, series[::-1])
        if expected is None:
            reflected = 2 * (low + high - wide)
            expected = reflected + np.abs(reflected).mean(1, keepdims=True)
        np.testing.assert_allclose(found, expected, atol=1e-5 * expected.max())


def test_mixing_is_relative_to_mean_magnitudes(series):
    others = (1e6 * series[::-1] ** 2).astype(np.float32)
    wide, far = series.astype(np.float64), others.astype(np.float64)
    size = np.abs(wide).mean(1, keepdims=True)
    expected = (0.7 * wide / size + 0.3 * far / np.abs(far).mean(1, keepdims=True)) * size
    found = augmented(only("mixing", mixing=0.3), series, others)
    np.testing.assert_allclose(found, expected, rtol=1e-5)


def test_noise_has_its_size(series):
    added = np.asarray(augmented(only("noise", noise=0.1), series, series), np.float64) - series
    deviation = np.abs(series - series.mean(1, keepdims=True)).mean(1)
    assert abs((added.std(1) / deviation).mean() / 0.1 - 1) < 0.02
    assert abs(added.mean()) < 5 * added.std() / np.sqrt(added.size)


def test_a_warp_advances_at_speeds_within_its_limits():
    """On a ramp a warped series shows the places that were read: in order, inside, ends kept."""
    ramp = np.broadcast_to(np.arange(STEPS, dtype=np.float32), (COUNT, STEPS))
    places = np.asarray(augmented(only("warp", warp=0.6, zoom=1.0), ramp, ramp), np.float64)
    np.testing.assert_allclose(places[:, 0], 0, atol=1e-3)
    np.testing.assert_allclose(places[:, -1], STEPS - 1, atol=1e-3)
    speed = np.diff(places, axis=1)
    assert speed.min() >= 0.4 - 1e-2 and speed.max() <= 1.6 + 1e-2
    assert (speed.max(1) - speed.min(1)).min() > 0.1, "each is warped"
    zoomed = np.asarray(augmented(only("warp", warp=0.3, zoom=0.5), ramp, ramp), np.float64)
    np.testing.assert_allclose(np.ptp(zoomed, axis=1), (STEPS - 1) / 2, rtol=1e-3)
    assert zoomed.min() >= 0 and zoomed.max() <= STEPS - 1


def test_changes_are_made_in_their_shares(series):
    settings = augmentation()
    for name, share in read_series_file().augmentation.shares:
        one = dataclasses.replace(
            settings,
            shares={n: s if n == name else jnp.float32(0) for n, s in settings.shares.items()},
        )
        changed = (np.asarray(augmented(one, series, series[::-1])) != series).any(1)
        assert abs(changed.mean() - share) < 5 * np.sqrt(share * (1 - share) / COUNT), name


@pytest.mark.parametrize("size", [0.0, 1e-38, 1e-20, 1e20, 3e38])
@pytest.mark.parametrize("other_size", [0.0, 1.0, 3e38])
def test_results_are_finite_over_all_of_float32(series, size, other_size):
    unit = series / series.max()
    all_on = only(*augmentation().shares)
    for settings in (all_on, augmentation()):
        found = augmented(settings, np.float32(size) * unit, np.float32(other_size) * unit[::-1])
        assert np.isfinite(found).all()


def test_positive_series_stay_positive_where_nothing_moves_them_down(series):
    settings = only("warp", "mixing", "sign", "scale")
    assert np.asarray(augmented(settings, series, series[::-1])).min() > 0


def test_an_augmented_series_is_its_keys_whatever_batch_it_is_in(series):
    """To 1e-5 of the largest value."""
    rows = np.asarray(augmented(augmentation(), series, series[::-1]))
    for at in range(8):
        alone = augment(series[at], series[::-1][at], key=keys()[at])
        np.testing.assert_allclose(alone, rows[at], atol=1e-5 * np.abs(rows[at]).max())


@jax.jit
def missing(settings):
    return jax.vmap(lambda key: missing_spans(STEPS, settings, key=key))(keys())


def missing_only(*names, **ranges):
    settings = missingness()
    fixed = {name: jnp.float32([value, value]) for name, value in ranges.items()}
    return dataclasses.replace(
        settings,
        shares={name: jnp.float32(name in names) for name in settings.shares},
        log_ranges={name: fixed.get(name, ends) for name, ends in settings.log_ranges.items()},
    )


def test_missing_spans_are_few_and_no_longer_than_drawn():
    found = np.asarray(missing(missing_only("spans", span=0.1)))
    assert not found[:, 0].any() and found.any(1).mean() > 0.95
    starts = (np.diff(found.astype(int), axis=1) == 1).sum(1)
    assert starts.max() == 4 and (starts == 1).mean() > 0.15
    assert found.sum(1).max() <= 4 * (0.1 * STEPS + 1)


def test_missing_points_are_as_many_as_drawn():
    found = np.asarray(missing(missing_only("points", points=0.1)))
    assert abs(found[:, 1:].mean() - 0.1) < 5 * np.sqrt(0.09 / found[:, 1:].size)


def test_missing_steps_come_in_their_shares():
    table = read_series_file().missing
    assert not np.asarray(missing(missing_only())).any()
    found = np.asarray(missing(missingness())).any(1).mean()
    shares = [table.shares.spans, table.shares.points]
    most = 1 - (1 - shares[0]) * (1 - shares[1])
    assert 0.6 * most < found < most + 5 * np.sqrt(most * (1 - most) / COUNT)
    assert np.array_equal(missing(missingness()), missing(missingness()))
