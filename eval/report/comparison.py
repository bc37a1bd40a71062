"""Which models are compared on which tasks, and their skills as data frames.

A model scored on a sample is compared with the reference on its own tasks. Win rates compare every
model with every other, so they are over the tasks that all have. Models with the same tasks share
one `ErrorTable`.

Models that have seen the suite's systems are ranked apart from those that have not: a rank, a win
rate or a mean over models is never of both.

Columns that name things (metric, reference, model, future, system) are enumerations in the report's
order, so that sorting by them sorts as the report does.
"""

import functools
from collections.abc import Sequence

import numpy as np
import polars as pl
from jaxtyping import PRNGKeyArray

from whatif_jax import Suite
from whatif_jax.comparison import (
    ErrorTable,
    Interval,
    bootstrap,
    error_table,
    nominal_contexts,
    skill_by,
)
from whatif_jax.comparison.bootstrap import By
from whatif_jax.comparison.skill import log_ratios, skill_of
from whatif_jax.comparison.statistic import Statistic

from .labels import AXES, FUTURES, METRIC_LABELS, REFERENCES, SPLITS, SYSTEMS, Switches
from .models import Model, ReportError
from .style import Style, styles

__all__ = ["KEYS", "Comparison"]

KEYS = ["metric", "reference", "model"]
MOST_DRAWN = 6  # kinds of models that charts of lines draw before the reader chooses


