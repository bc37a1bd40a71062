"""The report's tables: against hand computations in float64, on made-up scores."""

import dataclasses
import json

import numpy as np
import pytest

from eval.report.labels import AXES, FUTURES
from eval.report.models import ReportError, models_of
from eval.report.tables import Column, Table, shown, write_csv
from eval.report.tables.forecasts import coverage_table
from eval.report.tables.leaderboard import leaderboard_table
from eval.report.write import population_notes
from tests.eval.report.report_helpers import compare, hand_skill, made_run, one_row
from whatif_jax import root_key
from whatif_jax.comparison import bootstrap, fewest_most, skill_by, skill_scores, win_rates

FEW = 30  # comparisons of fewest and most events that a skill needs


@pytest.mark.parametrize("reference", ["naive", "linear"])
def test_leaderboard_equals_a_hand_computation_on_each_models_own_tasks(runs, tables, reference):
    board = tables["leaderboard"]
    for name, run in runs.items():
        row = one_row(board, model=name, reference=reference)
        ids = run.scores["task_id"].to_pylist()
        assert row["tasks"] == len(ids)
        for metric in ("wql", "wape"):
            expected = hand_skill(run, runs[reference], ids, metric)
            assert row[f"{metric}_skill"] == pytest.approx(expected, rel=1e-9, abs=1e-9)
            for by in ("pair", "target"):
                assert row[f"{metric}_skill_{by}_low"] <= expected + 1e-9
                assert row[f"{metric}_skill_{by}_high"] >= expected - 1e-9
        seconds = run.seconds["seconds"].to_numpy()
        assert (row["seconds"], row["seconds_median"]) == pytest.approx(
            (seconds.mean(), np.median(seconds))
        )
        assert row["imputed"] == np.sum(run.scores["imputed"].to_numpy())
        assert row["crossings"] == np.sum(run.scores["crossings"].to_numpy())
    skills = board.where(reference=reference)["wql_skill"].to_list()
    assert skills == sorted(skills, reverse=True) and len(skills) == len(runs)
    assert one_row(board, model="xgboost", reference="naive")["scored"] == "sample"


def test_win_rates_are_over_the_tasks_all_models_have(runs, tables):
    ids = runs["linear-paired-z-s"].scores["task_id"].to_pylist()  # the smallest sample
    errors = {}
    for name, run in runs.items():
        keep = np.isin(run.scores["task_id"].to_numpy(), ids)
        errors[name] = run.scores["wql"].to_numpy()[keep]
    for name in runs:
        cells = one_row(tables["pairwise"], metric="wql", model=name)
        assert cells[name] is None
        against = []
        for other in errors.keys() - {name}:
            wins = (errors[name] < errors[other]) + 0.5 * (errors[name] == errors[other])
            against.append(100 * wins.mean())
            assert cells[other] == pytest.approx(against[-1])
            assert cells[f"{other}_low"] <= cells[other] <= cells[f"{other}_high"]
        row = one_row(tables["leaderboard"], model=name, reference="naive")
        assert row["wql_win_rate"] == pytest.approx(np.mean(against)) == cells["mean"]
    assert f"{len(ids):,} tasks" in tables["leaderboard"].note


def test_skill_by_axis_and_gap_equal_hand_computations(runs, part, tables):
    axes = {
        name: dict(zip(part.column("task_id").tolist(), part.column(name).tolist(), strict=True))
        for name in ("k", "future", "system", "context_pair")
    }

    def skill(run, reference, metric="wql", **wanted):
        ids = [one for one in run.scores["task_id"].to_pylist()
               if all(axes[name][one] == value for name, value in wanted.items())]  # fmt: skip
        return hand_skill(run, runs[reference], ids, metric)

    for name in ("chronos-2", "xgboost"):
        row = one_row(tables["skill_by_k"], model=name, metric="wape", reference="linear")
        expected = skill(runs[name], "linear", "wape", k=3, future="novel")
        assert row["novel_3"] == pytest.approx(expected, rel=1e-9)
        row = one_row(tables["by_system"], model=name, metric="wql", reference="naive")
        assert row["epanet"] == pytest.approx(skill(runs[name], "naive", system="epanet"))
        gap = one_row(tables["gap"], model=name, metric="wql", reference="naive")
        ends = [skill(runs[name], "naive", system="sumo", future=future) for future in FUTURES]
        assert gap["sumo"] == pytest.approx(ends[0] - ends[1], rel=1e-9)
        assert gap["mean"] == pytest.approx(
            np.mean([gap[system] for system in ("opendc", "gridlabd", "epanet", "sumo")])
        )
    row = one_row(tables["skill_by_context"], model="chronos-2", metric="wql", reference="naive")
    expected = skill(runs["chronos-2"], "naive", context_pair="C4", future="replay")
    assert row["replay_C4"] == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("name", ["replay_novel", "by_system", *(axis.table for axis in AXES)])
def test_models_are_sorted_by_their_skill_over_all_tasks(tables, name):
    for metric in ("wql", "wape"):
        skills = tables["by_system"].where(metric=metric, reference="linear")
        best = skills.sort("all", descending=True)["model"].to_list()
        rows = tables[name].where(metric=metric, reference="linear")
        assert rows["model"].to_list() == best


