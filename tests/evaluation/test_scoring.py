"""The policy of scores, case by case."""

import dataclasses

import jax
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

from tests.oracle import scores as oracle
from tests.score_cases import KINDS, LEVELS, Case, batch, random_case
from whatif_jax.evaluation import scoring
from whatif_jax.evaluation.scoring import Scores, error_ratio, repair, score, score_batch

CLOSE = 1e-6
jitted_repair = jax.jit(repair)
CONTEXT, HORIZON = 21, 6
REFUSED = ("missing targets", "nothing counted")  # their truth is not finite
FIELDS = tuple(field.name for field in dataclasses.fields(Scores))
ERRORS = ("wql", "wape", "mase", "rmse", "effect_size_error")


def score_all(cases: list[Case], levels=LEVELS) -> Scores:
    stacked = batch(cases)
    return jax.device_get(score_batch(stacked.task, stacked.quantiles, levels))


def score_one(case: Case, levels=LEVELS) -> Scores:
    return jax.tree.map(lambda values: values[0], score_all([case], levels))


def a_case(kind: str = "plain", seed: int = 0) -> Case:
    return random_case(kind, np.random.default_rng([seed, 5]), CONTEXT, HORIZON)


def naive_of(case: Case) -> Case:
    """The same task with the naive forecast, a point forecast."""
    naive = oracle.naive(case.history, case.history_mask)
    return case._replace(quantiles=np.full_like(case.quantiles[:, :1], naive))


def assert_same(a: Scores, b: Scores, but: tuple[str, ...] = ()) -> None:
    for name in FIELDS:
        if name not in but:
            np.testing.assert_array_equal(getattr(a, name), getattr(b, name), err_msg=name)


def test_the_levels_and_the_version():
    assert scoring.LEVELS == LEVELS
    assert scoring.METRIC_VERSION == "1"


@pytest.mark.parametrize("broken", [False, True])
def test_scores_equal_the_hand_computation(broken):
    rng = np.random.default_rng(6)
    cases = [
        random_case(kind, rng, 90, 40) for kind in KINDS if kind not in REFUSED for _ in range(6)
    ]
    if broken:
        for case in cases[::2]:
            case.quantiles[rng.integers(40), rng.integers(9)] = rng.choice([np.nan, np.inf])
    ours = score_all(cases)
    theirs = [oracle.score(*case[:4], LEVELS, *case[4:]) for case in cases]
    assert ours.imputed.any() == broken and ours.crossings.any()
    for name in FIELDS:
        expected = np.array([row[name] for row in theirs])
        np.testing.assert_allclose(getattr(ours, name), expected, rtol=CLOSE, atol=0, err_msg=name)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("level", [0, 4, 8])
def test_one_value_that_is_not_finite_costs_the_whole_forecast(value, level):
    for step in (0, HORIZON - 1):
        case = a_case()
        case.quantiles[step, level] = value
        found = score_one(case)
        assert found.imputed and found.crossings == 0
        assert_same(found, score_one(naive_of(case)), but=("imputed", "coverage"))


def test_a_missing_forecast_is_naive():
    case = a_case()
    missing = case._replace(quantiles=np.full_like(case.quantiles, np.nan))
    assert score_one(missing).imputed
    assert_same(score_one(missing), score_one(naive_of(case)), but=("imputed", "coverage"))


def test_a_missing_forecast_ties_with_the_naive_point_forecast():
    """To the bit, in every one of 40 cases: a tie counts half in a win rate, 1e-8 counts whole."""
    for seed in range(40):
        case = a_case(seed=seed)
        missing = score_one(case._replace(quantiles=np.full_like(case.quantiles, np.nan)))
        point = score_one(naive_of(case))
        for name in ERRORS:
            assert getattr(missing, name) == getattr(point, name), (seed, name)


def test_a_hole_where_the_forecast_errs_most_does_not_help():
    """Good everywhere but at one step: leaving that step out gives naive's error, not a better."""
    case = a_case("exact")
    case.quantiles[3] += 0.1 * np.abs(case.target).max()
    honest, naive = score_one(case), score_one(naive_of(case))
    case.quantiles[3] = np.nan
    evasive = score_one(case)
    for name in ERRORS:
        assert getattr(honest, name) < getattr(naive, name) == getattr(evasive, name)


