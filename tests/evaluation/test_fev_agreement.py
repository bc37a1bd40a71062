"""fev on the exported folder scores as we do: naive and linear, on more than 200 tasks.

fev pools its errors over the series of a dataset, weighted by their size; ours are per task. Both
are compared: fev's own summary against our scores pooled the same way, and fev's metrics of one
series at a time against each of ours. Tolerance 1e-6 relative, that of the float32 kernels; the
linear fit of fev's float32 data is our own forecaster, called by fev.
"""

from pathlib import Path

import numpy as np
import pytest

from eval.forecasters import make_forecaster
from whatif_jax import evaluate, load_suite
from whatif_jax.export import export

datasets = pytest.importorskip("datasets")
fev = pytest.importorskip("fev")

MODELS = ("naive", "linear")
TOLERANCE = 1e-6


@pytest.fixture(scope="module")
def suite():
    """Up to 40 pairs each of two systems and two numbers of covariates, one context."""
    whole = load_suite("whatif-v1").where(context_pair="C1", event_length=64, k=[1, 3])
    rows = []
    for system in ("gridlabd", "epanet"):
        for k in (1, 3):
            found = np.flatnonzero((whole.column("system") == system) & (whole.column("k") == k))
            pairs = np.unique(whole.column("pair_id")[found])
            chosen = pairs[:: max(1, len(pairs) // 40)][:40]
            rows.append(found[np.isin(whole.column("pair_id")[found], chosen)])
    part = whole.take(np.concatenate(rows))
    assert len(part) >= 200
    return part


@pytest.fixture(scope="module")
def tasks(suite, tmp_path_factory):
    """The suite's export, as fev reads it: its tasks."""
    at: Path = tmp_path_factory.mktemp("fev")
    export(suite, at / "out", format="fev", progress=False)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(datasets.config, "HF_DATASETS_CACHE", str(at / "cache"))
        patch.setattr(datasets.config, "HF_DATASETS_OFFLINE", True)
        patch.setenv("FEV_DATASETS_PREFIX", str(at / "out"))
        yield fev.Benchmark.from_yaml(at / "out" / "tasks.yaml").tasks


def answers_of(name: str, task) -> tuple[list[int], list[dict]]:
    """Task ids, and our forecaster's answers to what fev hands a model."""
    past, future = task.get_window(0, num_proc=0).get_input_data()
    history = np.array(past["target"], np.float32)
    covariates = np.stack(
        [np.concatenate([past[column], future[column]], axis=1)
         for column in task.known_dynamic_columns], axis=-1,
    ).astype(np.float32)  # fmt: skip
    found = make_forecaster(name)(
        *map(device_array, (history, covariates)), task.horizon, tuple(task.quantile_levels)
    )
    keys = ["predictions", *map(str, task.quantile_levels)]
    rows = [dict.fromkeys(keys, point) for point in np.asarray(found, np.float64)[:, :, 0]]
    return [int(name) for name in past["id"]], rows


def device_array(values: np.ndarray):
    import jax.numpy as jnp

    return jnp.asarray(values)


def test_fev_scores_the_export_as_we_do(suite, tasks):
    for name in MODELS:
        compare(name, suite, tasks)


def compare(name: str, suite, tasks) -> None:
    """Scores of one forecaster, by fev and by us."""
    scores = evaluate(make_forecaster(name), suite).scores.to_pydict()
    ours = {
        task_id: (wql, wape)
        for task_id, wql, wape in zip(scores["task_id"], scores["wql"], scores["wape"], strict=True)
    }
    compared = 0
    for task in tasks:
        ids, rows = answers_of(name, task)
        truth = np.array(task.get_window(0, num_proc=0).get_ground_truth()["target"], np.float64)
        size = np.abs(truth).sum(axis=1)
        summary = task.evaluation_summary([rows], model_name=name)
        for place, column in enumerate(("WQL", "WAPE")):
            each = np.array([ours[task_id][place] for task_id in ids])
            assert summary[column] == pytest.approx((each * size).sum() / size.sum(), rel=TOLERANCE)
            alone = [fev_alone(column, x, row, task) for x, row in zip(truth, rows, strict=True)]
            np.testing.assert_allclose(each, alone, rtol=TOLERANCE)
        compared += len(ids)
    assert compared == len(suite) >= 200


def fev_alone(column: str, truth: np.ndarray, row: dict, task) -> float:
    """fev's metric of one series."""
    quantiles = np.stack([row[str(level)] for level in task.quantile_levels], axis=-1)
    return getattr(fev.metrics, column)().compute(
        y_true=truth[None, :, None],
        y_pred=row["predictions"][None, :, None],
        y_past=np.zeros((1, 1)),
        y_past_lengths=np.ones(1, int),
        q_pred=quantiles[None, :, None, :],
        seasonality=1,
        quantile_levels=task.quantile_levels,
    )
