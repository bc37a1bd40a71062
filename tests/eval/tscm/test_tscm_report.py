"""What must come out, DoTime's figures, and the page."""

import dataclasses

import numpy as np
import polars as pl
import pyarrow as pa
import pytest

from eval.report.models import ReportError
from eval.tscm.board import board_of
from eval.tscm.checks import checks
from eval.tscm.published import later_table, load_dotime, paper_table
from eval.tscm.report import reference_text, scored_text, write_page
from eval.tscm.tables import methods_table, reference_table, values_table
from tests.eval.tscm.board_cases import IDENTIFIABILITY, OBSERVED, SUITES, estimates, everything
from whatif_jax import root_key


def board(found):
    return board_of(found, SUITES, key=root_key(0), resamples=100)


@pytest.fixture(scope="module")
def made():
    return board(everything())


def verdicts(of):
    return {one.name: one.verdict for one in checks(of)}


def with_column(one, name, values):
    place = one.table.column_names.index(name)
    field = one.table.schema.field(place)
    table = one.table.set_column(place, field, pa.array(values).cast(field.type))
    return dataclasses.replace(one, table=table)


def changed(baseline, column, change):
    """Everything, with a column of one baseline changed on all suites."""
    return [
        with_column(one, column, change(one)) if one.baseline == baseline else one
        for one in everything()
    ]


def test_what_must_come_out_comes_out_where_the_numbers_say_so(made):
    assert set(verdicts(made).values()) == {"holds"}
    assert len(verdicts(made)) == 6


@pytest.mark.parametrize(
    "check, baseline, column, change",
    [
        ("oracle", "oracle", "estimated_effect", lambda one: one.column("estimated_effect") + 1e-6),
        ("no_effect", "back_door", "estimated_effect", lambda one: np.full(len(one.table), 3.0)),
        ("instrument", "instrument", "estimated_effect", lambda one: np.full(len(one.table), 9.0)),
        ("mean", "back_door", "estimated_interventional",
         lambda one: one.column("estimated_interventional") + 1e-3),
    ],
)  # fmt: skip
def test_a_check_says_where_it_does_not_hold(check, baseline, column, change):
    found = verdicts(board(changed(baseline, column, change)))
    assert found.pop(check) in ("does not hold", "holds in part")
    assert found[{"oracle": "mean"}.get(check, "oracle")] == "holds"


def test_two_stages_are_compared_where_the_instrument_is_not_weak_too():
    """Where it is weak its effect is 0, which is no error of two stages."""

    def weak(one):
        effect = one.column("estimated_effect").copy()
        effect[one.column("episode") % 2 == 0] = 0.0
        return effect

    found = {
        one.name: one for one in checks(board(changed("instrument", "estimated_effect", weak)))
    }
    rows = found["instrument"].table.frame
    assert rows["model"].to_list() == [
        "linear-instrument-v1, 200 steps",
        "linear-instrument-v1, 200 steps, where the instrument is not weak",
        "long-v1, 2,000 steps",
        "long-v1, 2,000 steps, where the instrument is not weak",
    ]
    assert rows["second"][0] > 0.5 and rows["second"][1] < 0.2
    assert rows["holds"].to_list()[1::2] == ["yes", "yes"]


def test_an_effect_that_grows_and_values_that_are_harder_do_not_hold():
    grows = board(
        [
            with_column(
                one, "counterfactual",
                one.column("factual") + one.column("offset").astype(np.float32),
            )
            for one in everything()
        ]
    )  # fmt: skip
    assert verdicts(grows)["decay"] == "does not hold"
    harder = [one for one in everything() if one.suite != OBSERVED.version]
    harder += [
        with_column(one, "estimated_interventional", one.column("estimated_interventional") + 9.0)
        for one in everything()
        if one.suite == OBSERVED.version
    ]
    assert verdicts(board(harder))["values"] == "does not hold"


def test_without_the_results_a_check_cannot_be_computed():
    found = verdicts(board(estimates(IDENTIFIABILITY, names=("zero", "mean"))))
    assert set(found.values()) == {"cannot be computed"}