def test_padding_is_not_looked_at():
    case = a_case()
    case.future_mask[4:], case.history_mask[:9] = False, False
    plain = score_one(case)
    case.quantiles[4:, 1:], case.target[5], case.future_baseline[4] = np.nan, np.inf, np.nan
    case.history[:9] = np.nan
    assert not plain.imputed
    assert_same(plain, score_one(case))


@pytest.mark.parametrize(
    "history, mask, last",
    [
        ([1, 2, 3, 4], [True] * 4, 4),
        ([1, 2, 3, 4], [True, True, False, False], 2),
        ([1, 2, np.nan, np.inf], [True] * 4, 2),
        ([1, 2, 3, 4], [False] * 4, 0),
        ([np.nan] * 4, [True] * 4, 0),
    ],
)
def test_the_naive_forecast_is_the_last_real_value(history, mask, last):
    case = a_case()._replace(history=np.float32(history), history_mask=np.array(mask))
    found = jitted_repair(case.task, np.full((HORIZON, 9), np.nan, np.float32))
    assert found.imputed
    np.testing.assert_array_equal(found.quantiles, np.full((HORIZON, 9), last))


@pytest.mark.parametrize("field", ["target", "future_baseline"])
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_a_truth_that_is_not_finite_makes_every_error_infinite(field, value):
    for exact in (False, True):
        case = a_case("exact" if exact else "plain")
        getattr(case, field)[3] = value
        assert [getattr(score_one(case), name) for name in ERRORS] == [np.inf] * 5


def test_zero_policy():
    exact, off = a_case("exact zero horizon"), a_case("zero horizon")
    for name in ("wql", "wape"):
        assert getattr(score_one(exact), name) == 0
        assert getattr(score_one(off), name) == np.inf
    flat = a_case("constant history")
    assert score_one(flat).mase == np.inf
    assert score_one(flat._replace(target=flat.quantiles[:, 4])).mase == 0


def test_crossing_quantiles_are_counted_and_sorted():
    case = a_case()
    crossed = case._replace(quantiles=case.quantiles.copy())
    crossed.quantiles[0, [1, 2]] = crossed.quantiles[0, [2, 1]]
    crossed.quantiles[2] = crossed.quantiles[2, ::-1]
    found = score_one(crossed)
    assert found.crossings == 1 + 8 and not found.imputed
    assert_same(found, score_one(case), but=("crossings",))
    crossed.quantiles[1] = crossed.quantiles[1, 0]  # all alike: none out of order
    assert score_one(crossed).crossings == 9


def test_a_point_forecast_is_scored_at_the_median_alone():
    case = a_case()
    point = case._replace(quantiles=case.quantiles[:, 4:5])
    found = score_one(point)
    assert found.wql == found.wape == score_one(case).wape
    assert found.coverage.shape == (1,) and found.crossings == 0
    assert_same(found, score_one(point, levels=(0.5,)))


def test_other_levels():
    case = a_case()
    levels = (0.05, 0.5, 0.975)
    found = score_one(case._replace(quantiles=case.quantiles[:, [0, 4, 8]]), levels)
    picked = case.quantiles[:, [0, 4, 8]]
    assert found.wql == pytest.approx(
        oracle.wql(case.target, picked, levels, case.future_mask), rel=CLOSE
    )
    assert found.wape == score_one(case).wape


@pytest.mark.parametrize(
    "columns, levels, message",
    [
        (8, LEVELS, "quantiles has 8 columns; expected 9, one a level of .*, or 1"),
        (2, (0.1, 0.9), "levels is .*; expected ascending levels within .*, 0.5 among them"),
        (3, (0.5, 0.1, 0.9), "expected ascending levels"),
        (3, (0.0, 0.5, 0.9), "expected ascending levels"),
        (3, (0.1, 0.5, 1.0), "expected ascending levels"),
    ],
)
def test_columns_and_levels_that_do_not_fit(columns, levels, message):
    case = a_case()
    with pytest.raises(ValueError, match=message):
        score_one(case._replace(quantiles=case.quantiles[:, :columns]), levels)


