"""Scoring a forecaster on the randomised stream, and on each of its hard cases alone.

A suite's responses are a catalog's, and a forecaster may fit their kind too well. The randomised
stream draws responses of many kinds, and each of its hard cases can be had alone. All forecasters
get the same tasks: those of `SEED`, which is for this and for no training.
"""

import dataclasses
import hashlib
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import polars as pl
import pyarrow as pa
from tqdm import tqdm

from whatif_jax import LEVELS, METRIC_VERSION, Bucket, Task, TaskBatch, root_key
from whatif_jax.comparison import ErrorTable, bootstrap, skill_scores
from whatif_jax.evaluation.declaration import declaration_of
from whatif_jax.evaluation.evaluate import evaluate_tasks
from whatif_jax.evaluation.forecaster import forecaster_identity
from whatif_jax.files import explained, write_whole

from .report.labels import INFORMED_MARK
from .report.markdown import grid
from .results import canonical, public_settings
from .run_files import ResultsError

__all__ = [
    "ALL",
    "CASES_TEXT",
    "EASY",
    "SEED",
    "StreamCases",
    "filled",
    "randomised_cases",
    "read_cases",
    "score_cases",
    "stream_tasks",
    "text_of_cases",
    "write_cases",
]

SEED = 3_141_592_653  # of the tasks that are scored
BUCKETS = ((512, 64), (1024, 128))
ALL, EASY = "all", "none"  # every hard case at the prior's share; none of them
STEP_SECONDS = 3600.0  # a drawn series has no clock
CASES_TEXT = (
    "Skill against naive under wQL, in percent, on tasks of the randomised stream, the same for "
    "all: `all` has the hard cases at the prior's shares, `none` has none of them, each other "
    "column has that one in every task that can have it (`irrelevant`, `correlated` and "
    "`overlapping` need two covariates, `regime` two events). Where values of a history are "
    "missing, forecasters that do not take missing values get the last value seen in their place. "
    "A forecaster trained on `randomised` has seen tasks of the same prior, though none of these."
)


Fields = dict[str, np.ndarray]  # of a `Task`


class Stream(Protocol):
    """What is asked of a stream: the face of `whatif_jax.TaskStream`."""

    def iterate(self, start: int = 0, stop: int | None = None) -> Iterator[Any]:
        """Batches, each with a `task` whose fields have a leading axis B."""

    def describe(self) -> dict[str, Any]:
        """What is in it, as JSON values."""


@dataclasses.dataclass(frozen=True)
class StreamCases:
    """The streams that forecasters are scored on, by the name of the case.

    Attributes:
        streams: by case; "all" among them.
        about: what the tasks are, as JSON values; results of others are not shown together.
    """

    streams: Mapping[str, Stream]
    about: dict[str, Any]


def randomised_cases(tasks: int, *, batch_size: int = 64) -> StreamCases:
    """The randomised stream with its hard cases as they come, without any, and each alone.

    Args:
        tasks: of each case.
        batch_size: tasks that are made at once.
    """
    from whatif_jax.tasks.randomised import HARD_CASES, RandomisedStream

    def stream(hard_cases: Mapping[str, float] | None) -> RandomisedStream:
        return RandomisedStream(SEED, batch_size, buckets=BUCKETS, hard_cases=hard_cases)

    streams = {ALL: stream(None), EASY: stream({})}
    streams |= {name: stream({name: 1.0}) for name in HARD_CASES}
    about = {"prior": streams[ALL].describe()["prior"], "seed": SEED, "tasks": tasks}
    return StreamCases(streams, about | {"buckets": [list(bucket) for bucket in BUCKETS]})


def filled(task: Task, *, takes_missing: bool = False) -> Task:
    """Tasks with something in place of what is missing in their histories; masks as they were.

    Args:
        task: fields with a leading axis B.
        takes_missing: put NaN there, for a forecaster with that attribute; else the last value
            seen, before the first one that, and 0 where a history has none.
    """
    history, mask = np.asarray(task.history), np.asarray(task.history_mask)
    if mask.all():
        return task
    steps = np.arange(history.shape[1])
    last = np.maximum.accumulate(np.where(mask, steps, -1), axis=1)
    source = np.where(last >= 0, last, mask.argmax(axis=1)[:, None])
    seen = np.take_along_axis(history, source, axis=1)
    seen = np.where(mask.any(axis=1, keepdims=True), seen, 0.0).astype(history.dtype)
    empty = np.full_like(history, np.nan)
    values = np.where(mask, history, empty if takes_missing else seen)
    return eqx.tree_at(lambda one: one.history, task, jnp.asarray(values))


