"""Every table of skills and win rates, computed from error tables.

All skills are in percent. A table with variants holds its rows for both metrics and references.
"""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from whatif_jax.comparison import log2_trend, nominal_contexts, pairwise_win_rates, win_rates
from whatif_jax.comparison.bootstrap import By

from .comparison import METRICS, Comparison, Skills, percent
from .tables import DASH, MINUS, Column, Table

__all__ = ["AXES", "FUTURES", "gap_table", "leaderboard_table", "pairwise_table", "skill_tables"]

FUTURES = ("replay", "novel")
# The intervals of all other tables.
INTERVALS = (
    "Below, 95 % bootstrap intervals for this suite's targets: histories are drawn, both futures "
    "of each together."
)
# What the leaderboard's intervals draw: histories of this suite, and targets.
BY: tuple[By, ...] = ("pair", "target")
# Table name -> axis, title, whether its trend is on log2 of the axis.
AXES = {
    "skill_by_k": ("k", "Number of covariates", False),
    "skill_by_events": ("n_events", "Number of events in the history", True),
    "skill_by_event_length": ("event_length", "Event length (steps)", True),
    "skill_by_context": ("context_pair", "Context (nominal steps)", True),
}


def variants(comparison: Comparison) -> Iterator[tuple[str, str]]:
    """Every metric with every reference."""
    return ((metric, one) for one in comparison.references for metric in METRICS)


def leaderboard_table(comparison: Comparison) -> Table:
    """Skill, win rate, seconds a series and imputed tasks of every model; one variant a reference.

    Skills are over each model's own tasks, win rates over the tasks that all models have.
    """
    rates = {metric: _win_rates(comparison, metric) for metric in METRICS}
    common = comparison.common("wql")
    beside = "linear" in comparison.models and any(one.sample for one in comparison.models.values())
    rows = []
    for reference in comparison.references:
        skills = {metric: comparison.skills(metric, reference) for metric in METRICS}
        ends = {
            (metric, by): comparison.intervals(metric, reference, by=by)
            for metric in METRICS
            for by in BY
        }
        found = []
        for name, model in comparison.models.items():
            if () not in skills["wql"][name]:
                continue
            row: dict[str, Any] = {"reference": reference, "model": name}
            row["tasks"] = skills["wql"][name][()].tasks
            row["scored"] = model.scored
            for metric in METRICS:
                row[f"{metric}_skill"] = skills[metric][name][()].skill
                for by in BY:
                    low, high = ends[metric, by][name][()]
                    row |= {f"{metric}_skill_{by}_low": low, f"{metric}_skill_{by}_high": high}
                if beside and model.sample:
                    one = comparison.beside(metric, reference, name, "linear").get(())
                    row[f"{metric}_linear"] = one.skill if one else None
                row |= rates[metric].get(name, {})
            row["seconds"], row["seconds_median"] = _seconds(model)
            row["imputed"] = int(model.scores.column("imputed").to_numpy().sum())
            row["crossings"] = int(model.scores.column("crossings").to_numpy().sum())
            found.append(row)
        rows += sorted(found, key=lambda row: -row["wql_skill"])
    columns = [Column("model", "Model"), Column("scored", "Scored on"), _count("tasks", "Tasks")]
    for metric in METRICS:
        key = f"{metric}_skill"
        keys = [f"{key}_{by}_{end}" for by in BY for end in ("low", "high")]
        columns.append(Column(key, _NAMES[metric], "percent", "Skill (%)", *keys))
    for metric in METRICS if beside else ():
        group = "Linear on the same tasks (%)"
        columns.append(Column(f"{metric}_linear", _NAMES[metric], "percent", group))
    for metric in METRICS:
        columns.append(_with_interval(f"{metric}_win_rate", _NAMES[metric], "Win rate (%)"))
    columns += [
        Column("seconds", "mean", "seconds", "Seconds a series"),
        Column("seconds_median", "median", "seconds", "Seconds a series"),
        _count("imputed", "Imputed"),
        _count("crossings", "Crossings"),
    ]
    shared = 0 if common is None else len(common)
    note = (
        f"Skill: 1 {MINUS} geometric mean of the ratios of a model's errors to the "
        "reference's, over the model's own tasks. Win rate: share of tasks with a smaller error "
        f"than another model, averaged over the other models, over the {shared:,} tasks that all "
        f"{len(comparison.models)} models were scored on; of raw errors, as in the paper. "
        "Below them, 95 % percentile bootstrap intervals "
        f"({comparison.resamples:,} resamples, the same for all models). The upper one is for "
        "other histories of this suite's targets: histories are drawn, both futures of each "
        "together. The lower one, in italics, is for other targets of these kinds: targets are "
        "drawn, all tasks of each together. "
        + ("Linear on the same tasks: for models not scored on all. " if beside else "")
        + "Seconds: of the forecaster for one series, without compilation, on the machine of the "
        "run. Imputed: tasks without a finite forecast, replaced by naive. Crossings: neighbouring "
        "quantiles out of order before they were sorted."
    )
    return Table("leaderboard", "Leaderboard", tuple(columns), rows, note, ("reference",))


