"""What the report sets beside what: runs beside the paper, intervals and verdicts."""

import json

import numpy as np
import pyarrow as pa
import pytest

from eval.forecasters import make_forecaster
from eval.report.comparison import Drawn
from eval.report.findings import findings
from eval.report.further import fewest_most_table
from eval.report.models import models_of
from eval.report.numbers import gap_table, leaderboard_table, skill_tables
from eval.report.page import html_table
from eval.report.paper_names import is_default, published_name
from eval.report.pictures import Pictures
from eval.report.published import load_published, paper_tables
from eval.report.resamples import decide
from eval.report.tables import Table, shown
from eval.report.write import _notes
from tests.eval.report_helpers import made_run
from tests.eval.test_report_numbers import compare, hand_skill, one_row
from whatif_jax import root_key
from whatif_jax.comparison import bootstrap, fewest_most, skill_by, skill_scores, win_rates

FEW = 30  # comparisons of fewest and most events that a skill needs


@pytest.fixture(scope="module")
def part(suite):
    rows = np.sort(np.random.default_rng(0).choice(len(suite), 6000, replace=False))
    return suite.take(rows)


@pytest.fixture(scope="module")
def runs(part):
    """naive, linear and ridge on all tasks, a tuned linear on a sample."""
    sample = np.sort(np.random.default_rng(1).choice(len(part), 900, replace=False))
    found = [
        made_run(part, "naive", quality=0, point=True),
        made_run(part, "linear", quality=0.4, point=True, seed=1),
        made_run(part, "linear-paired-z-s", quality=0.5, point=True, rows=sample, seed=3),
    ]
    # ridge's errors are linear's, but twice as large on Novel futures of sumo
    wql = found[1].scores["wql"].to_numpy()
    far = (part.column("system") == "sumo") & (part.column("future") == "novel")
    ridge = made_run(part, "ridge", quality=0.4, point=True, seed=1, settings={"alpha": 10.0})
    scores = ridge.scores.set_column(1, "wql", pa.array(np.where(far, 2 * wql, wql)))
    return [*found, ridge._replace(scores=scores)]


@pytest.fixture(scope="module")
def comparison(runs, part):
    return compare(runs, part)


@pytest.fixture(scope="module")
def tables(comparison):
    return tables_of(comparison)


def tables_of(comparison):
    found = [leaderboard_table(comparison), *skill_tables(comparison)]
    found += [gap_table(comparison, found[-1]), fewest_most_table(comparison)]
    return {table.name: table for table in found}


def paper_of(comparison):
    tables = {"leaderboard": leaderboard_table(comparison),
              "fewest_most": Table("fewest_most", "", (), [])}  # fmt: skip
    return {table.name: table for table in paper_tables(comparison, tables)}


@pytest.mark.parametrize(
    ("model", "effort", "name"),
    [
        ("anthropic/claude-opus-4-8", "high", "claude-opus-4.8-high"),
        ("anthropic/claude-opus-4-8", "medium", "claude-opus-4.8-medium"),
        ("gemini/gemini-3.1-pro-preview", "high", "gemini-3.1-pro-high"),
        ("vertex_ai/gemini-3.1-pro-preview", "medium", "gemini-3.1-pro-medium"),
    ],
)
def test_language_models_stand_beside_the_papers(part, runs, tmp_path, model, effort, name):
    pytest.importorskip("litellm")
    made = make_forecaster("llm", model=model, reasoning_effort=effort, cache=tmp_path / "none")
    assert made.name != name  # known by its settings
    run = made_run(part, made.name, quality=0.6, point=True, settings=made.settings)
    rows = paper_of(compare([runs[0], run], part))["paper_and_ours"].rows
    published = load_published()
    skills = [row["paper"] for row in rows if row["model"] == made.name and row["at"] == "all"]
    assert skills[0] == published["overall"][name]
    assert skills[-1] == published["win_rate_wql"][name]


def test_language_models_with_other_settings_are_left_out(part, tmp_path):
    pytest.importorskip("litellm")
    common = {"model": "anthropic/claude-opus-4-8", "cache": tmp_path / "none"}
    made = [
        make_forecaster("llm", **common, reasoning_effort="high"),
        make_forecaster("llm", **common, reasoning_effort="high", temperature=0.2),
        make_forecaster("llm", **common, reasoning_effort="high", api_base="http://localhost:1"),
        make_forecaster("llm", **common, reasoning_effort="low"),
        make_forecaster("llm", **common),
        make_forecaster("llm", **common | {"model": "openai/linear"}, reasoning_effort="high"),
    ]
    runs = [made_run(part, one.name, quality=0.6, settings=one.settings) for one in made]
    models, _ = models_of(runs, part)
    assert [is_default(model) for model in models] == [True, False, False, True, True, True]
    papers = {*load_published()["overall"]}
    assert [published_name(model) in papers for model in models] == [True] * 3 + [False] * 3


