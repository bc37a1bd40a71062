"""Which of the paper's findings hold in these results. Computed, each by a rule that is stated."""

from typing import Any, NamedTuple

import numpy as np

from .comparison import Comparison, Drawn
from .numbers import positions
from .paper_names import is_default
from .resamples import decide, difference, ends, fewest_most_rows, mean, resampled, slope
from .tables import Column, Table

__all__ = ["Finding", "findings"]

FAR = 10.0  # percentage points from which one skill is far below another
NEAR = 1.0  # percentage points within which two skills are alike
_LINEAR = ("linear", "ridge")
_NOTE = (
    "Undecided: the 95 % bootstrap interval of the change or slope, below it, reaches over the "
    "limit of the rule. Histories are drawn, both futures of each together."
)


class Finding(NamedTuple):
    """One finding of the paper, what was checked, and what came of it."""

    name: str
    claim: str
    rule: str
    verdict: str  # "holds", "holds in part", "does not hold", "undecided", "cannot be computed"
    summary: str
    table: Table


def findings(comparison: Comparison, tables: dict[str, Table]) -> list[Finding]:
    """The paper's findings, checked under wQL against naive (or the report's reference).

    Args:
        comparison: the models compared.
        tables: the report's tables by name; "fewest_most" is read.
    """
    reference = "naive" if "naive" in comparison.references else comparison.references[0]
    wanted = {"metric": "wql", "reference": reference}
    few = [row for row in tables["fewest_most"].rows if wanted.items() <= row.items()]
    whole = comparison.skills("wql", reference)
    names = [name for name, cells in whole.items() if () in cells and name != reference]
    names.sort(key=lambda name: -whole[name][()].skill)  # best first
    drawn = resampled(comparison, "wql", reference)
    skills = {name: drawn[name] for name in names}  # but the reference's, which are 0 everywhere
    return [
        _far_below(skills),
        _falls_with_k(comparison, skills),
        _rises_with_events(comparison, skills),
        _linear_events(comparison, skills, few, "replay", ("opendc", "sumo"), rises=False),
        _linear_events(comparison, skills, few, "novel", ("opendc", "sumo"), rises=False),
        _linear_events(comparison, skills, few, "both", ("epanet", "gridlabd"), rises=True),
        _ridge_as_linear(comparison, few, reference),
        _gap_by_system(skills),
    ]


Skills = dict[str, dict[Any, Drawn]]


def _far_below(skills: Skills) -> Finding:
    rows = []
    for name, cells in skills.items():
        both = [cells.get(("future", future)) for future in ("replay", "novel")]
        if both[0] and both[1]:
            rows.append(_row(name, both[0], both[1]))
            rows[-1]["holds"] = decide(difference(both[0], both[1]), high=-FAR)
    return _finding(
        "novel_below_replay",
        "Novel skill is far below Replay skill, for every model.",
        f"Novel at least {FAR:g} points below Replay.",
        rows,
        ("Replay", "Novel"),
    )


def _falls_with_k(comparison: Comparison, skills: Skills) -> Finding:
    rows = []
    for name, cells in skills.items():
        values = sorted(key[1] for key in cells if key[0] == "k")
        if len(values) > 1:
            along = [cells["k", value] for value in values]
            trend = slope(values, along)
            row = _row(name, along[0], along[-1], trend)
            row["holds"] = _both(
                decide(trend, high=0.0), decide(difference(along[0], along[-1]), high=0.0)
            )
            rows.append(row)
    return _finding(
        "novel_falls_with_k",
        "Novel skill falls as more covariates are set together.",
        "The least-squares line of Novel skill on K falls; the largest K is below the smallest.",
        rows,
        _ends(comparison, "k", "K = {}"),
        "per covariate",
    )


def _rises_with_events(comparison: Comparison, skills: Skills) -> Finding:
    places = positions(comparison, "n_events")
    rows = []
    for name, cells in skills.items():
        values = sorted(key[1] for key in cells if key[0] == "n_events")
        if len(values) > 1:
            along = [cells["n_events", value] for value in values]
            trend = slope(np.log2([places[value] for value in values]).tolist(), along)
            row = _row(name, along[0], along[-1], trend)
            rows.append(row | {"holds": decide(trend, low=0.0)})
    return _finding(
        "novel_rises_with_events",
        "Novel skill rises with the number of events in the history (in the paper, for every model "
        "but TiRex-2).",
        "The least-squares line of Novel skill on log2 of the number of events rises.",
        rows,
        _ends(comparison, "n_events", "{} events"),
        "per doubling",
    )


