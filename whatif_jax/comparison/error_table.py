"""The error table: what every model scored on the same tasks, and the axes of those tasks.

References:
    evaluation/scores.md. Axes: N tasks, M models.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Literal

import numpy as np
import pyarrow as pa

from ..catalog.errors import one_of
from ..evaluation import Evaluation
from ..suites import Suite
from ..suites.manifest import AXES

__all__ = ["METRICS", "ComparisonError", "ErrorTable", "check_table", "error_table"]

# Errors of a scores table that models are compared by: never NaN, smaller is better.
METRICS = ("wql", "wape", "mase", "rmse")


class ComparisonError(ValueError):
    """Two models were not scored on the same tasks with the same metric."""


@dataclasses.dataclass(frozen=True, eq=False)
class ErrorTable:
    """Errors of M models on the same N tasks.

    Attributes:
        models: M distinct names.
        task_ids: int64 [N].
        errors: float64 [N, M], at least 0 and possibly infinite.
        metric: one of `METRICS`.
        fingerprint: of the suite the tasks come from.
        metric_version: of the metric code that scored them.
        axes: columns of the manifest, each [N].
        imputed: bool [N, M], where naive replaced a missing or non-finite forecast.

    Raises:
        ValueError: no task, shapes that differ, a name twice, an error that is NaN or negative.
    """

    models: tuple[str, ...]
    task_ids: np.ndarray
    errors: np.ndarray
    metric: str
    fingerprint: str
    metric_version: str
    axes: Mapping[str, np.ndarray]
    imputed: np.ndarray | None = None

    def __post_init__(self) -> None:
        shape = (len(self.task_ids), len(self.models))
        if not all(shape):
            raise ValueError(f"errors: {shape[0]} tasks of {shape[1]} models; expected some")
        if len(set(self.models)) != len(self.models):
            raise ValueError(f"models: {list(self.models)}; expected distinct names")
        if self.errors.shape != shape or self.errors.dtype != np.float64:
            raise ValueError(
                f"errors: {self.errors.dtype} {list(self.errors.shape)}; "
                f"expected float64 {list(shape)}"
            )
        if self.imputed is not None and self.imputed.shape != shape:
            raise ValueError(f"imputed: {list(self.imputed.shape)}; expected {list(shape)}")
        for name, values in self.axes.items():
            if np.shape(values) != shape[:1]:
                raise ValueError(f"axis {name}: {list(np.shape(values))}; expected [{shape[0]}]")
        bad = ~(self.errors >= 0)  # NaN too
        if bad.any():
            row, column = (int(index) for index in np.argwhere(bad)[0])
            raise ValueError(
                f"{self.metric} of {self.models[column]!r} on task {self.task_ids[row]}: "
                f"{self.errors[row, column]}; expected a number of at least 0"
            )

    def __len__(self) -> int:
        return len(self.task_ids)

    def __repr__(self) -> str:
        return f"ErrorTable({self.metric} on {len(self):,} tasks: {', '.join(self.models)})"

    def index(self, model: str) -> int:
        """Column of a model.

        Raises:
            ValueError: no such model.
        """
        if model not in self.models:
            raise ValueError(f"model {model!r}; expected {one_of(self.models, model)}")
        return self.models.index(model)

    def column(self, model: str) -> np.ndarray:
        """Errors of a model, float64 [N]."""
        return self.errors[:, self.index(model)]

    def axis(self, name: str) -> np.ndarray:
        """One column of the manifest [N].

        Raises:
            ValueError: no such axis.
        """
        if name not in self.axes:
            raise ValueError(f"axis {name!r}; expected {one_of(self.axes, name)}")
        return self.axes[name]

    def take(self, rows: np.ndarray) -> "ErrorTable":
        """The tasks at some row numbers, or where a mask is True; a row may come twice."""
        return dataclasses.replace(
            self,
            task_ids=self.task_ids[rows],
            errors=self.errors[rows],
            axes={name: values[rows] for name, values in self.axes.items()},
            imputed=None if self.imputed is None else self.imputed[rows],
        )

    def only(self, models: Sequence[str]) -> "ErrorTable":
        """Some of the models, in the order given."""
        columns = [self.index(model) for model in models]
        return dataclasses.replace(
            self,
            models=tuple(models),
            errors=self.errors[:, columns],
            imputed=None if self.imputed is None else self.imputed[:, columns],
        )


def check_table(table: object) -> None:
    """Refuse what is no error table; ValueError."""
    if not isinstance(table, ErrorTable):
        raise ValueError(
            f"table: {type(table).__name__}; expected an ErrorTable, as error_table(...) makes it "
            f"from scores"
        )


def error_table(
    score_tables: Mapping[str, pa.Table | Evaluation],
    suite: Suite,
    metric: str = "wql",
    tasks: Literal["same", "common"] = "same",
) -> ErrorTable:
    """Put the scores of several models beside each other, or refuse to.

    Args:
        score_tables: what `evaluate` returns, or its scores, by model name.
        suite: the suite they were scored on. A filtered one keeps its own tasks alone.
        metric: one of `METRICS`.
        tasks: "same" refuses models scored on different tasks; "common" keeps what all have.

    Raises:
        ComparisonError: fingerprint, metric version, quantile levels or task set of two models
            differ (the message names both), or they are not the suite's.
        ValueError: an unknown metric or option, a column missing, a task twice, a NaN error.
    """
    if metric not in METRICS:
        raise ValueError(f"metric: {metric!r}; expected one of {', '.join(METRICS)}")
    if tasks not in ("same", "common"):
        raise ValueError(f"tasks: {tasks!r}; expected 'same' or 'common'")
    if not isinstance(score_tables, Mapping):
        raise ValueError(
            f"score_tables: {type(score_tables).__name__}; expected scores by model name"
        )
    if not score_tables:
        raise ValueError("score_tables: none; expected at least one model")
    tables = {model: _scores(model, given) for model, given in score_tables.items()}
    facts = {model: _metadata(model, table) for model, table in tables.items()}
    for field in ("fingerprint", "metric_version"):
        _same(field, {model: known[field] for model, known in facts.items()})
    if metric == "wql":
        # a point forecast is scored at level 0.5 alone, whatever levels were asked for
        _same(
            "levels",
            {
                model: known["levels"]
                for model, known in facts.items()
                if "levels" in known and known.get("point") != "true"
            },
        )
    first = next(iter(facts))
    _check_suite(first, facts[first]["fingerprint"], suite)

    suite_ids = suite.column("task_id").astype(np.int64)
    order = np.argsort(suite_ids, kind="stable")
    columns = {
        model: _column(model, table, metric, suite, suite_ids[order])
        for model, table in tables.items()
    }
    task_ids = _shared_tasks({model: ids for model, (ids, _, _) in columns.items()}, tasks)
    errors, imputed = [], []
    for ids, values, replaced in columns.values():
        rows = np.searchsorted(ids, task_ids)
        errors.append(values[rows])
        imputed.append(replaced[rows])
    rows = order[np.searchsorted(suite_ids, task_ids, sorter=order)]
    return ErrorTable(
        models=tuple(tables),
        task_ids=task_ids,
        errors=np.stack(errors, axis=1),
        metric=metric,
        fingerprint=facts[first]["fingerprint"],
        metric_version=facts[first]["metric_version"],
        axes={name: suite.column(name)[rows] for name in AXES if name != "task_id"},
        imputed=np.stack(imputed, axis=1),
    )


def _scores(model: str, given: pa.Table | Evaluation) -> pa.Table:
    table = given.scores if isinstance(given, Evaluation) else given
    if not isinstance(table, pa.Table):
        raise ValueError(
            f"scores of {model!r}: {type(given).__name__}; expected what `evaluate` returns"
        )
    return table


def _metadata(model: str, table: pa.Table) -> dict[str, str]:
    found = {key.decode(): value.decode() for key, value in (table.schema.metadata or {}).items()}
    for field in ("fingerprint", "metric_version"):
        if field not in found:
            raise ComparisonError(f"scores of {model!r}: no {field} in the schema metadata")
    return found


def _same(field: str, values: Mapping[str, str]) -> None:
    models = list(values)
    for model in models[1:]:
        if values[model] != values[models[0]]:
            raise ComparisonError(
                f"{field}: {models[0]!r} has {values[models[0]]}, {model!r} has {values[model]}; "
                "expected the same"
            )


def _check_suite(model: str, fingerprint: str, suite: Suite) -> None:
    # scores of a filtered suite may carry the fingerprint of the whole one
    whole = suite.whole
    if fingerprint != whole.fingerprint and fingerprint != suite.fingerprint:
        raise ComparisonError(
            f"fingerprint: {model!r} was scored on {fingerprint}; expected that of suite "
            f"{suite.name!r}, {whole.fingerprint}"
        )


def _column(
    model: str, table: pa.Table, metric: str, suite: Suite, suite_ids: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Task ids, errors and imputed of one model on the suite's tasks, sorted by task id."""
    for name in ("task_id", metric):
        if name not in table.column_names:
            raise ValueError(f"scores of {model!r}: column {name} missing")
    ids = table.column("task_id").to_numpy().astype(np.int64)
    order = np.argsort(ids, kind="stable")
    ids = ids[order]
    twice = ids[1:][ids[1:] == ids[:-1]]
    if twice.size:
        raise ValueError(f"scores of {model!r}: task {twice[0]} twice; expected once")
    whole = suite.whole
    unknown = ids[~np.isin(ids, whole.column("task_id"))]
    if unknown.size:
        raise ComparisonError(
            f"scores of {model!r}: task {unknown[0]} is not in suite {suite.name!r}"
        )
    # a null score is a missing one, hence NaN, which ErrorTable refuses by name
    errors = table.column(metric).to_numpy().astype(np.float64)[order]
    imputed = np.zeros(len(ids), bool)
    if "imputed" in table.column_names:
        imputed = table.column("imputed").to_numpy().astype(bool)[order]
    keep = np.isin(ids, suite_ids)
    return ids[keep], errors[keep], imputed[keep]


def _shared_tasks(ids: Mapping[str, np.ndarray], tasks: str) -> np.ndarray:
    models = list(ids)
    shared = ids[models[0]]
    for model in models[1:]:
        if tasks == "same" and not np.array_equal(ids[model], shared):
            odd = np.setxor1d(ids[model], shared)
            raise ComparisonError(
                f"tasks: {models[0]!r} has {len(shared)}, {model!r} has {len(ids[model])}, and "
                f"task {odd[0]} is scored for one of them only; expected the same tasks "
                "(tasks='common' keeps what all have)"
            )
        if tasks == "common":
            common = np.intersect1d(shared, ids[model], assume_unique=True)
            if shared.size and not common.size:
                raise ComparisonError(f"tasks: {models[0]!r} and {model!r} have none in common")
            shared = common
    if not shared.size:
        raise ComparisonError(f"tasks: {models[0]!r} has none of the suite's tasks")
    return shared
