"""The report's numbers: against hand computations in float64, on made-up scores."""

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from eval.report.browser import pack, unpack
from eval.report.comparison import Comparison
from eval.report.findings import findings
from eval.report.further import coverage_table, effects_table, fewest_most_table
from eval.report.models import ReportError, models_of
from eval.report.numbers import gap_table, leaderboard_table, pairwise_table, skill_tables
from eval.report.published import load_published, paper_tables
from eval.report.style import styles
from eval.report.tables import Column, Table, shown, write_csv
from tests.eval.report_helpers import made_run
from whatif_jax import root_key


@pytest.fixture(scope="module")
def part(suite):
    rows = np.sort(np.random.default_rng(0).choice(len(suite), 6000, replace=False))
    return suite.take(rows)


@pytest.fixture(scope="module")
def runs(part):
    sample = np.sort(np.random.default_rng(1).choice(len(part), 1500, replace=False))
    return [
        made_run(part, "naive", quality=0, point=True),
        made_run(part, "linear", quality=0.4, point=True, seed=1),
        made_run(part, "chronos-2", quality=0.6, seed=2),
        made_run(part, "linear-paired-z-s", quality=0.5, point=True, seed=3),
        made_run(part, "xgboost", quality=0.5, point=True, rows=sample, seed=4),
    ]


def compare(runs, part, reference="naive"):
    models, _ = models_of(runs, part)
    return Comparison(models, part, reference=reference, resamples=60, key=root_key(0))


@pytest.fixture(scope="module")
def comparison(runs, part):
    return compare(runs, part)


@pytest.fixture(scope="module")
def tables(comparison):
    found = [leaderboard_table(comparison), *skill_tables(comparison)]
    found += [gap_table(comparison, found[-1]), pairwise_table(comparison)]
    found += [fewest_most_table(comparison)]
    return {table.name: table for table in found}


def errors_of(run, column="wql"):
    return dict(zip(run.scores["task_id"].to_pylist(), run.scores[column].to_pylist(), strict=True))


def hand_skill(run, reference, ids, column="wql"):
    errors, others = errors_of(run, column), errors_of(reference, column)
    ratios = [min(max(errors[one] / others[one], 0.01), 100.0) for one in ids]
    return 100 * (1 - float(np.exp(np.mean(np.log(ratios)))))


def one_row(table, **wanted):
    found = [row for row in table.rows if wanted.items() <= row.items()]
    assert len(found) == 1
    return found[0]


@pytest.mark.parametrize("reference", [0, 1])
def test_leaderboard_equals_a_hand_computation_on_each_models_own_tasks(runs, tables, reference):
    for run in runs:
        row = one_row(tables["leaderboard"], model=run.name, reference=runs[reference].name)
        ids = run.scores["task_id"].to_pylist()
        assert row["tasks"] == len(ids)
        for metric in ("wql", "wape"):
            expected = hand_skill(run, runs[reference], ids, metric)
            assert row[f"{metric}_skill"] == pytest.approx(expected, rel=1e-9, abs=1e-9)
            for by in ("pair", "target"):
                assert row[f"{metric}_skill_{by}_low"] <= expected + 1e-9
                assert row[f"{metric}_skill_{by}_high"] >= expected - 1e-9
    assert one_row(tables["leaderboard"], model="xgboost", reference="naive")["scored"] == "sample"


def test_win_rates_are_over_the_tasks_all_models_have(runs, tables):
    ids = runs[-1].scores["task_id"].to_pylist()  # the sample
    errors = [errors_of(run) for run in runs]
    for number, run in enumerate(runs):
        against = []
        for other in range(len(runs)):
            if other != number:
                mine, theirs = (
                    [one[task] for task in ids] for one in (errors[number], errors[other])
                )
                wins = [0.5 if a == b else float(a < b) for a, b in zip(mine, theirs, strict=True)]
                against.append(100 * np.mean(wins))
                cell = one_row(tables["pairwise"], metric="wql", model=run.name)
                assert cell[runs[other].name] == pytest.approx(against[-1])
        row = one_row(tables["leaderboard"], model=run.name, reference="naive")
        assert row["wql_win_rate"] == pytest.approx(np.mean(against))
    assert f"{len(ids):,} tasks" in tables["leaderboard"].note


