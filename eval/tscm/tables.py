"""Tables of scores: DoTime's reference table, every suite, and its parts."""

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from ..paper.resamples import ends
from ..report.tables import MODEL, Column, Table
from .board import Board
from .statistics import ALL, METRICS, Group, Scored

__all__ = [
    "axis_tables",
    "interval",
    "methods_table",
    "reference_table",
    "scored_on",
    "scores_table",
    "values_table",
]

_AXES = {
    "structure": "structure",
    "regimes": "number of regimes",
    "tier": "tier",
    "offset": "steps to the query",
    "part": "part",
}
_READS = {
    "before": "the steps before the onset",
    "whole": "the whole factual run, as the package's regressions do",
}
_TRUTH = "the truth"
BELOW = "Below, 95 % bootstrap intervals: episodes are drawn, all queries of each together."


def interval(key: str, values: np.ndarray | None) -> dict[str, float | None]:
    """Cells of a column and of its interval."""
    if values is None:
        return {key: None, f"{key}_low": None, f"{key}_high": None}
    low, high = ends(values)
    return {key: float(values[0]), f"{key}_low": low, f"{key}_high": high}


def _column(key: str, label: str, group: str = "") -> Column:
    return Column(key, label, "number", group, ((f"{key}_low", f"{key}_high"),))


def scored_on(board: Board, label: str, model: str) -> str:
    """How many episodes of a suite a baseline was scored on."""
    found, size = board.get(label, model), board.suites[label].episodes
    if found is None:
        return "none"
    return f"{found.episodes:,}" + ("" if found.episodes == size else f" of {size:,}")


def reference_table(board: Board) -> Table:
    """DoTime's Table 3, with our baselines on our suites."""
    metrics = {"interventional_rmse": "RMSE", "interventional_direction": "direction"}
    labels = board.columns
    columns = [MODEL]
    for place, label in enumerate(labels):
        columns += [_column(f"s{place}_{key}", text, label) for key, text in metrics.items()]
        columns.append(Column(f"s{place}_deviation", "±", "number", label))
        columns.append(Column(f"s{place}_scored", "Episodes", "text", label))
    rows = []
    for model in board.order:
        row: dict[str, Any] = {"model": model}
        for place, label in enumerate(labels):
            for key in metrics:
                row |= interval(f"s{place}_{key}", board.array(label, model, key))
            drawn = board.array(label, model, "interventional_rmse")
            row[f"s{place}_deviation"] = None if drawn is None else deviation(drawn)
            row[f"s{place}_scored"] = scored_on(board, label, model)
        rows.append(row)
    note = (
        "Pooled RMSE and direction accuracy against the interventional run, on the raw scale, as "
        "in DoTime's Table 3. ±: standard deviation of the RMSE over resamples. Direction: share "
        "of right signs among targets of at least 0.1 in size; a forecast of 0 has no sign. "
        f"{BELOW}"
    )
    return Table.of_rows("reference", "Reference table", columns, rows, note)


def deviation(values: np.ndarray) -> float:
    """Standard deviation over resamples."""
    known = values[1:][np.isfinite(values[1:])]
    return float(np.std(known)) if len(known) else float("nan")


def scores_table(board: Board, label: str) -> Table:
    """All scores on one suite."""
    heads = {"interventional": "Interventional", "counterfactual": "Counterfactual",
             "effect": "Effect", "change": "Effect, forecast less factual"}  # fmt: skip
    short = {"rmse": "RMSE", "nmse": "NMSE", "direction": "direction"}
    columns = [
        MODEL,
        Column("scored", "Episodes"),
        *(_column(metric.key, short[metric.score], heads[metric.pair]) for metric in METRICS),
        Column("failed", "Failed", "count"),
    ]
    rows = []
    for model in board.of(label):
        found = board.scored[label][model][ALL]
        row: dict[str, Any] = {"model": model, "scored": scored_on(board, label, model)}
        for metric in METRICS:
            row |= interval(metric.key, found.scores[metric.key])
        rows.append(row | {"failed": found.failed})
    note = (
        "RMSE over all queries; NMSE: mean squared error by the variance of the targets, 1 for a "
        "forecast of their mean. Direction: share of right signs among targets of at least 0.1 in "
        f"size. {dead_zones(board, label)} Effect: what the method says that the intervention "
        "changes, against counterfactual less factual; methods that know no intervention say 0. "
        "Forecast less factual: the package's direction of the effect, which takes the factual "
        "value at the query, unknown to the method, from its forecast. Failed: queries without a "
        f"finite forecast, which make RMSE infinite and count as wrong. {BELOW}"
    )
    return Table.of_rows(f"{_file(label)}_scores", f"{label}: all scores", columns, rows, note)


