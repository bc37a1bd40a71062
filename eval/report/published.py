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
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from .comparison import Comparison
from .models import Model
from .numbers import FUTURES
from .paper_names import is_default, published_name
from .tables import Column, Table

__all__ = ["load_published", "paper_tables"]

# Rows of the paper's last table -> our forecasters, in its order.
_TUNED = ("linear", "linear-paired-z", "linear-paired-z-s", "linear-paired-z-zt-s-h",
          "linear-paired-all")  # fmt: skip

Row = dict[str, Any]


def load_published() -> dict[str, Any]:
    """The figures of `published.json`."""
    return json.loads((Path(__file__).parent / "published.json").read_text("utf-8"))


def paper_tables(comparison: Comparison, by_tables: dict[str, Table]) -> list[Table]:
    """Paper and ours: skills and win rates, tasks, seconds.

    Args:
        comparison: the models compared.
        by_tables: the report's tables by name; "leaderboard" and "fewest_most" are read.

    Returns:
        tables that have at least one figure of both; none where naive was not run or the suite is
        not the paper's.
    """
    if "naive" not in comparison.references or comparison.suite.name != "whatif-v1":
        return []
    figures = _Figures(comparison, by_tables)
    rows = list(figures.rows())
    for row in rows:
        row["difference"] = row["ours"] - row["paper"]
    beside = any(row["plain"] is not None for row in rows)
    columns = (
        Column("figure", "Figure"),
        Column("model", "Model"),
        Column("at", "At"),
        Column("paper", "Paper", "percent"),
        Column("ours", "Ours", "percent"),
        Column("difference", "Difference", "points"),
        *([Column("plain", "Plain", "percent")] if beside else []),
        Column("tasks", "Our tasks", "count"),
        Column("scored", "Scored on"),
    )
    skills = Table(
        "paper_and_ours", "Paper and ours: skills and win rates", columns, rows,
        "Percent; differences in percentage points. Skill against naive under wQL unless the "
        "figure says otherwise. Win rates depend on which models are compared: the paper's are "
        "among its 15 models, ours among those of this report. A tuned model is the best of its "
        "variants in these results, chosen on the test tasks, as in the paper."
        + (" Plain: that model without tuning, on the tasks of the row." if beside else "")
        + figures.left_out(),
    )  # fmt: skip
    found = [skills, _tasks_table(comparison), figures.seconds_table()]
    return [table for table in found if table is not None and table.rows]