_NAMES = {"wql": "wQL", "wape": "WAPE"}


def _win_rates(comparison: Comparison, metric: str) -> dict[str, dict[str, float | None]]:
    table = comparison.common(metric)
    if table is None or len(table.models) < 2:
        return {}
    rates = comparison.bootstrap(table, {"rate": win_rates})["rate"]
    key = f"{metric}_win_rate"
    return {
        name: {
            key: percent(rates.estimate[column]),
            f"{key}_low": percent(rates.lower[column]),
            f"{key}_high": percent(rates.upper[column]),
        }
        for column, name in enumerate(table.models)
    }


def _seconds(model: Any) -> tuple[float | None, float | None]:
    if model.seconds is None or not model.seconds.num_rows:
        return None, None
    seconds = model.seconds.column("seconds").to_numpy()
    seconds = seconds[np.isfinite(seconds)]
    return (float(seconds.mean()), float(np.median(seconds))) if len(seconds) else (None, None)


def _count(key: str, label: str) -> Column:
    return Column(key, label, "count")


def _with_interval(key: str, label: str, group: str) -> Column:
    return Column(key, label, "percent", group, f"{key}_low", f"{key}_high")


def skill_tables(comparison: Comparison) -> list[Table]:
    """Replay against Novel, skill by each axis for both futures, and by system."""
    by_axis = [_axis_table(comparison, name) for name in AXES]
    return [_replay_novel_table(comparison), *by_axis, _system_table(comparison)]


def _rows(comparison: Comparison, build: Callable[[str, str], list[dict[str, Any]]]) -> list[dict]:
    rows = []
    for metric, reference in variants(comparison):
        for row in build(metric, reference):
            rows.append({"metric": metric, "reference": reference, **row})
    return rows


def _replay_novel_table(comparison: Comparison) -> Table:
    def build(metric: str, reference: str) -> list[dict[str, Any]]:
        skills = comparison.skills(metric, reference, ("future",))
        ends = comparison.intervals(metric, reference, ("future",))
        rows = []
        for name in _ranked(comparison, metric, reference):
            row: dict[str, Any] = {"model": name}
            for future in FUTURES:
                value = skills[name].get((future,))
                row[future] = value.skill if value else None
                row[f"{future}_tasks"] = value.tasks if value else 0
                row[f"{future}_low"], row[f"{future}_high"] = ends[name].get(
                    (future,), (None, None)
                )
            row["gap"] = _difference(row["replay"], row["novel"])
            rows.append(row)
        return rows

    columns = (
        Column("model", "Model"),
        _with_interval("replay", "Replay", "Skill (%)"),
        _with_interval("novel", "Novel", "Skill (%)"),
        Column("gap", "Gap", "points", f"Replay {MINUS} Novel"),
        Column("replay_tasks", "Replay", "count", "Tasks"),
        Column("novel_tasks", "Novel", "count", "Tasks"),
    )
    note = f"Gap in percentage points. {INTERVALS}"
    return Table(
        "replay_novel", "Replay and Novel futures", columns, _rows(comparison, build), note,
        ("metric", "reference"),
    )  # fmt: skip


