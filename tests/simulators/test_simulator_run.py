"""Isolated runs: own process and folder, progress, stalls, deaths, errors carried over."""

import os
import pickle
import time
from pathlib import Path

import pytest

from simulators.errors import SimulatorError, missing_simulator
from simulators.isolation import run_isolated

RECORDING = """
import os
from pathlib import Path
import numpy as np
from simulators.recording import Recording

def simulate(folder, steps, data, report):
    assert Path.cwd().samefile(folder) and not list(folder.iterdir())
    (folder / "left-behind.txt").write_text("x")
    for step in range(steps):
        report(step + 1, steps)
    print("Warning: vehicle 17 did something")
    print("Warning: vehicle 23 did something", flush=True)
    os.system("echo WARNING: from a child")
    return Recording("toy", {"a": np.arange(float(steps))}, {"a": "m"}, 60, "toy", str(folder), {},
                     None, "none", {"process": os.getpid()})
"""


def test_run_is_in_its_own_process_and_folder(write_module, tmp_path):
    seen = []
    toy = write_module("toy_runner", RECORDING)
    recording = run_isolated(
        toy, 5, tmp_path, report=lambda done, total: seen.append((done, total))
    )
    assert seen == [(step, 5) for step in range(6)]
    assert recording.record["process"] != os.getpid()
    assert not Path(recording.version).exists()  # the folder, gone with what lay in it
    assert recording.warnings == [
        "Warning: vehicle 17 did something (and 1 more alike)",
        "WARNING: from a child",
    ]


def test_keep_leaves_the_folder_and_refuses_a_used_one(write_module, tmp_path):
    toy = write_module("toy_runner", RECORDING)
    run_isolated(toy, 2, tmp_path, keep=tmp_path / "kept")
    assert (tmp_path / "kept" / "left-behind.txt").is_file()
    with pytest.raises(SimulatorError, match=r"toy_runner: keep: .* not empty; expected an empty"):
        run_isolated(toy, 2, tmp_path, keep=tmp_path / "kept")


def test_stall_ends_the_run_and_its_children(write_module, tmp_path):
    note = tmp_path / "child"
    module = write_module(
        "stalling_runner",
        "import subprocess, time\n"
        "def simulate(folder, steps, data, report):\n"
        "    report(3, steps)\n"
        "    child = subprocess.Popen(['sleep', '600'])\n"
        f"    open({str(note)!r}, 'w').write(str(child.pid))\n"
        "    time.sleep(600)\n",
    )
    started = time.monotonic()
    with pytest.raises(
        SimulatorError, match=r"progress: none for 3 s, at step 3 of 9; run stopped"
    ):
        run_isolated(module, 9, tmp_path, stall_seconds=3)
    assert time.monotonic() - started < 30
    # the signal is delivered when the child is next scheduled
    process = note.read_text()
    deadline = time.monotonic() + 30
    while _runs(process) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not _runs(process)


def _runs(process: str) -> bool:
    """Whether a process is there, and no zombie that nobody has collected."""
    try:
        return "State:\tZ" not in Path(f"/proc/{process}/status").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False


def test_death_and_exception_are_refused_with_the_last_output(write_module, tmp_path):
    dying = write_module(
        "dying_runner",
        "import os\n"
        "def simulate(folder, steps, data, report):\n"
        "    print('last words', flush=True)\n"
        "    os._exit(7)\n",
    )
    with pytest.raises(SimulatorError, match=r"process: ended with 7 and no result.*last words"):
        run_isolated(dying, 1, tmp_path)
    raising = write_module(
        "raising_runner",
        "def simulate(folder, steps, data, report):\n    return 1 / 0\n",
    )
    with pytest.raises(SimulatorError, match=r"ended with 1 and no result.*ZeroDivisionError"):
        run_isolated(raising, 1, tmp_path)


def test_refusal_keeps_its_four_parts_across_processes(write_module, tmp_path):
    module = write_module(
        "refusing_runner",
        "from simulators.errors import SimulatorError\n"
        "def simulate(folder, steps, data, report):\n"
        "    raise SimulatorError('sumo', 'rows', 8641, '8640')\n",
    )
    with pytest.raises(SimulatorError) as caught:
        run_isolated(module, 1, tmp_path)
    error = caught.value
    assert (error.system, error.field, error.value, error.expected) == (
        "sumo",
        "rows",
        8641,
        "8640",
    )
    assert str(error) == "sumo: rows: 8641; expected 8640"
    assert str(pickle.loads(pickle.dumps(error))) == str(error)


def test_missing_simulator_names_the_extra():
    error = missing_simulator("epanet", "wntr", ImportError("no module named six"))
    assert "pip install -e '.[simulators]'" in str(error)
    assert "six" in str(error)
