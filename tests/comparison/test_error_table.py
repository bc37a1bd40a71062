"""Scores of several models become one table, or are refused with both names."""

import numpy as np
import pyarrow as pa
import pytest

from whatif_jax import load_suite, root_key
from whatif_jax.comparison import (
    ComparisonError,
    bootstrap,
    error_table,
    fewest_most,
    leaderboard,
    pairwise_win_rates,
    skill_by,
    skill_scores,
    win_rates,
)
from whatif_jax.evaluation import Evaluation


@pytest.fixture(scope="module")
def suite():
    return load_suite("whatif-v1")


def scores(suite, ids=None, *, seed=0, **metadata) -> pa.Table:
    """Scores as `evaluate` returns them, on some tasks."""
    ids = np.arange(len(suite)) if ids is None else np.asarray(ids)
    rng = np.random.default_rng(seed)
    facts = {
        "suite": "whatif-v1", "fingerprint": suite.fingerprint, "metric_version": "1",
        "levels": "[0.1, 0.5, 0.9]", "point": "false",
    } | metadata  # fmt: skip
    columns = {
        name: rng.lognormal(size=len(suite))[ids] for name in ("wql", "wape", "mase", "rmse")
    }
    table = pa.table({"task_id": ids.astype(np.int64), **columns, "imputed": ids % 7 == seed})
    return table.replace_schema_metadata({name: value for name, value in facts.items() if value})


def test_columns_and_axes(suite):
    ids = np.array([5, 900, 3, 37_664])
    tables = {"naive": scores(suite, ids), "linear": scores(suite, ids[::-1], seed=1)}
    table = error_table(tables, suite, "wape")
    assert (table.models, table.metric, table.metric_version) == (("naive", "linear"), "wape", "1")
    assert table.fingerprint == suite.fingerprint
    assert table.task_ids.tolist() == [3, 5, 900, 37_664]
    for model, source in tables.items():
        by_id = dict(zip(source["task_id"].to_pylist(), source["wape"].to_pylist(), strict=True))
        assert table.column(model).tolist() == [by_id[task] for task in table.task_ids]
    assert table.imputed[:, 0].tolist() == [task % 7 == 0 for task in table.task_ids]
    assert table.imputed[:, 1].tolist() == [task % 7 == 1 for task in table.task_ids]
    for name, values in table.axes.items():
        assert values.tolist() == suite.column(name)[table.task_ids].tolist()
    assert {row["model"]: row["imputed"] for row in leaderboard(table)} == {
        "naive": sum(task % 7 == 0 for task in (3, 5, 900, 37_664)),
        "linear": sum(task % 7 == 1 for task in (3, 5, 900, 37_664)),
    }


def test_a_filtered_suite_keeps_its_tasks(suite):
    tables = {"naive": scores(suite), "linear": scores(suite, seed=1)}
    novel = suite.where(future="novel", system="gridlabd")
    shuffled = novel.take(np.random.default_rng(0).permutation(len(novel)))
    table = error_table(tables, shuffled)
    assert table.task_ids.tolist() == novel.column("task_id").tolist()
    assert set(table.axis("future")) == {"novel"} and set(table.axis("system")) == {"gridlabd"}
    # scores made on a filtered suite carry its own fingerprint
    own = {"naive": scores(suite, novel.column("task_id"), fingerprint=novel.fingerprint)}
    assert len(error_table(own, novel)) == len(novel)


def test_tasks_that_differ(suite):
    tables = {
        "naive": scores(suite, range(10)),
        "linear": scores(suite, range(4, 12)),
        "ridge": scores(suite, range(4, 12)),
    }
    with pytest.raises(
        ComparisonError,
        match=r"tasks: 'naive' has 10, 'linear' has 8, and task 0 is scored for one",
    ):
        error_table(tables, suite)
    common = error_table(tables, suite, tasks="common")
    assert common.task_ids.tolist() == list(range(4, 10))
    assert common.column("naive").tolist() == tables["naive"]["wql"].to_pylist()[4:]
    assert common.column("ridge").tolist() == tables["ridge"]["wql"].to_pylist()[:6]
    apart = {"naive": scores(suite, range(4)), "linear": scores(suite, range(4, 8))}
    with pytest.raises(ComparisonError, match="'naive' and 'linear' have none in common"):
        error_table(apart, suite, tasks="common")
    with pytest.raises(ComparisonError, match="'naive' has none of the suite's tasks"):
        error_table({"naive": scores(suite, [0])}, suite.where(system="sumo"))


@pytest.mark.parametrize("field", ["fingerprint", "metric_version", "levels"])
def test_metadata_that_differs_names_both_models(suite, field):
    tables = {"naive": scores(suite, [0]), "llm": scores(suite, [0], **{field: "2"})}
    with pytest.raises(ComparisonError, match=rf"{field}: 'naive' has .*, 'llm' has 2; expected"):
        error_table(tables, suite)


