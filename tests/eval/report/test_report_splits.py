"""Models trained on the suite's systems are ranked apart, and informed ones are marked."""

import numpy as np
import pytest

from eval.report.models import ReportError
from eval.report.tables import report_tables
from eval.report.write import write_report
from tests.eval.report.report_helpers import compare, hand_skill, made_run, one_row, wait
from whatif_jax.evaluation import Declaration

REASON = "it knows how responses look"
INFORMED = Declaration("nothing", informed=REASON)
SEEN = Declaration("in-distribution", {"systems": ["epanet", "sumo"], "budget": "1 h"})
WITHOUT = Declaration("left-out-system", {"left_out": ["epanet"], "prior": 1})
NAMES = {
    "zero-shot": ["naive", "scaling", "linear"],
    "left-out system": ["ours, without epanet"],
    "in distribution": ["ours, in distribution"],
    "unknown": ["mine"],
}


@pytest.fixture(scope="module")
def split_runs(short):
    alone = np.flatnonzero(short.column("system") == "epanet")
    return [
        made_run(short, "naive", quality=0, point=True),
        made_run(short, "ours", quality=0.95, declared=SEEN, seed=1),
        made_run(short, "scaling", quality=0.6, declared=INFORMED, seed=2),
        made_run(short, "ours", quality=0.9, declared=WITHOUT, rows=alone, seed=3,
                 tasks='{"where": {"system": ["epanet"]}}'),
        made_run(short, "mine", quality=0.7, declared=Declaration(), point=True, seed=4),
        made_run(short, "linear", quality=0.3, point=True, seed=5),
    ]  # fmt: skip


@pytest.fixture(scope="module")
def split_comparison(split_runs, short):
    return compare(split_runs, short)


@pytest.fixture(scope="module")
def split_tables(split_comparison):
    return report_tables(split_comparison, ["scaling"])


def test_splits_are_ranked_one_after_the_other(split_comparison, split_tables):
    places = {name: list(NAMES).index(split) for split, names in NAMES.items() for name in names}
    assert {name: list(NAMES).index(model.split)
            for name, model in split_comparison.models.items()} == places  # fmt: skip
    # better skills do not pass the border
    skill = one_row(split_tables["leaderboard"], model="ours, in distribution", reference="naive")
    assert skill["wql_skill"] == split_tables["leaderboard"].frame["wql_skill"].max()
    for name, table in split_tables.items():
        for part in table.frame.partition_by(table.variants) if table.variants else [table.frame]:
            found = [places[model] for model in part["model"] if model in places]
            assert found and found == sorted(found), name
    board = split_tables["leaderboard"]
    assert "zero-shot, over the 400 tasks that all 3 models were scored on" in board.note
    trained = dict(board.where(reference="naive").select("model", "trained_on").iter_rows())
    assert trained == {name: split for split, names in NAMES.items() for name in names}


def test_win_rates_and_means_are_of_the_first_ranking_alone(split_runs, split_tables):
    errors = {run.name: run.scores["wql"].to_numpy() for run in split_runs
              if run.name in NAMES["zero-shot"]}  # fmt: skip
    for name in NAMES["zero-shot"]:
        wins = [np.mean((errors[name] < other) + 0.5 * (errors[name] == other))
                for one, other in errors.items() if one != name]  # fmt: skip
        row = one_row(split_tables["leaderboard"], model=name, reference="naive")
        assert row["wql_win_rate"] == pytest.approx(100 * np.mean(wins))
    for name in ("ours, without epanet", "ours, in distribution", "mine"):
        row = one_row(split_tables["leaderboard"], model=name, reference="naive")
        assert row["wql_win_rate"] is None
    assert set(split_tables["pairwise"].frame["model"]) == set(NAMES["zero-shot"])
    gaps = split_tables["gap"].where(metric="wql", reference="naive")
    ranked = gaps.filter(model="scaling")["mean"], gaps.filter(model="linear")["mean"]
    assert gaps["model"][-1] == "mean over models"
    assert gaps["mean"][-1] == pytest.approx(np.mean([one.item() for one in ranked]))


def test_differences_are_paired_on_the_tasks_of_both(split_runs, split_tables):
    table = split_tables["difference_to_scaling"]
    runs = dict(zip([run.name for run in split_runs[:3]], split_runs, strict=False))
    alone = split_runs[3]
    ids = alone.scores["task_id"].to_pylist()
    row = one_row(table, model="ours, without epanet", metric="wape", reference="naive")
    expected = [hand_skill(run, runs["naive"], ids, "wape") for run in (alone, runs["scaling"])]
    assert row["tasks"] == len(ids) and row["trained_on"] == "left-out system"
    assert [row["skill"], row["other_skill"]] == pytest.approx(expected)
    assert row["difference"] == pytest.approx(expected[0] - expected[1])
    assert row["difference_pair_low"] < row["difference"] < row["difference_pair_high"]
    naive = one_row(table, model="naive", metric="wql", reference="naive")
    assert naive["difference"] == pytest.approx(-naive["other_skill"])
    assert "scaling" not in table.frame["model"].to_list()