def test_means_over_models_are_the_last_row_of_each_variant_of_the_gap(tables):
    gaps = tables["gap"].where(metric="wape", reference="linear")
    names = gaps["model"].to_list()
    assert names[-1] == "mean over models" and "linear" not in names
    assert gaps["sumo"][-1] == pytest.approx(gaps["sumo"][:-1].mean())
    means = gaps["mean"].to_list()[:-1]
    assert means == sorted(means, reverse=True)


def test_trends_are_least_squares_on_log2(tables):
    row = one_row(tables["skill_by_events"], model="chronos-2", metric="wql", reference="naive")
    events = [1, 2, 4, 8, 16, 32, 64]
    skill = [row[f"novel_{value}"] for value in events]
    slope = np.polyfit(np.log2(events), skill, 1)[0]
    assert row["novel_slope"] == pytest.approx(slope, rel=1e-9)


def test_intervals_are_the_bootstraps_by_pair_and_by_target(comparison, tables):
    options = {"key": root_key(0), "resamples": 60}
    table = comparison.table("wql", ["naive", "linear", "ridge", "chronos-2"])
    row = one_row(tables["leaderboard"], model="linear", reference="naive")
    for by in ("pair", "target"):
        expected = bootstrap(table, skill_scores, by=by, **options)
        ends = [row[f"wql_skill_{by}_{end}"] / 100 for end in ("low", "high")]
        assert ends == pytest.approx([expected.lower[1], expected.upper[1]])
    common = comparison.common("wql")
    rates = bootstrap(common, win_rates, by="pair", **options)
    lower = 100 * rates.lower[common.models.index("linear")]
    assert row["wql_win_rate_low"] == pytest.approx(lower)
    future = skill_by(table, "future", by="pair", **options)
    row = one_row(tables["replay_novel"], model="linear", metric="wql", reference="naive")
    assert row["novel_low"] == pytest.approx(100 * future.lower[0, 1])
    column = next(one for one in tables["leaderboard"].columns if one.key == "wql_skill")
    assert column.intervals == tuple(
        (f"wql_skill_{by}_low", f"wql_skill_{by}_high") for by in ("pair", "target")
    )
    note = tables["leaderboard"].note
    for text in ("this suite's targets", "other targets of these kinds", "of raw errors",
                 "for one series, without compilation"):  # fmt: skip
        assert text in note


def test_samples_have_the_plain_model_on_their_own_tasks_beside_them(runs, tables):
    ids = runs["linear-paired-z-s"].scores["task_id"].to_pylist()
    row = one_row(tables["leaderboard"], model="linear-paired-z-s", reference="naive")
    expected = hand_skill(runs["linear"], runs["naive"], ids)
    assert row["wql_linear"] == pytest.approx(expected, rel=1e-9)
    whole = one_row(tables["leaderboard"], model="linear", reference="naive")
    assert whole["wql_linear"] is None and whole["wql_skill"] != pytest.approx(expected)


def test_fewest_and_most_events_are_pooled_and_small_cells_left_out(comparison, tables):
    table = comparison.table("wql", ["linear", "naive"])
    rows = tables["fewest_most"].where(metric="wql", reference="naive").filter(model="linear")
    rows = {(row["system"], row["future"]): row for row in rows.to_dicts()}
    pooled = {one.group: one for one in fewest_most(table, "linear", axes="future")}
    for future in FUTURES:
        row, one = rows["all", future], pooled[future,]
        assert (row["cells"], row["worse"], row["targets"]) == (one.cells, one.worse, one.targets)
        assert row["most"] == pytest.approx(100 * one.most)
    every = fewest_most(table, "linear")
    large = {one.group for one in every if one.cells >= FEW}
    assert {key for key in rows if key[0] != "all"} == large
    assert 0 < len(large) < len(every)
    assert f"fewer than {FEW}" in tables["fewest_most"].note


def test_effects_leave_out_what_has_no_value_and_coverage_only_points(runs, part, tables):
    scores = runs["linear"].scores
    novel = part.column("future") == "novel"
    direction = scores["direction_accuracy"].to_numpy()[novel]
    row = one_row(tables["effects"], model="linear", future="novel")
    assert row["direction_tasks"] == np.isfinite(direction).sum() < row["tasks"]
    assert row["direction"] == pytest.approx(np.nanmean(direction))
    size = scores["effect_size_error"].to_numpy()[novel]
    assert row["size"] == pytest.approx(np.median(size))
    ends = [np.quantile(size, level, method="lower") for level in (0.25, 0.75)]
    assert [row["size_low"], row["size_high"]] == pytest.approx(ends)
    assert tables["effects"].frame["future"].to_list()[:2] == list(FUTURES)
    coverage = tables["coverage"].frame
    assert coverage["model"].unique().to_list() == ["chronos-2"]
    assert coverage["level_0.9"][0] == pytest.approx(0.93)
    assert coverage["deviation"][0] == pytest.approx(0.03)
    points = compare([runs["naive"], runs["linear"]], part)
    assert coverage_table(points) is None


