"""Naive, linear and ridge: equal to scikit-learn, on the suite's tasks and on hard designs."""

import jax
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eval.forecasters import make_forecaster
from tests.evaluation_helpers import batches_of
from tests.oracle.reference import reference_task

sklearn_linear = pytest.importorskip("sklearn.linear_model")
preprocessing = pytest.importorskip("sklearn.preprocessing")

TOLERANCE = 1e-4  # of the largest absolute value of the history
ROUNDING = 1e-6  # singular values of standardised covariates below this are float32 rounding
EXACT = 1e-12  # and below this they are zero in float64
# In own units scikit-learn's cut of singular values at 1e-6 loses a covariate in a small unit; ours
# does not depend on units, so there it is compared with all that float64 can tell.
OWN_UNITS = {"tol": 1e-13}
KINDS = ("linear", "ridge", "linear in own units")


def expected(past, covariates, kind: str, **settings) -> np.ndarray:
    """scikit-learn's forecast [H] in float64, from [T] and [T + H, K]."""
    before, after = covariates[: len(past)], covariates[len(past) :]
    if kind == "linear in own units":
        return sklearn_linear.LinearRegression(**settings).fit(before, past).predict(after)
    scaler = preprocessing.StandardScaler().fit(before)
    model = sklearn_linear.Ridge(10.0) if kind == "ridge" else sklearn_linear.LinearRegression()
    return model.fit(scaler.transform(before), past).predict(scaler.transform(after))


def rounding_is_a_direction(covariates: np.ndarray) -> bool:
    """Whether covariates that are collinear before rounding to float32 differ by rounding alone."""
    standard = preprocessing.StandardScaler().fit_transform(covariates)
    values = np.linalg.svd(standard, compute_uv=False)
    return bool(np.any((values > EXACT * values[0]) & (values < ROUNDING * values[0])))


def forecast(kind, history, covariates):
    """Our forecast [B, H], from [B, T] and [B, T + H, K] NumPy arrays."""
    horizon = covariates.shape[1] - history.shape[1]
    chosen = {"standardise": False} if kind == "linear in own units" else {}
    answer = make_forecaster(kind.partition(" ")[0], **chosen)(
        jax.numpy.asarray(history, np.float32),
        jax.numpy.asarray(covariates, np.float32),
        horizon,
        (0.5,),
    )
    assert answer.shape == (len(history), horizon, 1) and answer.dtype == np.float32
    return np.asarray(answer)[:, :, 0]


def sample(suite) -> list[int]:
    """Row numbers: short contexts of every K, most with few events; some of the longest context."""
    generator = np.random.default_rng(5)
    context, k, events = (suite.column(name) for name in ("context", "k", "n_events"))
    short, hard = context == 1024, (events <= 2) & (k >= 3)
    pools = (short & hard, 60), (short & ~hard, 30), ((context == 8192) & (k == 5), 10)
    return sorted(
        row
        for pool, count in pools
        for row in generator.choice(np.flatnonzero(pool), count, replace=False).tolist()
    )


@pytest.mark.slow
def test_equal_to_scikit_learn_on_the_suite(suite):
    """1e-4 of the history's scale; what was collinear before rounding is compared unrounded."""
    few = suite.take(sample(suite))
    rows = {row["task_id"]: row for row in few.table.to_pylist()}
    base = few.systems
    worst, rounded, collinear = dict.fromkeys(KINDS, 0.0), 0, 0
    for ids in batches_of(few):
        task = few.batch(ids, 16).task
        k = rows[ids[0]]["k"]
        parts = task.history_covariates, task.future_covariates
        known = np.concatenate(parts, axis=2)[:, :k].swapaxes(1, 2)
        ours = {kind: forecast(kind, task.history, known) for kind in worst}
        history = np.asarray(task.history, np.float64)
        for i, task_id in enumerate(ids.tolist()):
            covariates = known[i].astype(np.float64)
            before = covariates[: history.shape[1]]
            collinear += np.linalg.matrix_rank(before - before.mean(axis=0)) < k
            for kind in worst:
                if kind != "ridge" and rounding_is_a_direction(before):
                    rounded += 1
                    row = rows[task_id]
                    series = base.series(base.row(row["system"], row["target"]))
                    exact = reference_task(row, series.astype(np.float64))
                    exact = [exact["history_covariates"], exact["future_covariates"]]
                    covariates = np.concatenate(exact, axis=1).T
                wrong = np.abs(ours[kind][i] - expected(history[i], covariates, kind)).max()
                worst[kind] = max(worst[kind], wrong / np.abs(history[i]).max())
    assert max(worst.values()) < TOLERANCE, worst
    assert collinear > 20, "the sample should hold collinear tasks"
    assert rounded > 3, "and some collinear but for rounding"


