"""Which of the paper's findings hold in these results. Computed, each by a rule that is stated."""

from typing import Any, NamedTuple

import numpy as np

from .comparison import Comparison, Skills
from .numbers import positions, trend
from .tables import Column, Table

__all__ = ["Finding", "findings"]

FAR = 10.0  # percentage points from which one skill is far below another
_LINEAR = ("linear", "ridge")


class Finding(NamedTuple):
    """One finding of the paper, what was checked, and what came of it."""

    name: str
    claim: str
    rule: str
    verdict: str  # "holds", "holds in part", "does not hold", "cannot be computed"
    summary: str
    table: Table


def findings(comparison: Comparison, tables: dict[str, Table]) -> list[Finding]:
    """The paper's findings, checked under wQL against naive (or the report's reference).

    Args:
        comparison: the models compared.
        tables: the report's tables by name; "fewest_most" and "gap" are read.
    """
    reference = "naive" if "naive" in comparison.references else comparison.references[0]
    wanted = {"metric": "wql", "reference": reference}
    few = [row for row in tables["fewest_most"].rows if wanted.items() <= row.items()]
    gaps = [row for row in tables["gap"].rows if wanted.items() <= row.items()]
    return [
        _far_below(comparison, reference),
        _falls_with_k(comparison, reference),
        _rises_with_events(comparison, reference),
        _linear_events(comparison, few, "replay", ("opendc", "sumo"), rises=False),
        _linear_events(comparison, few, "novel", ("opendc", "sumo"), rises=False),
        _linear_events(comparison, few, "both", ("epanet", "gridlabd"), rises=True),
        _gap_by_system(gaps),
    ]


def _far_below(comparison: Comparison, reference: str) -> Finding:
    skills = comparison.skills("wql", reference, ("future",))
    rows = []
    for name in _others(comparison, reference):
        ends = [skills[name].get((future,)) for future in ("replay", "novel")]
        if ends[0] and ends[1]:
            rows.append(_row(name, ends[0].skill, ends[1].skill))
            rows[-1]["holds"] = rows[-1]["change"] <= -FAR
    return _finding(
        "novel_below_replay",
        "Novel skill is far below Replay skill, for every model.",
        f"Novel at least {FAR:g} points below Replay.",
        rows,
        ("Replay", "Novel"),
    )


def _falls_with_k(comparison: Comparison, reference: str) -> Finding:
    skills = comparison.skills("wql", reference, ("future", "k"))
    rows = []
    for name in _others(comparison, reference):
        cells = _along(skills, name, "novel")
        if len(cells) > 1:
            row = _row(name, cells[0][1], cells[-1][1])
            k, skill = (np.array(column, float) for column in zip(*cells, strict=True))
            row["trend"] = float(np.polyfit(k, skill, 1)[0])
            row["holds"] = row["trend"] < 0 and row["change"] < 0
            rows.append(row)
    return _finding(
        "novel_falls_with_k",
        "Novel skill falls as more covariates are set together.",
        "The least-squares line of Novel skill on K falls; the largest K is below the smallest.",
        rows,
        _ends(comparison, "k", "K = {}"),
        "per covariate",
    )


def _rises_with_events(comparison: Comparison, reference: str) -> Finding:
    skills = comparison.skills("wql", reference, ("future", "n_events"))
    places = positions(comparison, "n_events")
    rows = []
    for name in _others(comparison, reference):
        cells = _along(skills, name, "novel")
        line = trend(skills, name, "novel", places)
        if line is not None:
            row = _row(name, cells[0][1], cells[-1][1])
            row |= {"trend": line[0], "holds": line[0] > 0}
            rows.append(row)
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
    comparison: Comparison, few: list[dict], future: str, systems: tuple[str, ...], *, rises: bool
) -> Finding:
    rows = []
    for found in few:
        model = comparison.models[found["model"]]
        chosen = future in ("both", found["future"]) and found["system"] in systems
        if model.forecaster in _LINEAR and chosen:
            label = f"{found['model']}, {found['system']}, {found['future']}"
            row = _row(label, found["fewest"], found["most"])
            row["holds"] = row["change"] > 0 if rises else row["change"] < 0
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


def _gap_by_system(gaps: list[dict[str, Any]]) -> Finding:
    wide, narrow = ("opendc", "sumo"), ("epanet", "gridlabd")
    rows = []
    for found in gaps:
        known = [
            found[one] for one in (*wide, *narrow) if found.get(one) is not None
        ]  # an own suite may lack a system
        if found["model"] == "mean over models" or len(known) < 4:
            continue
        row = _row(found["model"], float(np.mean(known[2:])), float(np.mean(known[:2])))
        row["holds"] = row["change"] > 0
        rows.append(row)
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
    ends: tuple[str, str],
    slope: str = "",
) -> Finding:
    held = sum(row["holds"] for row in rows)
    if not rows:
        verdict, summary = "cannot be computed", "No result of these models and tasks."
    else:
        verdict = "does not hold" if not held else "holds in part"
        verdict = "holds" if held == len(rows) else verdict
        summary = f"Holds in {held} of {len(rows)} comparisons."
        against = [row["model"] for row in rows if not row["holds"]]
        if against and held:
            summary += f" Not for {'; '.join(against)}."
    for row in rows:
        row["holds"] = "yes" if row["holds"] else "no"
    columns = [
        Column("model", "Model"),
        Column("first", ends[0], "percent"),
        Column("second", ends[1], "percent"),
        Column("change", "Change", "points"),
    ]
    if slope:
        columns.append(Column("trend", f"Slope {slope}", "points"))
    columns.append(Column("holds", "Holds"))
    return Finding(
        name, claim, rule, verdict, summary, Table(f"finding_{name}", claim, tuple(columns), rows)
    )


def _row(model: str, first: float, second: float) -> dict[str, Any]:
    return {"model": model, "first": first, "second": second, "change": second - first}


def _others(comparison: Comparison, reference: str) -> list[str]:
    """Models but the reference, whose skill is 0 everywhere; best first."""
    skills = comparison.skills("wql", reference)
    known = [name for name, cells in skills.items() if () in cells and name != reference]
    return sorted(known, key=lambda name: -skills[name][()].skill)


def _along(skills: Skills, model: str, future: str) -> list[tuple[Any, float]]:
    cells = [(key[1], value.skill) for key, value in skills[model].items() if key[0] == future]
    return sorted(cells)


def _ends(comparison: Comparison, axis: str, text: str) -> tuple[str, str]:
    values = comparison.suite.column(axis)
    return text.format(values.min()), text.format(values.max())