def _linear_events(
    comparison: Comparison,
    skills: Skills,
    few: list[dict],
    future: str,
    systems: tuple[str, ...],
    *,
    rises: bool,
) -> Finding:
    rows = []
    for found in few:
        model = comparison.models[found["model"]]
        chosen = future in ("both", found["future"]) and found["system"] in systems
        if model.forecaster in _LINEAR and chosen:
            label = f"{found['model']}, {found['system']}, {found['future']}"
            at = (found["system"], found["future"])
            both = [skills[found["model"]][end, *at] for end in ("fewest", "most")]
            row = _row(label, both[0], both[1])
            limits = {"low": 0.0} if rises else {"high": 0.0}
            row["holds"] = decide(difference(both[0], both[1]), **limits)
            rows.append(row)
    verb = "rises" if rises else "falls"
    what = "Replay and Novel skill" if future == "both" else f"{future.capitalize()} skill"
    where = " and ".join(systems)
    verb = verb[:-1] if future == "both" else verb
    return _finding(
        f"linear_{future}_events_{'_'.join(systems)}",
        f"With more events, {what} of linear and ridge regression {verb} on {where}.",
        "The most events against the fewest, all else equal (the paper's Table 14).",
        rows,
        ("Fewest", "Most"),
    )


def _ridge_as_linear(comparison: Comparison, few: list[dict], reference: str) -> Finding:
    """Of the runs with default settings, on the tasks of both."""
    rows = []
    known = {
        model.forecaster: name
        for name, model in comparison.models.items()
        if model.forecaster in _LINEAR and is_default(model) and name != reference
    }
    table = comparison.table("wql", [*known.values(), reference]) if len(known) == 2 else None
    if table is not None:
        members = fewest_most_rows(table)
        cells = [
            (row["system"], row["future"])
            for row in few
            if row["model"] == known["ridge"] and row["system"] != "all"
        ]
        wanted = {
            key: members[key]
            for cell in cells
            for key in (("fewest", *cell), ("most", *cell))
            if len(members.get(key, ()))
        }
        drawn = comparison.drawn(table, reference, wanted)
        for key in wanted:
            both = [drawn[known[name]][key] for name in _LINEAR]
            row = _row(f"{key[1]}, {key[2]}, {key[0]} events", both[0], both[1])
            row["holds"] = decide(difference(both[0], both[1]), low=-NEAR, high=NEAR)
            rows.append(row)
    return _finding(
        "ridge_as_linear",
        "With the fewest and with the most events, ridge regression is within one point of linear "
        "regression on every system and future.",
        f"Ridge at most {NEAR:g} point from linear, at each end of the paper's Table 14.",
        rows,
        ("Linear", "Ridge"),
    )


def _gap_by_system(skills: Skills) -> Finding:
    wide, narrow = ("opendc", "sumo"), ("epanet", "gridlabd")
    rows = []
    for name, cells in skills.items():
        if not all(
            ("system", system, future) in cells  # an own suite may lack a system
            for system in (*wide, *narrow)
            for future in ("replay", "novel")
        ):
            continue
        sides = [
            mean(
                [
                    difference(cells["system", one, "novel"], cells["system", one, "replay"])
                    for one in systems
                ]
            )
            for systems in (narrow, wide)
        ]
        row = _row(name, sides[0], sides[1])
        rows.append(row | {"holds": decide(difference(sides[0], sides[1]), low=0.0)})
    return _finding(
        "gap_by_system",
        "The gap from Replay to Novel is larger on opendc and sumo than on epanet and gridlabd.",
        "Mean gap over the two systems of each side.",
        rows,
        ("Gap on epanet, gridlabd", "Gap on opendc, sumo"),
    )


def _finding(
    name: str,
    claim: str,
    rule: str,
    rows: list[dict[str, Any]],
    labels: tuple[str, str],
    per: str = "",
) -> Finding:
    held, against, open_ = (
        [row["model"] for row in rows if row["holds"] == answer]
        for answer in ("yes", "no", "undecided")
    )
    if not rows:
        verdict, summary = "cannot be computed", "No result of these models and tasks."
    else:
        verdict = "holds in part" if held else "does not hold" if against else "undecided"
        verdict = "holds" if len(held) == len(rows) else verdict
        summary = f"Holds in {len(held)} of {len(rows)} comparisons."
        if against and held:
            summary += f" Not for {'; '.join(against)}."
        if open_:
            summary += f" Undecided in {len(open_)}."
    columns = [
        Column("model", "Model"),
        Column("first", labels[0], "percent"),
        Column("second", labels[1], "percent"),
        Column("change", "Change", "points", "", "change_low", "change_high"),
    ]
    if per:
        columns.append(Column("trend", f"Slope {per}", "points", "", "trend_low", "trend_high"))
    columns.append(Column("holds", "Holds"))
    table = Table(f"finding_{name}", claim, tuple(columns), rows, _NOTE)
    return Finding(name, claim, rule, verdict, summary, table)


def _row(model: str, first: Drawn, second: Drawn, trend: Drawn | None = None) -> dict[str, Any]:
    row: dict[str, Any] = {"model": model, "first": first.skill, "second": second.skill}
    for key, one in (("change", difference(first, second)), ("trend", trend)):
        if one is not None:
            row[key] = one.skill
            row[f"{key}_low"], row[f"{key}_high"] = ends(one)
    return row


def _both(*answers: str) -> str:
    """Of rules that must all hold: no where one does not, undecided where one is not known."""
    return next((one for one in ("no", "undecided") if one in answers), "yes")


def _ends(comparison: Comparison, axis: str, text: str) -> tuple[str, str]:
    values = comparison.suite.column(axis)
    return text.format(values.min()), text.format(values.max())
