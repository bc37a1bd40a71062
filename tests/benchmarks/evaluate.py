"""Scoring forecasts of all tasks of whatif-v1: the library, fev's metric code and a NumPy loop.

Forecasts are random numbers of the suite's shapes, made bucket by bucket. Everything is measured
in turn in one process, a batch of a bucket at a time, several rounds over. The library scores
every task in every round; fev's code and the loop, called once a task, score a sample of each
bucket and are scaled by the bucket's number of tasks.
"""

import statistics
import time
from collections.abc import Callable

import jax
import numpy as np

from tests.score_cases import Case
from whatif_jax import LEVELS, Task, load_suite, score_batch
from whatif_jax.evaluation.metrics import weighted_absolute_percentage_error, weighted_quantile_loss

BATCH = 256
SAMPLE = 64  # tasks a bucket for the code that is called once a task
MEDIAN = LEVELS.index(0.5)
AGREE = 1e-6  # relative; what is not equal is not compared in speed


def random_forecasts(size: int, context: int, horizon: int, rng: np.random.Generator) -> Case:
    """Random walks of 9 levels around random targets, no level crossing another."""
    target = 50 + rng.normal(size=(size, horizon))
    spread = np.sort(rng.normal(size=(size, horizon, len(LEVELS))), axis=-1)
    return Case(
        target.astype(np.float32),
        (target + rng.normal(size=target.shape)).astype(np.float32),
        (50 + rng.normal(size=(size, context))).astype(np.float32),
        (target[..., None] + spread).astype(np.float32),
        np.ones((size, context), bool),
        np.ones((size, horizon), bool),
    )


def _wql_and_wape(target: jax.Array, quantiles: jax.Array, mask: jax.Array) -> tuple:
    return (
        weighted_quantile_loss(target, quantiles, LEVELS, mask),
        weighted_absolute_percentage_error(target, quantiles[:, MEDIAN], mask),
    )


_wql_and_wape_batch = jax.jit(jax.vmap(_wql_and_wape))


def by_kernels(forecasts: Case) -> tuple:
    """WQL and WAPE by the library's kernels."""
    return _wql_and_wape_batch(forecasts.target, forecasts.quantiles, forecasts.future_mask)


def by_score(forecasts: Case) -> tuple:
    """All nine scores by the library's policy: repair, then every metric."""
    nothing = np.zeros((len(forecasts.history), 1, 0), np.float32)  # no score looks at covariates
    task = Task(
        history=forecasts.history,
        future=forecasts.target,
        future_baseline=forecasts.future_baseline,
        history_covariates=nothing,
        future_covariates=nothing,
        history_mask=forecasts.history_mask,
        future_mask=forecasts.future_mask,
        covariate_mask=np.ones((len(forecasts.history), 1), bool),
    )
    return tuple(vars(score_batch(task, forecasts.quantiles, LEVELS)).values())


def by_fev(names: tuple[str, ...]) -> Callable[[Case], tuple]:
    """Fev's metric code, called once a task as its `Task.evaluation_summary` does."""
    from fev.metrics import get_metric

    metrics = [get_metric(name) for name in names]

    def scores(forecasts: Case) -> tuple:
        found = []
        for target, _, history, quantiles, *_ in zip(*forecasts, strict=True):
            quantiles = quantiles[None, :, None, :]
            arrays = {
                "y_true": target[None, :, None],
                "y_pred": quantiles[..., MEDIAN],
                "y_past": history[:, None],
                "y_past_lengths": np.array([len(history)]),
                "q_pred": quantiles,
                "seasonality": 1,
                "quantile_levels": list(LEVELS),
            }
            found.append([metric.compute(**arrays) for metric in metrics])
        return tuple(np.array(found).T)

    return scores


def by_loop(forecasts: Case) -> tuple:
    """WQL and WAPE in plain NumPy, a task and a level at a time."""
    found = []
    for target, _, _, quantiles, _, mask in zip(*forecasts, strict=True):
        x, q = target[mask], quantiles[mask]
        size = np.abs(x).sum(dtype=np.float64)
        losses = []
        for column, level in enumerate(LEVELS):
            error = x - q[:, column]
            weight = np.where(error <= 0, 1 - level, level)
            losses.append(2 * (np.abs(error) * weight).sum(dtype=np.float64))
        error = np.abs(x - q[:, MEDIAN]).sum(dtype=np.float64)
        found.append((np.mean(losses) / size, error / size))
    return tuple(np.array(found).T)