def skill_by_title(table: str) -> str:
    """Title of a table of `AXES`, without the unit of its axis."""
    name = AXES[table][1].partition(" (")[0]
    return f"Skill by {name[0].lower()}{name[1:]}"


def _axis_table(comparison: Comparison, table: str) -> Table:
    axis, title, log2 = AXES[table]
    places = positions(comparison, axis)
    values = list(places)

    def build(metric: str, reference: str) -> list[dict[str, Any]]:
        skills = comparison.skills(metric, reference, ("future", axis))
        rows = []
        for name in _ranked(comparison, metric, reference):
            row: dict[str, Any] = {"model": name}
            for future in FUTURES:
                for value in values:
                    cell = skills[name].get((future, value))
                    row[f"{future}_{value}"] = cell.skill if cell else None
                if log2:
                    found = trend(skills, name, future, places)
                    row[f"{future}_slope"] = found[0] if found else None
            rows.append(row)
        return rows

    columns = [Column("model", "Model")]
    for future in FUTURES:
        group = f"{future.capitalize()}: skill (%)"
        columns += [Column(f"{future}_{value}", str(value), "percent", group) for value in values]
        if log2:
            columns.append(Column(f"{future}_slope", "per doubling", "points", group))
    note = f"{title} across the columns."
    if log2:
        note += (
            " Per doubling: slope of the least-squares line of these skills on log2 of the axis."
        )
    if axis == "context_pair":
        steps = ", ".join(f"{pair} {place:,.0f}" for pair, place in places.items())
        note += (
            f" Steps: {steps} (where systems differ, their geometric mean over the tasks; contexts "
            "that grew to hold long events count as their pair)."
        )
    return Table(
        table, skill_by_title(table), tuple(columns),
        _rows(comparison, build), note, ("metric", "reference"),
    )  # fmt: skip


def positions(comparison: Comparison, axis: str) -> dict[Any, float]:
    """Where each value of an axis lies: nominal steps for context pairs, else the value itself."""
    if axis == "context_pair":
        table = comparison.table("wql", [comparison.references[0]])
        return {} if table is None else dict(nominal_contexts(table))
    return {value: float(value) for value in np.unique(comparison.suite.column(axis)).tolist()}


def trend(
    skills: Skills, model: str, future: str, places: dict[Any, float]
) -> tuple[float, float] | None:
    """Least-squares line of skill on log2 of an axis: slope a doubling and intercept, percent.

    None where fewer than two values of the axis have tasks.
    """
    known = [value for value in places if (future, value) in skills[model]]
    if len({places[value] for value in known}) < 2:
        return None
    skill = np.array([skills[model][future, value].skill for value in known])
    line = log2_trend([places[value] for value in known], skill)
    return float(line.slope), float(line.intercept)


def _system_table(comparison: Comparison) -> Table:
    systems = np.unique(comparison.suite.column("system")).tolist()
    systems = [one for one in ("opendc", "gridlabd", "epanet", "sumo") if one in systems] + [
        one for one in systems if one not in ("opendc", "gridlabd", "epanet", "sumo")
    ]

    def build(metric: str, reference: str) -> list[dict[str, Any]]:
        whole = comparison.skills(metric, reference, ())
        both = comparison.skills(metric, reference, ("system",))
        split = comparison.skills(metric, reference, ("future", "system"))
        rows = []
        for name in _ranked(comparison, metric, reference):
            row: dict[str, Any] = {"model": name, "all": whole[name][()].skill}
            for system in systems:
                cell = both[name].get((system,))
                row[system] = cell.skill if cell else None
                for future in FUTURES:
                    cell = split[name].get((future, system))
                    row[f"{future}_{system}"] = cell.skill if cell else None
            rows.append(row)
        return rows

    columns = [Column("model", "Model")]
    columns += [Column(one, one, "percent", "Skill (%)") for one in systems]
    columns.append(Column("all", "all", "percent", "Skill (%)"))
    for future in FUTURES:
        group = f"{future.capitalize()}: skill (%)"
        columns += [Column(f"{future}_{one}", one, "percent", group) for one in systems]
    return Table(
        "by_system", "Skill by system", tuple(columns), _rows(comparison, build), "",
        ("metric", "reference"),
    )  # fmt: skip


