"""Every metric over the whole range of float32, subnormal numbers too, against float64 by hand.

Tolerance: 2e-6 of the value, and what an error of 1e-45 of the largest value of the series makes. A
value beyond float32 is infinite, one below its normal numbers may be zero.
"""

import math

import jax
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.oracle import scores as oracle
from tests.score_cases import LEVELS
from whatif_jax.evaluation import metrics

STEPS = 5
MASK = np.ones(STEPS, bool)
MOST, LEAST = float(np.finfo(np.float32).max), float(np.finfo(np.float32).tiny)
LEVEL = 4  # column of the median

anything = st.floats(width=32, allow_nan=False, allow_infinity=False)


def number(exponent: int) -> st.SearchStrategy[float]:
    """A float32 of either sign, at most 2**6 away from a power of two."""
    near = st.tuples(st.floats(1, 2), st.integers(-6, 6), st.sampled_from([-1, 1]))

    def value(parts: tuple[float, int, int]) -> float:
        mantissa, step, sign = parts
        return float(np.float32(sign * min(math.ldexp(mantissa, exponent + step), MOST)))

    return near.map(value)


@st.composite
def series(draw: st.DrawFn) -> dict[str, np.ndarray]:
    """Truth, baseline, history and forecasts, each of its own size or of every size at once."""

    def some(count: int) -> np.ndarray:
        of = draw(st.integers(-149, 127).map(number) | st.just(anything))
        return np.array(draw(st.lists(of, min_size=count, max_size=count)), np.float32)

    target, baseline, history = some(STEPS), some(STEPS), some(STEPS)
    quantiles = np.stack([some(STEPS)] * len(LEVELS), axis=1)
    quantiles[:, draw(st.integers(0, 8))] = some(STEPS)
    if draw(st.booleans()):  # as large as the truth
        quantiles[:, LEVEL] = target * np.float32(draw(st.sampled_from([0.5, 1, 2, 0])))
    return dict(target=target, baseline=baseline, history=history, quantiles=quantiles)


def of(target: float, point: float, history: float = 1.0, baseline: float = 0.0) -> dict:
    """A case of equal steps."""
    full = {name: np.full(STEPS, value, np.float32) for name, value in
            dict(target=target, baseline=baseline, history=history).items()}  # fmt: skip
    full["history"][1::2] = 0
    return full | {"quantiles": np.full((STEPS, len(LEVELS)), point, np.float32)}


def but_one_step(size: float, error: float) -> dict:
    """Exact but for one step, which is zero and forecast as a small error; its history moves so."""
    case = of(size, size, error)
    case["target"][1], case["quantiles"][1], case["baseline"][1] = 0, error, 2 * error
    return case


@jax.jit
def _kernels(target, baseline, history, quantiles, mask):
    point = quantiles[:, LEVEL]
    size = metrics.seasonal_size(history, mask)
    return {
        "wql": metrics.weighted_quantile_loss(target, quantiles, LEVELS, mask),
        "wape": metrics.weighted_absolute_percentage_error(target, point, mask),
        "scale": metrics.seasonal_error(history, mask),
        "mase": metrics.scaled_error(target, point, size, mask),
        "rmse": metrics.root_mean_squared_error(target, point, mask),
        "coverage": metrics.coverage(target, quantiles, mask),
        "direction_accuracy": metrics.direction_accuracy(target, point, baseline, mask),
        "effect_size_error": metrics.effect_size_error(target, point, baseline, mask),
    }


def kernels(target, baseline, history, quantiles):
    return _kernels(target, baseline, history, quantiles, MASK)


