"""OpenDC's resource model replayed for other virtual machines of the trace, on other hosts.

References:
    Mastenbroek et al. (2021), OpenDC 2.0; Shen, van Beek, Iosup (2015), the Bitbrains trace.
"""

from pathlib import Path
from typing import Any

import numpy as np
from pydantic import Field, field_validator

from ..opendc import ATTRIBUTION
from ..opendc.replay import Host, replay_host
from ..opendc.trace import MACHINES, find_trace, read_trace
from ..recording import Progress, Recording
from .choose import choose_series
from .runs import Run, checked_run

__all__ = ["RUN", "OpendcRun", "simulate"]


class OpendcRun(Run):
    """Which machines run where, and on what."""

    hosts: dict[str, list[str]]  # host -> its virtual machines, by their numbers in the trace
    cores: int = Field(gt=0)
    core_speed: float = Field(gt=0, description="MHz")
    idle_power: float = Field(ge=0, description="W")
    full_power: float = Field(gt=0, description="W")

    @field_validator("hosts")
    @classmethod
    def _other_machines(cls, hosts: dict[str, list[str]]) -> dict[str, list[str]]:
        names = [name for placed in hosts.values() for name in placed]
        if not names or len(set(names)) < len(names) or set(names) & set(MACHINES):
            raise ValueError(f"machines, each placed once, none of the benchmark's {MACHINES}")
        return hosts


RUN = OpendcRun
_UNITS = {
    "cpu_demand": "MHz",
    "cpu_usage": "MHz",
    "cpu_utilization": "fraction of the host's CPU",
    "cpu_time_active": "s of the host's whole CPU per step",
    "cpu_time_idle": "s of the host's whole CPU per step",
    "power_draw": "W",
}


def simulate(
    folder: Path, steps: int, data: Path, report: Progress, settings: dict[str, Any]
) -> Recording:
    """Replay the machines of a training run.

    Args:
        folder: not used; nothing is written.
        steps: samples, the first one step after the first submission; the run's own.
        data: folder with `opendc/tasks.parquet` and `opendc/fragments.parquet`.
        report: called once, at the end.
        settings: what `OpendcRun` holds.
    """
    run = checked_run("opendc", OpendcRun, {**settings, "steps": steps})
    names = [name for placed in run.hosts.values() for name in placed]
    machines = read_trace(
        find_trace(data), steps, names=names, lasting=names, step_seconds=run.step_seconds
    )
    host = Host(
        cores=run.cores,
        core_speed=run.core_speed,
        idle_power=run.idle_power,
        full_power=run.full_power,
    )
    series: dict[str, np.ndarray] = {}
    quantities: dict[str, str] = {}
    for place, placed in run.hosts.items():
        whole, each = replay_host(
            host, [machines[name] for name in placed], steps, run.step_seconds
        )
        for owner, metrics in {place: whole, **each}.items():
            for metric, values in metrics.items():
                series[f"{metric}_{owner}"] = values
                # a host's series and a machine's of the same metric are two quantities
                quantities[f"{metric}_{owner}"] = f"{metric} {'host' if owner == place else ''}"
    chosen = choose_series(series, quantities, run.columns, run.seed)
    report(steps, steps)
    return Recording(
        system="opendc",
        columns={name: series[name] for name in chosen},
        units={name: _UNITS[quantities[name].split()[0]] for name in chosen},
        step_seconds=run.step_seconds,
        simulator="OpenDC resource model (replayed in NumPy)",
        version="1",
        settings={
            **run.model_dump(),
            "machine_limit_MHz": {name: machines[name].limit for name in names},
            "sampling": "demand, usage, utilization, power at the instant; times since the last "
            "sample",
        },
        seed=run.seed,  # of the choice of series: nothing in the replay is random
        attribution=ATTRIBUTION,
        record={"series_in_all": len(series)},
    )
