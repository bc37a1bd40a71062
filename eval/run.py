"""Running a forecaster over a suite: plan, forecast and score batch by batch, keep, sum up.

References:
    evaluation/scores.md.
"""

import contextlib
import dataclasses
import functools
import importlib.metadata
import json
import os
import platform
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
from tqdm import tqdm

from whatif_jax import LEVELS, METRIC_VERSION, Suite, __version__, check_rows, evaluate_batch
from whatif_jax.evaluation.declaration import Declaration, declaration_of
from whatif_jax.evaluation.evaluate import BATCH_AXES, try_largest
from whatif_jax.evaluation.forecaster import forecaster_identity
from whatif_jax.tasks.spec import is_whole

from .parallel import Spread, cluster
from .results import Identity, Run, load_run, public_settings
from .run_folder import RunFolder
from .sampling import BROWSE_TASKS, browse_sample, choose

__all__ = ["BATCH_SIZE", "RunPlan", "declared_as", "plan_run", "run"]

BATCH_SIZE = 256
# Settings that no number depends on: another limit on costs goes on with the same run.
_WITHOUT_EFFECT = ("max_cost",)
# Rows that a forecaster is checked with before the first batch.
CHECKED_ROWS = 8
MOST_JOBS = 1024  # all are started at once
_GOLDEN_RATIO = (5**0.5 - 1) / 2


@dataclasses.dataclass(frozen=True)
class RunPlan:
    """What a run will do."""

    identity: Identity
    suite: Suite  # the whole suite
    chosen: Suite  # the tasks that are run
    batches: list[np.ndarray]  # task ids
    kept: np.ndarray  # task ids whose forecasts are kept
    sizes: dict[str, int]  # batch_size, keep_forecasts
    declared: Declaration


def plan_run(
    forecaster: Callable,
    suite: Suite,
    *,
    where: Mapping[str, Any] | None = None,
    sample: int | None = None,
    batch_size: int = BATCH_SIZE,
    keep_forecasts: int = BROWSE_TASKS,
    declared: Declaration | None = None,
) -> RunPlan:
    """Choose the tasks and batches of a run; writes nothing.

    Args:
        forecaster: see `whatif_jax.evaluation.evaluate.Forecaster`.
        suite: the whole suite.
        where: keep the tasks at these values, as `Suite.where` takes them.
        sample: of those, run a stratified sample of that many.
        batch_size: rows of a batch.
        keep_forecasts: number of tasks whose forecasts are kept for the task browser, whole pairs
            first.
        declared: what the forecaster was trained on; None asks the forecaster.

    Raises:
        ValueError: an argument is wrong; or a forecaster that was trained without some systems is
            to be run on tasks of these and of others together.
        ForecasterError: settings of the forecaster that JSON cannot hold.
    """
    if not is_whole(keep_forecasts) or keep_forecasts < 0:
        raise ValueError(f"keep_forecasts: {keep_forecasts!r}; expected 0 or more")
    chosen, tasks = choose(suite, where, sample)
    declared = declaration_of(forecaster) if declared is None else declared
    _refuse_mixed(declared, chosen)
    kept = browse_sample(
        suite.where(**dict(where or {})), keep_forecasts, among=chosen.column("task_id")
    )
    name, version, settings = forecaster_identity(forecaster)
    identity = Identity(
        suite=suite.name,
        fingerprint=suite.fingerprint,
        metric_version=METRIC_VERSION,
        forecaster=name,
        version=version,
        settings={
            key: value
            for key, value in public_settings(json.loads(settings)).items()
            if key not in _WITHOUT_EFFECT
        },
        levels=LEVELS,
        tasks=tasks,
    )
    return RunPlan(
        identity,
        suite,
        chosen,
        chosen.batch_ids(batch_size, by=BATCH_AXES),
        kept,
        {"batch_size": batch_size, "keep_forecasts": keep_forecasts},
        declared,
    )


def declared_as(forecaster: Callable, trained_on: str | None, training: str | None) -> Declaration:
    """What a forecaster declares, or, of one that does not, what its user declares of it.

    Args:
        forecaster: see `whatif_jax.Forecaster`.
        trained_on: the user's word; None asks the forecaster alone.
        training: the user's JSON object.

    Raises:
        ValueError: a training that is no JSON object, or one without a word; or the forecaster
            itself declares otherwise.
    """
    own = declaration_of(forecaster)
    if trained_on is None:
        if training is not None:
            raise ValueError("--training: given without --trained-on; expected both, or neither")
        return own
    try:
        details = json.loads(training or "{}")
    except (ValueError, RecursionError):
        details = None
    if not isinstance(details, dict):
        raise ValueError(f"--training: {training!r}; expected a JSON object")
    given = declaration_of(
        SimpleNamespace(trained_on=trained_on, training=details, informed=own.informed or False)
    )
    if own.trained_on not in ("unknown", given.trained_on):
        raise ValueError(
            f"--trained-on: {trained_on}; expected nothing, as the forecaster itself declares "
            f"{own.trained_on}"
        )
    return given


def _refuse_mixed(declared: Declaration, chosen: Suite) -> None:
    """Refuse a run over systems that a forecaster was trained on and others that it was not."""
    if declared.trained_on != "left-out-system":
        return
    left_out, systems = declared.training["left_out"], sorted(chosen.count("system"))
    if len({system in left_out for system in systems}) > 1:
        raise ValueError(
            f"system: tasks of {', '.join(systems)}; expected those of {', '.join(left_out)} "
            f"alone, which the forecaster was not trained on (--where "
            f"system={','.join(left_out)}), or none of them, a run in distribution"
        )


