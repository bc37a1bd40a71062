"""`evaluate`: alignment, batching, refusals, and what it does with missing forecasts."""

import json

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from eval.forecasters import linear as linear_module
from eval.forecasters import make_forecaster
from tests.evaluation_helpers import BATCH, batches_of, named
from whatif_jax import LEVELS, ForecasterError, check_rows, evaluate, evaluate_batch, per_row
from whatif_jax.evaluation.evaluate import (
    BATCH_AXES,
    SCORES_SCHEMA,
    SECONDS_SCHEMA,
    table_metadata,
)
from whatif_jax.evaluation.forecaster import forecast_batch
from whatif_jax.evaluation.scoring import error_ratio

ERRORS = ("wql", "wape", "mase", "rmse")


def scores_of(forecaster, few, **settings) -> dict[str, list]:
    return evaluate(forecaster, few, batch_size=BATCH, **settings).scores.to_pydict()


def last(history, covariates, horizon, levels):
    return np.repeat(history[:, -1:, None], horizon, axis=1)


@pytest.mark.parametrize("columns", [1, len(LEVELS)])
def test_the_true_future_scores_zero(few, arrays, columns):
    def forecast(history, covariates, horizon, levels, *, info):
        true = np.stack([arrays[task_id]["future"] for task_id in info.task_ids.tolist()])
        return np.repeat(true[:, :, None], columns, axis=2)

    found = scores_of(named(forecast, wants_info=True), few)
    for name in ERRORS:
        assert found[name] == [0.0] * len(few)
    assert found["effect_size_error"] == pytest.approx([0.0] * len(few), abs=1e-6)
    assert {value for value in found["direction_accuracy"] if value is not None} == {1.0}
    assert {len(value) for value in found["coverage"]} == {columns}
    assert not any(found["imputed"]) and not any(found["crossings"])


@pytest.mark.parametrize("on_device", [False, True])
@pytest.mark.parametrize("in_rows", [False, True])
def test_a_pulse_at_step_3_comes_back_at_step_3(few, on_device, in_rows):
    """Also: it reaches the row and the covariate that has it, and no history step."""
    ids = next(ids for ids in batches_of(few) if len(ids) > 2)
    batch = few.batch(ids, BATCH)
    pulse = jnp.zeros_like(batch.task.future_covariates).at[1, 0, 3].set(7.0)
    past = jnp.zeros_like(batch.task.history_covariates).at[1, 0, -1].set(-1.0)
    batch = eqx.tree_at(
        lambda batch: (batch.task.future_covariates, batch.task.history_covariates),
        batch,
        (pulse, past),
    )
    k = int(batch.task.covariate_mask[0].sum())

    def forecast(history, covariates, horizon, levels):
        assert isinstance(covariates, jax.Array) == on_device
        assert covariates.shape == (len(history), history.shape[1] + horizon, k)
        assert float(covariates[1, history.shape[1] - 1, 0]) == -1.0
        ahead = covariates[:, history.shape[1] :, :1]
        return list(np.asarray(ahead)) if in_rows else ahead

    answer, seconds = forecast_batch(named(forecast, on_device=on_device), batch, LEVELS)
    expected = np.zeros((len(ids), batch.task.future.shape[1], 1), np.float32)
    expected[1, 3] = 7.0
    np.testing.assert_array_equal(answer, expected)
    assert seconds.shape == (len(ids),) and np.all(seconds > 0)


def test_covariates_and_scores_keep_to_their_task_and_step(few, arrays):
    """A forecast equal to the primary covariate is scored against the same steps' target."""

    def forecast(history, covariates, horizon, levels):
        return covariates[:, -horizon:, :1]

    for ids in batches_of(few):
        found = evaluate_batch(forecast, few, ids, batch_size=BATCH)
        assert found.scores.column("task_id").to_pylist() == sorted(ids.tolist())
        for row, task_id in enumerate(sorted(ids.tolist())):
            primary = arrays[task_id]["future_covariates"][0]
            np.testing.assert_array_equal(found.quantiles[row][:, 0], primary)
            true = arrays[task_id]["future"].astype(np.float64)
            wape = np.abs(true - primary).sum() / np.abs(true).sum()
            assert found.scores.column("wape")[row].as_py() == pytest.approx(wape, rel=1e-5)


