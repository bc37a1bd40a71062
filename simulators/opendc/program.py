"""The real OpenDC program, where it is installed (notes/opendc.md).

`OPENDC_HOME/bin/opendc` is run on an experiment that we write, and its host and task parquet are
read back into the columns of the replay. Its times are in whole seconds, so that they agree with
the replay's within one second; everything else agrees to float32 rounding.
"""

import json
import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from pyarrow import parquet

from ..errors import SimulatorError
from ..recording import Progress, Recording, check_timestamps
from . import ATTRIBUTION, SOURCES, UNITS, settings
from .replay import HOST
from .trace import (
    HOSTS,
    LONGEST_TAIL_STEPS,
    MACHINES,
    STEP_SECONDS,
    TARGET_MACHINES,
    Machine,
    find_trace,
    read_trace,
)

__all__ = ["find_program", "read_output", "simulate", "write_experiment"]


_HOST_COUNT = 4


def find_program() -> Path:
    """The program named by OPENDC_HOME, after a look that it and Java are there."""
    home = os.environ.get("OPENDC_HOME")
    if not home:
        raise SimulatorError("opendc", "OPENDC_HOME", "not set", "the folder of OpenDC's release")
    program = Path(home) / "bin" / "opendc"
    if not os.access(program, os.X_OK):
        raise SimulatorError("opendc", "OPENDC_HOME", f"no executable {program}", "OpenDC there")
    if shutil.which("java") is None:
        raise SimulatorError("opendc", "java", "not found on PATH", "Java 21, which OpenDC needs")
    return program.resolve()


def _task(machine: Machine) -> dict[str, Any]:
    return {
        "id": int(machine.name),
        "name": machine.name,
        "submissionTime": machine.start,
        "duration": int(machine.durations.sum()),
        "cpuCoreCount": machine.cores,
        "cpuCapacity": machine.limit,
        "memory": machine.memory // 1024,  # the trace counts KiB, OpenDC MiB
        "fragments": [
            {"duration": int(duration), "cpuUsage": float(usage)}
            for duration, usage in zip(machine.durations, machine.demand, strict=True)
        ],
    }


def write_experiment(folder: Path, machines: Mapping[str, Machine]) -> Path:
    """Write experiment.json: four named hosts, the four machines inline, a sample every 300 s."""
    host = {
        "count": 1,
        "cpu": {"coreCount": HOST.cores, "coreSpeed": f"{HOST.core_speed:g} MHz"},
        "memory": {"size": f"{HOST.memory_gigabytes} GiB"},
        "cpuPowerModel": {
            "type": "linear",
            "idlePower": f"{HOST.idle_power:g} Watts",
            "maxPower": f"{HOST.full_power:g} Watts",
        },
    }
    experiment = {
        "name": "whatif",
        "topologies": [
            {
                "clusters": [
                    {
                        "name": "rack",
                        # an entry each, since a count above one would number the names itself
                        "hosts": [
                            {"name": f"host-{number}", **host} for number in range(_HOST_COUNT)
                        ],
                        "powerSource": {"name": "grid", "maxPower": "10000 Watts"},
                    }
                ]
            }
        ],
        "workloads": [{"type": "inline", "tasks": [_task(machines[name]) for name in MACHINES]}],
        "allocationPolicies": [{"type": "prefab", "scheduler": "Mem"}],
        "exportModels": [{"exportInterval": f"{STEP_SECONDS // 60} minutes"}],
        "runs": 1,
    }
    path = folder / "experiment.json"
    path.write_text(json.dumps(experiment))
    return path


def _only(folder: Path, name: str) -> Path:
    found = sorted(folder.rglob(name))
    if len(found) != 1:
        raise SimulatorError(
            "opendc", name, f"{len(found)} such files under the output folder", "one"
        )
    return found[0]


