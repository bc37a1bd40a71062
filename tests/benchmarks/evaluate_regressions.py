"""Linear and ridge over all tasks of whatif-v1, and scikit-learn in a loop over 500 of them.

All in one process: after every batch of the library, the loop takes the sampled tasks of that
batch, so both see the machine as it is at that time. The library's time is that of its forecaster
on tasks that lie on the device; the loop's is that of fitting and predicting from NumPy arrays in
float64. Neither includes making the tasks. The loop's total is scaled from its sample, by context
and K.
"""

import collections
import resource
import time

import jax
import numpy as np

from eval.forecasters import make_forecaster
from whatif_jax import Suite, load_suite
from whatif_jax.evaluation.evaluate import BATCH_AXES
from whatif_jax.evaluation.forecaster import forecast_batch

__all__ = ["regression_rows"]

BATCH = 256
SAMPLE = 500
MODELS = ("linear", "ridge")
AGREE = 1e-4  # of the history's scale; what is not equal is not compared in speed


def _scikit_learn(name: str, past: np.ndarray, covariates: np.ndarray) -> np.ndarray:
    """One task's forecast [H], from [T] and [T + H, K]."""
    from sklearn.linear_model import LinearRegression, Ridge
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    regression = LinearRegression() if name == "linear" else Ridge(10.0)
    model = make_pipeline(StandardScaler(), regression)
    return model.fit(covariates[: len(past)], past).predict(covariates[len(past) :])


def regression_rows(suite: Suite | None = None, sample: int = SAMPLE) -> list[str]:
    """Measure, and return the lines of a Markdown table and a note.

    Args:
        suite: the tasks; default whatif-v1.
        sample: tasks that the loop takes.

    Raises:
        RuntimeError: forecasts of the two differ.
    """
    suite = suite or load_suite("whatif-v1")
    chosen = np.random.default_rng(0).choice(len(suite), min(sample, len(suite)), replace=False)
    sampled = set(suite.column("task_id")[chosen].tolist())
    forecasters = {name: make_forecaster(name) for name in MODELS}
    ours = dict.fromkeys(MODELS, 0.0)
    first = dict.fromkeys(MODELS, 0.0)
    loop: dict[str, dict] = {name: collections.defaultdict(list) for name in MODELS}
    counts: collections.Counter = collections.Counter()
    shapes, differ = set(), dict.fromkeys(MODELS, 0.0)
    for ids in suite.batch_ids(BATCH, by=BATCH_AXES):
        batch = suite.batch(ids, BATCH)
        task, k = batch.task, int(batch.task.covariate_mask[0].sum())
        context, horizon = task.history.shape[1], task.future.shape[1]
        counts[context, k] += batch.rows
        answers = {}
        for name, forecaster in forecasters.items():
            if (context, horizon, k) not in shapes:  # compiles; the time is told apart
                _, took = forecast_batch(forecaster, batch, (0.5,))
                first[name] += BATCH * took[0]
            answer, took = forecast_batch(forecaster, batch, (0.5,))
            ours[name] += BATCH * took[0]  # padding rows take as long
            answers[name] = np.asarray(answer)
        shapes.add((context, horizon, k))
        picked = [i for i, task_id in enumerate(ids.tolist()) if task_id in sampled]
        if not picked:
            continue
        history = np.asarray(task.history, np.float64)
        parts = task.history_covariates, task.future_covariates
        known = np.concatenate(parts, axis=2)[:, :k].astype(np.float64)
        for i in picked:
            covariates = np.ascontiguousarray(known[i].T)
            for name in MODELS:
                start = time.perf_counter()
                theirs = _scikit_learn(name, history[i], covariates)
                loop[name][context, k].append(time.perf_counter() - start)
                wrong = np.abs(theirs - answers[name][i, :, 0]).max()
                differ[name] = max(differ[name], wrong / np.abs(history[i]).max())
    if max(differ.values()) > AGREE:
        raise RuntimeError(f"forecasts differ from scikit-learn's by {differ} of the scale")
    lines = [
        "| forecaster | seconds, whole suite | us a task | scikit-learn loop, scaled | times the "
        "loop | compiling | largest difference |",
        "|---|---|---|---|---|---|---|",
    ]
    for name in MODELS:
        everywhere = float(np.mean([each for times in loop[name].values() for each in times]))
        theirs = sum(
            count * float(np.mean(loop[name].get(key, [everywhere])))
            for key, count in counts.items()
        )
        lines.append(
            f"| {name} | {ours[name]:.2f} | {ours[name] / len(suite) * 1e6:.0f} | {theirs:.1f} | "
            f"{theirs / ours[name]:.1f} | {first[name]:.1f} s | {differ[name]:.1e} |"
        )
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    device = jax.devices()[0]
    stats = device.memory_stats() or {}
    on_device = (
        f", {stats['peak_bytes_in_use'] / 2**30:.2f} GiB on the device"
        if "peak_bytes_in_use" in stats
        else ""
    )
    lines += [
        "",
        f"{len(suite):,} tasks in batches of {BATCH} on {device.device_kind}; the loop took "
        f"{len(sampled)} of them (scaled by context and K), turn about with the library. Peak "
        f"memory of the process, tasks and scikit-learn included: {peak:.2f} GiB{on_device}.",
    ]
    return lines