def test_histories_come_whole_and_in_order(few, arrays):
    seen = {}

    def forecast(history, covariates, horizon, levels, *, info):
        for row, task_id in enumerate(info.task_ids.tolist()):
            seen[task_id] = history[row].copy(), covariates[row].copy()
            assert info.step_seconds[row] > 0
        history[:] = 0.0  # its own copies: scores do not change
        covariates[:] = 0.0
        return np.zeros((len(history), horizon, 1))

    changed = named(forecast, wants_info=True)
    found = evaluate(changed, few, batch_size=BATCH, check=False).scores.to_pydict()
    plain = scores_of(lambda h, c, horizon, levels: np.zeros((len(h), horizon, 1)), few)
    assert found == plain
    assert sorted(seen) == sorted(arrays)
    for task_id, (history, covariates) in seen.items():
        task = arrays[task_id]
        np.testing.assert_array_equal(history, task["history"])
        both = np.concatenate([task["history_covariates"], task["future_covariates"]], axis=1)
        np.testing.assert_array_equal(covariates, both.T)


def leak_mean(history, covariates, horizon, levels):
    return last(history - history.mean(axis=0), covariates, horizon, levels)


def leak_neighbour(history, covariates, horizon, levels):
    return last(np.roll(history, 1, axis=0), covariates, horizon, levels)


def leak_one_step(history, covariates, horizon, levels):
    answer = last(history, covariates, horizon, levels)
    answer[:, 5, 0] += 0.001 * np.abs(history).max(axis=1) * (len(history) > 2)
    return answer


def leak_failure(history, covariates, horizon, levels):
    answer = last(history, covariates, horizon, levels)
    return answer if len(history) > 1 else answer * np.nan


def draw_unseeded(history, covariates, horizon, levels):
    draws = np.random.default_rng().normal(size=(len(history), horizon, 1))
    return last(history, covariates, horizon, levels) * (1 + 0.1 * draws)


@pytest.mark.parametrize(
    "forecaster", [leak_mean, leak_neighbour, leak_one_step, leak_failure, draw_unseeded]
)
def test_an_answer_that_depends_on_other_rows_is_refused(few, forecaster):
    with pytest.raises(ForecasterError, match=rf"{forecaster.__name__}.*task \d+ changes by"):
        evaluate(forecaster, few, batch_size=BATCH)


def test_a_leak_among_padded_rows_is_found(few):
    @jax.jit
    def forecast(history, covariates, horizon, levels):
        mean = history.mean(axis=0)[-1]
        return jnp.broadcast_to(
            history[:, -1, None, None] - mean, (len(history), covariates.shape[1], 1)
        )

    def padded(history, covariates, horizon, levels):
        return forecast(history, covariates[:, -horizon:], horizon, levels)

    with pytest.raises(ForecasterError, match="padded.*depends on the row alone"):
        evaluate(named(padded, on_device=True, fixed_batch=True), few, batch_size=BATCH)


def test_a_forecaster_may_state_its_own_row_tolerance(few):
    forecaster = named(lambda *args: leak_one_step(*args), row_tolerance=0.01, name="rounds")
    check_rows(forecaster, few, batches_of(few)[0][:4], batch_size=BATCH)


WRONG = {
    "no levels": (lambda b, h: np.zeros((b, h)), "answer of shape"),
    "levels first": (lambda b, h: np.zeros((b, 9, h)), r"answer of shape .*rows, horizon"),
    "a row short": (lambda b, h: np.zeros((b - 1, h, 9)), "answer of shape"),
    "a step more": (lambda b, h: np.zeros((b, h + 1, 1)), "answer of shape"),
    "5 levels": (lambda b, h: np.zeros((b, h, 5)), r"1 or 9"),
    "text": (lambda b, h: np.full((b, h, 1), "x"), "expected an array of numbers"),
    "None": (lambda b, h: None, r"answer of shape \(\)"),
    "a list too short": (lambda b, h: [None] * (b - 1), "expected .* one a row"),
    "a row of its own shape": (lambda b, h: [np.zeros((h, 9))] * (b - 1) + [np.zeros(h)], "task"),
    "points and quantiles": (
        lambda b, h: [np.zeros((h, 9))] * (b - 1) + [np.zeros((h, 1))],
        "the same for every row",
    ),
    "text in a list": (lambda b, h: [[["x"]] * h] * b, "expected an array of numbers"),
}  # fmt: skip


