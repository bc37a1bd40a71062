"""Which of the paper's findings hold in these results. Computed, each by a rule that is stated."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from ..report.comparison import Comparison
from ..report.labels import FUTURES
from ..report.tables import MODEL, Column, Table
from .paper_names import PAPERS_SUITE, is_default
from .resamples import Key, decide, ends, resampled, sets_of, slope

__all__ = ["Finding", "findings", "findings_table", "verdict_of"]

FAR = 10.0  # percentage points from which one skill is far below another
NEAR = 1.0  # percentage points within which two skills are alike
WIDE, NARROW = ("opendc", "sumo"), ("epanet", "gridlabd")  # the systems of the paper's contrasts
_LINEAR = ("linear", "ridge")
_NOTE = (
    "Undecided: the 95 % bootstrap interval of the change or slope, below it, reaches over the "
    "limit of the rule. Histories are drawn, both futures of each together."
)

Skills = Mapping[str, Mapping[Key, np.ndarray]]  # by model and set of tasks: [1 + R]
Row = dict[str, Any]


class Finding(NamedTuple):
    """One finding of the paper, what was checked, and what came of it."""

    name: str
    claim: str
    rule: str
    verdict: str  # "holds", "holds in part", "does not hold", "undecided", "cannot be computed"
    summary: str
    table: Table


def findings(comparison: Comparison, fewest_most: Table) -> list[Finding]:
    """The paper's findings, checked under wQL against naive (or the report's reference).

    None on another suite than the paper's.

    Args:
        comparison: the models compared.
        fewest_most: the report's table of that name.
    """
    if comparison.suite.name != PAPERS_SUITE:
        return []
    reference = "naive" if "naive" in comparison.references else comparison.references[0]
    few = fewest_most.where(metric="wql", reference=reference)
    skills = _skills(comparison, reference)
    return [
        _finding(
            "novel_below_replay",
            "Novel skill is far below Replay skill, for every model.",
            f"Novel at least {FAR:g} points below Replay.",
            ("Replay", "Novel"),
            _far_below(skills),
        ),
        _finding(
            "novel_falls_with_k",
            "Novel skill falls as more covariates are set together.",
            "The least-squares line of Novel skill on K falls; the largest K is below the "
            "smallest.",
            _ends(comparison, "k", "K = {}"),
            _falls_with_k(skills),
            per="per covariate",
        ),
        _finding(
            "novel_rises_with_events",
            "Novel skill rises with the number of events in the history (in the paper, for every "
            "model but TiRex-2).",
            "The least-squares line of Novel skill on log2 of the number of events rises.",
            _ends(comparison, "n_events", "{} event{s}"),
            _rises_with_events(skills),
            per="per doubling",
        ),
        *(_with_events(comparison, skills, few, ("replay",), WIDE, "falls"),
          _with_events(comparison, skills, few, ("novel",), WIDE, "falls"),
          _with_events(comparison, skills, few, FUTURES, NARROW, "rise")),
        _finding(
            "ridge_as_linear",
            "With the fewest and with the most events, ridge regression is within one point of "
            "linear regression on every system and future.",
            f"Ridge at most {NEAR:g} point from linear, at each end of the paper's Table 14.",
            ("Linear", "Ridge"),
            _ridge_as_linear(comparison, few, reference),
        ),
        _finding(
            "gap_by_system",
            "The gap from Replay to Novel is larger on opendc and sumo than on epanet and "
            "gridlabd.",
            "Mean gap over the two systems of each side.",
            ("Gap on epanet, gridlabd", "Gap on opendc, sumo"),
            _gap_by_system(skills),
        ),
    ]  # fmt: skip


def findings_table(found: Sequence[Finding]) -> Table:
    """All findings as one table, for a CSV file."""
    keys = ("name", "claim", "rule", "verdict", "summary")
    columns = tuple(Column(key, key.capitalize()) for key in keys)
    rows = [{key: getattr(one, key) for key in keys} for one in found]
    return Table.of_rows("findings", "Findings", columns, rows)


def _skills(comparison: Comparison, reference: str) -> Skills:
    """Of every model but the reference, whose skills are 0 everywhere; the best first."""
    found: dict[str, dict[Key, np.ndarray]] = {}
    for names, table in comparison.against("wql", reference):
        drawn = resampled(comparison, table, reference, sets_of(table))
        found |= {name: drawn[name] for name in names}
    ranked = comparison.ranked().filter(metric="wql", reference=reference)["model"]
    return {name: found[name] for name in ranked if name != reference}


def _along(cells: Mapping[Key, np.ndarray], axis: str) -> tuple[list[Any], list[np.ndarray]]:
    """Values of an axis, ascending, and the skill at each."""
    values = sorted(key[1] for key in cells if key[0] == axis)
    return values, [cells[axis, value] for value in values]


def _far_below(skills: Skills) -> Iterable[Row]:
    for name, cells in skills.items():
        replay, novel = (cells.get(("future", future)) for future in FUTURES)
        if replay is not None and novel is not None:
            yield _row(name, replay, novel, decide(novel - replay, high=-FAR))


def _falls_with_k(skills: Skills) -> Iterable[Row]:
    for name, cells in skills.items():
        values, along = _along(cells, "k")
        if len(values) > 1:
            trend = slope(values, along)
            answers = (decide(trend, high=0.0), decide(along[-1] - along[0], high=0.0))
            # both must hold: no where one does not, undecided where one is not known
            holds = next((one for one in ("no", "undecided") if one in answers), "yes")
            yield _row(name, along[0], along[-1], holds, trend)


def _rises_with_events(skills: Skills) -> Iterable[Row]:
    for name, cells in skills.items():
        values, along = _along(cells, "n_events")
        if len(values) > 1:
            trend = slope(np.log2(values).tolist(), along)
            yield _row(name, along[0], along[-1], decide(trend, low=0.0), trend)


def _with_events(
    comparison: Comparison,
    skills: Skills,
    few: pl.DataFrame,
    futures: Sequence[str],
    systems: Sequence[str],
    verb: str,
) -> Finding:
    """With more events, skill of the linear models on some futures and systems falls or rises."""
    rows = []
    for model, future, system in few.select("model", "future", "system").iter_rows():
        linear = comparison.models[model].forecaster in _LINEAR
        if linear and future in futures and system in systems:
            fewest, most = (skills[model][end, system, future] for end in ("fewest", "most"))
            limits = {"high" if verb == "falls" else "low": 0.0}
            label = f"{model}, {system}, {future}"
            rows.append(_row(label, fewest, most, decide(most - fewest, **limits)))
    what = " and ".join(future.capitalize() for future in futures)
    name = "both" if len(futures) > 1 else futures[0]
    return _finding(
        f"linear_{name}_events_{'_'.join(systems)}",
        f"With more events, {what} skill of linear and ridge regression {verb} on "
        f"{' and '.join(systems)}.",
        "The most events against the fewest, all else equal (the paper's Table 14).",
        ("Fewest", "Most"),
        rows,
    )


def _ridge_as_linear(comparison: Comparison, few: pl.DataFrame, reference: str) -> Iterable[Row]:
    """Of the runs with default settings, on the tasks of both."""
    known = {
        model.forecaster: name
        for name, model in comparison.models.items()
        if model.forecaster in _LINEAR and is_default(model) and name != reference
    }
    table = comparison.table("wql", [*known.values(), reference]) if len(known) == 2 else None
    if table is None:
        return
    linear, ridge = (known[name] for name in _LINEAR)
    sets = sets_of(table)
    cells = few.filter((pl.col("model") == ridge) & (pl.col("system") != "all"))
    wanted = {
        key: sets[key]
        for cell in cells.select("system", "future").iter_rows()
        for key in (("fewest", *cell), ("most", *cell))
        if key in sets
    }
    drawn = resampled(comparison, table, reference, wanted)
    for key in wanted:
        end, system, future = key
        both = [drawn[name][key] for name in (linear, ridge)]
        holds = decide(both[1] - both[0], low=-NEAR, high=NEAR)
        yield _row(f"{system}, {future}, {end} events", both[0], both[1], holds)


def _gap_by_system(skills: Skills) -> Iterable[Row]:
    for name, cells in skills.items():
        gaps = {
            system: cells["system", system, "replay"] - cells["system", system, "novel"]
            for system in (*NARROW, *WIDE)
            if all(("system", system, future) in cells for future in FUTURES)
        }
        if len(gaps) == 4:  # an own suite may lack a system
            narrow, wide = (
                np.mean([gaps[system] for system in systems], axis=0) for systems in (NARROW, WIDE)
            )
            yield _row(name, narrow, wide, decide(wide - narrow, low=0.0))


def _row(
    model: str, first: np.ndarray, second: np.ndarray, holds: str, trend: np.ndarray | None = None
) -> Row:
    row: Row = {"model": model, "first": float(first[0]), "second": float(second[0])}
    for key, one in (("change", second - first), ("trend", trend)):
        if one is not None:
            row[key] = float(one[0])
            row[f"{key}_low"], row[f"{key}_high"] = ends(one)
    return row | {"holds": holds}


def _finding(
    name: str, claim: str, rule: str, labels: tuple[str, str], found: Iterable[Row], per: str = ""
) -> Finding:
    columns = [
        MODEL,
        Column("first", labels[0], "percent"),
        Column("second", labels[1], "percent"),
        Column("change", "Change", "points", "", (("change_low", "change_high"),)),
    ]
    if per:
        ends_of_trend = (("trend_low", "trend_high"),)
        columns.append(Column("trend", f"Slope {per}", "points", "", ends_of_trend))
    columns.append(Column("holds", "Holds"))
    rows = list(found)
    table = Table.of_rows(f"finding_{name}", claim, columns, rows, _NOTE if rows else "")
    return Finding(name, claim, rule, *verdict_of(rows), table)


def verdict_of(rows: Sequence[Row]) -> tuple[str, str]:
    """The verdict and its summary."""
    if not rows:
        return "cannot be computed", "No result of these models and tasks."
    held, against, undecided = (
        [row["model"] for row in rows if row["holds"] == answer]
        for answer in ("yes", "no", "undecided")
    )
    verdict = "holds in part" if held else "does not hold" if against else "undecided"
    if len(held) == len(rows):
        verdict = "holds"
    summary = f"Holds in {len(held)} of {len(rows)} comparisons."
    if against and held:
        summary += f" Not for {'; '.join(against)}."
    if undecided:
        summary += f" Undecided in {len(undecided)}."
    return verdict, summary


def _ends(comparison: Comparison, axis: str, text: str) -> tuple[str, str]:
    values = comparison.suite.column(axis)
    low, high = (
        text.format(one, s="" if one == 1 else "s") for one in (values.min(), values.max())
    )
    return low, high