def stream_tasks(stream: Stream, count: int, *, most: int = 64) -> Iterator[TaskBatch]:
    """The first tasks of a stream as batches of one shape and one number of covariates.

    Args:
        stream: of tasks whose left padding, which holds no value, counts as missing.
        count: tasks; numbered 0 .. count - 1 in the stream's order.
        most: rows of a batch; fewer are padded with copies of the last one.
    """
    waiting: dict[tuple[int, ...], list[tuple[int, Fields]]] = {}
    number = 0
    for batch in stream.iterate():
        fields = jax.device_get(vars(batch.task))
        for row in range(len(fields["history"])):
            if number == count:
                break
            one = _row(fields, row)
            key = (len(one["history"]), len(one["future"]), int(one["covariate_mask"].sum()))
            waiting.setdefault(key, []).append((number, one))
            number += 1
            if len(waiting[key]) == most:
                yield _joined(waiting.pop(key), most)
        if number == count:
            break
    for _, rest in sorted(waiting.items(), key=lambda item: item[0]):
        yield _joined(rest, most)


def _row(fields: Fields, row: int) -> Fields:
    """One task without the padding of its horizon; its covariates before their padding."""
    one = {name: value[row] for name, value in fields.items()}
    steps = int(one["future_mask"].sum())
    for name in ("future", "future_baseline", "future_mask"):
        one[name] = one[name][:steps]
    order = np.argsort(~one["covariate_mask"], kind="stable")
    one["covariate_mask"] = one["covariate_mask"][order]
    one["history_covariates"] = one["history_covariates"][order]
    one["future_covariates"] = one["future_covariates"][order, :steps]
    return one


def _joined(numbered: Sequence[tuple[int, Fields]], size: int) -> TaskBatch:
    rows = [one for _, one in numbered]
    padded = [*rows, *rows[-1:] * (size - len(rows))]
    fields = {name: jnp.asarray(np.stack([one[name] for one in padded])) for name in rows[0]}
    ids = np.full(size, -1, np.int64)
    ids[: len(rows)] = [number for number, _ in numbered]
    context, horizon = fields["history"].shape[1], fields["future"].shape[1]
    k = fields["covariate_mask"].shape[1]
    bucket = Bucket(context, horizon, k, events=1, positions=1)
    return TaskBatch(ids, ids >= 0, np.full(size, STEP_SECONDS), Task(**fields), bucket)


def score_cases(
    forecaster: Callable, cases: StreamCases, *, progress: bool = False
) -> list[dict[str, Any]]:
    """A row for every case: tasks, skill against naive with its 95 % interval, coverage, seconds.

    Args:
        forecaster: see `whatif_jax.Forecaster`.
        cases: the streams, and how many tasks of each.
        progress: show a bar with tasks a second.

    Raises:
        ForecasterError: a forecast of the wrong shape.
        DeclarationError: what it says that it was trained on cannot be.
    """
    from .forecasters.naive import make

    name, version, settings = forecaster_identity(forecaster)
    declared = declaration_of(forecaster)
    missing = bool(getattr(forecaster, "takes_missing", False))
    who = {
        "model": name,
        "version": version,
        "settings": canonical(public_settings(json.loads(settings))),
        "trained_on": declared.trained_on,
        "informed": declared.informed,
    }
    rows, count = [], cases.about["tasks"]
    warmed: set[tuple[int, ...]] = set()
    with tqdm(total=count * len(cases.streams), unit="task", disable=not progress) as bar:
        for case, stream in cases.streams.items():
            ours, theirs, seconds = [], [], []
            for batch in stream_tasks(stream, count):
                plain = eqx.tree_at(lambda one: one.task, batch, filled(batch.task))
                given = eqx.tree_at(
                    lambda one: one.task, batch, filled(batch.task, takes_missing=missing)
                )
                found = evaluate_tasks(forecaster, given, warmed=warmed)
                ours.append(found.scores)
                seconds.append(found.seconds)
                theirs.append(evaluate_tasks(make(), plain).scores)
                bar.update(batch.rows)
            of_case = _row_of(pa.concat_tables(ours), pa.concat_tables(theirs))
            spent = pa.concat_tables(seconds)["seconds"].to_numpy()
            rows.append({**who, "case": case, **of_case, "seconds": float(spent.mean())})
    return rows


