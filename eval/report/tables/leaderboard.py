"""Tables of one row a model: the leaderboard, pairwise win rates, and what was run."""

import json
from collections.abc import Sequence

import numpy as np
import polars as pl

from whatif_jax.comparison import Interval, pairwise_win_rates, win_rates
from whatif_jax.comparison.bootstrap import By

from ..comparison import Comparison
from ..labels import METRIC_LABELS, MINUS
from .forecasts import inside
from .table import MODEL, Column, Table, spread

__all__ = [
    "INTERVALS",
    "RANKED_ALONE",
    "SPLITS_NOTE",
    "leaderboard_table",
    "pairwise_table",
    "runs_table",
]

# The intervals of all tables but the leaderboard.
INTERVALS = (
    "Below, 95 % bootstrap intervals for this suite's targets: histories are drawn, both futures "
    "of each together."
)
RANKED_ALONE = ", of the models of the first ranking alone"
# Why models are ranked apart; for a report that has several splits.
SPLITS_NOTE = (
    "Models are ranked apart by what they were trained on, and never against each other across "
    "that: zero-shot ones have seen neither series nor constants of this suite; left-out system: "
    "trained on the other systems, scored on the one left out alone; in distribution: trained on "
    "the series and constants that these very tasks are made of, so that their skill says nothing "
    "about a system they have not seen; unknown: the forecaster does not say."
)
# What the leaderboard's intervals draw: histories of this suite, and targets.
BY: tuple[By, ...] = ("pair", "target")


def leaderboard_table(comparison: Comparison) -> Table:
    """Skill, win rate, seconds a series and imputed tasks of every model; one variant a reference.

    Skills are over each model's own tasks, win rates over the tasks that all models have.
    """
    index, by_metric = ["reference", "model"], {"metric": METRIC_LABELS}
    fields = {"_skill": "skill", "_tasks": "tasks"}
    fields |= {f"_skill_{by}_{end}": f"{by}_{end}" for by in BY for end in ("low", "high")}
    samples = [name for name, model in comparison.models.items() if model.sample]
    beside = bool(samples) and "linear" in comparison.models
    linear = comparison.skills_of("linear") if beside else comparison.skills().clear()
    linear = linear.filter(pl.col("model").is_in(samples))
    frame = (
        spread(comparison.skills(by=BY), index, by_metric, fields)
        .join(_facts(comparison), on="model")
        .join(_win_rates(comparison), on="model")
        .join(spread(linear, index, by_metric, {"_linear": "skill"}), on=index, how="left")
        .sort("reference", "wql_skill", "model", descending=[False, True, False])
        .rename({"wql_tasks": "tasks"})
    )
    columns = (
        MODEL,
        Column("trained_on", "Trained on"),
        Column("scored", "Scored on"),
        Column("tasks", "Tasks", "count"),
        *_by_metric("skill", "Skill (%)", [f"_{by}" for by in BY]),
        *(_by_metric("linear", "Linear on the same tasks (%)") if beside else ()),
        *_by_metric("win_rate", "Win rate (%)", [""]),
        Column("forecasts", "Forecasts"),
        Column("interval", "80 %", "share", "Interval holds (%)"),
        Column("seconds", "mean", "seconds", "Seconds a series"),
        Column("seconds_median", "median", "seconds", "Seconds a series"),
        Column("imputed", "Imputed", "count"),
        Column("crossings", "Crossings", "count"),
    )
    common = comparison.common("wql")
    shared = 0 if common is None else len(common)
    several = len(comparison.splits) > 1
    among = f" of its ranking; of the first, {comparison.models[comparison.ranking[0]].split}"
    among = among if several else ""
    note = (
        f"Skill: 1 {MINUS} geometric mean of the ratios of a model's errors to the "
        "reference's, over the model's own tasks. Win rate: share of tasks with a smaller error "
        f"than another model, averaged over the other models{among}, over the {shared:,} tasks "
        f"that all {len(comparison.ranking)} models were scored on; of raw errors, as in the "
        "paper. "
        "Below them, 95 % percentile bootstrap intervals "
        f"({comparison.resamples:,} resamples, the same for all models). The upper one is for "
        "other histories of this suite's targets: histories are drawn, both futures of each "
        "together. The lower one, in italics, is for other targets of these kinds: targets are "
        "drawn, all tasks of each together. "
        + ("Linear on the same tasks: for models not scored on all. " if beside else "")
        + "Seconds: of the forecaster for one series, without compilation, on the machine of the "
        "run. Imputed: tasks without a finite forecast, replaced by naive. Crossings: neighbouring "
        "quantiles out of order before they were sorted. Interval holds: share of the truth above "
        "the 10 % and not above the 90 % quantile, mean over tasks."
    )
    return Table("leaderboard", "Leaderboard", columns, frame, note, ("reference",))


