"""Runs: killed and continued, refused, spread over processes, and what lies in their folder."""

import json
import os
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from pyarrow import parquet

import eval.run
import eval.run_folder
from eval.results import load_results
from eval.run import plan_run, run
from eval.run_files import ResultsError
from eval.sampling import browse_sample
from tests.eval import run_helpers
from tests.eval.run_helpers import MODULE, WHERE, WHERE_OPTIONS
from whatif_jax import ForecasterError, Suite, evaluate, evaluate_batch, load_suite

CHECKOUT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def suite() -> Suite:
    return load_suite("whatif-v1")


@pytest.fixture(scope="module")
def compiled(tmp_path_factory) -> dict[str, str]:
    """Environment of child processes, which share what they compile."""
    return {
        **os.environ,
        "JAX_COMPILATION_CACHE_DIR": str(tmp_path_factory.mktemp("compiled")),
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
    }


def small(forecaster, suite, sample=40, batch_size=8, **more):
    return plan_run(forecaster, suite, where=WHERE, sample=sample, batch_size=batch_size, **more)


def quietly(forecaster, suite, results, **options):
    options = {"progress": False, "check": False, "jobs": 1} | options
    return run(forecaster, small(forecaster, suite), results, **options)


def parts(root: Path) -> list[Path]:
    return sorted(root.rglob("parts/*.parquet"))


def wait_for(condition, process: subprocess.Popen, seconds: float = 120.0) -> None:
    """Poll until the condition holds; the limit is for a hang alone."""
    end = time.monotonic() + seconds
    while not condition():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < end
        time.sleep(0.01)


def start(results: Path, compiled: dict[str, str]) -> subprocess.Popen:
    # a batch takes long enough for this process to look and send a signal before the next
    options = [
        "--no-check",
        "--sample=40",
        "--batch-size=8",
        f"--results={results}",
        "--set=seconds=4",
    ]
    return subprocess.Popen(
        [sys.executable, "-m", "eval", "run", f"--model={MODULE}:make_slow", *WHERE_OPTIONS,
         *options],
        cwd=CHECKOUT, env=compiled, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


def test_interrupted_killed_and_continued_it_gives_the_bytes_of_an_undisturbed_run(
    suite, tmp_path, compiled, monkeypatch
):
    undisturbed = quietly(run_helpers.make_slow(), suite, tmp_path / "undisturbed")
    disturbed = tmp_path / "disturbed"

    with start(disturbed, compiled) as process:
        wait_for(lambda: parts(disturbed), process)
        with pytest.raises(ResultsError, match="another run is writing here"):
            quietly(run_helpers.make_slow(), suite, disturbed)
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=60)
    interrupted = len(parts(disturbed))
    assert process.returncode == 130, said
    assert f"stopped: {interrupted} of 5 batches are kept in {disturbed}" in said
    assert "run the same command again to go on" in said
    assert "Traceback" not in said

    with start(disturbed, compiled) as process:
        wait_for(lambda: len(parts(disturbed)) > interrupted, process)
        process.kill()  # SIGKILL
        process.communicate()
    there = parts(disturbed)
    assert process.returncode == -signal.SIGKILL and interrupted < len(there) < 5
    before = {path: path.read_bytes() for path in there}
    (next(iter(before)).parent / ".00009.parquet.unfinished").write_bytes(b"half")

    calls = []

    def counted(forecaster, suite, task_ids, **options):
        calls.append(len(task_ids))
        assert all(path.read_bytes() == content for path, content in before.items())
        return evaluate_batch(forecaster, suite, task_ids, **options)

    monkeypatch.setattr(eval.run, "evaluate_batch", counted)
    continued = quietly(run_helpers.make_slow(), suite, disturbed)
    assert len(calls) == 5 - len(there)
    for name in ("scores.parquet", "forecasts.parquet"):
        expected = (undisturbed.folder / name).read_bytes()
        assert (continued.folder / name).read_bytes() == expected
    names = {path.name for path in continued.folder.iterdir()}
    assert names == {"run.json", "scores.parquet", "seconds.parquet", "forecasts.parquet"}


def test_the_scores_are_those_of_evaluate(suite, tmp_path):
    forecaster = run_helpers.make()
    planned = small(forecaster, suite)
    found = run(forecaster, planned, tmp_path, progress=False)
    expected = evaluate(forecaster, planned.chosen, batch_size=8)
    assert found.scores.equals(expected.scores)
    theirs = {
        key.decode(): value.decode() for key, value in expected.scores.schema.metadata.items()
    }
    for name in set(theirs) - {"settings", "tasks"}:
        assert found.metadata[name] == theirs[name], name
    assert json.loads(found.metadata["tasks"])["sample"] == 40
    assert found.seconds.column("task_id") == found.scores.column("task_id")
    assert np.all(found.seconds.column("seconds").to_numpy() > 0)