def fewer(baseline, suites=SUITES):
    """Everything, with the first half of what one baseline has on some suites."""
    return [
        dataclasses.replace(one, table=one.table.slice(0, len(one.table) // 2))
        if one.baseline == baseline and one.suite in [suite.version for suite in suites]
        else one
        for one in everything()
    ]


@pytest.mark.parametrize("baseline, check", [("back_door", "no_effect"), ("mean", "values")])
def test_methods_with_other_episodes_are_not_compared(made, baseline, check):
    suites = SUITES if check == "no_effect" else [OBSERVED]
    whole = {one.name: one.table for one in checks(made)}[check].frame
    part = {one.name: one.table for one in checks(board(fewer(baseline, suites)))}[check].frame
    assert any(baseline in name for name in whole["model"]) or part.height == 0
    assert part.height < whole.height


def test_what_was_scored_is_said_where_it_is_a_part(made, tmp_path):
    assert scored_text(made) == "identifiability-v1: 120 episodes; continuous-v1: 80 episodes."
    some = board(fewer("back_door"))
    names = "zero, mean, regression, instrument, oracle"
    text = f"identifiability-v1: 120 ({names}), 60 of 120 (back_door)"
    assert scored_text(some).startswith(f"{text} episodes; ")
    write_page(some, tmp_path)
    assert text in (tmp_path / "tscm.md").read_text("utf-8")
    assert text in (tmp_path / "index.html").read_text("utf-8")
    rows = {row["model"]: row["evidence"] for row in methods_table(made).frame.to_dicts()}
    assert rows["oracle"] == "the truth" and rows["mean"] == "the steps before the onset"


def test_no_results_are_refused():
    with pytest.raises(ReportError, match="^results: none"):
        board([])


def test_the_reference_table_is_set_as_the_papers(made):
    lines = reference_text(made).splitlines()
    assert lines[0] == "| method | identifiability-v1 | continuous-v1 |"
    oracle = next(line for line in lines if line.startswith("| oracle"))
    assert oracle.count("0.000 ± 0.000 (1.00)") == 2
    assert [line.split("|")[1].strip() for line in lines[2:]] == made.order
    assert reference_table(made).frame.height == 6


def test_the_papers_figures_stand_beside_ours_with_a_word_where_they_do_not_compare(made):
    rows = paper_table(made).frame
    assert set(rows["suite"]) == {"identifiability-v1", "continuous-v1"}
    mean = rows.filter(suite="identifiability-v1", method="Mean").to_dicts()[0]
    assert round(mean["rmse_paper"], 2) == 0.62 and round(mean["direction_paper"], 2) == 0.67
    own = made.array("identifiability-v1", "mean", "interventional_rmse")
    assert mean["rmse_ours"] == own[0]
    continuous = rows.filter(suite="continuous-v1")
    assert continuous.filter(pl.col("comparable").str.starts_with("no"))["method"].len() == 8
    pfn = rows.filter(method="PFN int").to_dicts()[0]
    assert pfn["model"] is None and pfn["rmse_ours"] is None
    assert later_table(made).frame.height == 9


def test_published_figures_are_those_of_the_papers_prose():
    """Sections 6.3 and 6.4: direction accuracy and the range of NMSE."""
    published = load_dotime()
    suites = published["table_3"]["suites"]
    said = {"identifiability": {"PFN int": 0.66, "PFN obs": 0.57, "Mean": 0.67},
            "generic": {"PFN int": 0.66, "PFN obs": 0.62, "Mean": 0.66}}  # fmt: skip
    for suite, rows in said.items():
        for name, direction in rows.items():
            assert round(suites[suite]["rows"][name][3], 2) == direction
    rows = [value for name, value in published["nmse"]["rows"].items() if name != "Zero"]
    assert (round(min(rows), 2), round(max(rows), 2)) == (0.75, 1.52)
    assert [suite["episodes"] for suite in suites.values()] == [10800, 9999, 9999, 100000]
    for suite in suites.values():
        for error, low, high, direction in suite["rows"].values():
            assert low <= error <= high and 0 <= direction <= 1


def test_rows_say_what_they_read_and_runs_on_the_whole_run_are_rows_of_their_own():
    both = board([*everything(), *estimates(IDENTIFIABILITY, ("mean",), evidence="whole")])
    assert both.order[-1] == "mean (whole)"
    rows = {row["model"]: row for row in methods_table(both).frame.to_dicts()}
    assert "before the onset" in rows["mean"]["evidence"]
    assert "whole" in rows["mean (whole)"]["evidence"]
    assert rows["back_door"]["fits"] == "back_door, observed_confounder"
    assert all(row["trained_on"] == "nothing" for row in rows.values())


def test_values_are_compared_by_mode(made):
    table = values_table(made, "identifiability")
    assert [column.key for column in table.columns[1:]] == ["prior", "observed_normal"]
    assert values_table(made, "continuous") is None


def test_the_page_holds_every_table_and_every_one_is_a_file_too(made, tmp_path):
    path = write_page(made, tmp_path / "report")
    page = path.read_text("utf-8")
    names = {one.stem for one in (tmp_path / "report" / "tables").glob("*.csv")}
    for name in ("reference", "paper", "later", "methods", "identifiability-v1_scores",
                 "identifiability-v1_by_structure", "continuous-v1_by_offset",
                 "continuous-v1_by_tier", "identifiability_by_values"):  # fmt: skip
        assert f'data-table="{name}"' in page and name in names
    assert page.count('class="verdict holds"') == 6
    assert "None" not in page and "nan" not in page.split("<script>")[0].lower().split()
    text = (tmp_path / "report" / "tscm.md").read_text("utf-8")
    assert reference_text(made) in text and "What must come out" in text
    assert sorted(one.name for one in (tmp_path / "report").iterdir()) == [
        "index.html", "tables", "tscm.md",
    ]  # fmt: skip


def test_a_page_that_cannot_be_written_is_refused(made, tmp_path):
    (tmp_path / "report").write_text("in the way")
    with pytest.raises(ReportError, match=r"^out: .*in the way"):
        write_page(made, tmp_path / "report")
