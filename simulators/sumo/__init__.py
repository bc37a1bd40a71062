"""SUMO: one signalled intersection over thirty days, driven through TraCI (whatif-v1.md §2, sumo).

References:
    Lopez et al. (2018), Microscopic Traffic Simulation using SUMO.
"""

import importlib
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

from ..errors import SimulatorError, missing_simulator
from ..recording import Progress, Recording
from .inputs import (
    APPROACHES,
    DEPART_SPEED,
    PERIODS,
    SIGNAL_OFFSET,
    SPEED_LIMIT,
    STEP_SECONDS,
    VEHICLE_TYPE,
    departures,
    write_demand,
    write_detectors,
    write_network,
)
from .outputs import TARGETS, UNITS, read_series, read_statistics

__all__ = [
    "BACKLOG_BOUND",
    "CHECK_STEPS",
    "SEED",
    "STEPS",
    "STEP_SECONDS",
    "TARGETS",
    "TELEPORT_BOUND",
    "TOLERANCE",
    "assess",
    "simulate",
    "sumo_programs",
]

STEPS = 8640
CHECK_STEPS = 288  # the first simulated day: thirty days take too long for a check
# Equal to the last printed digit on one platform; elsewhere the vehicles' random walk may round
# differently, and then the whole series differ, which a check must say.
TOLERANCE = 1e-5
SEED = 42

# Above these the run is still whole, but says so in its metadata and in a warning. A peak lets
# about 1,100 vehicles an hour queue outside the network for three hours.
TELEPORT_BOUND = 0
BACKLOG_BOUND = 5000  # vehicles due but not yet in the network, all four approaches together

# Vehicles handed to SUMO but not yet inserted, per approach. SUMO tries its waiting vehicles one
# after the other, one success a second, so two keep its queue from ever being empty too early;
# thousands would cost it more time than the traffic itself.
_WAITING_IN_SUMO = 2


@dataclass
class _Approach:
    """One approach's demand: who is due next, who waits outside, who is with SUMO."""

    route: str
    due: Iterator[float] = field(default_factory=departures)
    next_due: float = 0.0
    outside: int = 0
    with_simulator: int = 0
    sent: int = 0

    def __post_init__(self) -> None:
        self.next_due = next(self.due)

    def feed(self, time: int, traci: Any) -> None:
        while self.next_due <= time:
            self.outside += 1
            self.next_due = next(self.due)
        while self.outside and self.with_simulator < _WAITING_IN_SUMO:
            traci.vehicle.add(
                f"{self.route}{self.sent}",
                self.route,
                typeID="car",
                depart="now",
                departLane="first",
                departSpeed=str(DEPART_SPEED),
            )
            self.outside -= 1
            self.with_simulator += 1
            self.sent += 1


def sumo_programs() -> tuple[ModuleType, str]:
    """The TraCI module (libsumo where present) and the folder of SUMO's programs."""
    try:
        home = importlib.import_module("sumo").SUMO_HOME
    except ImportError as error:
        raise missing_simulator("sumo", "sumo (eclipse-sumo)", error) from None
    try:
        traci = importlib.import_module("libsumo")
    except ImportError:
        try:
            traci = importlib.import_module("traci")
        except ImportError as error:
            raise missing_simulator("sumo", "traci", error) from None
    return traci, str(Path(home) / "bin")