@pytest.mark.parametrize("wrong", WRONG)
def test_wrong_answers_are_refused_by_name(few, wrong):
    make, message = WRONG[wrong]
    forecaster = named(lambda h, c, horizon, levels: make(len(h), horizon), name="broken")
    ids = next(ids for ids in batches_of(few) if len(ids) > 1)
    with pytest.raises(ForecasterError, match=message) as caught:
        evaluate_batch(forecaster, few, ids, batch_size=BATCH)
    assert "forecaster broken" in str(caught.value)


def test_missing_forecasts_are_naive_and_counted(few):
    """None, NaN and infinity each replace the whole forecast of their task, of no other."""
    bad = {
        "none": lambda good: None,
        "nan": lambda good: np.where(np.arange(len(good))[:, None] == 7, np.nan, good),
        "inf": lambda good: np.where(np.arange(len(good))[:, None] == 0, np.inf, good),
        "float64": lambda good: np.where(np.arange(len(good))[:, None] == 0, 1e300, good),
    }
    naive = scores_of(make_forecaster("naive"), few)
    zero = scores_of(lambda h, c, horizon, levels: np.zeros((len(h), horizon, 1)), few)
    for spoil in bad.values():

        def forecast(history, covariates, horizon, levels, *, info, spoil=spoil):
            good = np.zeros((horizon, 1))
            return [spoil(good) if i % 3 == 0 else good for i in info.task_ids.tolist()]

        found = scores_of(named(forecast, wants_info=True, point=True), few)
        for row, task_id in enumerate(found["task_id"]):
            assert found["imputed"][row] == (task_id % 3 == 0)
            expected = naive if task_id % 3 == 0 else zero
            for name in ERRORS:
                assert found[name][row] == expected[name][row], (name, task_id)
        assert 0 < sum(found["imputed"]) < len(few)


@pytest.mark.parametrize("point", [False, True])
def test_no_forecast_at_all(few, point):
    found = evaluate(
        named(lambda h, c, horizon, levels: [None] * len(h), point=point), few, batch_size=BATCH
    )
    naive = scores_of(make_forecaster("naive"), few)
    assert all(found.scores.column("imputed").to_pylist())
    np.testing.assert_allclose(found.scores.column("wql"), naive["wql"], rtol=1e-6)
    assert found.scores.schema.metadata[b"point"] == json.dumps(point).encode()


def test_points_for_some_tasks_and_quantiles_for_others_are_refused(few):
    def forecast(history, covariates, horizon, levels):
        return np.zeros((len(history), horizon, 1 if covariates.shape[2] == 1 else len(levels)))

    with pytest.raises(ForecasterError, match=r"forecast: forecasts with \[1, 9\] columns"):
        evaluate(forecast, few, batch_size=BATCH)


def test_naive_against_itself_has_no_skill(few):
    first, again = (scores_of(make_forecaster("naive"), few) for _ in range(2))
    assert first == again
    ratio = error_ratio(np.array(first["wql"]), np.array(again["wql"]))
    assert 1 - np.exp(np.log(ratio).mean()) == 0.0
    assert first["wql"] == first["wape"]


def test_crossing_quantiles_are_sorted_and_counted(few):
    def forecast(history, covariates, horizon, levels):
        ordered = history[:, -1, None, None] + np.arange(len(levels)) + np.zeros((horizon, 1))
        ordered[:, 2, [0, 1]] = ordered[:, 2, [1, 0]]
        return ordered

    ids = batches_of(few)[0]
    found = evaluate_batch(forecast, few, ids, batch_size=BATCH)
    assert set(found.scores.column("crossings").to_pylist()) == {1}
    assert all(np.all(np.diff(quantiles, axis=1) >= 0) for quantiles in found.quantiles)