class _Figures:
    def __init__(self, comparison: Comparison, tables: dict[str, Table]):
        self.comparison = comparison
        self.tables = tables
        self.published = load_published()
        self.part = len(comparison.suite) < len(comparison.suite.whole)
        self.models = {
            name: model
            for name, model in comparison.models.items()
            if not model.where and is_default(model)
        }
        self.overall = comparison.skills("wql", "naive")
        self.split = comparison.skills("wql", "naive", ("future",))

    def named(self, name: str) -> list[str]:
        """Our models of a published name; of a tuned one, the best variant."""
        models = self.models.items()
        base, tuned, _ = name.partition("-tuned")
        if not tuned:
            return [one for one, model in models if published_name(model) == name]
        variants = [one for one, model in models if model.forecaster.startswith(f"{base}-paired-")]
        known = [one for one in variants if () in self.overall[one]]
        best = sorted(known, key=lambda one: -self.overall[one][()].skill)
        return best[:1]

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
        """Whether the tasks that all models share are not chosen by conditions."""
        return not any(model.where for model in self.comparison.models.values())

    def is_published(self, model: Model) -> bool:
        """Whether the paper has figures of a model."""
        base, paired, _ = model.forecaster.partition("-paired-")
        named = {name for figures in self.published.values() if isinstance(figures, dict)
                 for name in figures}  # fmt: skip
        return (f"{base}-tuned" if paired else published_name(model)) in named

    def plain(self, model: str, axes: tuple[str, ...] = ()) -> dict[tuple[Any, ...], Any]:
        """Skills of the plain model on the tasks of a tuned one."""
        base, paired, _ = self.models[model].forecaster.partition("-paired-")
        known = [name for name, one in self.models.items() if one.forecaster == base]
        if not paired or not known:
            return {}
        return self.comparison.beside("wql", "naive", model, known[0], axes)

    def row(
        self,
        figure: str,
        model: str,
        at: str,
        paper: float | None,
        cell: Any,
        plain: Any = None,
    ) -> Iterator[Row]:
        """One comparison, where both sides are known."""
        if paper is None or cell is None:
            return
        scored = self.models[model].scored
        if figure == "win rate" and cell.tasks < len(self.comparison.suite):
            scored = "sample"  # of all models
        yield {
            "figure": figure,
            "model": model,
            "at": at,
            "paper": float(paper),
            "ours": cell.skill,
            "plain": plain.skill if plain else None,
            "tasks": cell.tasks,
            "scored": "part of the suite" if self.part else scored,
        }

    def rows(self) -> Iterator[Row]:
        """All comparisons in percent, in the order of the paper."""
        for name, paper in self.published["overall"].items():
            for model in self.named(name):
                yield from self.row("skill", model, "all", paper, self.overall[model].get(()))
        for name, both in self.published["replay_novel"].items():
            for model in self.named(name):
                plain = self.plain(model, ("future",))
                for future, paper in zip(FUTURES, both, strict=True):
                    cell = self.split[model].get((future,))
                    yield from self.row(
                        "skill" + (f", {name}" if name.endswith("-tuned") else ""),
                        model,
                        future,
                        paper,
                        cell,
                        plain.get((future,)),
                    )
        yield from self.by_axis()
        yield from self.fewest_most()
        yield from self.by_system()
        yield from self.tuned_rows()
        yield from self.against_linear()
        yield from self.win_rates()

    def by_axis(self) -> Iterator[Row]:
        axes = {"k": "k", "events": "n_events", "event_length": "event_length"}
        for figure, values in self.published["linear_by"].items():
            name = "ridge" if figure.startswith("ridge_") else "linear"
            axis, _, future = figure.removeprefix("ridge_").rpartition("_")
            skills = self.comparison.skills("wql", "naive", ("future", axes[axis]))
            for model in self.named(name):
                for value, paper in values.items():
                    at = f"{future}, {axis.replace('_', ' ')} {value}"
                    cell = skills[model].get((future, int(value)))
                    yield from self.row(
                        f"skill by {axis.replace('_', ' ')}", model, at, paper, cell
                    )

    def fewest_most(self) -> Iterator[Row]:
        wanted = {"metric": "wql", "reference": "naive"}
        ours = {
            (row["model"], row["system"], row["future"]): row
            for row in self.tables["fewest_most"].rows
            if wanted.items() <= row.items()
        }
        for model in self.named("linear"):
            for system, futures in self.published["linear_fewest_most"].items():
                for future, ends in futures.items():
                    found = ours.get((model, system, future))
                    for end, paper in zip(("fewest", "most"), ends, strict=True):
                        cell = found and _Cell(found[end], found["cells"])
                        at = f"{system}, {future}, {end}"
                        yield from self.row("fewest and most events", model, at, paper, cell)

    def by_system(self) -> Iterator[Row]:
        skills = self.comparison.skills("wql", "naive", ("system",))
        for name, systems in self.published["by_system"].items():
            for model in self.named(name):
                for system, paper in systems.items():
                    cell = skills[model].get((system,))
                    yield from self.row("skill by system", model, system, paper, cell)

    def tuned_rows(self) -> Iterator[Row]:
        for forecaster, published in zip(_TUNED, self.published["linear_tuned_rows"], strict=True):
            _, features, *papers = published
            for model in self.named(forecaster):
                cells = [self.overall[model].get(())]
                cells += [self.split[model].get((future,)) for future in FUTURES]
                split = self.plain(model, ("future",))
                plain = [self.plain(model).get(()), *(split.get((future,)) for future in FUTURES)]
                places = ("all", *FUTURES)
                for at, paper, cell, one in zip(places, papers, cells, plain, strict=True):
                    figure = f"tuned, {published[0]}: {features}"
                    yield from self.row(figure, model, at, paper, cell, one)

    def against_linear(self) -> Iterator[Row]:
        if "linear" not in self.comparison.references:
            return
        skills = self.comparison.skills("wql", "linear")
        for name, paper in self.published["vs_linear"].items():
            for model in self.named(name):
                cell = skills[model].get(())
                yield from self.row("skill against linear", model, "all", paper, cell)

    def win_rates(self) -> Iterator[Row]:
        table = self.comparison.common("wql") if self.whole else None
        rates = {row["model"]: row.get("wql_win_rate") for row in self.tables["leaderboard"].rows}
        for name, paper in self.published["win_rate_wql"].items():
            for model in self.named(name):
                rate = rates.get(model)
                if rate is not None and table is not None:
                    cell = _Cell(rate, len(table))
                    yield from self.row("win rate", model, "all", paper, cell)

    def seconds_table(self) -> Table:
        """Seconds a series."""
        ours = {row["model"]: row["seconds"] for row in self.tables["leaderboard"].rows}
        rows = [
            {
                "model": model,
                "paper": float(paper),
                "ours": ours[model],
                "difference": ours[model] - paper,
            }
            for name, paper in self.published["seconds_per_series"].items()
            for model in self.named(name)
            if ours.get(model) is not None
        ]
        columns = (
            Column("model", "Model"),
            *(Column(key, key.capitalize(), "seconds") for key in ("paper", "ours", "difference")),
        )
        return Table(
            "paper_and_ours_seconds", "Paper and ours: seconds a series", columns, rows,
            "Means. Seconds of the forecaster for one series, without compilation, on the machine "
            "of the run.",
        )  # fmt: skip


class _Cell:
    def __init__(self, skill: float, tasks: int):
        self.skill, self.tasks = skill, tasks


def _tasks_table(comparison: Comparison) -> Table:
    """Tasks of each system, in the paper and in the suite."""
    ours: dict[str, int] = {}
    systems, counts = np.unique(comparison.suite.column("system"), return_counts=True)
    ours = dict(zip(systems.tolist(), counts.tolist(), strict=True))
    ours["all"] = len(comparison.suite)
    rows = [
        {"system": name, "paper": paper, "ours": ours.get(name, 0),
         "difference": ours.get(name, 0) - paper}
        for name, paper in load_published()["tasks"].items()
    ]  # fmt: skip
    columns = (
        Column("system", "System"),
        *(Column(key, key.capitalize(), "count") for key in ("paper", "ours", "difference")),
    )
    return Table("paper_and_ours_tasks", "Paper and ours: tasks", columns, rows)
