"""Independent rows over processes and over a Dask cluster: the same numbers whichever way."""

import os

import numpy as np
import pytest

from eval.parallel import Spread
from eval.run import plan_run, run
from eval.run_files import ResultsError
from tests.eval import run_helpers
from tests.eval.run_helpers import WHERE
from whatif_jax import BatchInfo, ForecasterError, Suite, load_suite

pytest.importorskip("joblib")


@pytest.fixture(scope="module")
def suite() -> Suite:
    return load_suite("whatif-v1")


def score(suite, results, log="", **options):
    forecaster = run_helpers.make_rows(str(log))
    planned = plan_run(forecaster, suite, where=WHERE, sample=20, batch_size=8)
    return run(forecaster, planned, results, progress=False, **options)


def test_the_same_scores_in_one_process_in_two_and_on_two_dask_workers(suite, tmp_path):
    distributed = pytest.importorskip("distributed")
    for name in ("two", "dask"):
        (tmp_path / f"{name}.log").mkdir()
    one = score(suite, tmp_path / "one", jobs=1)
    two = score(suite, tmp_path / "two", tmp_path / "two.log", jobs=2)
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, processes=True, dashboard_address=":0"
    ) as local:
        address = local.scheduler_address
        spread = score(suite, tmp_path / "dask", tmp_path / "dask.log", dask=address)
        workers = {str(worker.pid) for worker in local.workers.values()}
    bytes_of_one = (one.folder / "scores.parquet").read_bytes()
    assert bytes_of_one == (two.folder / "scores.parquet").read_bytes()
    assert bytes_of_one == (spread.folder / "scores.parquet").read_bytes()
    imputed = one.scores.column("imputed").to_numpy()
    assert 0 < imputed.sum() < len(imputed)
    here = {str(os.getpid())}  # forecasts the rows that the check takes one at a time
    assert len(set(os.listdir(tmp_path / "two.log")) - here) == 2
    assert set(os.listdir(tmp_path / "dask.log")) - here == workers and len(workers) == 2


def test_rows_are_split_and_put_together_in_order():
    def whole(history, covariates, horizon, levels, info):
        assert np.array_equal(info.task_ids, history[:, 0])
        return np.repeat(history[:, :1, None] + covariates[:, :1], horizon, axis=1)

    def row_by_row(*arguments, **keywords):
        answers = list(whole(*arguments, **keywords))
        return [None if answer[0, 0] % 2 else answer for answer in answers]

    ids = np.arange(37)
    history, covariates = np.tile(ids[:, None], 5), np.full((37, 8, 1), 100)
    batch = (history, covariates, 3, (0.5,))
    info = BatchInfo(ids, np.ones(37))
    spread = Spread(whole, jobs=2)
    assert np.array_equal(spread(*batch, info=info), whole(*batch, info=info))
    assert spread.name == "whole"
    answers = Spread(row_by_row, jobs=2)(*batch, info=info)
    for answer, expected in zip(answers, row_by_row(*batch, info=info), strict=True):
        assert (answer is None and expected is None) or np.array_equal(answer, expected)


def test_seconds_are_those_of_the_workers(monkeypatch):
    """Not of the batch, which two workers share: here a clock ticks a second a piece."""

    def slow(history, covariates, horizon, levels):
        return np.zeros((len(history), horizon, 1))

    one = Spread(slow, jobs=1)
    ticks = iter(range(10))
    monkeypatch.setattr("eval.parallel.time.perf_counter", lambda: float(next(ticks)))
    one(np.ones((4, 8)), np.ones((4, 10, 1)), 2, (0.5,))
    assert one.row_seconds.tolist() == [0.25] * 4
    monkeypatch.undo()
    two = Spread(run_helpers.make_rows(""), jobs=2)
    two(np.ones((6, 8), np.float32), np.ones((6, 10, 1), np.float32), 2, (0.5,))
    assert two.row_seconds.shape == (6,) and np.all(two.row_seconds > 0)


def test_everything_else_is_the_forecasters_own():
    forecaster = run_helpers.make_rows()
    forecaster.row_tolerance = 0.5
    spread = Spread(forecaster, jobs=2)
    assert spread.row_tolerance == 0.5 and spread.parallel and spread.workers == 2
    assert not hasattr(spread, "on_device")


def test_a_wrong_answer_of_a_worker_is_named(suite, tmp_path):
    forecaster = run_helpers.make_rows()

    def short(*arguments):
        return [None if row is None else row[1:] for row in forecaster(*arguments)]

    short.parallel = True
    planned = plan_run(short, suite, where=WHERE, sample=10, batch_size=8)
    with pytest.raises(ForecasterError, match=r"short, task \d+: forecast of shape \(127, 9\)"):
        run(short, planned, tmp_path, jobs=2, progress=False)


def test_a_cluster_that_cannot_be_used_is_refused_by_address(suite, tmp_path):
    distributed = pytest.importorskip("distributed")
    with pytest.raises(ResultsError, match="dask: 'nowhere': .*tcp://host:8786"):
        score(suite, tmp_path, dask="nowhere")
    with (
        distributed.LocalCluster(n_workers=0, processes=False, dashboard_address=":0") as empty,
        pytest.raises(ResultsError, match="has no workers"),
    ):
        score(suite, tmp_path, dask=empty.scheduler_address)