def gap_table(comparison: Comparison, by_system: Table) -> Table:
    """Replay minus Novel skill by system, with means over systems and over models.

    The reference, whose skill is 0 everywhere, is left out.
    """
    systems = [column.key for column in by_system.columns if column.group == "Skill (%)"][:-1]

    def build(metric: str, reference: str) -> list[dict[str, Any]]:
        rows = []
        for row in by_system.rows:
            if (row["metric"], row["reference"]) != (metric, reference):
                continue
            if row["model"] == reference:
                continue
            gaps = {one: _difference(row[f"replay_{one}"], row[f"novel_{one}"]) for one in systems}
            rows.append({"model": row["model"], **gaps, "mean": _mean(gaps.values())})
        rows.sort(key=lambda row: -(row["mean"] if row["mean"] is not None else -np.inf))
        if rows:
            means = {one: _mean(row[one] for row in rows) for one in [*systems, "mean"]}
            rows.append({"model": "mean over models", **means})
        return rows

    columns = (
        Column("model", "Model"),
        *(Column(one, one, "points", f"Replay {MINUS} Novel (points)") for one in systems),
        Column("mean", "mean", "points", f"Replay {MINUS} Novel (points)"),
    )
    return Table(
        "gap", f"Replay{DASH}Novel gap", columns, _rows(comparison, build),
        "Skill points lost from Replay to Novel futures; the last column and row are means.",
        ("metric", "reference"),
    )  # fmt: skip


def pairwise_table(comparison: Comparison) -> Table | None:
    """Win rate of every model against every other with intervals; one variant a metric."""
    rows = []
    names: list[str] = []
    count = 0
    for metric in METRICS:
        table = comparison.common(metric)
        if table is None or len(table.models) < 2:
            return None
        count = len(table)
        found = comparison.bootstrap(table, {"rate": pairwise_win_rates})["rate"]
        rates, low, high = 100 * found.estimate, 100 * found.lower, 100 * found.upper
        mean = (rates.sum(axis=1) - 50) / (len(rates) - 1)
        order = np.argsort(-mean, kind="stable")
        names = names or [table.models[one] for one in order]
        for one in order:
            row: dict[str, Any] = {"metric": metric, "model": table.models[one]}
            for other, name in enumerate(table.models):
                if other != one:
                    row[name] = float(rates[one, other])
                    row[f"{name}_low"] = _known(low[one, other])
                    row[f"{name}_high"] = _known(high[one, other])
            row["mean"] = float(mean[one])
            rows.append(row)
    columns = (
        Column("model", "Model"),
        *(_with_interval(name, name, "Win rate (%) against") for name in names),
        Column("mean", "mean", "percent", "Win rate (%) against"),
    )
    note = (
        f"Share of the {count:,} tasks that all models were scored on where the row's model has "
        "the smaller error (raw, as in the paper); ties count half. "
        f"{INTERVALS}"
    )
    return Table("pairwise", "Pairwise win rates", columns, rows, note, ("metric",))


def _ranked(comparison: Comparison, metric: str, reference: str) -> list[str]:
    """Models that share tasks with the reference, best first."""
    skills = comparison.skills(metric, reference)
    known = [name for name, cells in skills.items() if () in cells]
    return sorted(known, key=lambda name: -skills[name][()].skill)


def _difference(first: float | None, second: float | None) -> float | None:
    return None if first is None or second is None else first - second


def _known(value: float) -> float | None:
    return None if np.isnan(value) else float(value)


def _mean(values: Any) -> float | None:
    known = [value for value in values if value is not None]
    return float(np.mean(known)) if known else None
