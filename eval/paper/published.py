"""The paper's published figures beside ours.

`published.json` holds numbers read from the paper's text and tables; many tables were cut, so that
it has some models' figures only. Ours are over each model's own tasks, under wQL, against naive
unless the figure says otherwise.

Only runs that can be set beside the paper are: those whose settings are the defaults of the
registry's factory (`is_default`), on the whole suite or a stratified sample of it. Tasks chosen by
conditions are another population than the paper's, so that such runs are left out. The table's
note names every run left out, and why.
"""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import polars as pl

from ..report.comparison import Comparison
from ..report.labels import FUTURES
from ..report.models import Model
from ..report.tables import MODEL, Column, Kind, Table
from .paper_names import PAPERS_SUITE, is_default, published_name

__all__ = ["load_published", "paper_tables"]

# Rows of the paper's last table -> our forecasters, in its order.
_TUNED = ("linear", "linear-paired-z", "linear-paired-z-s", "linear-paired-z-zt-s-h",
          "linear-paired-all")  # fmt: skip
# Names of the paper's axes of `linear_by` -> columns of the manifest.
_AXES = {"k": "k", "events": "n_events", "event_length": "event_length"}
# A cell of the paper's tables: a model against naive, linear or all others, on some tasks.
_CELL = {"against": pl.String, "model": pl.String, "at": pl.String}
_FIGURES = {"figure": pl.String, **_CELL, "paper": pl.Float64}


def load_published() -> dict[str, Any]:
    """The figures of `published.json`."""
    return json.loads((Path(__file__).parent / "published.json").read_text("utf-8"))


def paper_tables(comparison: Comparison, tables: Mapping[str, Table]) -> list[Table]:
    """Paper and ours: skills and win rates, tasks, seconds.

    Args:
        comparison: the models compared.
        tables: the report's tables by name; "leaderboard" and "fewest_most" are read.

    Returns:
        tables that have at least one figure of both; none where naive was not run or the suite is
        not the paper's.
    """
    if "naive" not in comparison.references or comparison.suite.name != PAPERS_SUITE:
        return []
    beside = _Beside(comparison, tables)
    found = [beside.skills_table(), _tasks_table(comparison), beside.seconds_table()]
    return [table for table in found if not table.frame.is_empty()]