def test_settings_that_are_not_the_default_are_not_set_beside_the_paper(part, runs):
    other = made_run(part, "ridge", quality=0.1, point=True, settings={"alpha": 1000.0})
    tuned = made_run(part, "ridge-paired-z", quality=0.9, point=True,
                     settings={"alpha": 1.0, "features": ["z"], "seed": 0})  # fmt: skip
    own = made_run(part, "my-model", quality=0.9, point=True)
    table = paper_of(compare([*runs, other, tuned, own], part))["paper_and_ours"]
    shown = {row["model"] for row in table.rows}
    assert "ridge (alpha=10.0)" in shown and "linear-paired-z-s" in shown
    assert not {"ridge (alpha=1000.0)", "ridge-paired-z", "my-model"} & shown
    assert "ridge (alpha=1000.0) (settings are not the defaults)" in table.note
    assert "my-model" not in table.note  # the paper does not have it


def test_tasks_chosen_by_conditions_are_labelled_and_kept_from_the_paper(part, runs):
    ids = np.sort(part.column("task_id"))
    ordered = part.take(np.argsort(part.column("task_id")))
    rows = np.flatnonzero(part.column("k") == 5)
    where = json.dumps({"where": {"k": [5], "system": ["epanet", "sumo"]}})
    few = made_run(part, "xgboost", quality=0.5, point=True, rows=rows, tasks=where)
    drawn = json.dumps({"where": {"k": [5]}, "sample": 100, "seed": 0})
    some = made_run(part, "chronos-2", quality=0.5, rows=rows[:100], tasks=drawn)
    comparison = compare([*runs, few, some], part)
    board = leaderboard_table(comparison)
    scored = {row["model"]: row["scored"] for row in board.rows if row["reference"] == "naive"}
    assert scored == {
        "naive": "all tasks", "linear": "all tasks", "ridge": "all tasks",
        "linear-paired-z-s": "sample", "xgboost": "part: k=5; system=epanet,sumo",
        "chronos-2": "sample of part: k=5",
    }  # fmt: skip
    table = paper_of(comparison)["paper_and_ours"]
    assert not {"xgboost", "chronos-2"} & {row["model"] for row in table.rows}
    assert not [row for row in table.rows if row["figure"] == "win rate"]
    assert "xgboost (scored on a part: k=5; system=epanet,sumo)" in table.note
    notes = _notes(list(comparison.models.values()), part)
    assert "sample of the 6,000 tasks: linear-paired-z-s (n = 900)" in notes[0]
    assert "meet conditions" in notes[1] and "sample of part: k=5; n = 100" in notes[1]
    # a smaller run over a sample of all tasks stands for the model, not the larger part
    sample = made_run(part, "xgboost", quality=0.5, rows=np.arange(50), tasks='{"sample":50}')
    models, _ = models_of([few, sample], part)
    assert len(rows) > 50 and [model.scored for model in models] == ["sample"]
    assert len(ids) == len(ordered)


def test_intervals_of_the_leaderboard_are_by_pair_and_by_target(comparison, tables):
    table = comparison.table("wql", ["naive", "linear", "ridge"])
    for by in ("pair", "target"):
        expected = bootstrap(table, skill_scores, key=root_key(0), resamples=60, by=by)
        row = one_row(tables["leaderboard"], model="linear", reference="naive")
        ends = [row[f"wql_skill_{by}_{end}"] / 100 for end in ("low", "high")]
        assert ends == pytest.approx([expected.lower[1], expected.upper[1]])
    future = skill_by(table, "future", key=root_key(0), resamples=60, by="pair")
    row = one_row(tables["replay_novel"], model="linear", metric="wql", reference="naive")
    assert row["novel_low"] == pytest.approx(100 * future.lower[0, 1])
    common = comparison.common("wql")
    rates = bootstrap(common, win_rates, key=root_key(0), resamples=60, by="pair")
    row = one_row(tables["leaderboard"], model="linear", reference="naive")
    assert row["wql_win_rate_low"] == pytest.approx(
        100 * rates.lower[common.models.index("linear")]
    )
    html = html_table(tables["leaderboard"], {})
    ends = [shown(row[f"wql_skill_target_{end}"], "percent") for end in ("low", "high")]
    assert f'<span class="ci wide">{ends[0]} to {ends[1]}</span>' in html
    column = next(one for one in tables["leaderboard"].columns if one.key == "wql_skill")
    assert column[4:] == tuple(f"wql_skill_{by}_{end}" for by in ("pair", "target")
                               for end in ("low", "high"))  # fmt: skip
    note = tables["leaderboard"].note
    for text in ("this suite's targets", "other targets of these kinds", "of raw errors",
                 "for one series, without compilation"):  # fmt: skip
        assert text in note