def test_a_future_that_no_model_was_run_on_has_no_numbers(part):
    rows = np.flatnonzero(part.column("future") == "replay")
    made = [made_run(part, name, quality=0.3, point=True, rows=rows) for name in ("naive", "ridge")]
    from eval.report.tables import report_tables

    tables = report_tables(compare(made, part))
    row = one_row(tables["replay_novel"], model="ridge", metric="wql", reference="naive")
    assert row["replay_tasks"] == len(rows) and row["novel_tasks"] == 0
    assert row["novel"] is row["gap"] is row["novel_low"] is None
    for axis in AXES:
        row = one_row(tables[axis.table], model="ridge", metric="wql", reference="naive")
        assert all(value is None for key, value in row.items() if key.startswith("novel"))
    assert one_row(tables["gap"], model="ridge", metric="wql", reference="naive")["mean"] is None


def test_runs_of_one_forecaster_are_told_apart(part):
    settings = [{"alpha": 1.0}, {"alpha": 2.0}]
    runs = [made_run(part, "ridge", quality=0.4, settings=one) for one in settings]
    rows = np.arange(50)
    runs.append(made_run(part, "ridge", quality=0.4, settings=settings[0], rows=rows))
    models, notes = models_of(runs, part)
    names = ["ridge (alpha=1.0)", "ridge (alpha=2.0)"]
    assert [model.name for model in models] == names
    assert len(models[0].task_ids) == len(part) and "6,000 tasks" in notes[0]


def test_tasks_chosen_by_conditions_are_labelled(part, runs):
    rows = np.flatnonzero(part.column("k") == 5)
    where = json.dumps({"where": {"k": [5], "system": ["epanet", "sumo"]}})
    few = made_run(part, "xgboost", quality=0.5, point=True, rows=rows, tasks=where)
    drawn = json.dumps({"where": {"k": [5]}, "sample": 100, "seed": 0})
    some = made_run(part, "chronos-2", quality=0.5, rows=rows[:100], tasks=drawn)
    whole = [runs[name] for name in ("naive", "linear", "linear-paired-z-s")]
    comparison = compare([*whole, few, some], part)
    board = leaderboard_table(comparison).where(reference="naive")
    assert dict(board.select("model", "scored").iter_rows()) == {
        "naive": "all tasks", "linear": "all tasks", "linear-paired-z-s": "sample",
        "xgboost": "part: k=5; system=epanet,sumo", "chronos-2": "sample of part: k=5",
    }  # fmt: skip
    notes = population_notes(list(comparison.models.values()), part)
    assert "sample of the 6,000 tasks: linear-paired-z-s (n = 900)" in notes[0]
    assert "meet conditions" in notes[1] and "sample of part: k=5; n = 100" in notes[1]
    # a smaller run over a sample of all tasks stands for the model, not the larger part
    sample = made_run(part, "xgboost", quality=0.5, rows=np.arange(50), tasks='{"sample":50}')
    models, _ = models_of([few, sample], part)
    assert len(rows) > 50 and [model.scored for model in models] == ["sample"]


def test_what_cannot_be_reported_is_refused_by_name(runs, part):
    with pytest.raises(ReportError, match="expected at least one"):
        models_of([], part)
    foreign = runs["linear"].metadata | {"fingerprint": "0" * 64}
    other = dataclasses.replace(runs["linear"], metadata=foreign)
    with pytest.raises(ReportError, match="linear is of a suite with fingerprint 000000000000"):
        models_of([runs["naive"], other], part)
    nothing = dataclasses.replace(runs["linear"], scores=runs["linear"].scores.slice(0, 0))
    with pytest.raises(ReportError, match="linear has no task of the suite given"):
        models_of([runs["naive"], nothing], part)
    with pytest.raises(ReportError, match="'naive' is not among the results.*linear"):
        compare([runs["linear"]], part)


def test_values_are_shown_and_written(tmp_path):
    assert shown(-0.04, "percent") == "0.0" and shown(0.0, "points") == "0.0"
    assert shown(-3.25, "points") == "\N{MINUS SIGN}3.2" and shown(None, "count") == "\N{EN DASH}"
    assert shown(float("inf"), "number") == "∞" and shown(0.5, "share") == "50.0"
    columns = (
        Column("model", "Model"),
        Column("skill", "Skill", "percent", "", (("low", "high"),)),
    )
    rows = [{"metric": "wql", "model": 'a, "b"', "skill": 1.5, "low": float("nan"), "high": 2.0}]
    write_csv(Table.of_rows("t", "T", columns, rows, "", ("metric",)), tmp_path)
    text = (tmp_path / "t.csv").read_text().splitlines()
    assert text == ["metric,model,skill,low,high", 'wql,"a, ""b""",1.5,,2.0']
    assert [path.name for path in tmp_path.iterdir()] == ["t.csv"]
    write_csv(Table.of_rows("none", "T", columns, []), tmp_path)
    assert (tmp_path / "none.csv").read_text().splitlines() == ["model,skill,low,high"]