def designs(generator, count, steps, k):
    """Piecewise constant covariates with few distinct rows, in units far apart, and a target."""
    units = 10.0 ** generator.integers(-3, 4, k)
    settings_ = generator.uniform(0.2, 3.0, (count, 4, k)).astype(np.float32) * units
    distinct = generator.integers(1, 4, count)  # fewer than K as a rule
    which = generator.integers(0, distinct[:, None], (count, steps))
    which[:, : distinct.max()] = np.minimum(np.arange(distinct.max()), distinct[:, None] - 1)
    covariates = np.take_along_axis(settings_, which[:, :, None], axis=1).astype(np.float32)
    target = (covariates / units).sum(axis=2) + generator.normal(size=(count, steps))
    return target.astype(np.float32) * 100.0, covariates


@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), k=st.integers(1, 5))
def test_equal_to_scikit_learn_with_fewer_settings_than_covariates(seed, k):
    """Least norm, of either kind, and a future far outside what was seen."""
    generator = np.random.default_rng(seed)
    history, past = designs(generator, 4, 96, k)
    ahead = past[:, :32] * generator.uniform(1.0, 12.0, (4, 32, k)).astype(np.float32)
    covariates = np.concatenate([past, ahead], axis=1)
    for kind in KINDS:
        for row, ours in enumerate(forecast(kind, history, covariates)):
            rows = covariates[row].astype(np.float64)
            theirs = expected(history[row].astype(np.float64), rows, kind, **OWN_UNITS)
            scale = max(np.abs(history[row]).max(), np.abs(theirs).max())
            np.testing.assert_allclose(ours, theirs, rtol=0, atol=TOLERANCE * scale)


HARD = {
    "constant covariate": lambda z, y: (z * [1, 0, 1] + [0, 3.7, 0], y),
    "all constant": lambda z, y: (0 * z + [0.1, 3.7, 1e6], y),
    "constant target": lambda z, y: (z, 0 * y + 0.3),
    "zero target": lambda z, y: (z, 0 * y),
    "duplicate": lambda z, y: (z[:, [0, 0, 2]], y),
    "twice another": lambda z, y: (np.stack([z[:, 0], 2 * z[:, 0], 4 * z[:, 0]], axis=1), y),
    "units far apart": lambda z, y: (z * [2.0**20, 1, 2.0**-8], y),
    "large offsets": lambda z, y: (z + np.array([0, 1000, 100]), y + 1e5),
    "one step differs": lambda z, y: (np.where(np.arange(len(z))[:, None] == 9, z, 1.0), y),
    "exact fit": lambda z, y: (z, z @ [1.0, -2.0, 0.5]),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("hard", HARD)
def test_hard_designs(kind, hard):
    generator = np.random.default_rng(1)
    covariates, target = HARD[hard](generator.normal(size=(260, 3)), generator.normal(size=260))
    covariates[200:] *= 1 if hard == "large offsets" else 10
    covariates, target = covariates.astype(np.float32), target[:200].astype(np.float32)
    ours = forecast(kind, target[None], covariates[None])[0]
    theirs = expected(target.astype(np.float64), covariates.astype(np.float64), kind, **OWN_UNITS)
    assert np.all(np.isfinite(ours))
    scale = max(np.abs(target).max(), np.abs(theirs).max())
    np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-5 * scale)


def test_covariates_that_never_moved_say_nothing():
    """A constant covariate that jumps in the future changes no forecast: the data tell no dose."""
    generator = np.random.default_rng(2)
    covariates = generator.normal(size=(1, 120, 2)).astype(np.float32)
    covariates[:, :100, 1] = 0.1
    moved = covariates.copy()
    moved[:, 100:, 1] = 50.0
    target = generator.normal(size=(1, 100)).astype(np.float32)
    for kind in ("linear", "ridge"):
        np.testing.assert_array_equal(
            forecast(kind, target, covariates), forecast(kind, target, moved)
        )