def _row_of(ours: pa.Table, theirs: pa.Table) -> dict[str, Any]:
    """Skill against naive, and the share of the truth within the 80 % interval."""
    errors = np.stack([theirs["wql"].to_numpy(), ours["wql"].to_numpy()], axis=1)
    ids = ours["task_id"].to_numpy()
    table = ErrorTable(("naive", "model"), ids, errors, "wql", "", METRIC_VERSION, {})
    found = bootstrap(table, skill_scores, key=root_key(0))
    coverage = np.array(ours["coverage"].to_pylist())
    inside = None
    if coverage.shape[1] == len(LEVELS):
        inside = float(np.mean(coverage[:, LEVELS.index(0.9)] - coverage[:, LEVELS.index(0.1)]))
    ends = {"": found.estimate, "_low": found.lower, "_high": found.upper}
    return {
        "tasks": len(ours),
        **{f"skill{end}": 100 * float(values[1]) for end, values in ends.items()},
        "interval": inside,
        "imputed": int(np.sum(ours["imputed"].to_numpy(zero_copy_only=False))),
    }


_SCHEMA: dict[str, Any] = {
    **dict.fromkeys(("model", "version", "settings", "trained_on", "informed", "case"), pl.String),
    "tasks": pl.Int64,
    **dict.fromkeys(("skill", "skill_low", "skill_high", "interval"), pl.Float64),
    "imputed": pl.Int64,
    "seconds": pl.Float64,
}


def write_cases(rows: Sequence[Mapping[str, Any]], about: Mapping[str, Any], root: Path) -> Path:
    """Write the rows of one forecaster, and `hard_cases.md` of all that were scored alike.

    Returns:
        the path of the forecaster's CSV.

    Raises:
        ResultsError: the folder cannot be written, or holds what this does not write.
    """
    key = hashlib.sha256(canonical(dict(about)).encode()).hexdigest()[:8]
    folder = root / f"stream-prior-{about['prior']}-{key}"
    who = hashlib.sha256(rows[0]["settings"].encode()).hexdigest()[:8]
    stem = re.sub(r"[^A-Za-z0-9.+_-]+", "_", f"{rows[0]['model']}-{rows[0]['version']}-{who}")
    frame = pl.DataFrame(list(rows), _SCHEMA).with_columns(pl.col(pl.Float64).round(9))
    with explained(ResultsError, "results", folder):
        folder.mkdir(parents=True, exist_ok=True)
        write_whole(folder / f"{stem}.csv", frame.write_csv)
        about_text = json.dumps(dict(about), indent=1) + "\n"
        write_whole(folder / "stream.json", lambda at: at.write_text(about_text, "utf-8"))
        text = text_of_cases(read_cases(folder), about)
        write_whole(folder / "hard_cases.md", lambda at: at.write_text(text, "utf-8"))
    return folder / f"{stem}.csv"


def read_cases(folder: Path) -> list[dict[str, Any]]:
    """The rows of every forecaster scored in a folder.

    Raises:
        ResultsError: a CSV that this does not write.
    """
    rows: list[dict[str, Any]] = []
    for path in sorted(folder.glob("*.csv")):
        try:
            rows += pl.read_csv(path, schema=_SCHEMA).fill_null("").to_dicts()
        except pl.exceptions.PolarsError as error:
            said = " ".join(str(error).split())[:120]
            raise ResultsError(
                f"results: {path}: {said}; expected what `python -m eval stream` writes"
            ) from None
    return rows


def text_of_cases(rows: Sequence[Mapping[str, Any]], about: Mapping[str, Any]) -> str:
    """A table in Markdown: a row a forecaster, a column a case; the best on all tasks first."""
    by_model: dict[tuple[str, ...], dict[str, Mapping[str, Any]]] = {}
    for row in rows:
        key = tuple(row[name] for name in ("model", "version", "settings"))
        by_model.setdefault(key, {})[row["case"]] = row
    cases = list(dict.fromkeys(row["case"] for row in rows))
    ranked = sorted(by_model.values(), key=lambda found: -found[ALL]["skill"])
    lines = []
    for found in ranked:
        first = found[ALL]
        name = f"{first['model']} {INFORMED_MARK}" if first["informed"] else first["model"]
        ends = f"{first['skill']:.1f} ({first['skill_low']:.1f} to {first['skill_high']:.1f})"
        others = [f"{found[case]['skill']:.1f}" if case in found else "" for case in cases[1:]]
        lines.append([name, first["trained_on"], ends, *others])
    notes = [
        f"{INFORMED_MARK} {found[ALL]['model']}: informed: {found[ALL]['informed'].rstrip('.')}."
        for found in ranked
        if found[ALL]["informed"]
    ]
    tasks = f"{about['tasks']:,} tasks a case, prior {about['prior']}, seed {about['seed']}."
    head = ["forecaster", "trained on", *cases]
    parts = ["## Hard cases", f"{CASES_TEXT} {tasks}", grid(head, lines), *notes]
    return "\n\n".join(parts) + "\n"