def _samples(
    path: Path, key: str, owner: str, metrics: tuple[str, ...], steps: int, last: int
) -> dict[str, np.ndarray]:
    """One owner's samples, filled up to `steps` idle rows where the program had ended.

    The owner is the value `owner` of column `key`; its trace ends `last` ms after the start.
    """
    names = parquet.read_schema(path).names
    missing = [name for name in ("timestamp", key, *metrics) if name not in names]
    if missing:
        raise SimulatorError("opendc", path.name, names, f"also columns {missing}")
    table = parquet.read_table(path, columns=["timestamp", key, *metrics])
    own = np.asarray(table.column(key).to_pylist(), dtype=object).astype(str) == owner
    where = f"{path.name}, {owner}"
    timestamps = table.column("timestamp").to_numpy()[own]
    order = np.argsort(timestamps, kind="stable")
    timestamps = timestamps[order] / 1000.0
    # a last sample is taken when a task ends, off the 300 s grid: it belongs to no step
    on_grid = np.isclose((timestamps - timestamps[:1]) % STEP_SECONDS, 0.0)
    if len(timestamps) and not on_grid[-1]:
        timestamps, order = timestamps[:-1], order[:-1]
    check_timestamps("opendc", where, timestamps, STEP_SECONDS)
    expected = min(steps, last // (STEP_SECONDS * 1000))
    if len(timestamps) < expected or expected < steps - LONGEST_TAIL_STEPS:
        raise SimulatorError("opendc", where, f"{len(timestamps)} rows", f"{expected} rows")
    columns = {}
    for metric in metrics:
        values = table.column(metric).to_numpy()[own][order][:steps].astype(np.float64)
        bad = np.flatnonzero(~np.isfinite(values))
        if len(bad):
            raise SimulatorError(
                "opendc",
                where,
                f"{metric} is {values[bad[0]]} at row {bad[0]}",
                "finite values",
            )
        idle = {
            "power_draw": HOST.idle_power,
            "cpu_time_idle": float(STEP_SECONDS),
        }.get(metric, 0)
        columns[metric] = np.concatenate([values, np.full(steps - len(values), float(idle))])
    return columns


def read_output(
    folder: Path, machines: Mapping[str, Machine], steps: int
) -> dict[str, dict[str, np.ndarray]]:
    """Read host.parquet and task.parquet: metrics by host or machine, [steps] each.

    Raises:
        SimulatorError: a file, column or owner is missing, a machine ran on another host than
            whatif-v1.md §2 says, rows are missing, repeated or uneven, or a value is not finite.
    """
    hosts, tasks = _only(folder, "host.parquet"), _only(folder, "task.parquet")
    owners: dict[str, dict[str, np.ndarray]] = {}
    end = max(machines[name].end for name in MACHINES)
    for owner in HOSTS:
        metrics = tuple(metric for metric, name in SOURCES if name == owner)
        owners[owner] = _samples(hosts, "host_name", owner, metrics, steps, end)
    names = parquet.read_schema(tasks).names
    if "task_name" not in names or "host_name" not in names:
        raise SimulatorError("opendc", tasks.name, names, "also columns task_name and host_name")
    placed = parquet.read_table(tasks, columns=["task_name", "host_name"]).to_pydict()
    pairs = set(zip(map(str, placed["task_name"]), map(str, placed["host_name"]), strict=True))
    for host, expected in HOSTS.items():
        for machine in expected:
            # before it starts and after it ends a task has no host
            found = {place for name, place in pairs if name == machine} - {"", "None"}
            if found != {host}:
                raise SimulatorError(
                    "opendc",
                    f"{tasks.name}, {machine}",
                    f"on host {sorted(found)}",
                    host,
                )
    for owner in TARGET_MACHINES:
        metrics = tuple(metric for metric, name in SOURCES if name == owner)
        owners[owner] = _samples(tasks, "task_name", owner, metrics, steps, machines[owner].end)
    return owners


def simulate(folder: Path, steps: int, data: Path, report: Progress) -> Recording:
    """Run the program on the trace and read its first `steps` samples of 300 s.

    Args:
        folder: an empty folder, the process's own: the experiment and the output go there.
        steps: samples wanted.
        data: folder with `opendc/tasks.parquet` and `opendc/fragments.parquet`.
        report: called once, at the end.
    """
    program = find_program()
    machines = read_trace(find_trace(data), steps)
    experiment = write_experiment(folder, machines)
    output = folder / "output"
    finished = subprocess.run(
        [program, "run", experiment, "-o", output, "--no-progress", "--no-summary"],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    text = finished.stdout + finished.stderr
    print(text)
    if finished.returncode != 0:
        raise SimulatorError(
            "opendc",
            "program",
            f"exit {finished.returncode}: {text.strip()[-500:]}",
            "success",
        )
    owners = read_output(output, machines, steps)
    report(steps, steps)
    return Recording(
        system="opendc",
        columns={f"{metric}_{owner}": owners[owner][metric] for metric, owner in SOURCES},
        units=UNITS,
        step_seconds=STEP_SECONDS,
        simulator="OpenDC",
        version=program.parents[1].name,
        settings=settings(dict(machines), "program"),
        seed=None,
        attribution=ATTRIBUTION,
    )