def _convert_network(programs: str, folder: Path) -> Path:
    network = folder / "network.net.xml"
    options = [f"--{option}={path}" for option, path in write_network(folder).items()]
    finished = subprocess.run(
        [
            f"{programs}/netconvert",
            *options,
            f"--output-file={network}",
            "--no-turnarounds=true",
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    print(finished.stdout, finished.stderr, sep="")
    if finished.returncode or not network.is_file():
        raise SimulatorError(
            "sumo",
            "netconvert",
            f"exit {finished.returncode}: {finished.stderr}",
            "a network",
        )
    return network


def _drive(traci: Any, steps: int, report: Progress) -> dict[str, int]:
    """Step the simulation second by second, feeding due vehicles; return the backlog's record.

    Vehicles that cannot enter wait here in order, not in SUMO: who enters when is the same, but
    SUMO tries every vehicle in its own queue every second, which doubles the run's time.
    """
    approaches = {arm: _Approach(arm) for arm in APPROACHES}
    largest = 0
    for time in range(steps * STEP_SECONDS):
        for approach in approaches.values():
            approach.feed(time, traci)
        traci.simulationStep(time + 1)
        for vehicle in traci.simulation.getDepartedIDList():
            approaches[vehicle[0]].with_simulator -= 1
        if (time + 1) % STEP_SECONDS == 0:
            waiting = sum(a.outside + a.with_simulator for a in approaches.values())
            largest = max(largest, waiting)
            report((time + 1) // STEP_SECONDS, steps)
    return {
        "backlog_largest": largest,
        "backlog_at_end": sum(a.outside + a.with_simulator for a in approaches.values()),
        "vehicles_due": sum(a.outside + a.sent for a in approaches.values()),
    }


def assess(counts: dict[str, int], backlog: dict[str, int]) -> dict[str, Any]:
    """The run's record: SUMO's counts and the backlog against their bounds, with a warning each."""
    record: dict[str, Any] = {**counts, **backlog}
    for name, value, bound in (
        ("teleports", counts["teleports"], TELEPORT_BOUND),
        ("backlog", backlog["backlog_largest"], BACKLOG_BOUND),
    ):
        record[f"{name}_bound"] = bound
        record[f"{name}_above_bound"] = value > bound
        if value > bound:
            print(f"Warning: {name}: {value} vehicles, above the bound of {bound}")
    return record


def simulate(folder: Path, steps: int, data: Path, report: Progress) -> Recording:
    """Run SUMO for `steps` intervals of 300 s in `folder` (whatif-v1.md §2).

    Args:
        folder: an empty folder, the process's own: SUMO leaves its files there.
        steps: 300 s intervals to simulate.
        data: not used; SUMO's inputs are all written here.
        report: called after each interval.
    """
    traci, programs = sumo_programs()
    statistics = folder / "statistics.xml"
    network = _convert_network(programs, folder)
    in_process = traci.__name__ == "libsumo"
    traci.start(
        [
            "sumo" if in_process else f"{programs}/sumo",
            f"--net-file={network}",
            f"--route-files={write_demand(folder)}",
            f"--additional-files={write_detectors(folder)}",
            f"--statistic-output={statistics}",
            f"--seed={SEED}",
            "--step-length=1",
            "--threads=1",
            "--no-step-log=true",
            "--no-warnings=false",
        ]
    )
    try:
        version = traci.getVersion()[1].removeprefix("SUMO ")
        emission_class = traci.vehicletype.getEmissionClass("car")
        backlog = _drive(traci, steps, report)
    finally:
        traci.close()
    series, replaced = read_series(folder, steps)
    record = assess(read_statistics(statistics), backlog)
    record["rows_without_vehicle"] = replaced
    return Recording(
        system="sumo",
        columns=series,
        units=UNITS,
        step_seconds=STEP_SECONDS,
        simulator="Eclipse SUMO",
        version=version,
        settings={
            "vehicle_type": VEHICLE_TYPE,
            "emission_class": emission_class,
            "speed_limit_m_per_s": SPEED_LIMIT,
            "lanes_per_edge": 2,
            "approach_length_m": 500,
            "signal_plan_s": [42, 3, 42, 3],
            "signal_offset_s": SIGNAL_OFFSET,
            "periods_hour_hour_vehicles_per_hour_and_movement": PERIODS,
            "depart_lane": "first",
            "depart_speed_m_per_s": DEPART_SPEED,
            "step_length_s": 1,
            "threads": 1,
            "interface": traci.__name__,
            "absent": "speed: last seen value; time loss and halting duration: 0",
        },
        seed=SEED,
        attribution=(
            "Series simulated for this project with Eclipse SUMO (EPL-2.0), Lopez et al. 2018; "
            "network, demand and detectors written by this project"
        ),
        record=record,
    )