class Comparison:
    """The models of a report, every one against every reference under every metric shown.

    Args:
        models: of `models_of`.
        suite: the suite they are of.
        reference: the model skills are first shown against.
        resamples: of each bootstrap.
        key: of the bootstraps; the same tasks are drawn for every model, both futures of a history
            together unless it is said otherwise.

    Raises:
        ReportError: no run of the reference.
    """

    def __init__(
        self,
        models: Sequence[Model],
        suite: Suite,
        *,
        reference: str,
        resamples: int,
        key: PRNGKeyArray,
    ):
        self.models = {model.name: model for model in models}
        if reference not in self.models:
            raise ReportError(
                f"reference: {reference!r} is not among the results; expected one of "
                f"{', '.join(self.models)}"
            )
        splits = {one: [name for name in self.models if self.models[name].split == one]
                  for one in SPLITS}  # fmt: skip
        self.splits = {split: names for split, names in splits.items() if names}
        self.suite = suite
        self.resamples = resamples
        self.key = key
        others = [name for name in REFERENCES if name in self.models and name != reference]
        self.references = (reference, *others)
        self.variants = [Switches(one, name) for name in self.references for one in METRIC_LABELS]
        known = suite.count("system")
        self.systems = [name for name in SYSTEMS if name in known]
        self.systems += [name for name in known if name not in SYSTEMS]
        self._types = {
            "metric": pl.Enum(list(METRIC_LABELS)),
            "reference": pl.Enum(self.references),
            "model": pl.Enum(list(self.models)),
            "future": pl.Enum(FUTURES),
            "system": pl.Enum(self.systems),
        }
        axes = ["future", "system", *(axis.column for axis in AXES)]
        self.tasks = self.typed(pl.DataFrame(suite.table.select(["task_id", *axes])))
        self._tables: dict[tuple[str, tuple[str, ...]], ErrorTable] = {}

    def typed(self, frame: pl.DataFrame) -> pl.DataFrame:
        """The frame with its names as enumerations."""
        return frame.cast({name: kind for name, kind in self._types.items() if name in frame})

    def table(self, metric: str, names: Sequence[str]) -> ErrorTable | None:
        """Errors of some models on the tasks that all of them have; None where there are none."""
        wanted = (metric, tuple(names))
        if wanted not in self._tables:
            shared = self.models[names[0]].task_ids
            for name in names[1:]:
                shared = np.intersect1d(shared, self.models[name].task_ids, assume_unique=True)
            if not len(shared):
                return None
            scores = {name: self.models[name].run.scores for name in names}
            self._tables[wanted] = error_table(scores, self.suite, metric, tasks="common")
        return self._tables[wanted]

    @property
    def ranking(self) -> list[str]:
        """Names of the models that are ranked first: the zero-shot ones where there are any."""
        several = [names for names in self.splits.values() if len(names) > 1]
        return next(iter(several or self.splits.values()))

    def common(self, metric: str) -> ErrorTable | None:
        """Errors of all models of the ranking on the tasks that all of them have."""
        return self.table(metric, self.ranking)

    def apart(self, frame: pl.DataFrame) -> pl.DataFrame:
        """The frame with the rows of each split together, in order; rows of no model come last."""
        if len(self.splits) < 2 or "model" not in frame:
            return frame
        return frame.sort(self._place(), maintain_order=True)

    def _place(self) -> pl.Expr:
        places = {name: SPLITS.index(model.split) for name, model in self.models.items()}
        return pl.col("model").cast(pl.String).replace_strict(places, default=len(SPLITS))

    def against(self, metric: str, *references: str) -> list[tuple[list[str], ErrorTable]]:
        """Groups of models with the errors of theirs and of the references on their own tasks."""
        groups: dict[bytes, list[str]] = {}
        for name, model in self.models.items():
            groups.setdefault(model.task_ids.tobytes(), []).append(name)
        found = []
        for group in groups.values():
            others = [one for one in references if one not in group]
            table = self.table(metric, [*group, *others])
            if table is not None:
                found.append((group, table))
        return found

    @functools.cached_property
    def _log_ratios(self) -> pl.DataFrame:
        """Every error's ratio to the reference's: `KEYS`, log_ratio, and the task with its axes."""
        frames = []
        for metric, reference in self.variants:
            for names, table in self.against(metric, reference):
                ratios = dict(zip(table.models, log_ratios(table, reference).T, strict=True))
                wide = pl.DataFrame({"task_id": table.task_ids, **ratios})
                long = wide.unpivot(
                    names, index="task_id", variable_name="model", value_name="log_ratio"
                )
                frames.append(long.with_columns(metric=pl.lit(metric), reference=pl.lit(reference)))
        return self.typed(pl.concat(frames)).join(self.tasks, on="task_id")

    def skills(self, *axes: str, by: Sequence[By] = ()) -> pl.DataFrame:
        """Skill of every model in every variant, at every combination of values of some axes.

        Args:
            *axes: columns of the manifest.
            by: what bootstrap intervals (95 %) draw: "pair" for this suite's targets, "target" for
                others of these kinds.

        Returns:
            `KEYS`, the axes, skill in percent and the number of tasks it is over; for each of `by`
            its low and high end, such as pair_low, null where one cluster says nothing.
        """
        found = _skills(self._log_ratios, axes)
        for one in by:
            found = found.join(self._intervals(axes, one), on=[*KEYS, *axes])
        return found

    def skills_of(self, other: str, *axes: str) -> pl.DataFrame:
        """Skill of one model on the tasks of each model, as `skills`."""
        own = self._log_ratios.select(*KEYS, "task_id")
        others = self._log_ratios.filter(pl.col("model") == other).drop("model")
        return _skills(own.join(others, on=["metric", "reference", "task_id"]), axes)

    def ranked(self, *frames: pl.DataFrame) -> pl.DataFrame:
        """Frames of a row for each of `KEYS` beside the overall skill, the best model first.

        First those of the first split, and so on.

        Lacks models that share no task with a reference.
        """
        found = self.skills()
        for frame in frames:
            found = found.join(frame, on=KEYS, how="left")
        by = ["reference", "metric", self._place(), "skill", "model"]
        return found.sort(by, descending=[False, False, False, True, False])

    @functools.cached_property
    def order(self) -> list[str]:
        """Names of all models, the best first, under the first metric and reference."""
        metric, reference = self.variants[0]
        found = self.ranked().filter(metric=metric, reference=reference)["model"].to_list()
        return [*found, *(name for name in self.models if name not in found)]

    @functools.cached_property
    def drawn(self) -> list[str]:
        """The few models that charts of lines draw at first, in order.

        The best of each of the best kinds with what it is a variant of, and the references.
        """
        best: dict[str, str] = {}
        for name in self.order:
            best.setdefault(self.models[name].kind, name)
        kinds = list(best)[:MOST_DRAWN]
        few = {*kinds, *(best[kind] for kind in kinds), *self.references}
        return [name for name in self.order if name in few]

    @functools.cached_property
    def styles(self) -> dict[str, Style]:
        """How each model looks; those drawn at first differ most."""
        return styles([*self.drawn, *(name for name in self.order if name not in self.drawn)])

    def _intervals(self, axes: Sequence[str], by: By) -> pl.DataFrame:
        frames = []
        for metric, reference in self.variants:
            for names, table in self.against(metric, reference):
                found = skill_by(
                    table, axes, reference, key=self.key, resamples=self.resamples, by=by
                )
                frame = pl.DataFrame([row for row in found.rows() if row["model"] in names])
                frames.append(
                    frame.with_columns(metric=pl.lit(metric), reference=pl.lit(reference))
                )
        low, high = (100 * pl.col(f"skill_{end}").fill_nan(None) for end in ("lower", "upper"))
        ends = {f"{by}_low": low, f"{by}_high": high}
        return self.typed(pl.concat(frames)).select(*KEYS, *axes, **ends)

    def bootstrap(self, table: ErrorTable, statistic: Statistic) -> Interval:
        """A statistic of a table with its 95 % interval, both futures of a history together."""
        return bootstrap(table, statistic, key=self.key, resamples=self.resamples, by="pair")

    def positions(self, axis: str) -> dict[str | int, float]:
        """Where each value of an axis lies: nominal steps of context pairs, else the value."""
        if axis == "context_pair":
            table = self.table("wql", [self.references[0]])
            return {} if table is None else dict(nominal_contexts(table).items())
        return {value: float(value) for value in self.suite.count(axis)}


def _skills(log_ratios: pl.DataFrame, axes: Sequence[str]) -> pl.DataFrame:
    by = ["reference", "metric", "model", *axes]
    means = log_ratios.group_by(by).agg(pl.col("log_ratio").mean(), tasks=pl.len()).sort(by)
    return means.select(
        *KEYS, *axes, pl.Series("skill", 100 * skill_of(means["log_ratio"].to_numpy())), "tasks"
    )
