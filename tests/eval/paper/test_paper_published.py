"""Our results beside the paper's published figures: which runs, and which numbers."""

import json
from pathlib import Path

import numpy as np
import pytest

from eval.forecasters import make_forecaster
from eval.paper.paper_names import is_default, published_name
from eval.paper.published import load_published, paper_tables
from eval.report.models import models_of
from eval.report.tables import Table
from eval.report.tables.leaderboard import leaderboard_table
from tests.eval.report.report_helpers import compare, hand_skill, made_run, one_row


def beside(runs, part):
    """The paper's tables by name, without fewest and most events."""
    comparison = compare(runs, part)
    few = Table.of_rows("fewest_most", "", [], [])
    tables = {"leaderboard": leaderboard_table(comparison), "fewest_most": few}
    return {table.name: table for table in paper_tables(comparison, tables)}


@pytest.fixture(scope="module")
def paper(comparison, tables):
    return {table.name: table for table in paper_tables(comparison, tables)}


def test_paper_and_ours_holds_every_figure_of_the_models_at_hand(paper, tables):
    table = paper["paper_and_ours"]
    published = load_published()
    frame = table.frame
    differences = frame["ours"] - frame["paper"]
    assert frame["difference"].to_list() == pytest.approx(differences.to_list())
    assert frame["scored"].unique().to_list() == ["part of the suite"]
    skills = dict(frame.filter(figure="skill", at="all").select("model", "paper").iter_rows())
    names = ("naive", "linear", "ridge", "chronos-2", "xgboost")
    assert skills == {name: published["overall"][name] for name in names}
    tuned = frame.filter(figure="skill, linear-tuned")["paper"].to_list()
    assert tuned == published["replay_novel"]["linear-tuned"]
    rows = frame.filter(figure="tuned, paired: z_t+h,s_t")["paper"].to_list()
    assert rows == published["linear_tuned_rows"][2][2:]
    by_axis = [one for one in frame["figure"].to_list() if one.startswith("skill by")]
    assert len(by_axis) == 10  # eight of linear, two of ridge; language models were not run
    ours = tables["fewest_most"].where(metric="wql", reference="naive").filter(model="linear")
    cells = sum(system != "all" for system in ours["system"])
    assert frame["figure"].to_list().count("fewest and most events") == 2 * cells > 8
    one = one_row(table, figure="fewest and most events", at="sumo, novel, most")
    assert one["paper"] == -29.7
    assert [one["ours"]] == ours.filter(system="sumo", future="novel")["most"].to_list()
    assert one_row(paper["paper_and_ours_tasks"], system="all")["paper"] == 37_665


def test_every_figure_keeps_the_papers_order(paper):
    figures = paper["paper_and_ours"].frame["figure"].unique(maintain_order=True).to_list()
    kinds = list(dict.fromkeys(figure.partition(":")[0].partition(",")[0] for figure in figures))
    assert kinds == ["skill", "skill by k", "skill by events", "skill by event length",
                     "fewest and most events", "tuned"]  # fmt: skip


def test_tuned_models_have_the_plain_one_on_their_own_tasks_beside_them(runs, comparison, paper):
    tuned = runs["linear-paired-z-s"]
    expected = hand_skill(runs["linear"], runs["naive"], tuned.scores["task_id"].to_pylist())
    table = paper["paper_and_ours"]
    row = one_row(table, figure="tuned, paired: z_t+h,s_t", at="all")
    assert row["plain"] == pytest.approx(expected, rel=1e-9)
    assert one_row(table, figure="tuned, plain: z_t+h", at="all")["plain"] is None
    best = table.frame.filter(figure="skill, linear-tuned")["plain"].to_list()
    split = comparison.skills_of("linear", "future")
    split = split.filter(metric="wql", reference="naive", model="linear-paired-z-s")
    assert best == split["skill"].to_list()
    assert "plain" in [column.key for column in table.columns]
    assert "Plain: that model without tuning" in table.note


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
    made = make_forecaster(
        "llm", model=model, reasoning_effort=effort, cache=tmp_path / "llm.sqlite"
    )
    assert made.name != name  # known by its settings
    run = made_run(part, made.name, quality=0.6, point=True, settings=made.settings)
    frame = beside([runs["naive"], run], part)["paper_and_ours"].frame
    published = load_published()
    skills = frame.filter(model=made.name, at="all")["paper"].to_list()
    assert skills[0] == published["overall"][name]
    assert skills[-1] == published["win_rate_wql"][name]


def test_language_models_with_other_settings_are_left_out(part, tmp_path):
    pytest.importorskip("litellm")
    common = {"model": "anthropic/claude-opus-4-8", "cache": tmp_path / "llm.sqlite"}
    made = [
        make_forecaster("llm", **common, reasoning_effort="high"),
        make_forecaster("llm", **common, reasoning_effort="high", temperature=0.2),
        make_forecaster("llm", **common, reasoning_effort="high", api_base="http://localhost:1"),
        make_forecaster("llm", **common, reasoning_effort="low"),
        make_forecaster("llm", **common),
        make_forecaster(
            "llm", model="openai/linear", reasoning_effort="high", cache=tmp_path / "llm.sqlite"
        ),
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
    table = beside([*runs.values(), other, tuned, own], part)["paper_and_ours"]
    shown = set(table.frame["model"])
    assert "ridge (alpha=10.0)" in shown and "linear-paired-z-s" in shown
    assert not {"ridge (alpha=1000.0)", "ridge-paired-z", "my-model"} & shown
    assert "ridge (alpha=1000.0) (settings are not the defaults)" in table.note
    assert "my-model" not in table.note  # the paper does not have it


def test_tasks_chosen_by_conditions_are_kept_from_the_paper(part, runs):
    rows = np.flatnonzero(part.column("k") == 5)
    where = json.dumps({"where": {"k": [5], "system": ["epanet", "sumo"]}})
    few = made_run(part, "xgboost", quality=0.5, point=True, rows=rows, tasks=where)
    drawn = json.dumps({"where": {"k": [5]}, "sample": 100, "seed": 0})
    some = made_run(part, "chronos-2", quality=0.5, rows=rows[:100], tasks=drawn)
    table = beside([runs["naive"], runs["linear"], few, some], part)["paper_and_ours"]
    assert not {"xgboost", "chronos-2"} & set(table.frame["model"])
    assert "win rate" not in table.frame["figure"].to_list()
    assert "xgboost (scored on a part: k=5; system=epanet,sumo)" in table.note
    assert "Win rates too" in table.note


def test_nothing_is_beside_the_paper_without_naive(part, runs, tables):
    other = compare([runs["linear"], runs["ridge"]], part, reference="linear")
    assert paper_tables(other, tables) == []


def test_published_figures_are_those_shared_with_the_project():
    shared = Path(__file__).parents[4] / "shared" / "published.json"
    if not shared.is_file():
        pytest.skip("only beside the project's shared folder")
    assert load_published() == json.loads(shared.read_text())
