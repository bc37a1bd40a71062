"""A forked worker is told at once that JAX cannot work in it; one that is spawned works."""

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

# Every way to tasks, in a child that the parent made by `os.fork`, and what it says
FORKED = """
import os, sys, warnings
import numpy as np
from whatif_jax import ForkedError, TaskStream, load_suite, plot_task, root_key, sample_task
from whatif_jax.tasks.grain_source import TaskSource

warnings.simplefilter("ignore")  # JAX's own, of the fork
stream = TaskStream(0, 2, buckets=[(256, 32)], systems=["epanet"], event_lengths=[32])
suite = load_suite()
key, spec, systems, batch = root_key(0), suite.spec(0), suite.systems, stream.batch_at(0)
calls = [
    lambda: stream.batch_at(0),
    lambda: next(iter(stream)),
    lambda: suite.task(0),
    lambda: next(suite.batches(2)),
    lambda: stream.acceptance(64),
    lambda: stream.check(batch),
    lambda: TaskStream(0, 2, buckets=[(256, 32)], systems=["sumo"], event_lengths=[32]),
    lambda: sample_task(systems, "epanet", "pressure_10", key=key),
    lambda: plot_task(spec, systems),
]
{more}
child = os.fork()
if not child:
    for call in calls:
        try:
            call()
        except ForkedError as error:
            print(error, flush=True)
    if os.fork():
        os.wait()
    else:
        try:
            stream.batch_at(0)
        except ForkedError as error:
            print(error, flush=True)
    os._exit(0)
os.waitpid(child, 0)
print(suite.systems.values.shape, flush=True)  # the parent goes on
"""

SPAWNED = """
import multiprocessing
from whatif_jax import TaskStream


def history(stream):
    return stream.check(stream.batch_at(3)).task.history.shape


if __name__ == "__main__":
    stream = TaskStream(0, 2, buckets=[(256, 32)], systems=["epanet"], event_lengths=[32])
    for method in ("spawn", "forkserver"):
        with multiprocessing.get_context(method).Pool(1) as pool:
            print(pool.apply(history, (stream,)))
"""


def run(code: str, folder: Path) -> str:
    """Run a script that would hang where it is wrong."""
    (folder / "script.py").write_text(textwrap.dedent(code))
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    environment.pop("XLA_FLAGS", None)
    done = subprocess.run(
        [sys.executable, "script.py"],
        cwd=folder, env=environment, capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_worker_is_refused_at_once(tmp_path):
    more = ""
    try:
        import grain  # noqa: F401
    except ImportError:
        pass
    else:
        more = "calls.append(lambda: TaskSource(stream, 3)[0])"
    *lines, after = run(FORKED.format(more=more), tmp_path).splitlines()
    assert after.startswith("(") and len(lines) == (11 if more else 10)
    for line in lines:
        assert line.startswith("process ") and "expected a worker started by 'spawn'" in line


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_fork_before_jax_starts_is_none_of_our_business(tmp_path):
    code = """
    import os
    from whatif_jax import load_suite
    suite = load_suite()  # loads JAX, and starts no backend
    child = os.fork()
    if not child:
        print(suite.systems.values.sum() > 0, flush=True)
        os._exit(0)
    os.waitpid(child, 0)
    """
    assert run(code, tmp_path) == "True\n"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs forkserver")
def test_spawned_workers_have_the_stream(tmp_path):
    assert run(SPAWNED, tmp_path) == 2 * "(2, 256)\n"