def run(
    forecaster: Callable,
    planned: RunPlan,
    results: str | Path = "results",
    *,
    jobs: int | None = None,
    dask: str | None = None,
    check: bool = True,
    progress: bool = True,
) -> Run:
    """Forecast and score every batch that is not there yet.

    Every batch is a file once it is finished, so that a kill loses at most one, and the next run
    goes on from there. The scores of a run that was killed and continued are those of one that was
    not, to the byte.

    Args:
        forecaster: the one of the plan.
        planned: from `plan_run`.
        results: folder of results; the run gets its own below it.
        jobs: processes for a forecaster whose rows are independent CPU work (`parallel`), -1 or
            None for one a CPU; others ignore it.
        dask: address of a Dask scheduler to send that work to instead.
        check: before the first batch, forecast some rows alone and in other company, and refuse a
            forecaster whose answers differ.
        progress: show on standard error how far it is.

    Returns:
        the finished run.

    Raises:
        ResultsError: the folder is in use, holds another run or cannot be written; or the cluster
            cannot be reached.
        ForecasterError: a forecast is of the wrong shape, or depends on its companions.
        ValueError: `dask` with a forecaster that computes whole batches.
    """
    _refuse_workers(forecaster, jobs, dask)
    batches = planned.batches
    size = planned.sizes["batch_size"]
    folder = RunFolder(
        Path(results), planned.identity, batches, planned.sizes, planned.kept, planned.declared
    )
    with folder:
        if folder.complete:
            if progress:
                print(f"{folder.path} is complete; nothing to run", file=sys.stderr)
            return load_run(folder.path)
        if folder.damage:
            again = f"{len(batches) - len(folder.done)} of {len(batches)} batches are run again"
            print(f"{folder.damage} was damaged: {again}", file=sys.stderr)
        done = sum(len(batches[number]) for number in folder.done)
        with contextlib.ExitStack() as stack:
            forecaster, where_run = stack.enter_context(_spread(forecaster, jobs, dask))
            bar = stack.enter_context(_bar(len(planned.chosen), done, progress))
            stack.enter_context(_resumable(folder))
            todo = [number for number in _mixed(len(batches)) if number not in folder.done]
            if check:
                company = next((batches[each] for each in todo if len(batches[each]) > 1), ())
                if len(company):
                    check_rows(forecaster, planned.suite, company[:CHECKED_ROWS], batch_size=size)
            warmed: set[tuple[int, ...]] = set()
            if check and todo:
                left = np.concatenate([batches[number] for number in todo])
                rows = planned.suite.rows_of(left)
                try_largest(forecaster, planned.suite.take(rows), batch_size=size, warmed=warmed)
            folder.begin(_software() | where_run)
            for number in todo:
                scored = evaluate_batch(
                    forecaster, planned.suite, batches[number], batch_size=size, warmed=warmed
                )
                folder.write_part(number, *scored)
                bar.update(len(batches[number]))
            return folder.finish()


def _mixed(count: int) -> list[int]:
    """Batch numbers in an order that mixes the shapes, which the plan has one after another.

    So the time left is told from batches of every shape, and one too large for the memory is met
    early.
    """
    return sorted(range(count), key=lambda number: number * _GOLDEN_RATIO % 1)


def _bar(total: int, done: int, shown: bool) -> tqdm:
    """How far a run is. In a log, which keeps every state of the bar, it moves once a minute."""
    often = 0.1 if sys.stderr.isatty() else 60.0
    # smoothing 0: the mean over the whole run, since batches differ much in their length
    return tqdm(
        total=total, initial=done, unit="task", smoothing=0, mininterval=often, disable=not shown
    )


@contextlib.contextmanager
def _resumable(folder: RunFolder) -> Iterator[None]:
    """Whatever ends the run early, say what is kept and how to go on."""
    try:
        yield
    except BaseException:
        tqdm.write(
            f"stopped: {len(folder.done)} of {len(folder.batches)} batches are kept in "
            f"{folder.path}; run the same command again to go on",
            file=sys.stderr,
        )
        raise


def _refuse_workers(forecaster: Callable, jobs: int | None, dask: str | None) -> None:
    """Refuse workers that cannot be, before anything is written."""
    if jobs is not None and (not is_whole(jobs) or jobs == 0 or not -1 <= jobs <= MOST_JOBS):
        raise ValueError(
            f"jobs: {jobs!r}; expected a number of processes up to {MOST_JOBS}, or -1 for one a CPU"
        )
    if dask is not None and not getattr(forecaster, "parallel", False):
        raise ValueError(
            f"dask: {forecaster_identity(forecaster)[0]} computes whole batches on one device; "
            f"expected a forecaster with `parallel` set, such as xgboost"
        )


@contextlib.contextmanager
def _spread(
    forecaster: Callable, jobs: int | None, dask: str | None
) -> Iterator[tuple[Callable, dict[str, Any]]]:
    """The forecaster, over processes or a cluster where it can be; and a note on which."""
    if dask is not None:
        with cluster(dask) as workers:
            yield Spread(forecaster, jobs=None, workers=workers), {"dask_threads": workers}
    elif getattr(forecaster, "parallel", False) and jobs != 1:
        spread = Spread(forecaster, jobs=-1 if jobs is None else jobs)
        yield spread, {"jobs": spread.workers}
    else:
        yield forecaster, {"jobs": 1}


@functools.cache
def _software() -> dict[str, Any]:
    """What seconds depend on."""
    import jax

    packages = ("jax", "jaxlib", "numpy", "pyarrow")
    device = jax.devices()[0]
    return {
        "software": {
            "python": platform.python_version(),
            "whatif_jax": __version__,
            **{name: importlib.metadata.version(name) for name in packages},
        },
        "machine": {
            "system": platform.platform(),
            "cpus": os.cpu_count(),
            "device": f"{device.platform}: {device.device_kind}",
        },
    }