def test_coverage_is_by_future_with_the_interval_and_names_the_points(split_runs, short, tables):
    found = report_tables(compare(split_runs, short))
    table = found["coverage"]
    assert set(table.frame["model"]) == {
        "scaling", "ours, without epanet", "ours, in distribution"
    }  # fmt: skip
    row = one_row(table, model="scaling", future="novel")
    # made up: 3 points too many below each quantile, at most all
    assert row["interval"] == pytest.approx(0.8) and row["forecasts"] == "9 quantiles"
    assert "no quantiles: naive, mine, linear." in table.note
    board = found["leaderboard"].where(reference="naive")
    cells = dict(board.select("model", "interval").iter_rows())
    assert cells["scaling"] == pytest.approx(0.8) and cells["linear"] is None
    assert dict(board.select("model", "forecasts").iter_rows())["linear"] == "point"


def test_a_model_to_differ_from_must_be_there(split_runs, short, tmp_path):
    with pytest.raises(ReportError, match="difference: 'scalin'; .*mean 'scaling'"):
        write_report(split_runs, short, tmp_path / "out", others=["scalin"])
    assert not (tmp_path / "out").exists()


@pytest.fixture(scope="module")
def split_page(split_runs, short, tmp_path_factory):
    """A page whose only figures are the new ones."""
    out = tmp_path_factory.mktemp("splits")
    from eval.report import figures

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("eval.report.figures._CHARTS", {"coverage": figures._CHARTS["coverage"]})
        write_report(split_runs, short, out, resamples=20)
    return out


def test_the_page_shows_rankings_apart_marks_and_coverage(browser, split_page):
    browser.get((split_page / "index.html").as_uri())
    wait(browser, "return document.readyState === 'complete'")
    bodies = browser.execute_script(
        "return [...document.querySelectorAll('#leaderboard .scroll:not([hidden]) table tbody')]"
        ".map((body) => [...body.rows].map((row) => row.cells[0].dataset.value ??"
        " row.innerText.trim()))"
    )
    assert [body[0] for body in bodies] == list(NAMES)
    assert [sorted(body[1:]) for body in bodies] == [sorted(names) for names in NAMES.values()]
    said = browser.find_element("css selector", "#leaderboard > p").text
    assert said.startswith("Models are ranked apart by what they were trained on")
    header = "#leaderboard .scroll:not([hidden]) th[data-column='0']"
    browser.execute_script(f"document.querySelector(`{header}`).click()")
    first = browser.execute_script(
        "return [...document.querySelector('#leaderboard .scroll:not([hidden]) tbody').rows]"
        ".map((row) => row.cells[0].dataset.value ?? row.innerText.trim())"
    )
    assert first == ["zero-shot", "linear", "naive", "scaling"]
    marks = browser.execute_script(
        "return [...document.querySelectorAll('#leaderboard .scroll:not([hidden]) a.mark')]"
        ".map((one) => [one.closest('td').dataset.value, one.textContent, one.title,"
        " document.querySelector(one.getAttribute('href')).textContent.trim()])"
    )
    footnote = f"† scaling: informed: {REASON}."
    assert marks == [["scaling", "†", f"informed: {REASON}", footnote]]
    picture = browser.find_element("css selector", "#coverage figure img")
    assert picture.is_displayed() and picture.get_attribute("alt") == "Quantile coverage"
    assert browser.execute_script("return arguments[0].naturalWidth", picture) > 500
    differences = browser.find_elements("css selector", "#difference-to-scaling figure img")
    assert [one.is_displayed() for one in differences].count(True) == 1
    assert browser.execute_script("return document.documentElement.scrollWidth <= innerWidth")


def test_the_markdown_has_a_table_a_ranking(split_page):
    text = (split_page / "leaderboard.md").read_text("utf-8")
    for heading in ("Zero-shot", "Left-out system", "In distribution", "Unknown"):
        assert f"### {heading}\n" in text
    assert "| scaling † | zero-shot | 400 | " in text and " | point | " in text
    assert f"† scaling: informed: {REASON}." in text and "## Difference to scaling" in text
    parts = text.split("## Skill by future, system and number of covariates\n")[1]
    head, _, *rows = [line for line in parts.split("\n## ")[0].splitlines() if line[:1] == "|"]
    assert head.startswith("| forecaster | trained on | Replay | Novel | ")
    assert "Novel, K = 5 |" in head
    assert {row.count("|") for row in rows} == {head.count("|")}
    assert any(row.startswith("| scaling † | zero-shot | ") for row in rows)
    assert len(rows) == sum(map(len, NAMES.values()))