def test_padding_and_place_in_the_batch_change_nothing():
    generator = np.random.default_rng(4)
    history, past = designs(generator, 6, 96, 3)
    covariates = np.concatenate([past, 3 * past[:, :16]], axis=1)
    whole = forecast("linear", history, covariates)
    back = forecast("linear", history[::-1], covariates[::-1])[::-1]
    np.testing.assert_allclose(back, whole, rtol=1e-6)
    company = np.repeat(history[2:3], 6, axis=0), np.repeat(covariates[2:3], 6, axis=0)
    np.testing.assert_allclose(forecast("linear", *company)[:1], whole[2:3], rtol=1e-6)
    wider = np.pad(covariates, ((0, 0), (0, 0), (0, 1)))
    np.testing.assert_allclose(forecast("linear", history, wider), whole, rtol=1e-6)


def test_batches_of_any_size():
    """A CPU works on 64 rows at a time; the last part of a batch may overlap the one before."""
    generator = np.random.default_rng(6)
    history = generator.normal(size=(130, 40)).astype(np.float32)
    covariates = generator.normal(size=(130, 44, 2)).astype(np.float32)
    found = forecast("linear", history, covariates)
    for row in (0, 63, 64, 127, 128, 129):
        theirs = expected(history[row].astype(float), covariates[row].astype(float), "linear")
        np.testing.assert_allclose(found[row], theirs, atol=1e-5)


def test_64_bits_end_with_the_call():
    forecast("linear", np.ones((2, 40)), np.ones((2, 50, 1)))
    assert jax.numpy.arange(3.0).dtype == np.float32
    assert not jax.config.jax_enable_x64


@pytest.mark.parametrize("kind", ["linear", "ridge"])
def test_more_covariates_than_the_suite_has_are_equal_to_scikit_learn(kind):
    """Tolerance: 1e-3 of values of size 1."""
    generator = np.random.default_rng(7)
    history = generator.normal(size=(2, 120)).astype(np.float32)
    covariates = generator.normal(size=(2, 130, 8)).astype(np.float32)
    for row, found in enumerate(forecast(kind, history, covariates)):
        theirs = expected(history[row].astype(float), covariates[row].astype(float), kind)
        np.testing.assert_allclose(found, theirs, atol=1e-3)


def test_naive_is_the_last_value():
    history = np.arange(12.0).reshape(2, 6)
    found = forecast("naive", history, np.ones((2, 10, 3)))
    np.testing.assert_array_equal(found, [[5.0] * 4, [11.0] * 4])


def test_units_do_not_matter_to_standardised_regressions():
    """Where two covariates move together, own units share the effect by unit, standard ones not."""
    generator = np.random.default_rng(3)
    moved = np.repeat(generator.normal(size=(1, 60, 1)), 2, axis=2)
    moved[:, 50:, 1] *= 2  # the future tells them apart
    target = 3 * moved[:, :50, 0]
    for kind, same in (("linear", True), ("ridge", True), ("linear in own units", False)):
        one, other = forecast(kind, target, moved), forecast(kind, target, moved * [1.0, 1000.0])
        assert np.allclose(one, other, rtol=1e-4) == same, kind


@pytest.mark.parametrize(
    "name, flag",
    [
        ("linear", "standardise"),
        ("linear-paired-z", "standardise"),
        ("t0", "recommended"),
        ("timesfm-3", "symmetric_averaging"),
        ("timestral", "clip_nonnegative"),
    ],
)
def test_flags_are_true_or_false(name, flag):
    with pytest.raises(ValueError, match=f"{flag}: 'no'; expected true or false"):
        make_forecaster(name, **{flag: "no"})


@pytest.mark.parametrize("name", ["ridge", "ridge-paired-z"])
@pytest.mark.parametrize("alpha", [0, -1.0, float("nan"), "10"])
def test_alpha_must_be_positive(name, alpha):
    with pytest.raises(ValueError, match="alpha: .*; expected a number above 0"):
        make_forecaster(name, alpha=alpha)