def test_a_point_forecast_may_name_other_levels(suite):
    point = scores(suite, [0], point="true", levels="[0.5]")
    error_table({"point": point, "a": scores(suite, [0])}, suite)
    # WAPE has no levels
    error_table({"b": scores(suite, [0], levels="[0.2]"), "a": scores(suite, [0])}, suite, "wape")


def test_refused_tables(suite):
    good = scores(suite, [0, 1])
    with pytest.raises(ComparisonError, match="scores of 'a': no metric_version in the schema"):
        error_table({"a": scores(suite, [0], metric_version="")}, suite)
    with pytest.raises(
        ComparisonError, match="'a' was scored on elsewhere; expected that of suite"
    ):
        error_table({"a": scores(suite, [0], fingerprint="elsewhere")}, suite)
    with pytest.raises(ValueError, match="scores of 'a': task 1 twice"):
        error_table({"a": scores(suite, [1, 0, 1])}, suite)
    odd = good.set_column(0, "task_id", pa.array([0, 99_999]))
    with pytest.raises(ComparisonError, match="scores of 'a': task 99999 is not in suite"):
        error_table({"a": odd}, suite)
    with pytest.raises(ValueError, match="scores of 'a': column wql missing"):
        error_table({"a": good.drop_columns("wql")}, suite)
    for missing in (None, float("nan")):
        bad = good.set_column(1, "wql", pa.array([1.0, missing], pa.float64()))
        with pytest.raises(ValueError, match="wql of 'b' on task 1: nan; expected"):
            error_table({"a": good, "b": bad}, suite)
    with pytest.raises(ValueError, match="metric: 'mape'; expected one of wql, wape, mase, rmse"):
        error_table({"a": good}, suite, "mape")
    with pytest.raises(ValueError, match="tasks: 'all'; expected 'same' or 'common'"):
        error_table({"a": good}, suite, tasks="all")
    with pytest.raises(ValueError, match="score_tables: none"):
        error_table({}, suite)
    with pytest.raises(ValueError, match="score_tables: Evaluation; expected scores by model"):
        error_table(Evaluation(good, good), suite)
    with pytest.raises(ValueError, match="scores of 'a': list; expected what `evaluate` returns"):
        error_table({"a": good.to_pylist()}, suite)


def test_what_evaluate_returns_is_taken_whole(suite):
    tables = {"naive": scores(suite, [0, 1]), "linear": scores(suite, [0, 1], seed=1)}
    given = {name: Evaluation(table, table) for name, table in tables.items()}
    np.testing.assert_array_equal(
        error_table(given, suite).errors, error_table(tables, suite).errors
    )


@pytest.mark.parametrize(
    "call",
    [
        skill_scores, win_rates, pairwise_win_rates, leaderboard,
        lambda table: leaderboard(table, key=root_key(0)),
        lambda table: skill_by(table, "future"),
        lambda table: fewest_most(table, "linear"),
        lambda table: bootstrap(table, skill_scores, key=root_key(0)),
    ],
)  # fmt: skip
def test_scores_are_no_error_table(suite, call):
    with pytest.raises(ValueError, match=r"^table: dict; expected an ErrorTable, as error_table"):
        call({"naive": scores(suite, [0, 1])})


def test_a_table_is_printed_in_one_line_and_names_the_nearest_model(suite):
    tables = {"naive": scores(suite), "linear": scores(suite, seed=1)}
    table = error_table(tables, suite, "mase")
    assert repr(table) == "ErrorTable(mase on 37,665 tasks: naive, linear)"
    with pytest.raises(ValueError, match=r"model 'nave'; .*\(did you mean 'naive'\?\)"):
        skill_scores(table, reference="nave")


def test_targets_compared_in_the_papers_table_14(suite):
    """The suite has the comparisons that the paper's table counts: 22, 10, 33 and 29 targets."""
    table = error_table({"naive": scores(suite), "linear": scores(suite, seed=1)}, suite)
    targets = {row.group: row.targets for row in fewest_most(table, "linear")}
    expected = {"opendc": 22, "gridlabd": 10, "epanet": 33, "sumo": 29}
    assert targets == {
        (system, future): count
        for system, count in expected.items()
        for future in ("novel", "replay")
    }
    # table 17's numbers of tasks
    by_system = skill_by(table, "system")
    assert dict(zip(by_system.groups, by_system.tasks.tolist(), strict=True)) == {
        ("opendc",): 8800, ("gridlabd",): 4000, ("epanet",): 13_265, ("sumo",): 11_600,
    }  # fmt: skip
