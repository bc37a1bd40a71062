"""The Bitbrains trace: virtual machines, fragment by fragment (whatif-v1.md §2, opendc)."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from pyarrow import parquet

from ..errors import SimulatorError

__all__ = [
    "HOSTS",
    "LONGEST_TAIL_STEPS",
    "MACHINES",
    "STEP_SECONDS",
    "TARGET_MACHINES",
    "Machine",
    "find_trace",
    "read_trace",
]

STEP_SECONDS = 300
# host -> its virtual machines; host-2 and host-3 of the rack stay empty (1052's host is [R])
HOSTS = {"host-0": ("1019", "1023"), "host-1": ("1026", "1052")}
MACHINES = tuple(machine for machines in HOSTS.values() for machine in machines)
TARGET_MACHINES = ("1019", "1023", "1026")

# A machine's fragments add up to a little less than its stated life, since samples that the
# recording lost take no time in the trace: 24 steps of 8,640 at most here. For so long a machine
# may idle at the end of a run; a longer tail would be padding, not data.
LONGEST_TAIL_STEPS = 50


@dataclass(frozen=True)
class Machine:
    """One virtual machine: what it demands and when, in ms since the trace's first submission."""

    name: str
    start: int
    cores: int
    limit: float  # MHz
    memory: int  # as in the trace
    durations: np.ndarray  # ms, one a fragment
    demand: np.ndarray  # MHz, one a fragment

    @property
    def end(self) -> int:
        """When its last fragment ends, ms since the first submission."""
        return self.start + int(self.durations.sum())


def find_trace(data: Path) -> Path:
    """The trace folder under the data folder."""
    folder = data / "opendc"
    for name in ("tasks.parquet", "fragments.parquet"):
        if not (folder / name).is_file():
            raise SimulatorError(
                "opendc",
                "trace",
                f"{folder / name} does not exist",
                "the trace (option --data)",
            )
    return folder


def _columns(path: Path, names: tuple[str, ...]) -> dict[str, np.ndarray]:
    table = parquet.read_table(path)
    missing = [name for name in names if name not in table.column_names]
    if missing:
        raise SimulatorError("opendc", path.name, table.column_names, f"also columns {missing}")
    return {name: table.column(name).to_numpy() for name in names}


def read_trace(
    folder: Path,
    steps: int,
    *,
    names: Sequence[str] = MACHINES,
    lasting: Sequence[str] = TARGET_MACHINES,
    step_seconds: int = STEP_SECONDS,
) -> dict[str, Machine]:
    """Read machines and refuse a trace that does not reach the run's end.

    Args:
        folder: where tasks.parquet and fragments.parquet lie.
        steps: samples of the run.
        names: the machines, by their numbers in the trace.
        lasting: those that must last to the run's end.
        step_seconds: time between two samples.

    Raises:
        SimulatorError: a machine or a column is missing, a duration or demand is not a finite
            number of the right sign, or the trace is shorter than the run.
    """
    tasks = _columns(
        folder / "tasks.parquet",
        (
            "id",
            "submission_time",
            "duration",
            "cpu_count",
            "cpu_capacity",
            "mem_capacity",
        ),
    )
    fragments = _columns(folder / "fragments.parquet", ("id", "duration", "cpu_usage"))
    run_end = steps * step_seconds * 1000
    rows = {}
    for name in names:
        found = np.flatnonzero(tasks["id"] == int(name))
        if len(found) != 1:
            raise SimulatorError("opendc", "tasks.parquet", f"{len(found)} rows of {name}", "one")
        rows[name] = int(found[0])
    first = min(int(tasks["submission_time"][row]) for row in rows.values())
    machines = {}
    for name, row in rows.items():
        own = fragments["id"] == int(name)
        durations = fragments["duration"][own].astype(np.int64)
        demand = fragments["cpu_usage"][own].astype(np.float64)
        if not len(durations) or (durations <= 0).any():
            raise SimulatorError(
                "opendc",
                f"fragments of {name}",
                "none, or a duration not above 0",
                "durations",
            )
        if not np.isfinite(demand).all() or (demand < 0).any():
            raise SimulatorError(
                "opendc",
                f"fragments of {name}",
                "a cpu_usage below 0 or not finite",
                "MHz",
            )
        machine = Machine(
            name=name,
            start=int(tasks["submission_time"][row]) - first,
            cores=int(tasks["cpu_count"][row]),
            limit=float(tasks["cpu_capacity"][row]),
            memory=int(tasks["mem_capacity"][row]),
            durations=durations,
            demand=demand,
        )
        stated_end = machine.start + int(tasks["duration"][row])
        if name in lasting and stated_end < run_end:
            raise SimulatorError(
                "opendc",
                f"trace of {name}",
                f"{stated_end / 1000:.0f} s long",
                f"{run_end / 1000:.0f} s, the run's length",
            )
        tail = min(stated_end, run_end) - machine.end
        if tail > LONGEST_TAIL_STEPS * STEP_SECONDS * 1000:
            raise SimulatorError(
                "opendc",
                f"fragments of {name}",
                f"end {tail / 1000:.0f} s early, at {machine.end / 1000:.0f} s",
                f"no more than {LONGEST_TAIL_STEPS * STEP_SECONDS} s before the run's or their "
                "machine's end (a padded flat tail is not data)",
            )
        machines[name] = machine
    return machines