def test_forecasts_are_kept_for_the_tasks_of_the_browser_sample(suite, tmp_path):
    forecaster = run_helpers.make()
    planned = small(forecaster, suite, sample=30, keep_forecasts=10)
    found = run(forecaster, planned, tmp_path, progress=False, check=False)
    part, ids = suite.where(**WHERE), planned.chosen.column("task_id")
    expected = browse_sample(part, 10, among=ids)
    kept = found.forecasts
    assert np.array_equal(kept.column("task_id").to_numpy(), expected)
    forecast = np.array(kept.column("quantiles")[0].as_py())
    assert forecast.shape == (128, 9) and np.all(np.diff(forecast, axis=-1) >= 0)
    task = suite.task(int(expected[0]))
    covariates = np.concatenate([task.history_covariates, task.future_covariates], axis=1)[:1]
    again = run_helpers.around(
        np.asarray(task.history)[None], covariates.T[None], 128, eval.run.LEVELS
    )
    np.testing.assert_allclose(forecast, again[0], rtol=1e-6)


def test_a_part_that_is_damaged_is_made_again(suite, tmp_path):
    forecaster = run_helpers.make()
    whole = quietly(forecaster, suite, tmp_path / "whole")
    stopped = interrupted_run(suite, tmp_path / "stopped", after=3)
    first, second, *_ = parts(stopped)
    first.write_bytes(first.read_bytes()[:-100])
    moved = parquet.read_table(second)
    parquet.write_table(moved.slice(1), second)
    found = quietly(forecaster, suite, stopped)
    assert (found.folder / "scores.parquet").read_bytes() == (
        whole.folder / "scores.parquet"
    ).read_bytes()


def interrupted_run(suite: Suite, results: Path, after: int, **more) -> Path:
    """A run that was interrupted once some batches were there."""
    forecaster = run_helpers.make()
    calls = []

    def stopping(*arguments):
        if len(calls) == after:
            raise KeyboardInterrupt
        calls.append(1)
        return forecaster(*arguments)

    vars(stopping).update(vars(forecaster))
    with pytest.raises(KeyboardInterrupt):
        run(stopping, small(stopping, suite, **more), results, progress=False, check=False)
    assert len(parts(results)) == after
    return results


@pytest.mark.parametrize("name, other", [("fingerprint", "f" * 64), ("metric_version", "0")])
def test_results_of_another_suite_or_metric_version_are_refused_by_name(
    suite, tmp_path, name, other
):
    forecaster = run_helpers.make()
    finished = quietly(forecaster, suite, tmp_path / "finished")
    stopped = interrupted_run(suite, tmp_path / "stopped", after=2)
    message = rf"^{name}: .*PATH holds results of '{other}'; expected '"

    def tamper(path: Path) -> str:
        table = parquet.read_table(path)
        metadata = {**table.schema.metadata, name.encode(): other.encode()}
        parquet.write_table(table.replace_schema_metadata(metadata), path)
        return message.replace("PATH", path.name)

    expected = tamper(parts(stopped)[0])
    with pytest.raises(ResultsError, match=expected):
        quietly(forecaster, suite, stopped)
    expected = tamper(finished.folder / "scores.parquet")
    with pytest.raises(ResultsError, match=expected):
        load_results(tmp_path / "finished")
    with pytest.raises(ResultsError, match=expected):
        quietly(forecaster, suite, tmp_path / "finished")


@pytest.mark.parametrize("name, other", [("fingerprint", "f" * 64), ("metric_version", "0")])
def test_a_folder_of_another_suite_or_metric_version_is_refused_by_name(
    suite, tmp_path, name, other
):
    found = quietly(run_helpers.make(), suite, tmp_path)
    expected = {
        "suite": "whatif-v1", "fingerprint": suite.fingerprint, "metric_version": "1"
    }  # fmt: skip
    (run_read,) = load_results(tmp_path, **expected)
    assert run_read.scores.equals(found.scores) and run_read.folder == found.folder
    with pytest.raises(ResultsError, match=rf"{name}: .*run.json holds .*; expected '{other}'"):
        load_results(tmp_path, **{**expected, name: other})
    path = found.folder / "run.json"
    about = json.loads(path.read_text())
    about["metadata"][name] = other
    path.write_text(json.dumps(about))
    with pytest.raises(ResultsError, match=rf"{name}: .*run.json holds results of '{other}'"):
        quietly(run_helpers.make(), suite, tmp_path)


def test_unfinished_runs_are_left_out_and_continued_with_the_same_plan_only(suite, tmp_path):
    interrupted_run(suite, tmp_path, after=1)
    assert load_results(tmp_path) == []
    forecaster = run_helpers.make()
    for more in ({"batch_size": 16}, {"keep_forecasts": 3}):
        (name,) = more
        with pytest.raises(ResultsError, match=f"{name}: .*was begun with (8|120); expected the"):
            run(forecaster, small(forecaster, suite, **more), tmp_path, progress=False)


