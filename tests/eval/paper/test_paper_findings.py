"""Verdicts on the paper's findings follow the numbers and their intervals."""

import dataclasses

import numpy as np
import pytest

from eval.paper.findings import findings
from eval.paper.resamples import decide, ends, resampled, sets_of, slope
from eval.report.tables.skills import fewest_most_table
from tests.eval.report.report_helpers import compare, one_row, with_wql
from whatif_jax import root_key
from whatif_jax.comparison import skill_by


@pytest.fixture(scope="module")
def found(comparison, tables):
    return {one.name: one for one in findings(comparison, tables["fewest_most"])}


def found_in(runs, part):
    comparison = compare(runs, part)
    return {one.name: one for one in findings(comparison, fewest_most_table(comparison))}


def test_findings_follow_the_numbers(runs, part, found):
    names = ("novel_below_replay", "novel_falls_with_k", "novel_rises_with_events")
    for name in names:
        assert found[name].verdict == "holds", found[name]
    # the same with Novel errors far smaller than Replay's, growing with events, falling with K
    novel = part.column("future") == "novel"
    k, events = part.column("k"), np.log2(part.column("n_events"))
    base = runs["naive"].scores["wql"].to_numpy()
    wql = base * np.where(novel, 0.5 - 0.08 * k + 0.03 * events, 0.9)
    turned = [with_wql(runs[name], wql) for name in ("linear", "ridge", "chronos-2")]
    other = found_in([runs["naive"], *turned], part)
    for name in names:
        assert other[name].verdict == "does not hold", other[name]


def test_changes_with_events_are_those_of_the_table(tables, found):
    for name in ("linear_replay_events_opendc_sumo", "linear_novel_events_opendc_sumo"):
        rows = found[name].table.frame.to_dicts()
        assert rows
        for row in rows:
            model, system, future = row["model"].split(", ")
            cell = one_row(tables["fewest_most"], model=model, system=system, future=future,
                           metric="wql", reference="naive")  # fmt: skip
            for mine, theirs in (("first", "fewest"), ("second", "most"), ("change", "change")):
                assert row[mine] == pytest.approx(cell[theirs])
            assert row["change_low"] < row["change"] < row["change_high"]


def test_ridge_is_held_against_linear_cell_by_cell(found):
    rows = {row["model"]: row for row in found["ridge_as_linear"].table.frame.to_dicts()}
    assert found["ridge_as_linear"].verdict == "holds in part"
    for name, row in rows.items():
        if name.startswith("sumo, novel"):
            assert row["holds"] == "no" and row["change"] < -1
        else:  # alike to the last digit: no resample differs
            assert row["change"] == 0.0
    assert sum(name.startswith("sumo, novel") for name in rows) == 2 < len(rows)


def test_findings_leave_noise_undecided(part, runs):
    # a model whose errors have nothing to do with K, events or system, on few tasks
    naive = runs["naive"]
    noise = np.random.default_rng(8).lognormal(-0.5, 0.5, naive.scores.num_rows)
    scores = with_wql(runs["linear"], naive.scores["wql"].to_numpy() * noise).scores
    scores = scores.take(np.sort(np.random.default_rng(2).choice(len(scores), 400, replace=False)))
    found = found_in(
        [naive, dataclasses.replace(runs["linear"], name="noise", scores=scores)], part
    )
    for name in ("novel_falls_with_k", "novel_rises_with_events", "gap_by_system"):
        assert found[name].verdict == "undecided", found[name]
        assert found[name].table.frame["holds"].to_list() == ["undecided"]
        assert "Undecided in 1." in found[name].summary
    assert "Histories are drawn" in found["gap_by_system"].table.note


def test_what_no_result_bears_on_cannot_be_computed(part, runs):
    found = found_in([runs["naive"], runs["chronos-2"]], part)["ridge_as_linear"]
    assert found.verdict == "cannot be computed" and found.table.frame.is_empty()
    assert "Undecided" not in found.table.note


def test_one_event_is_one(found):
    labels = [column.label for column in found["novel_rises_with_events"].table.columns]
    assert labels[1] == "1 event" and labels[2].endswith(" events"), labels


def test_resampled_skills_are_those_of_the_bootstrap(comparison):
    table = comparison.table("wql", ["naive", "linear", "ridge", "chronos-2"])
    drawn = resampled(comparison, table, "naive", sets_of(table))
    expected = skill_by(table, "future", key=root_key(0), resamples=60, by="pair")
    for row in expected.rows():
        skill = drawn[row["model"]]["future", row["future"]]
        assert skill[0] == pytest.approx(100 * row["skill"])
        both = (100 * row["skill_lower"], 100 * row["skill_upper"])
        assert ends(skill) == pytest.approx(both)


def test_slopes_are_least_squares_on_every_resample():
    x, skills = [1.0, 2.0, 4.0], np.random.default_rng(0).normal(size=(3, 5))
    expected = [np.polyfit(x, column, 1)[0] for column in skills.T]
    assert slope(x, list(skills)) == pytest.approx(expected)


def test_verdicts_are_undecided_where_the_interval_holds_the_limit():
    def skill(low, high):
        return np.concatenate([[(low + high) / 2], np.linspace(low, high, 201)])

    assert decide(skill(1, 5), low=0.0) == "yes" and decide(skill(1, 5), high=0.0) == "no"
    assert decide(skill(-1, 5), low=0.0) == decide(skill(-1, 5), high=0.0) == "undecided"
    assert decide(skill(-12, -9), high=-10.0) == "undecided"
    assert decide(skill(-0.5, 0.9), low=-1.0, high=1.0) == "yes"
    assert decide(skill(0.5, 1.5), low=-1.0, high=1.0) == "undecided"
    assert decide(skill(1.1, 1.5), low=-1.0, high=1.0) == "no"
    assert decide(np.full(4, np.nan), low=0.0) == "undecided"