def test_per_row_is_the_same_as_a_batch(few):
    def one(history, covariates, horizon, levels):
        assert history.ndim == 1 and covariates.shape == (
            len(history) + horizon,
            covariates.shape[1],
        )
        return np.full((horizon, 1), history[-1])

    forecaster = per_row(one, name="rows", parallel=True)
    assert forecaster.parallel
    assert scores_of(forecaster, few) == scores_of(last, few)
    metadata = evaluate(forecaster, few, batch_size=BATCH).scores.schema.metadata
    assert metadata[b"forecaster"] == b"rows"


def test_padding_reaches_only_those_who_ask_for_it(few):
    rows = {True: [], False: []}
    for fixed in rows:

        def forecast(history, covariates, horizon, levels, *, info, fixed=fixed):
            rows[fixed].append(len(history))
            assert len(info.task_ids) == len(info.step_seconds) == len(history)
            return last(history, covariates, horizon, levels)

        evaluate(
            named(forecast, fixed_batch=fixed, wants_info=True), few, batch_size=BATCH, check=False
        )
    assert sum(rows[False]) == len(few)
    assert set(rows[True]) == {BATCH}


def test_batches_of_the_whole_suite(suite):
    batches = suite.batch_ids(256, by=BATCH_AXES)
    ids = np.concatenate(batches)
    assert np.array_equal(np.sort(ids), np.arange(len(suite)))
    shapes = set()
    columns = [suite.column(name) for name in ("context", "horizon", "k")]
    for batch in batches:
        assert len(batch) <= 256
        kinds = {tuple(column[row].item() for column in columns) for row in batch.tolist()}
        assert len(kinds) == 1
        shapes |= kinds
    assert len(shapes) <= 40  # what a forecaster that does not pad K compiles at most
    assert len(batches) < 200
    shuffled = suite.take(np.random.default_rng(0).permutation(len(suite)))
    for one, other in zip(batches, shuffled.batch_ids(256, by=BATCH_AXES), strict=True):
        np.testing.assert_array_equal(one, other)


def test_linear_compiles_once_for_every_k(few):
    assert sorted(few.count("k")) == [1, 2, 3, 4, 5]
    before = linear_module._forecast._cache_size()
    evaluate(make_forecaster("ridge", alpha=3.0), few, batch_size=BATCH)
    assert linear_module._forecast._cache_size() == before + 1


def test_order_and_size_of_batches_do_not_change_scores(few):
    shuffled = few.take(np.random.default_rng(1).permutation(len(few)))
    naive = scores_of(make_forecaster("naive"), few)
    assert scores_of(make_forecaster("naive"), shuffled) == naive
    assert evaluate(make_forecaster("naive"), few, batch_size=8).scores.to_pydict() == naive
    linear = scores_of(make_forecaster("linear"), few)
    smaller = evaluate(make_forecaster("linear"), shuffled, batch_size=8).scores.to_pydict()
    assert smaller["task_id"] == linear["task_id"]
    for name in ERRORS:
        np.testing.assert_allclose(smaller[name], linear[name], rtol=1e-5)


def test_tables_and_what_they_say_of_themselves(suite, few):
    found = evaluate(make_forecaster("ridge"), few, batch_size=BATCH)
    assert found.scores.schema.equals(SCORES_SCHEMA)
    assert found.seconds.schema.equals(SECONDS_SCHEMA)
    assert found.scores.column("task_id").to_pylist() == sorted(few.column("task_id").tolist())
    assert found.seconds.column("task_id") == found.scores.column("task_id")
    assert min(found.seconds.column("seconds").to_pylist()) > 0
    metadata = {k.decode(): v.decode() for k, v in found.scores.schema.metadata.items()}
    assert metadata == {
        "suite": "whatif-v1",
        "fingerprint": suite.fingerprint,
        "metric_version": "1",
        "forecaster": "ridge",
        "version": "1",
        "settings": '{"alpha":10.0}',
        "levels": json.dumps(list(LEVELS)),
        "point": "true",
        "tasks": '{"count": 40}',
    }
    assert found.seconds.schema.metadata == found.scores.schema.metadata
    whole = table_metadata(make_forecaster("naive"), suite, point=True)
    assert whole["tasks"] == "all"
