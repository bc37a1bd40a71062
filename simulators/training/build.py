"""Make the training runs of one system, one after the other, each isolated."""

import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from tqdm import tqdm

from ..errors import SimulatorError
from ..isolation import run_isolated
from ..recording import Recording, check_recording
from .cache import write_series
from .runs import MODULES, read_runs

__all__ = ["build_training"]


def build_training(
    system: str,
    data: Path,
    path: Path,
    *,
    runs: Path | None = None,
    stall_seconds: float,
    keep: Path | None = None,
    say: Callable[[str], None] = lambda line: None,
) -> int:
    """Run every training run of a system and write its file, whole or not at all.

    Args:
        system: name of the system.
        data: folder with the trace and the weather file.
        path: the file to write.
        runs: a TOML file of runs; the system's own when omitted.
        stall_seconds: longest silence before a run is stopped.
        keep: a folder that keeps each run's own, by the run's name; temporary ones when omitted.
        say: called with one line after each run.

    Returns:
        The file's size in bytes.

    Raises:
        SimulatorError: what a run refuses, or a run of which no series varies.
    """
    listed = read_runs(system, runs)
    recordings: list[tuple[str, Recording]] = []
    warned: set[str] = set()
    with tqdm(total=sum(run.steps for run in listed), desc=f"{system}: simulated steps") as bar:
        before = 0
        for run in listed:
            started = time.monotonic()
            bar.set_postfix_str(run.name)

            def report(done: int, total: int, before: int = before) -> None:
                bar.update(before + done - bar.n)

            recording = run_isolated(
                MODULES[system],
                run.steps,
                data,
                system=system,
                settings=run.model_dump(mode="json"),
                report=report,
                stall_seconds=stall_seconds,
                keep=None if keep is None else keep / run.name,
            )
            before += run.steps
            if not recording.columns:
                raise SimulatorError(
                    system, f"run {run.name}", "no series that varies", "one or more"
                )
            check_recording(recording, list(recording.columns), run.steps)
            recordings.append((run.name, recording))
            kept = np.asarray(list(recording.columns.values()))
            say(
                f"{system}: {run.name}: {len(kept)} series of {run.steps} steps in "
                f"{time.monotonic() - started:.1f} s"
            )
            for warning in recording.warnings:
                if warning not in warned:  # what a simulator says of every run is said once
                    say(f"{system}: {run.name}: {warning}")
                    warned.add(warning)
    return write_series(recordings, path)