def test_a_finished_run_is_read_not_run(suite, tmp_path, monkeypatch):
    found = quietly(run_helpers.make(), suite, tmp_path)
    content = (found.folder / "scores.parquet").read_bytes()
    monkeypatch.delattr(eval.run, "evaluate_batch")
    again = quietly(run_helpers.make(), suite, tmp_path)
    assert again.scores.equals(found.scores)
    assert (found.folder / "scores.parquet").read_bytes() == content


def test_settings_and_tasks_choose_the_folder_secrets_and_limits_do_not(suite, tmp_path):
    def folder(**settings):
        return small(run_helpers.make(**settings), suite).identity.folder(tmp_path)

    assert folder() == folder(api_key="sk-1", max_cost=3.0) != folder(spread=0.2)
    other = plan_run(run_helpers.make(), suite, where=WHERE, batch_size=8)
    assert other.identity.folder(tmp_path) != folder()
    found = quietly(run_helpers.make(api_key="sk-secret"), suite, tmp_path)
    for path in found.folder.iterdir():
        assert b"sk-secret" not in path.read_bytes()
    assert found.settings == {"spread": 0.1, "headers": {"retries": 2}}


def test_rows_that_depend_on_their_companions_are_refused_before_the_first_batch(suite, tmp_path):
    def mean_of_all(history, covariates, horizon, levels):
        return np.full((len(history), horizon, 1), history.mean(), np.float32)

    with pytest.raises(ForecasterError, match="mean_of_all"):
        quietly(mean_of_all, suite, tmp_path, check=True)
    assert not parts(tmp_path)
    quietly(mean_of_all, suite, tmp_path, check=False)


def test_point_and_quantile_batches_do_not_mix(suite, tmp_path):
    calls = []

    def sometimes(history, covariates, horizon, levels):
        calls.append(1)
        width = 1 if len(calls) > 1 else len(levels)
        return np.repeat(history[:, -1:, None], horizon, axis=1).repeat(width, axis=2)

    with pytest.raises(ResultsError, match="point: .*some batches hold point forecasts"):
        quietly(sometimes, suite, tmp_path)


def test_a_disk_that_is_full_or_not_writable_is_named_and_what_is_finished_stays(
    suite, tmp_path, monkeypatch
):
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(ResultsError, match="a file is in the way; expected a folder"):
        quietly(run_helpers.make(), suite, tmp_path / "file")

    write = parquet.write_table
    written = []

    def full(*arguments, **options):
        if len(written) == 2:
            raise OSError("[Errno 28] Error writing bytes to file. Detail: [errno 28] No space")
        written.append(1)
        write(*arguments, **options)

    monkeypatch.setattr(eval.run_folder.parquet, "write_table", full)
    with pytest.raises(ResultsError, match="No space; expected a place with room"):
        quietly(run_helpers.make(), suite, tmp_path / "full")
    monkeypatch.undo()
    assert len(parts(tmp_path / "full")) == 2
    found = quietly(run_helpers.make(), suite, tmp_path / "full")
    assert found.scores.equals(quietly(run_helpers.make(), suite, tmp_path / "other").scores)


def test_a_file_over_the_limit_of_the_system_is_named(suite, tmp_path):
    """A limit that the kernel really enforces; it leaves no half-written file."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2000, before[1]))
    try:
        with pytest.raises(ResultsError, match="File too large; expected a place"):
            quietly(run_helpers.make(), suite, tmp_path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert not parts(tmp_path) and not list(tmp_path.rglob("*.unfinished"))


def test_refuses_wrong_arguments_by_name(suite, tmp_path):
    forecaster = run_helpers.make()
    for more, message in (
        ({"batch_size": 0}, "batch_size: 0"),
        ({"keep_forecasts": -1}, "keep_forecasts: -1"),
        ({"sample": 10**6}, "sample: 1000000; expected a whole number in 1 .. 37665"),
        ({"where": {"colour": 1}}, "where: axis 'colour'"),
    ):
        with pytest.raises(ValueError, match=message):
            plan_run(forecaster, suite, **more)
    for more, message in (
        ({"jobs": 0}, "jobs: 0; expected"),
        ({"dask": "tcp://127.0.0.1:1"}, "dask: around computes whole batches"),
    ):
        with pytest.raises(ValueError, match=message):
            quietly(forecaster, suite, tmp_path, **more)
    forecaster.settings = {"path": Path("x")}
    with pytest.raises(ForecasterError, match="around.*expected JSON values"):
        plan_run(forecaster, suite)
    with pytest.raises(ResultsError, match="no folder; expected one that"):
        load_results(tmp_path / "missing")
    (tmp_path / "run.json").write_text("{}")
    with pytest.raises(ResultsError, match=r"run\.json is not what a run writes there"):
        load_results(tmp_path)
    (tmp_path / "run.json").write_text('{"layout": 99}')
    with pytest.raises(ResultsError, match="layout: .*has 99; expected 2"):
        load_results(tmp_path)
