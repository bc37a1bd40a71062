"""OpenDC: four virtual machines on one rack (whatif-v1.md §2, opendc).

The baseline is the resource model replayed in NumPy; `opendc.program` runs the real program where
it is installed and gives the same columns.

References:
    Mastenbroek et al. (2021), OpenDC 2.0; Shen, van Beek, Iosup (2015), the Bitbrains trace.
"""

from pathlib import Path
from typing import Any

import numpy as np

from ..recording import Progress, Recording
from .replay import HOST, replay_host
from .trace import (
    HOSTS,
    MACHINES,
    STEP_SECONDS,
    TARGET_MACHINES,
    Machine,
    find_trace,
    read_trace,
)

__all__ = [
    "ATTRIBUTION",
    "CHECK_STEPS",
    "STEPS",
    "STEP_SECONDS",
    "TARGETS",
    "TOLERANCE",
    "UNITS",
    "program_slack",
    "settings",
    "simulate",
]

STEPS = 8640
CHECK_STEPS = STEPS  # well under a second
TOLERANCE = 1e-5  # sums in float64, stored in float32

_METRIC_UNITS = {
    "cpu_demand": "MHz",
    "cpu_usage": "MHz",
    "cpu_utilization": "fraction of the host's CPU",
    "cpu_time_active": "s of the host's whole CPU per 300 s",
    "cpu_time_idle": "s of the host's whole CPU per 300 s",
    "power_draw": "W",
}
# (metric, host or machine), in the order of whatif-v1.md §2
SOURCES = tuple(
    [
        (metric, host)
        for host in HOSTS
        for metric in (
            "cpu_demand",
            "cpu_usage",
            "cpu_utilization",
            "cpu_time_active",
            "power_draw",
        )
    ]
    + [
        (metric, machine)
        for machine in TARGET_MACHINES
        for metric in ("cpu_demand", "cpu_usage", "cpu_time_active", "cpu_time_idle")
    ]
)
TARGETS = tuple(f"{metric}_{owner}" for metric, owner in SOURCES)
UNITS = {f"{metric}_{owner}": _METRIC_UNITS[metric] for metric, owner in SOURCES}
ATTRIBUTION = (
    "Series computed by this project from the Bitbrains trace GWA-T-12 (Shen, van Beek, Iosup "
    "2015) as packaged with OpenDC (AtLarge Research, MIT licence)"
)


def settings(machines: dict[str, Machine], engine: str) -> dict[str, Any]:
    """The run's settings as the file's metadata holds them."""
    return {
        "engine": engine,
        "hosts": 4,
        "cores_per_host": HOST.cores,
        "core_speed_MHz": HOST.core_speed,
        "memory_per_host_GB": HOST.memory_gigabytes,
        "power_model": f"linear, {HOST.idle_power:g} W idle, {HOST.full_power:g} W full",
        "placement": HOSTS,
        "machine_limit_MHz": {name: machines[name].limit for name in MACHINES},
        "sampling": "demand, usage, utilization, power at the instant; times since the last sample",
    }


def program_slack(target: str) -> float:
    """How far the real program's value of a target may lie from the replay's, in its unit.

    The program prints times in whole seconds (notes/opendc.md). Its idle time of a virtual
    machine is no comparison at all: recent versions compute it with a capacity of zero.
    """
    if target in {f"cpu_time_idle_{machine}" for machine in TARGET_MACHINES}:
        return float(STEP_SECONDS)
    return 1.0 if target.startswith("cpu_time") else 0.0


def simulate(folder: Path, steps: int, data: Path, report: Progress) -> Recording:
    """Replay the trace for `steps` samples of 300 s (whatif-v1.md §2).

    Args:
        folder: not used; nothing is written.
        steps: samples, the first 300 s after the first submission.
        data: folder with `opendc/tasks.parquet` and `opendc/fragments.parquet`.
        report: called once, at the end.
    """
    machines = read_trace(find_trace(data), steps)
    owners: dict[str, dict[str, np.ndarray]] = {}
    for host, names in HOSTS.items():
        owners[host], per_machine = replay_host(HOST, [machines[name] for name in names], steps)
        owners.update(per_machine)
    report(steps, steps)
    run_end = steps * STEP_SECONDS * 1000
    return Recording(
        system="opendc",
        columns={f"{metric}_{owner}": owners[owner][metric] for metric, owner in SOURCES},
        units=UNITS,
        step_seconds=STEP_SECONDS,
        simulator="OpenDC resource model (replayed in NumPy)",
        version="1",
        settings=settings(machines, "replay"),
        seed=None,  # nothing random
        attribution=ATTRIBUTION,
        record={
            "idle_steps_after_last_fragment": {
                name: max(0, (run_end - machines[name].end) // (STEP_SECONDS * 1000))
                for name in TARGET_MACHINES
            }
        },
    )
