"""Synthetic series: components against closed forms, shares, links, and what a key gives."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.signal
import scipy.stats

from whatif_jax.tasks.keys import root_key
from whatif_jax.tasks.randomised import components
from whatif_jax.tasks.randomised.series_family import (
    COMPONENTS,
    KERNELS,
    LINKS,
    SERIES_FILE,
    read_series_file,
    series_family,
)
from whatif_jax.tasks.randomised.synthetic import draw_series, series_from, synthetic_series

pytestmark = pytest.mark.slow  # together most of a minute or more on a busy machine

FLAGS = {
    "strict dtype promotion": lambda: jax.numpy_dtype_promotion("strict"),
    "rank promotion refused": lambda: jax.numpy_rank_promotion("raise"),
    "64 bits": lambda: jax.enable_x64(True),
    "another threefry mode": lambda: jax.threefry_partitionable(False),
    "another generator": lambda: jax.default_prng_impl("rbg"),
    "NaN refused": lambda: jax.debug_nans(True),
}


def keys(count, seed=0):
    return jax.vmap(lambda n: jax.random.fold_in(root_key(seed), n))(jnp.arange(count))


TOGETHER = 256  # series of one program, so that a length compiles once


@functools.cache
def program(steps):
    return jax.jit(
        lambda family, keys: jax.vmap(lambda key: synthetic_series(steps, family, key=key))(keys)
    )


def made(family, count, steps, seed=0):
    """Series [count, steps] in float64; families are arguments and compile nothing anew."""
    every = keys(-(-count // TOGETHER) * TOGETHER, seed).reshape(-1, TOGETHER)
    rows = np.concatenate([program(steps)(family, some) for some in every])[:count]
    return rows.astype(np.float64)


def family_of(component=None, *, link="around_zero", kernel=None, on=(), **ranges):
    """A family of one component alone, of variance 1 as it is, with ranges of one value."""
    family = series_family()
    fixed = {name: jnp.float32([value, value]) for name, value in ranges.items()}
    fixed.setdefault("magnitude", jnp.float32([1, 1]))
    return dataclasses.replace(
        family,
        components=jnp.float32([name == component for name in COMPONENTS]),
        links=jnp.float32([name == link for name in LINKS]),
        kernels=family.kernels if kernel is None else jnp.float32([n == kernel for n in KERNELS]),
        switches={name: jnp.float32(name in on) for name in family.switches},
        log_ranges={name: fixed.get(name, ends) for name, ends in family.log_ranges.items()},
        ranges={name: fixed.get(name, ends) for name, ends in family.ranges.items()},
    )


@jax.jit
def drawn(family, keys):
    return jax.vmap(lambda key: draw_series(family, key=key))(keys)


@pytest.fixture(scope="module")
def draws():
    """What 8,192 series are made of."""
    return drawn(series_family(), keys(8192))


def agree(found, shares):
    """Counts against their binomial distribution, at five standard deviations."""
    count, shares = 8192, np.asarray(shares, np.float64)
    error = 5 * np.sqrt(count * shares * (1 - shares)) + 1
    np.testing.assert_array_less(np.abs(np.asarray(found) - count * shares), error)


def test_families_are_present_in_their_shares(draws):
    table = read_series_file().synthetic
    steady = 1 - table.switches.constant
    shares = np.array([share for _, share in table.components])
    agree((np.asarray(draws.weights) > 0).sum(0), shares * steady)
    links = np.array([share for _, share in table.links]) * steady
    links[LINKS.index("level")] += 1 - steady
    agree(np.bincount(draws.link, minlength=len(LINKS)), links)
    agree(np.bincount(draws.kernel, minlength=len(KERNELS)), [s for _, s in table.kernels])
    for name, share in table.switches:
        if name not in ("noise", "typical_period"):  # tested on their own
            stops = name in ("pulses", "intermittent", "resolution")
            agree(np.sum(draws.switches[name]), share * steady if stops else share)
    alone = np.prod(1 - shares) * steady + 1 - steady  # nothing but noise
    agree(np.sum(draws.switches["noise"]), alone + (1 - alone) * table.switches.noise)
    typical = np.isin(np.asarray(draws.period), table.typical_periods)
    agree(np.sum(typical), table.switches.typical_period)


def test_numbers_stay_in_their_ranges(draws):
    table = read_series_file().synthetic
    for name, (low, high) in [*table.log_ranges, *table.ranges]:
        if name not in ("period", "weight", "noise"):
            found = np.asarray(draws.drawn[name])
            slack = 1e-5 * max(abs(low), abs(high))
            assert low - slack <= found.min() and found.max() <= high + slack, name
            assert found.std() > 0, name


@pytest.mark.parametrize("steps", [1, 97, 300])
def test_every_series_is_finite(steps):
    series = made(series_family(), 1024, steps, seed=3)
    assert np.isfinite(series).all()
    assert np.abs(series).max() < 1e9


def test_a_key_gives_one_series_whatever_batch_it_is_in():
    """To rounding of the values; a threshold or a rounding may move one step in 200."""
    rows = made(series_family(), 32, 300)
    assert np.array_equal(rows, made(series_family(), 32, 300))
    alone = jax.jit(lambda family, key: synthetic_series(300, family, key=key))
    for row, key in zip(rows[:16], keys(32), strict=False):
        size = np.abs(row).max() + 1e-30
        off = np.abs(np.asarray(alone(series_family(), key)) - row) > 1e-4 * size
        assert off.mean() <= 1 / 200
    assert len({row.tobytes() for row in rows}) == 32


def test_the_parts_are_the_whole():
    """To rounding; a threshold may move one step in 200."""
    parts = jax.jit(jax.vmap(lambda spec, key: series_from(spec, 97, key=key)))
    whole = made(series_family(), 32, 97)
    found = parts(drawn(series_family(), keys(32)), keys(32))
    size = np.abs(whole).max(1, keepdims=True)
    assert (np.abs(found - whole) > 1e-4 * size).mean() <= 1 / 200


@pytest.mark.slow
@pytest.mark.parametrize("flag", FLAGS)
def test_a_flag_changes_nothing(flag):
    """Types to the bit, values to rounding (1e-4 of the largest), but for one step in 200."""
    expected = made(series_family(), 8, 97)
    data = np.asarray(jax.random.key_data(keys(8)))
    with FLAGS[flag]():
        again = jax.random.wrap_key_data(jnp.asarray(data), impl="threefry2x32")
        found = jax.jit(jax.vmap(lambda key: synthetic_series(97, key=key)))(again)
        assert found.dtype == np.float32
    size = np.abs(expected).max(1, keepdims=True)
    assert (np.abs(np.asarray(found) - expected) > 1e-4 * size).mean() <= 1 / 200


@pytest.mark.parametrize("rate", [0.0, 0.003, 0.2, 5.0])
@pytest.mark.parametrize("steps", [1, 7, 97, 1152])
def test_a_decaying_sum_is_a_recursive_filter(rate, steps):
    """Against SciPy in float64, to 2e-5 of the largest."""
    impulses = np.random.default_rng(1).normal(size=steps)
    expected = scipy.signal.lfilter([1.0], [1.0, -np.exp(-rate)], impulses)
    found = components.decaying_sum(jnp.float32(impulses), jnp.float32(rate))
    np.testing.assert_allclose(found, expected, atol=2e-5 * np.abs(expected).max())


@pytest.mark.parametrize("steps", [1, 50, 1152, 4608])
def test_waves_add_up_to_their_sum(steps):
    """Against NumPy in float64; phases of float32 leave 1e-3 at thousands of steps."""
    rng = np.random.default_rng(2)
    amplitude, phase = rng.normal(size=20), rng.uniform(size=20)
    frequency = rng.uniform(0, 0.5, 20).astype(np.float32)
    turns = frequency.astype(np.float64)[:, None] * np.arange(steps) + phase[:, None]
    expected = amplitude @ np.cos(2 * np.pi * turns)
    found = components.sum_of_waves(
        jnp.float32(amplitude), jnp.asarray(frequency), jnp.float32(phase), steps
    )
    np.testing.assert_allclose(found, expected, atol=1e-6 * (20 + steps))


def test_numbers_of_steps_are_normal_independent_and_their_steps_own():
    found = np.asarray(components.normals_of_steps(root_key(5), 64, 2, 20_000))
    for row in found:
        assert scipy.stats.kstest(row, "norm").pvalue > 1e-4
    moments = np.corrcoef(np.concatenate([found, found**2, found[:, ::-1]]))
    assert np.abs(moments - np.eye(12)).max() < 5 / np.sqrt(20_000)
    fewer = components.normals_of_steps(root_key(5), 64, 2, 100)
    np.testing.assert_allclose(fewer, found[:, :100], atol=1e-6)


@pytest.mark.parametrize("memory", [2.0, 20.0])
def test_autoregressive_noise_has_its_autocorrelation_from_the_first_step_on(memory):
    """Theory: variance 1, exp(-lag / memory); five standard errors over 2,048 series."""
    family = family_of("autoregressive", memory=memory, moving_average=0.0)
    series = made(family, 2048, 97)
    for step in (0, 40):
        for lag in (0, 1, 5, 20):
            products = series[:, step] * series[:, step + lag]
            error = 5 * products.std() / np.sqrt(2048)
            assert abs(products.mean() - np.exp(-lag / memory)) < error


def test_a_random_walk_spreads_with_the_root_of_time():
    """Variance (t + 1) / steps and independent steps, at five standard errors."""
    series = made(family_of("random_walk"), 2048, 97)
    for step in (0, 30, 96):
        variance = (step + 1) / 97
        assert abs(series[:, step].var() / variance - 1) < 5 * np.sqrt(2 / 2048)
    moves = np.diff(series, axis=1)
    assert abs(np.corrcoef(moves[:, 10], moves[:, 11])[0, 1]) < 5 / np.sqrt(2048)


LENGTH, CIRCLE, PERIOD = 12.0, 0.8, 48.0


def kernel_at(name, lag):
    smooth = np.exp(-(lag**2) / (2 * LENGTH**2))
    periodic = np.exp(-2 * np.sin(np.pi * lag / PERIOD) ** 2 / CIRCLE**2)
    return {
        "squared_exponential": smooth,
        "periodic": periodic,
        "locally_periodic": smooth * periodic,
        "rational_quadratic": 1 / (1 + lag**2 / (2 * LENGTH**2)),
    }[name]


@pytest.mark.parametrize("kernel", KERNELS)
def test_a_gaussian_process_has_the_covariance_of_its_kernel(kernel):
    """Over 4,096 draws, at five standard errors, and near normal values."""
    family = family_of(
        "gaussian_process", kernel=kernel, on=["typical_period"],
        kernel_length=LENGTH, periodic_length=CIRCLE,
    )  # fmt: skip
    family = dataclasses.replace(family, typical_periods=jnp.float32([PERIOD] * 6))
    series = made(family, 4096, 97)
    for lag in (0, 3, 10, 24, 48):
        products = series[:, 20] * series[:, 20 + lag]
        error = 5 * products.std() / np.sqrt(4096)
        assert abs(products.mean() - kernel_at(kernel, lag)) < error, lag
    assert abs(scipy.stats.kurtosis(series[:, 50])) < 0.5


@pytest.mark.parametrize("component", ["seasons", "profile"])
@pytest.mark.parametrize("period", [24, 96])
def test_a_season_repeats_with_its_period(component, period):
    """To 2e-3 of a deviation, but where a profile's held level changes between two steps."""
    family = family_of(component, on=["typical_period", "held_profile"])
    family = dataclasses.replace(family, typical_periods=jnp.float32([period] * 6))
    series = made(family, 64, 300)
    moved = np.abs(series[:, period:] - series[:, :-period]) > 2e-3
    assert moved.mean() < (0.03 if component == "profile" else 1e-9)
    half = np.abs(series[:, period // 2 :] - series[:, : -(period // 2)])
    assert (half.max(axis=1) > 0.05).mean() > 0.9, "and not sooner"
    if component == "seasons":  # over whole periods
        np.testing.assert_allclose((series[:, : 2 * period] ** 2).mean(1), 1, atol=1.6)


def test_weekends_are_lower_and_weeks_repeat():
    family = family_of("profile", on=["typical_period", "weekend"], weekend=0.2)
    family = dataclasses.replace(family, typical_periods=jnp.float32([24] * 6))
    series = made(family, 64, 300)
    week = 7 * 24
    assert (np.abs(series[:, week:] - series[:, :-week]) > 5e-3).mean() < 0.02
    peaks = series[:, :week].reshape(64, 7, 24).max(2)
    peaks = np.sort(peaks, axis=1)  # whole days are not those of the phase: one is mixed at most
    assert (peaks[:, 0] < peaks[:, -1] - 0.5).mean() > 0.9


@pytest.mark.parametrize("link", LINKS)
def test_a_link_gives_values_of_its_quantity(link, draws):
    family = dataclasses.replace(
        series_family(), links=jnp.float32([name == link for name in LINKS])
    )
    series = made(family, 512, 97)[~np.asarray(draws.switches["constant"])[:512]]
    if link == "around_zero":
        assert (series.min(1) < 0).mean() > 0.7
    elif link == "level":
        assert (series < 0).mean() < 0.05
    else:
        assert series.min() >= 0
    if link in ("unit", "percent"):
        top = {"unit": 1, "percent": 100}[link]
        assert series.max() <= top and series.max() > 0.9 * top
    if link == "count":
        assert np.array_equal(series, np.round(series)) and series.max() > 100
    if link == "rectified":
        assert (series == 0).mean() > 0.05


@pytest.mark.parametrize("on", [[], ["cycling"]])
def test_an_intermittent_series_is_on_for_its_share(on):
    """Over draws: a threshold of a normal process; 0.05 for a cycle, which is not quite one."""
    family = family_of(
        "autoregressive", link="exponential", on=["intermittent", *on],
        on_share=0.3, gate_length=10.0, cycle_regularity=0.6,
    )  # fmt: skip
    series = made(family, 2048, 97)
    assert abs((series > 0).mean() - 0.3) < (0.05 if on else 0.02)
    switched = (np.diff((series > 0).astype(int), axis=1) != 0).sum(1)
    assert 1 < switched.mean() < 40


def test_a_constant_series_hardly_moves():
    series = made(family_of("trend", on=["constant", "noise"]), 256, 97)
    assert (series.std(1) / np.abs(series.mean(1))).max() < 5e-3
    assert (series.std(1) > 0).all()


@pytest.mark.parametrize(
    "old, new, message",
    [
        ("trend = 0.30", "trend = 1.30", "synthetic.components.trend: 1.3"),
        ("trend = 0.30", "tend = 0.30", "synthetic.components.tend"),
        ("level = 0.36", "level = 0.40", "expected shares with a sum of 1"),
        ("spread = [0.005, 0.35]", "spread = [0.35, 0.005]", "spread: .*lowest, highest"),
        ("period = [6, 1500]", "period = [0, 1500]", "period: .*above 0"),
        ("version = 1", "version = ", "expected TOML"),
    ],
)
def test_faults_of_a_file_are_named(tmp_path, old, new, message):
    text = SERIES_FILE.read_text("utf-8")
    assert old in text
    path = tmp_path / "series.toml"
    path.write_text(text.replace(old, new, 1), "utf-8")
    with pytest.raises(ValueError, match=message):
        read_series_file(path)