def test_skill_by_axis_and_gap_equal_hand_computations(runs, part, tables):
    axes = {
        name: dict(zip(part.column("task_id").tolist(), part.column(name).tolist(), strict=True))
        for name in ("k", "future", "system", "context_pair")
    }
    for run in (runs[2], runs[4]):
        ids = run.scores["task_id"].to_pylist()
        row = one_row(tables["skill_by_k"], model=run.name, metric="wape", reference="linear")
        chosen = [one for one in ids if axes["k"][one] == 3 and axes["future"][one] == "novel"]
        expected = hand_skill(run, runs[1], chosen, "wape")
        assert row["novel_3"] == pytest.approx(expected, rel=1e-9)
        gap = one_row(tables["gap"], model=run.name, metric="wql", reference="naive")
        ends = [
            hand_skill(run, runs[0], [
                one for one in ids
                if axes["system"][one] == "sumo" and axes["future"][one] == future
            ])
            for future in ("replay", "novel")
        ]  # fmt: skip
        assert gap["sumo"] == pytest.approx(ends[0] - ends[1], rel=1e-9)
    row = one_row(tables["skill_by_context"], model="chronos-2", metric="wql", reference="naive")
    ids = runs[2].scores["task_id"].to_pylist()
    chosen = [one for one in ids
              if axes["context_pair"][one] == "C4" and axes["future"][one] == "replay"]  # fmt: skip
    assert row["replay_C4"] == pytest.approx(hand_skill(runs[2], runs[0], chosen), rel=1e-9)


def test_trends_are_least_squares_on_log2(tables):
    row = one_row(tables["skill_by_events"], model="chronos-2", metric="wql", reference="naive")
    events = [1, 2, 4, 8, 16, 32, 64]
    skill = [row[f"novel_{value}"] for value in events]
    slope = np.polyfit(np.log2(events), skill, 1)[0]
    assert row["novel_slope"] == pytest.approx(slope, rel=1e-9)


def test_paper_and_ours_holds_every_figure_of_the_models_at_hand(comparison, tables):
    found = {table.name: table for table in paper_tables(comparison, tables)}
    table = found["paper_and_ours"]
    published = load_published()
    for row in table.rows:
        assert row["difference"] == pytest.approx(row["ours"] - row["paper"])
        assert row["scored"] == "part of the suite"
    skills = {row["model"]: row["paper"] for row in table.rows if row["figure"] == "skill"
              and row["at"] == "all"}  # fmt: skip
    names = ("naive", "linear", "chronos-2", "xgboost")
    assert skills == {name: published["overall"][name] for name in names}
    tuned = [row["paper"] for row in table.rows if row["figure"] == "skill, linear-tuned"]
    assert tuned == published["replay_novel"]["linear-tuned"]
    rows = [row["paper"] for row in table.rows if row["figure"].startswith("tuned, paired")]
    assert rows == published["linear_tuned_rows"][2][2:]
    by_axis = [row for row in table.rows if row["figure"].startswith("skill by")]
    assert len(by_axis) == 8  # of linear; ridge and the language models were not run
    ours = {"model": "linear", "metric": "wql", "reference": "naive"}
    cells = sum(
        ours.items() <= row.items() and row["system"] != "all" for row in tables["fewest_most"].rows
    )
    assert sum(row["figure"] == "fewest and most events" for row in table.rows) == 2 * cells > 8
    one = one_row(table, figure="fewest and most events", at="sumo, novel, most")
    ours = one_row(
        tables["fewest_most"], model="linear", system="sumo", future="novel", metric="wql",
        reference="naive",
    )  # fmt: skip
    assert (one["paper"], one["ours"]) == (-29.7, ours["most"])
    assert one_row(found["paper_and_ours_tasks"], system="all")["paper"] == 37_665


def test_published_figures_are_those_shared_with_the_project():
    shared = Path(__file__).parents[3] / "shared" / "published.json"
    if not shared.is_file():
        pytest.skip("only beside the project's shared folder")
    assert load_published() == json.loads(shared.read_text())


def test_findings_follow_the_numbers(runs, part, comparison, tables):
    held = {one.name: one for one in findings(comparison, tables)}
    for name in ("novel_below_replay", "novel_falls_with_k", "novel_rises_with_events"):
        assert held[name].verdict == "holds", held[name]
    # the same with Novel errors far smaller than Replay's, growing with events, falling with K
    turned = [runs[0]]
    novel = part.column("future") == "novel"
    k, events = part.column("k"), np.log2(part.column("n_events"))
    for run in runs[1:4]:
        base = runs[0].scores["wql"].to_numpy()
        wql = base * np.where(novel, 0.5 - 0.08 * k + 0.03 * events, 0.9)
        scores = run.scores.set_column(1, "wql", pa.array(wql))
        turned.append(run._replace(scores=scores))
    other = compare(turned, part)
    tables = {one.name: one for one in [fewest_most_table(other), *skill_tables(other)]}
    tables["gap"] = gap_table(other, tables["by_system"])
    found = {one.name: one for one in findings(other, tables)}
    for name in ("novel_below_replay", "novel_falls_with_k", "novel_rises_with_events"):
        assert found[name].verdict == "does not hold", found[name]