def dead_zones(board: Board, label: str) -> str:
    """How many targets have no direction."""
    most = max((board.scored[label][name][ALL] for name in board.of(label)), key=_queries)
    return f"In the dead zone, of {most.queries:,} queries: {_dead(most)}."


def _queries(found: Scored) -> int:
    return found.queries


def _dead(found: Scored) -> str:
    pairs = ("interventional", "counterfactual", "effect")
    return ", ".join(f"{found.dead[pair]:,} {pair}" for pair in pairs)


def axis_tables(board: Board, label: str) -> list[Table]:
    """Scores on the parts of a suite, one table for each axis it has, one variant a metric."""
    found = []
    for axis, words in _AXES.items():
        groups = board.groups(label, axis)
        if groups:
            found.append(_by_group(board, label, groups, axis, words))
    return found


def _by_group(board: Board, label: str, groups: list[Group], axis: str, words: str) -> Table:
    columns = [MODEL, *(_column(f"g{n}", str(group[1])) for n, group in enumerate(groups))]
    rows = _variants(
        board.of(label),
        {f"g{n}": (label, group) for n, group in enumerate(groups)},
        board,
    )
    sizes = []
    for group in groups:
        known = [board.scored[label][name].get(group) for name in board.of(label)]
        most = max((one for one in known if one is not None), key=_queries)
        sizes.append(f"{group[1]}: {most.queries:,} ({_dead(most)})")
    note = f"{BELOW} Queries, and in brackets those in the dead zone: {'; '.join(sizes)}."
    title = f"{label} by {words}"
    return Table.of_rows(f"{_file(label)}_by_{axis}", title, columns, rows, note, ("metric",))


def values_table(board: Board, name: str) -> Table | None:
    """Scores on the variants of a suite by where the values come from; None for one variant."""
    modes = board.variants(name)
    if len(modes) < 2:
        return None
    columns = [MODEL, *(_column(mode, mode.replace("_", " ")) for mode in modes)]
    models = [one for one in board.order if any(one in board.of(label) for label in modes.values())]
    rows = _variants(models, {mode: (label, ALL) for mode, label in modes.items()}, board)
    sizes = "; ".join(
        f"{mode.replace('_', ' ')}: {dead_zones(board, label)}" for mode, label in modes.items()
    )
    note = (
        "The same worlds, noise and windows with other values: the prior's; the prior's within 3 "
        "standard deviations of the treatment's past; one of its past values; normal and uniform "
        f"as its past. {BELOW} {sizes}"
    )
    title = f"{name}: by where the intervention's value comes from"
    return Table.of_rows(f"{name}_by_values", title, columns, rows, note, ("metric",))


def _variants(
    models: Iterable[str], cells: Mapping[str, tuple[str, Group]], board: Board
) -> list[dict[str, Any]]:
    """Rows of every metric."""
    return [
        {"metric": metric.key, "model": model}
        | {
            key: value
            for column, (label, group) in cells.items()
            for key, value in interval(column, board.array(label, model, metric.key, group)).items()
        }
        for metric in METRICS
        for model in models
    ]


def methods_table(board: Board) -> Table:
    """What each row is, what it was shown and trained on."""
    columns = (
        MODEL,
        Column("label", "Method"),
        Column("evidence", "Reads"),
        Column("trained_on", "Trained on"),
        Column("fits", "Fits"),
        Column("episodes", "Episodes"),
    )
    rows = []
    for model in board.order:
        runs = {label: some[model] for label, some in board.estimates.items() if model in some}
        first = next(iter(runs.values()))
        fits = {one for run in runs.values() for one in run.about["fits"]}
        all_of = {part.structure for label in runs for part in board.suites[label].parts}
        rows.append(
            {
                "model": model,
                "label": first.about["label"],
                "evidence": _TRUTH if first.baseline == "oracle" else _READS[first.evidence],
                "trained_on": first.about["trained_on"],
                "fits": "everything"
                if fits == all_of
                else ", ".join(sorted(fits - {""})) or "none",
                "episodes": "; ".join(f"{one}: {scored_on(board, one, model)}" for one in runs),
            }
        )
    note = (
        "Reads: of the factual run, latent nodes never; the intervention's targets, window and "
        "values are known ahead. Fits: structures whose graph the method's formula is for; "
        "elsewhere it gives the mean of the outcome, as the package's do. Trained on nothing: "
        "fitted on each episode by itself."
    )
    return Table.of_rows("methods", "What each method saw", columns, rows, note)


def _file(label: str) -> str:
    return label.replace("+", "_")
