"""Run one simulator in its own process and temporary folder, and watch it.

SUMO leaves files in the working folder, EPANET and GridLAB-D write names that a second run would
overwrite, and GridLAB-D and libsumo keep global state: hence one folder and one process a run.
"""

import contextlib
import json
import os
import pickle
import re
import select
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from .errors import SimulatorError
from .recording import Progress, Recording, grouped_warnings

__all__ = ["CONSOLE", "DEFAULT_STALL_SECONDS", "RESULT", "run_isolated"]

DEFAULT_STALL_SECONDS = 600.0
CONSOLE = "console.txt"  # everything the simulator printed
RESULT = "result.pickle"
_WARNING = re.compile(r"^\W*warning\b.*", re.IGNORECASE)


def _warnings(console: str) -> list[str]:
    lines = [line.strip() for line in re.split(r"[\r\n]+", console)]
    return [line for line in lines if _WARNING.match(line)]


def _stop(process: subprocess.Popen[bytes]) -> None:
    """End the worker and whatever it started: it leads a process group of its own."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _watch(
    process: subprocess.Popen[bytes],
    pipe: int,
    system: str,
    stall_seconds: float,
    report: Progress,
) -> None:
    """Pass progress on until the worker closes its end; kill it when it says nothing for long."""
    done, total, rest = 0, 0, b""
    while True:
        ready, _, _ = select.select([pipe], [], [], stall_seconds)
        if not ready:
            _stop(process)
            raise SimulatorError(
                system,
                "progress",
                f"none for {stall_seconds:g} s, at step {done} of {total or '?'}; run stopped",
                "a step to end in that time",
            )
        received = os.read(pipe, 65536)
        if not received:
            return
        *lines, rest = (rest + received).split(b"\n")
        for line in lines:
            done, total = map(int, line.split())
            report(done, total)


def run_isolated(
    module: str,
    steps: int,
    data: Path,
    *,
    system: str | None = None,
    settings: Mapping[str, Any] | None = None,
    report: Progress = lambda done, total: None,
    stall_seconds: float = DEFAULT_STALL_SECONDS,
    keep: Path | None = None,
    on_start: Callable[[int], None] = lambda process_id: None,
) -> Recording:
    """Run `module.simulate` in a fresh process and folder.

    Args:
        module: importable name of a module with `simulate(folder, steps, data, report)`, or with a
            fifth parameter where `settings` are given.
        steps: steps to simulate.
        data: folder with the trace and the weather file.
        system: name for error messages; the module's last part when omitted.
        settings: of a training run, as JSON can hold them.
        report: called with (steps done, steps in all).
        stall_seconds: longest silence before the run is stopped.
        keep: an empty or new folder to run in, left as it is afterwards; a temporary one when
            omitted.
        on_start: called with the worker's process id.

    Raises:
        SimulatorError: whatever the runner refuses, a stall, or a worker that died.
    """
    system = system or module.rpartition(".")[2]
    if keep is not None:
        keep.mkdir(parents=True, exist_ok=True)
        if any(keep.iterdir()):
            raise SimulatorError(system, "keep", f"{keep} is not empty", "an empty or new folder")
    folder = Path(tempfile.mkdtemp(prefix=f"whatif-{system}-")) if keep is None else keep.resolve()
    # the result lies outside the simulator's folder, so that nothing it writes can take its place
    exchange = Path(tempfile.mkdtemp(prefix=f"whatif-{system}-result-"))
    read_end, write_end = os.pipe()
    environment = dict(os.environ)
    environment["PYTHONPATH"] = os.pathsep.join(path for path in sys.path if path)
    request = {
        "module": module,
        "system": system,
        "folder": str(folder),
        "steps": steps,
        "data": str(data.resolve()),
        "result": str(exchange / RESULT),
        "progress": write_end,
        "settings": None if settings is None else dict(settings),
    }
    try:
        with open(exchange / CONSOLE, "wb") as console:
            process = subprocess.Popen(
                [sys.executable, "-m", "simulators.worker", json.dumps(request)],
                cwd=folder,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=console,
                stderr=subprocess.STDOUT,
                pass_fds=(write_end,),
                start_new_session=True,
            )
            os.close(write_end)
            write_end = -1
            on_start(process.pid)
            try:
                _watch(process, read_end, system, stall_seconds, report)
                process.wait(timeout=stall_seconds)
            except BaseException:
                _stop(process)
                raise
        text = (exchange / CONSOLE).read_text(errors="replace")
        if not (exchange / RESULT).is_file():
            raise SimulatorError(
                system,
                "process",
                f"ended with {process.returncode} and no result; last output: {text[-500:]!r}",
                "a finished run",
            )
        outcome = pickle.loads((exchange / RESULT).read_bytes())
        if isinstance(outcome, SimulatorError):
            raise outcome
        outcome.warnings = grouped_warnings([*_warnings(text), *outcome.warnings])
        return outcome
    finally:
        os.close(read_end)
        if write_end >= 0:
            os.close(write_end)
        shutil.rmtree(exchange, ignore_errors=True)
        if keep is None:
            shutil.rmtree(folder, ignore_errors=True)