def _seconds(call: Callable[[Case], tuple], forecasts: Case) -> float:
    start = time.perf_counter()
    jax.block_until_ready(call(forecasts))
    return time.perf_counter() - start


def metric_rows(repeats: int = 5) -> list[str]:
    """Measure, and return Markdown lines: what was done and a table of seconds for the suite."""
    suite = load_suite("whatif-v1")
    table = suite.table
    shapes, counts = np.unique(
        np.stack([table["context"].to_numpy(), table["horizon"].to_numpy()], axis=1),
        axis=0,
        return_counts=True,
    )
    four = ("WQL", "WAPE", "MASE", "RMSE")
    ours: dict[str, Callable[[Case], tuple]] = {
        "ours: wQL and WAPE": by_kernels,
        "ours: all nine scores, forecasts repaired": by_score,
    }
    theirs: dict[str, Callable[[Case], tuple]] = {
        "fev 0.10: WQL and WAPE": by_fev(four[:2]),
        "fev 0.10: WQL, WAPE, MASE and RMSE": by_fev(four),
        "NumPy loop: wQL and WAPE": by_loop,
    }
    rng = np.random.default_rng(0)
    rounds: dict[str, np.ndarray] = {name: np.zeros(repeats) for name in (*ours, *theirs)}
    compiling = 0.0
    for (context, horizon), count in zip(shapes.tolist(), counts.tolist(), strict=True):
        forecasts = random_forecasts(BATCH, context, horizon, rng)
        sample = Case(*(values[:SAMPLE] for values in forecasts))
        compiling += sum(_seconds(call, forecasts) for call in ours.values())
        _check(by_kernels(sample), by_score(sample), *(call(sample) for call in theirs.values()))
        batches = -(-count // BATCH)  # the last one padded, as in `suite.batches`
        for turn in range(repeats):
            for name, call in ours.items():
                rounds[name][turn] += sum(_seconds(call, forecasts) for _ in range(batches))
            for name, call in theirs.items():
                each = _seconds(call, sample) / SAMPLE
                rounds[name][turn] += each * count

    median = {name: statistics.median(values) for name, values in rounds.items()}
    fev, loop = median["fev 0.10: WQL and WAPE"], median["NumPy loop: wQL and WAPE"]
    lines = [
        f"{len(suite):,} tasks of whatif-v1 in {len(shapes)} shapes, random forecasts at "
        f"{len(LEVELS)} levels, float32, from NumPy arrays to scores. Ours: all tasks, batches of "
        f"{BATCH}, compiled before ({compiling:.0f} s for all shapes). fev's metric code and the "
        f"loop: called once a task, {SAMPLE} tasks of each shape, scaled to all. All agree to "
        f"{AGREE:g}. Medians of {repeats} rounds, all rows in turn.",
        "",
        "| what | seconds for the suite | us a task | times fev's WQL and WAPE | times the loop |",
        "|---|---|---|---|---|",
    ]
    for name, seconds in median.items():
        lines.append(
            f"| {name} | {seconds:.2f} | {seconds / len(suite) * 1e6:.1f} | "
            f"{fev / seconds:.1f} | {loop / seconds:.1f} |"
        )
    score, four_of_fev = (list(median)[1], list(median)[3])
    lines += [
        "",
        f"All nine scores take {median[four_of_fev] / median[score]:.1f} times less than fev's "
        "four of them.",
    ]
    return lines


def _check(kernels: tuple, scores: tuple, fev: tuple, fev_four: tuple, loop: tuple) -> None:
    """That all ways give the same numbers."""
    for other in (scores[:4], fev, fev_four, loop):
        for ours, theirs in zip(kernels, other, strict=False):
            np.testing.assert_allclose(ours, theirs, rtol=AGREE)
    for ours, theirs in zip(scores[:4], fev_four, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=AGREE)


if __name__ == "__main__":
    print("\n".join(metric_rows()))