def test_samples_have_the_plain_models_on_their_own_tasks_beside_them(runs, comparison, tables):
    ids = runs[2].scores["task_id"].to_pylist()
    row = one_row(tables["leaderboard"], model="linear-paired-z-s", reference="naive")
    expected = hand_skill(runs[1], runs[0], ids)
    assert row["wql_linear"] == pytest.approx(expected, rel=1e-9)
    whole = one_row(tables["leaderboard"], model="linear", reference="naive")
    assert "wql_linear" not in whole and whole["wql_skill"] != pytest.approx(expected)
    table = paper_of(comparison)["paper_and_ours"]
    tuned = one_row(table, figure="tuned, paired: z_t+h,s_t", at="all")
    assert tuned["plain"] == pytest.approx(expected, rel=1e-9)
    assert one_row(table, figure="tuned, plain: z_t+h", at="all")["plain"] is None
    best = [row for row in table.rows if row["figure"] == "skill, linear-tuned"]
    split = comparison.beside("wql", "naive", "linear-paired-z-s", "linear", ("future",))
    assert [row["plain"] for row in best] == [split[one,].skill for one in ("replay", "novel")]
    assert "plain" in [column.key for column in table.columns]


def test_fewest_and_most_events_are_pooled_and_small_cells_left_out(
    comparison, tables, tmp_path, monkeypatch
):
    table = comparison.table("wql", ["linear", "naive"])
    rows = [row for row in tables["fewest_most"].rows
            if (row["model"], row["metric"], row["reference"]) == ("linear", "wql", "naive")
            ]  # fmt: skip
    pooled = {one.group: one for one in fewest_most(table, "linear", axes="future")}
    for future in ("replay", "novel"):
        row = next(one for one in rows if (one["system"], one["future"]) == ("all", future))
        one = pooled[future,]
        assert (row["cells"], row["worse"], row["targets"]) == (one.cells, one.worse, one.targets)
        assert row["most"] == pytest.approx(100 * one.most)
    every = fewest_most(table, "linear")
    large = {one.group for one in every if one.cells >= FEW}
    assert {(row["system"], row["future"]) for row in rows if row["system"] != "all"} == large
    assert 0 < len(large) < len(every)
    assert f"fewer than {FEW}" in tables["fewest_most"].note
    monkeypatch.setattr("eval.report.pictures.variants", lambda _: [("wql", "naive")])
    made = Pictures(comparison, tables, tmp_path, lambda _: None).fewest_most()
    assert len(made.files) == 1 and "all, Novel" in made.files[0].svg
    found = {one.name: one for one in findings(comparison, tables)}
    for name in ("linear_replay_events_opendc_sumo", "linear_novel_events_opendc_sumo"):
        for checked in found[name].table.rows:
            model, system, future = checked["model"].split(", ")
            cell = one_row(tables["fewest_most"], model=model, system=system, future=future,
                           metric="wql", reference="naive")  # fmt: skip
            for mine, theirs in (("first", "fewest"), ("second", "most"), ("change", "change")):
                assert checked[mine] == pytest.approx(cell[theirs])
            assert checked["change_low"] < checked["change"] < checked["change_high"]


def test_ridge_is_held_against_linear_cell_by_cell(comparison, tables):
    found = {one.name: one for one in findings(comparison, tables)}["ridge_as_linear"]
    rows = {row["model"]: row for row in found.table.rows}
    assert found.verdict == "holds in part"
    for name, row in rows.items():
        if name.startswith("sumo, novel"):
            assert row["holds"] == "no" and row["change"] < -1
        else:  # alike to the last digit: no resample differs
            assert row["change"] == 0.0
    assert sum(name.startswith("sumo, novel") for name in rows) == 2 < len(rows)


def test_verdicts_are_undecided_where_the_interval_holds_the_limit():
    def one(low, high):
        return Drawn((low + high) / 2, np.linspace(low, high, 201))

    assert decide(one(1, 5), low=0.0) == "yes" and decide(one(1, 5), high=0.0) == "no"
    assert decide(one(-1, 5), low=0.0) == decide(one(-1, 5), high=0.0) == "undecided"
    assert decide(one(-12, -9), high=-10.0) == "undecided"
    assert decide(one(-0.5, 0.9), low=-1.0, high=1.0) == "yes"
    assert decide(one(0.5, 1.5), low=-1.0, high=1.0) == "undecided"
    assert decide(one(1.1, 1.5), low=-1.0, high=1.0) == "no"


def test_findings_leave_noise_undecided(part, runs):
    # a model whose errors have nothing to do with K, events or system, on few tasks
    noise = np.random.default_rng(8).lognormal(-0.5, 0.5, len(runs[0].scores))
    wql = runs[0].scores["wql"].to_numpy() * noise
    scores = runs[1].scores.set_column(1, "wql", pa.array(wql))
    scores = scores.take(np.sort(np.random.default_rng(2).choice(len(scores), 400, replace=False)))
    comparison = compare([runs[0], runs[1]._replace(name="noise", scores=scores)], part)
    found = {one.name: one for one in findings(comparison, tables_of(comparison))}
    for name in ("novel_falls_with_k", "novel_rises_with_events", "gap_by_system"):
        assert found[name].verdict == "undecided", found[name]
        assert [row["holds"] for row in found[name].table.rows] == ["undecided"]
        assert "Undecided in 1." in found[name].summary
    assert "Histories are drawn" in found["gap_by_system"].table.note