@settings(max_examples=400, deadline=None)
@given(series())
@example(of(target=0, point=1e38))
@example(of(target=1e-38, point=2e-38))
@example(of(target=1e-44, point=3e-45))
@example(of(target=0, point=1e-44))
@example(of(target=3e38, point=-3e38, history=3e38, baseline=-3e38))
@example(of(target=1e38, point=1e-38, history=1e-44))
@example(but_one_step(1e30, 5e-3))
@example(but_one_step(1e38, 0.05))
@example(but_one_step(1.0, 5e-33))
@example(but_one_step(1e-20, 1e-40))
def test_metrics_over_the_whole_range(case):
    target, baseline, history, quantiles = (np.float64(values) for values in case.values())
    point = quantiles[:, LEVEL]
    found = {name: np.float64(value) for name, value in kernels(**case).items()}
    top = max(np.abs(target).max(), np.abs(point).max())
    scale = oracle.seasonal_error(history, MASK)
    true = abs(math.fsum([*target, *-baseline]))
    # what an error of 1e-45 of the largest value, or the rounding of a sum that cancels, makes
    noise = {
        "wql": 1e-45 * max(top, np.abs(quantiles).max()) / max(np.abs(target).sum(), 1e-300),
        "wape": 1e-45 * top / max(np.abs(target).sum(), 1e-300),
        "scale": 1e-45 * np.abs(history).max(),
        "mase": 1e-45 * (top + np.abs(history).max()) / max(scale, 1e-300),
        "rmse": 1e-45 * top,
    }
    expected = {
        "wql": oracle.wql(target, quantiles, LEVELS, MASK),
        "wape": oracle.wape(target, point, MASK),
        "scale": scale,
        "mase": oracle.mase(target, point, scale, MASK),
        "rmse": oracle.rmse(target, point, MASK),
    }
    for name, value in expected.items():
        if value > MOST * (1 - 1e-6):
            assert found[name] > MOST / 2, name
        else:
            tolerance = 2e-6 * value + noise[name] + LEAST
            assert abs(found[name] - value) <= tolerance, (name, found[name], value)
    np.testing.assert_array_equal(
        found["coverage"], np.float32(oracle.coverage(target, quantiles, MASK))
    )
    _check_effects(found, target, point, baseline, true)


def _check_effects(found, target, point, baseline, true) -> None:
    largest = max(np.abs(target).max(), np.abs(baseline).max())
    dead = oracle.DEAD_ZONE * np.abs(baseline).mean()
    # float32 may put an effect on the other side of an edge that it lies on
    edges = np.abs(np.abs(np.stack([target - baseline, point - baseline])) - dead)
    if np.all(edges > 1e-5 * largest):
        value = oracle.direction_accuracy(target, point, baseline, MASK)
        np.testing.assert_allclose(found["direction_accuracy"], value, rtol=1e-6)
    if true > 1e-6 * largest:
        whole = np.all(np.isfinite(point))
        value = abs(math.fsum([*point, *-target])) / true if whole else math.inf
        tolerance = 2e-6 * value + 1e-12 * max(largest, np.abs(point).max()) / true + LEAST
        if value > MOST * (1 - 1e-6):
            assert found["effect_size_error"] > MOST / 2
        elif tolerance < MOST:
            assert abs(found["effect_size_error"] - value) <= tolerance


@pytest.mark.parametrize("scale", [0.0, np.inf, np.nan])
def test_a_scale_that_is_no_size_never_improves_a_score(scale):
    ones = np.ones(STEPS, np.float32)
    error = jax.jit(metrics.mean_absolute_scaled_error)
    assert error(ones, 2 * ones, np.float32(scale), MASK) == np.inf
    assert error(ones, ones, np.float32(scale), MASK) == 0


def test_an_infinite_truth_is_never_dropped_from_a_sum():
    truth = np.ones(STEPS, np.float32)
    truth[2] = np.inf
    for name in ("wape", "wql", "rmse", "mase", "effect_size_error"):
        ones = np.ones_like(truth)
        assert kernels(truth, 0 * ones, np.arange(STEPS, dtype=np.float32),
                       np.ones((STEPS, 9), np.float32))[name] == np.inf  # fmt: skip
