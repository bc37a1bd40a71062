"""Which models are compared on which tasks.

A model scored on a sample is compared with the reference on its own tasks. Win rates compare every
model with every other, so they are over the tasks that all have. Models with the same tasks share
one `ErrorTable`.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from whatif_jax.comparison import (
    ErrorTable,
    Interval,
    bootstrap_all,
    error_table,
    skill_by,
)
from whatif_jax.comparison.bootstrap import By, clusters, resample_counts, resampled_means
from whatif_jax.comparison.skill import log_ratios
from whatif_jax.comparison.statistic import Statistic

from .models import Model, ReportError

__all__ = ["METRICS", "REFERENCES", "Comparison", "Drawn", "Skills", "Value", "percent"]

METRICS = ("wql", "wape")
REFERENCES = ("naive", "linear")  # the paper's two (Table 18)


class Value(NamedTuple):
    """A skill in percent and the number of tasks it is over."""

    skill: float
    tasks: int


class Drawn(NamedTuple):
    """Skill in percent of one model on one set of tasks: itself, and on every resample [R].

    Resamples are NaN where they say nothing: none of the tasks was drawn, or all are of one pair.
    """

    skill: float
    resampled: np.ndarray


# By model, then by the values of the axes asked for.
Skills = dict[str, dict[tuple[Any, ...], Value]]


class Comparison:
    """Error tables of a report's models, made once each.

    Args:
        models: of `models_of`.
        suite: the suite they are of.
        reference: the model skills are first shown against.
        resamples: of each bootstrap.
        key: JAX PRNG key of the bootstraps; the same tasks are drawn for every model, both futures
            of a history together unless it is said otherwise.

    Raises:
        ReportError: no run of the reference.
    """

    def __init__(
        self, models: Sequence[Model], suite: Any, *, reference: str, resamples: int, key: Any
    ):
        self.models = {model.name: model for model in models}
        if reference not in self.models:
            raise ReportError(
                f"reference: {reference!r} is not among the results; expected one of "
                f"{', '.join(self.models)}"
            )
        self.suite = suite
        self.resamples = resamples
        self.key = key
        others = [name for name in REFERENCES if name in self.models and name != reference]
        self.references = (reference, *others)
        self._tables: dict[tuple[str, tuple[str, ...]], ErrorTable] = {}
        self._groups = self._group()

    def _group(self) -> list[list[str]]:
        """Names of the models that share their tasks."""
        groups: dict[bytes, list[str]] = {}
        for name, model in self.models.items():
            groups.setdefault(model.task_ids.tobytes(), []).append(name)
        return list(groups.values())

    def table(self, metric: str, names: Sequence[str]) -> ErrorTable | None:
        """Errors of some models on the tasks that all of them have; None where there are none."""
        wanted = (metric, tuple(names))
        if wanted not in self._tables:
            shared = self.models[names[0]].task_ids
            for name in names[1:]:
                shared = np.intersect1d(shared, self.models[name].task_ids, assume_unique=True)
            if not len(shared):
                return None
            scores = {name: self.models[name].scores for name in names}
            self._tables[wanted] = error_table(scores, self.suite, metric, tasks="common")
        return self._tables[wanted]

    def common(self, metric: str) -> ErrorTable | None:
        """Errors of all models on the tasks that all have."""
        return self.table(metric, list(self.models))

    def against(self, metric: str, reference: str) -> list[tuple[list[str], ErrorTable]]:
        """Groups of models with the errors of theirs and of the reference on their own tasks."""
        found = []
        for group in self._groups:
            names = group if reference in group else [*group, reference]
            table = self.table(metric, names)
            if table is not None:
                found.append((group, table))
        return found

    def skills(self, metric: str, reference: str, axes: Sequence[str] = ()) -> Skills:
        """Skill of every model at every combination of values of some axes.

        Args:
            metric: of `METRICS`.
            reference: model the skill is against.
            axes: columns of the manifest; none for all tasks together.

        Returns:
            by model, then by the tuple of the axes' values, skill in percent and its tasks.
        """
        found: Skills = {name: {} for name in self.models}
        for group, table in self.against(metric, reference):
            groups = skill_by(table, tuple(axes), reference)
            for name in group:
                cells = zip(groups.groups, groups.of(name), groups.tasks, strict=True)
                found[name] = {
                    values: Value(100 * float(skill), int(tasks)) for values, skill, tasks in cells
                }
        return found

    def beside(
        self, metric: str, reference: str, model: str, other: str, axes: Sequence[str] = ()
    ) -> dict[tuple[Any, ...], Value]:
        """Skill of `other` on the tasks of `model`, for comparison; as `skills`, without models."""
        table = self.table(metric, list(dict.fromkeys((model, other, reference))))
        if table is None:
            return {}
        found = skill_by(table, tuple(axes), reference)
        cells = zip(found.groups, found.of(other), found.tasks, strict=True)
        return {values: Value(100 * float(skill), int(tasks)) for values, skill, tasks in cells}

    def intervals(
        self, metric: str, reference: str, axes: Sequence[str] = (), by: By = "pair"
    ) -> dict[str, dict[tuple[Any, ...], tuple[float | None, float | None]]]:
        """Bootstrap intervals (95 %) of what `skills` gives; None where one cluster says nothing.

        Drawn by "pair" they are for this suite's targets, by "target" for others of these kinds.
        """
        found: dict[str, dict] = {}
        for group, table in self.against(metric, reference):
            groups = skill_by(
                table, tuple(axes), reference, key=self.key, resamples=self.resamples, by=by
            )
            for row in groups.rows():
                if row["model"] in group:
                    values = tuple(row[axis] for axis in axes)
                    ends = (percent(row["skill_lower"]), percent(row["skill_upper"]))
                    found.setdefault(row["model"], {})[values] = ends
        return found

    def bootstrap(self, table: ErrorTable, statistics: dict[str, Statistic]) -> dict[str, Interval]:
        """Statistics of a table with their 95 % intervals, all from the same draws."""
        return bootstrap_all(table, statistics, key=self.key, resamples=self.resamples, by="pair")

    def drawn(
        self, table: ErrorTable, reference: str, members: Mapping[Any, np.ndarray]
    ) -> dict[str, dict[Any, Drawn]]:
        """Skill of every model on several sets of tasks, on the same resamples of pairs.

        Args:
            table: errors of the models and of the reference.
            reference: model the skill is against.
            members: row numbers of the table, by any key.

        Returns:
            by model, then by the keys of `members`.
        """
        if not members:
            return {name: {} for name in table.models}
        logs = log_ratios(table, reference)
        groups = clusters(table, "pair")
        counts = resample_counts(int(groups.max()) + 1, self.resamples, key=self.key)
        rows = list(members.values())
        values = -100 * np.expm1(resampled_means(logs, groups, rows, counts))  # [R, sets, models]
        for place, one in enumerate(rows):
            if len(np.unique(groups[one])) == 1:  # its resamples are all alike, and say nothing
                values[:, place] = np.nan
        whole = [-100 * np.expm1(logs[one].mean(axis=0)) for one in rows]
        return {
            model: {
                key: Drawn(float(whole[place][column]), values[:, place, column])
                for place, key in enumerate(members)
            }
            for column, model in enumerate(table.models)
        }


def percent(value: float) -> float | None:
    """A share in percent; None for NaN."""
    return None if np.isnan(value) else 100 * float(value)