def _by_metric(field: str, group: str, intervals: Sequence[str] = ()) -> list[Column]:
    """A column in percent for each metric, with intervals whose keys have these endings."""
    found = []
    for metric, label in METRIC_LABELS.items():
        key = f"{metric}_{field}"
        ends = tuple((f"{key}{ending}_low", f"{key}{ending}_high") for ending in intervals)
        found.append(Column(key, label, "percent", group, ends))
    return found


def _facts(comparison: Comparison) -> pl.DataFrame:
    """What is known of a model whatever it is compared with."""
    rows = []
    for name, model in comparison.models.items():
        seconds = pl.DataFrame(model.run.seconds)["seconds"]
        seconds = seconds.filter(seconds.is_finite())
        facts: dict[str, object] = {"model": name, "scored": model.scored}
        facts |= {"trained_on": model.split, "forecasts": model.forecasts}
        facts |= {"interval": inside(model)}
        facts |= {"seconds": seconds.mean(), "seconds_median": seconds.median()}
        rows.append(facts | {one: model.scores[one].sum() for one in ("imputed", "crossings")})
    return comparison.typed(pl.DataFrame(rows, infer_schema_length=None))


def _win_rates(comparison: Comparison) -> pl.DataFrame:
    """Of every model against the others of its split."""
    parts = []
    for names in comparison.splits.values():
        unknown = np.full(len(names), np.nan)
        columns = {"model": pl.Series(names)}
        for metric in METRIC_LABELS:
            table = comparison.table(metric, names)
            found = Interval(unknown, unknown, unknown)
            if table is not None and len(table.models) > 1:
                found = comparison.bootstrap(table, win_rates)
            ends = {"": found.estimate, "_low": found.lower, "_high": found.upper}
            for ending, values in ends.items():
                columns[f"{metric}_win_rate{ending}"] = pl.Series(100 * values).fill_nan(None)
        parts.append(pl.DataFrame(columns))
    return comparison.typed(pl.concat(parts))


def pairwise_table(comparison: Comparison) -> Table | None:
    """Win rate of every model against every other with intervals; one variant a metric."""
    rows = []
    names: list[str] = []
    count = 0
    for metric in METRIC_LABELS:
        table = comparison.common(metric)
        if table is None or len(table.models) < 2:
            return None
        count = len(table)
        found = comparison.bootstrap(table, pairwise_win_rates)
        rates, low, high = 100 * found.estimate, 100 * found.lower, 100 * found.upper
        mean = (rates.sum(axis=1) - 50) / (len(rates) - 1)
        order = np.argsort(-mean, kind="stable").tolist()
        names = names or [table.models[one] for one in order]
        for one in order:
            row = {"metric": metric, "model": table.models[one], "mean": float(mean[one])}
            for other, name in enumerate(table.models):
                if other != one:
                    row[name] = float(rates[one, other])
                    row[f"{name}_low"] = float(low[one, other])
                    row[f"{name}_high"] = float(high[one, other])
            rows.append(row)
    group = "Win rate (%) against"
    alone = RANKED_ALONE if len(comparison.splits) > 1 else ""
    columns = (
        MODEL,
        *(
            Column(name, name, "percent", group, ((f"{name}_low", f"{name}_high"),))
            for name in names
        ),
        Column("mean", "mean", "percent", group),
    )
    note = (
        f"Share of the {count:,} tasks that all models were scored on where the row's model has "
        f"the smaller error (raw, as in the paper); ties count half{alone}. {INTERVALS}"
    )
    return Table.of_rows("pairwise", "Pairwise win rates", columns, rows, note, ("metric",))


def runs_table(comparison: Comparison) -> Table:
    """What was run: version, settings, what its forecaster declares, tasks."""
    columns = (
        MODEL,
        Column("forecaster", "Forecaster"),
        Column("version", "Version"),
        Column("settings", "Settings"),
        Column("trained_on", "Trained on"),
        Column("training", "Training"),
        Column("informed", "Informed"),
        Column("forecasts", "Forecasts"),
        Column("tasks", "Tasks", "count"),
        Column("kept", "Kept for the browser", "count"),
    )
    rows = []
    for name, model in comparison.models.items():
        run = model.run
        settings, training = (
            json.dumps(one, sort_keys=True, ensure_ascii=False) if one else ""
            for one in (run.settings, run.declared.training)
        )
        kept = 0 if run.forecasts is None else run.forecasts.num_rows
        values = (
            name, run.name, run.version, settings, run.declared.trained_on, training,
            model.informed, model.forecasts, run.scores.num_rows, kept,
        )  # fmt: skip
        rows.append(dict(zip((column.key for column in columns), values, strict=True)))
    return Table.of_rows("runs", "Runs", columns, rows)