class _Beside:
    """Our models and numbers, as the paper's figures ask for them."""

    def __init__(self, comparison: Comparison, tables: Mapping[str, Table]):
        self.comparison = comparison
        self.tables = tables
        self.published = load_published()
        self.models = {
            name: model
            for name, model in comparison.models.items()
            if not model.where and is_default(model)
        }

    def skills_table(self) -> Table:
        """Skills and win rates."""
        papers = pl.DataFrame(list(self.figures()), _FIGURES, orient="row").with_row_index("row")
        cell = list(_CELL)
        frame = papers.join(self.ours(), on=cell).join(self.plain(), on=cell, how="left")
        scored = pl.col("model").replace_strict(
            {name: model.scored for name, model in self.models.items()}
        )
        suite = self.comparison.suite
        if len(suite) < len(suite.whole):
            scored = pl.lit("part of the suite")
        else:  # win rates are over the tasks of all models
            of_all = (pl.col("against") == "others") & (pl.col("tasks") < len(suite))
            scored = pl.when(of_all).then(pl.lit("sample")).otherwise(scored)
        frame = frame.sort("row").with_columns(
            difference=pl.col("ours") - pl.col("paper"), scored=scored
        )
        tuned = frame["plain"].count() > 0
        columns = (
            Column("figure", "Figure"),
            MODEL,
            Column("at", "At"),
            Column("paper", "Paper", "percent"),
            Column("ours", "Ours", "percent"),
            Column("difference", "Difference", "points"),
            *([Column("plain", "Plain", "percent")] if tuned else []),
            Column("tasks", "Our tasks", "count"),
            Column("scored", "Scored on"),
        )
        note = (
            "Percent; differences in percentage points. Skill against naive under wQL unless the "
            "figure says otherwise. Win rates depend on which models are compared: the paper's are "
            "among its 15 models, ours among those of this report. A tuned model is the best of "
            "its variants in these results, chosen on the test tasks, as in the paper."
            + (" Plain: that model without tuning, on the tasks of the row." if tuned else "")
            + self.left_out()
        )
        title = "Paper and ours: skills and win rates"
        return Table("paper_and_ours", title, columns, frame, note)

    def figures(self) -> Iterator[tuple[str, str, str, str, float]]:
        """The paper's figures of our models, in its order, as rows of `_FIGURES`."""
        published = self.published
        for name, paper in published["overall"].items():
            yield from self.of("skill", name, {"all": paper})
        for name, papers in published["replay_novel"].items():
            figure = f"skill, {name}" if name.endswith("-tuned") else "skill"
            yield from self.of(figure, name, dict(zip(FUTURES, papers, strict=True)))
        for key, values in published["linear_by"].items():
            name = "ridge" if key.startswith("ridge_") else "linear"
            axis, _, future = key.removeprefix("ridge_").rpartition("_")
            words = axis.replace("_", " ")
            at = {f"{future}, {words} {value}": paper for value, paper in values.items()}
            yield from self.of(f"skill by {words}", name, at)
        few = {
            f"{system}, {future}, {end}": paper
            for system, futures in published["linear_fewest_most"].items()
            for future, ends in futures.items()
            for end, paper in zip(("fewest", "most"), ends, strict=True)
        }
        yield from self.of("fewest and most events", "linear", few)
        for name, systems in published["by_system"].items():
            yield from self.of("skill by system", name, systems)
        for name, row in zip(_TUNED, published["linear_tuned_rows"], strict=True):
            kind, features, *papers = row
            at = dict(zip(("all", *FUTURES), papers, strict=True))
            yield from self.of(f"tuned, {kind}: {features}", name, at)
        for name, paper in published["vs_linear"].items():
            yield from self.of("skill against linear", name, {"all": paper}, against="linear")
        for name, paper in published["win_rate_wql"].items() if self.whole else ():
            yield from self.of("win rate", name, {"all": paper}, against="others")

    def of(
        self, figure: str, name: str, papers: Mapping[str, float | None], against: str = "naive"
    ) -> Iterator[tuple[str, str, str, str, float]]:
        """Rows of `_FIGURES` of our models of a published name."""
        for model in self.named(name):
            for at, paper in papers.items():
                if paper is not None:
                    yield figure, against, model, at, float(paper)

    def named(self, name: str) -> list[str]:
        """Our models of a published name; of a tuned one, the best variant."""
        base, tuned, _ = name.partition("-tuned")
        if not tuned:
            return [one for one, model in self.models.items() if published_name(model) == name]
        ranked = self.comparison.ranked().filter(metric="wql", reference="naive")["model"]
        known = [one for one in ranked if one in self.models]
        paired = f"{base}-paired-"
        return [one for one in known if self.models[one].forecaster.startswith(paired)][:1]

    def ours(self) -> pl.DataFrame:
        """Our numbers wherever the paper may have some: against, model, at, ours, tasks."""
        comparison = self.comparison
        axes = {column: axis.replace("_", " ") for axis, column in _AXES.items()}
        parts = [
            _cells(comparison.skills(), pl.lit("all")),
            _cells(comparison.skills("future"), pl.col("future")),
            _cells(comparison.skills("system"), pl.col("system")),
            *(
                _cells(
                    comparison.skills("future", column),
                    pl.format("{}, {} {}", "future", pl.lit(words), column),
                )
                for column, words in axes.items()
            ),
        ]
        few = self.tables["fewest_most"]
        if not few.frame.is_empty():
            for end in ("fewest", "most"):
                frame = few.frame.with_columns(skill=pl.col(end), tasks=pl.col("cells"))
                at = pl.format("{}, {}, {}", "system", "future", pl.lit(end))
                parts.append(_cells(frame, at))
        common = comparison.common("wql")
        if common is not None:
            rates = self.tables["leaderboard"].where(reference="naive").select(
                "model", metric=pl.lit("wql"), reference=pl.lit("others"),
                skill="wql_win_rate", tasks=pl.lit(len(common)),
            )  # fmt: skip
            ranked = pl.col("model").is_in(comparison.ranking)
            parts.append(_cells(rates.filter(ranked).drop_nulls("skill"), pl.lit("all")))
        return pl.concat(parts)

    def plain(self) -> pl.DataFrame:
        """Skills of plain models on the tasks of tuned ones: against, model, at, plain."""
        parts = []
        # the first run of each forecaster
        plain = {model.forecaster: name for name, model in reversed(self.models.items())}
        for forecaster, name in plain.items():
            tuned = [one for one, model in self.models.items()
                     if model.forecaster.startswith(f"{forecaster}-paired-")]  # fmt: skip
            for axes, at in (((), pl.lit("all")), (("future",), pl.col("future"))):
                if tuned:
                    skills = self.comparison.skills_of(name, *axes)
                    parts.append(_cells(skills.filter(pl.col("model").is_in(tuned)), at))
        if not parts:
            return pl.DataFrame(schema={**_CELL, "plain": pl.Float64})
        return pl.concat(parts).select(*_CELL, plain="ours")

    def left_out(self) -> str:
        """Names the runs that are not set beside the paper although it has their models."""
        reasons = {
            name: f"scored on a {model.scored}" if model.where else "settings are not the defaults"
            for name, model in self.comparison.models.items()
            if name not in self.models and (model.where or self.is_published(model))
        }
        if not reasons:
            return ""
        texts = [f"{name} ({reason})" for name, reason in reasons.items()]
        return f" Left out: {'; '.join(texts)}." + (
            "" if self.whole else " Win rates too, as not all models have tasks of every kind."
        )

    @property
    def whole(self) -> bool:
        """Whether the tasks that all ranked models share are not chosen by conditions."""
        return not any(self.comparison.models[name].where for name in self.comparison.ranking)

    def is_published(self, model: Model) -> bool:
        """Whether the paper has figures of a model."""
        base, paired, _ = model.forecaster.partition("-paired-")
        figures = [one for one in self.published.values() if isinstance(one, dict)]
        named = f"{base}-tuned" if paired else published_name(model)
        return any(named in one for one in figures)

    def seconds_table(self) -> Table:
        """Seconds a series."""
        board = self.tables["leaderboard"].where(reference="naive")
        ours = dict(board.select("model", "seconds").drop_nulls().iter_rows())
        rows = [
            {"model": model, "paper": float(paper), "ours": ours[model],
             "difference": ours[model] - paper}
            for name, paper in self.published["seconds_per_series"].items()
            for model in self.named(name)
            if model in ours
        ]  # fmt: skip
        columns = [MODEL, *_differences("seconds")]
        note = (
            "Means. Seconds of the forecaster for one series, without compilation, on the machine "
            "of the run."
        )
        title = "Paper and ours: seconds a series"
        return Table.of_rows("paper_and_ours_seconds", title, columns, rows, note)


def _cells(skills: pl.DataFrame, at: pl.Expr) -> pl.DataFrame:
    """Skills under wQL as cells of the paper's tables: against, model, at, ours, tasks."""
    return skills.filter(pl.col("metric") == "wql").select(
        against=pl.col("reference").cast(pl.String),
        model=pl.col("model").cast(pl.String),
        at=at.cast(pl.String),
        ours="skill",
        tasks=pl.col("tasks").cast(pl.Int64),
    )


def _differences(kind: Kind) -> list[Column]:
    return [Column(key, key.capitalize(), kind) for key in ("paper", "ours", "difference")]


def _tasks_table(comparison: Comparison) -> Table:
    """Tasks of each system, in the paper and in the suite."""
    ours = {**comparison.suite.count("system"), "all": len(comparison.suite)}
    rows = [
        {"system": name, "paper": paper, "ours": ours.get(name, 0),
         "difference": ours.get(name, 0) - paper}
        for name, paper in load_published()["tasks"].items()
    ]  # fmt: skip
    columns = [Column("system", "System"), *_differences("count")]
    return Table.of_rows("paper_and_ours_tasks", "Paper and ours: tasks", columns, rows)
