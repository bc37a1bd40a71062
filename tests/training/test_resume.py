"""Runs that are stopped in every way go on as if they had not been. Real processes."""

import signal
import subprocess
import sys
import time

import numpy as np
import pytest

from tests.training.training_helpers import ROOT, finished, rows_of, start_fit, tiny
from training.checkpoint import Checkpoints


def wait_for(process, reached):
    """Wait until a condition holds, while the process lives."""
    deadline = time.monotonic() + 300
    while not reached():
        assert process.poll() is None, process.communicate()[1][-2000:]
        assert time.monotonic() < deadline
        time.sleep(0.002)


@pytest.mark.slow
def test_a_run_stopped_in_every_way_has_the_losses_of_one_never_stopped(whole_run, tmp_path):
    """Bit for bit: in the first compile, between steps, in an evaluation, and by SIGTERM."""
    run = tmp_path / "run"
    steps, evaluations = run / "steps.csv", run / "evaluations.csv"

    process = start_fit(run)
    wait_for(process, steps.exists)  # the loop begins with its first program
    process.kill()
    process.communicate()
    assert not rows_of(steps)

    process = start_fit(run)
    wait_for(process, lambda: len(rows_of(steps)) >= 4)  # step 4 is evaluated
    process.kill()
    process.communicate()
    assert len(rows_of(steps)) == 4 and not rows_of(evaluations)

    process = start_fit(run)
    wait_for(process, lambda: len(rows_of(steps)) >= 5)
    process.kill()
    process.communicate()
    assert 5 <= len(rows_of(steps)) < 12

    process = start_fit(run, "--set", "save_every=100")
    wait_for(process, lambda: len(rows_of(steps)) >= 7)
    process.send_signal(signal.SIGTERM)
    said = finished(process, 128 + signal.SIGTERM)
    assert "stopped by SIGTERM, saved; the same command goes on" in said
    assert 7 <= len(rows_of(steps)) < 12

    finished(start_fit(run))
    assert rows_of(steps) == rows_of(whole_run / "steps.csv")
    assert [int(row[0]) for row in rows_of(steps)] == list(range(1, 13))
    assert rows_of(evaluations) == rows_of(whole_run / "evaluations.csv")


def test_a_checkpoint_cut_short_is_never_offered(tmp_path):
    """A process kills itself as soon as the half-written checkpoint appears."""
    code = f"""
import os, pathlib, signal, threading, time
import jax, numpy as np
from tests.training.training_helpers import tiny
from training.checkpoint import Checkpoint, Checkpoints
from training.record import Record
place = pathlib.Path({str(tmp_path)!r})
def save(checkpoints, value, steps):
    state = {{"w": np.full((4_000_000,), value, np.float32)}}
    checkpoints.save("latest", Checkpoint(state, jax.random.key(0), Record(steps=steps)))
def watch():
    while not list(place.glob("checkpoints/latest/2*")): time.sleep(0.0005)
    os.kill(os.getpid(), signal.SIGKILL)
with Checkpoints(place, tiny(), {{}}) as checkpoints:
    save(checkpoints, 1.0, 1)
    threading.Thread(target=watch, daemon=True).start()
    save(checkpoints, 2.0, 2)
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == -signal.SIGKILL, done.stderr[-2000:]
    left = [path.name for path in (tmp_path / "checkpoints" / "latest").iterdir()]
    assert any(name.startswith("2") and name != "2" for name in left), left

    with Checkpoints(tmp_path, tiny(), {}) as checkpoints:
        found = checkpoints.restore("latest", {"w": np.zeros(4_000_000, np.float32)})
    assert found.record.steps == 1 and np.all(np.asarray(found.state["w"]) == 1.0)
    assert [path.name for path in (tmp_path / "checkpoints" / "latest").iterdir()] == ["1"]