def test_a_row_does_not_depend_on_its_companions():
    rng = np.random.default_rng(7)
    cases = [random_case(kind, rng, CONTEXT, HORIZON) for kind in KINDS]
    cases[2].quantiles[0] = np.nan
    together = score_all(cases)
    order = rng.permutation(len(cases))
    apart = score_all([cases[row] for row in order])
    assert_same(jax.tree.map(lambda values: values[order], together), apart)
    one = jax.jit(score, static_argnums=2)(cases[1].task, cases[1].quantiles, LEVELS)
    for name in ERRORS:
        assert getattr(one, name) == pytest.approx(getattr(together, name)[1], rel=CLOSE)


def finite(shape):
    return npst.arrays(np.float32, shape, elements=st.floats(-(2.0**99), 2.0**99, width=32))


def anything(shape):
    return npst.arrays(np.float32, shape, elements=st.floats(width=32, allow_subnormal=False))


@settings(deadline=None, max_examples=150)
@given(st.data())
def test_errors_are_never_nan_and_no_hole_makes_one_smaller(data):
    def draw(strategy):
        return data.draw(strategy)

    case = Case(
        target=draw(anything(HORIZON)),
        future_baseline=draw(finite(HORIZON)),
        history=draw(finite(CONTEXT)),
        quantiles=draw(finite((HORIZON, 9))),
        history_mask=draw(npst.arrays(bool, CONTEXT)),
        future_mask=draw(npst.arrays(bool, HORIZON)),
    )
    case.target[np.abs(case.target) > 2.0**99] = np.nan
    naive = score_one(naive_of(case))
    hole = draw(npst.arrays(bool, (HORIZON, 9)))
    broken = case._replace(quantiles=np.where(hole, np.float32(np.nan), case.quantiles))
    found = score_one(broken)
    assert found.imputed == (hole & case.future_mask[:, None]).any()
    for name in ERRORS:
        assert getattr(found, name) >= 0  # so it is no NaN
        if found.imputed:
            assert getattr(found, name) == getattr(naive, name)


@settings(deadline=None, max_examples=100)
@given(anything((HORIZON, 9)), npst.arrays(bool, HORIZON))
def test_repaired_quantiles_are_the_sorted_ones(quantiles, mask):
    history = np.arange(CONTEXT, dtype=np.float32)
    task = a_case()._replace(history=history, future_mask=mask).task
    found = jax.device_get(jitted_repair(task, quantiles))
    if found.imputed:
        assert not np.isfinite(quantiles[mask]).all()
        assert (found.quantiles == CONTEXT - 1).all() and found.crossings == 0
    else:
        real = quantiles[mask]
        np.testing.assert_array_equal(found.quantiles[mask], np.sort(real, axis=1))
        assert found.crossings == (real[:, 1:] < real[:, :-1]).sum()
        assert (found.quantiles[~mask] == CONTEXT - 1).all()


def test_a_model_against_itself_has_ratio_one():
    errors = np.array([0, 1e-300, 0.3, 7, 1e300, np.inf])
    assert (error_ratio(errors, errors) == 1).all()


@pytest.mark.parametrize(
    "error, reference, ratio",
    [
        (1, 2, 0.5),
        (0, 0, 1),
        (np.inf, np.inf, 1),
        (3, 0, 100),
        (np.inf, 3, 100),
        (np.inf, 0, 100),
        (0, 3, 0.01),
        (3, np.inf, 0.01),
        (1, 1000, 0.01),
        (1000, 1, 100),
        (5e-324, 1e300, 0.01),
        (1e300, 5e-324, 100),
    ],
)
def test_ratios(error, reference, ratio):
    assert error_ratio(np.array([error]), np.array([reference])) == ratio


def test_ratios_are_float64():
    error, reference = np.float32([0.1, 0.2]), np.float32([0.3, 0.3])
    found = error_ratio(error, reference)
    np.testing.assert_array_equal(found, error.astype(np.float64) / reference.astype(np.float64))
    assert error_ratio(np.ones((3, 2)), np.ones((3, 1))).shape == (3, 2)


@pytest.mark.parametrize("value", [np.nan, -1.0, -np.inf])
def test_errors_that_cannot_be_are_refused(value):
    good, bad = np.ones(3), np.array([1, value, 2])
    with pytest.raises(ValueError, match="^error holds 1 values that are NaN or negative"):
        error_ratio(bad, good)
    with pytest.raises(ValueError, match="^reference holds 1 values"):
        error_ratio(good, bad)