def test_effects_leave_out_what_has_no_value_and_coverage_only_points(runs, part, comparison):
    effects = effects_table(comparison)
    scores = runs[1].scores
    novel = part.column("future") == "novel"
    direction = scores["direction_accuracy"].to_numpy()[novel]
    row = one_row(effects, model="linear", future="novel")
    assert row["direction_tasks"] == np.isfinite(direction).sum() < row["tasks"]
    assert row["direction"] == pytest.approx(np.nanmean(direction))
    size = scores["effect_size_error"].to_numpy()[novel]
    assert row["size"] == pytest.approx(np.median(size))
    coverage = coverage_table(comparison)
    assert {row["model"] for row in coverage.rows} == {"chronos-2"}
    assert coverage.rows[0]["level_0.9"] == pytest.approx(0.93)
    assert coverage_table(compare(runs[:2], part)) is None


def test_runs_of_one_forecaster_are_told_apart(part):
    settings = [{"alpha": 1.0}, {"alpha": 2.0}]
    runs = [made_run(part, "ridge", quality=0.4, settings=one) for one in settings]
    rows = np.arange(50)
    runs.append(made_run(part, "ridge", quality=0.4, settings=settings[0], rows=rows))
    models, notes = models_of(runs, part)
    names = ["ridge (alpha=1.0)", "ridge (alpha=2.0)"]
    assert [model.name for model in models] == names
    assert len(models[0].task_ids) == len(part) and "6,000 tasks" in notes[0]


def test_what_cannot_be_reported_is_refused_by_name(runs, part):
    with pytest.raises(ReportError, match="expected at least one"):
        models_of([], part)
    metadata = {**runs[1].metadata, "fingerprint": "0" * 64}
    other = runs[1]._replace(scores=runs[1].scores.replace_schema_metadata(metadata))
    with pytest.raises(ReportError, match="linear is of a suite with fingerprint 000000000000"):
        models_of([runs[0], other], part)
    with pytest.raises(ReportError, match="'naive' is not among the results.*linear"):
        compare(runs[1:], part)


def test_packed_series_come_back_within_their_quantisation():
    random = np.random.default_rng(5)
    series = [
        ({"part": "history"}, random.normal(50, 10, 8192).cumsum()),
        ({"part": "covariate", "name": "constant"}, np.full(300, 7.25)),
        ({"part": "truth"}, np.array([np.nan, 1.0, -np.inf, 3.0])),
        ({"part": "baseline"}, np.full(3, np.nan)),
        ({"part": "median"}, np.zeros(0)),
    ]
    found = unpack(pack(series))
    assert [one["part"] for one, _ in found] == [one["part"] for one, _ in series]
    for (_, values), (_, back) in zip(series, found, strict=True):
        finite = np.isfinite(values)
        assert back.shape == values.shape and np.isnan(back[~finite]).all()
        if finite.any():
            limit = np.ptp(values[finite]) / 65534 * 0.51 + 1e-12
            np.testing.assert_allclose(back[finite], values[finite], atol=limit, rtol=1e-12)
    assert len(pack([({}, np.ones(8192))])) < 200


def test_no_two_models_look_alike():
    found = styles(["naive", *(f"model {number}" for number in range(21))])
    assert len({(one.colour, one.dashes) for one in found.values()}) == 22
    assert len({(one.colour, one.marker) for one in found.values()}) == 22


def test_values_are_shown_and_written(tmp_path):
    assert shown(-0.04, "percent") == "0.0" and shown(0.0, "points") == "0.0"
    assert shown(-3.25, "points") == "\N{MINUS SIGN}3.2" and shown(None, "count") == "\N{EN DASH}"
    assert shown(float("inf"), "number") == "∞" and shown(0.5, "share") == "50.0"
    columns = (Column("model", "Model"), Column("skill", "Skill", "percent", "", "low", "high"))
    rows = [{"metric": "wql", "model": 'a, "b"', "skill": 1.5, "low": None, "high": 2.0}]
    write_csv([Table("t", "T", columns, rows, "", ("metric",))], tmp_path)
    text = (tmp_path / "t.csv").read_text().splitlines()
    assert text == ["metric,model,skill,low,high", 'wql,"a, ""b""",1.5,,2.0']
    assert [path.name for path in tmp_path.iterdir()] == ["t.csv"]
