"""SUMO on other roads: grids of signalled junctions, turning traffic, drawn demand.

References:
    Lopez et al. (2018), Microscopic Traffic Simulation using SUMO.
"""

import subprocess
from pathlib import Path
from typing import Any, Literal
from xml.etree import ElementTree

import numpy as np
from pydantic import Field

from ..errors import SimulatorError
from ..recording import Progress, Recording
from ..sumo import sumo_programs
from ..sumo.inputs import DETECTOR_FILES
from ..sumo.outputs import ATTRIBUTE_UNITS, Source, read_series, read_statistics
from .choose import choose_series
from .demand import demand_factors
from .runs import Run, checked_run

__all__ = ["RUN", "SumoRun", "simulate"]

_DEMAND_SECONDS = 900  # demand is constant in between
_LONGEST_WAIT = 300  # s outside the network, after which a vehicle gives up
_WATCHED_EDGES = 3
_LOOP = ("flow", "occupancy", "speed")
_AREA = (
    "meanSpeed",
    "meanOccupancy",
    "meanVehicleNumber",
    "meanTimeLoss",
    "meanHaltingDuration",
    "meanMaxJamLengthInMeters",
)
_EDGE = ("CO2_abs", "NOx_abs", "PMx_abs", "fuel_abs")


class SumoRun(Run):
    """Roads, lights and demand."""

    grid: tuple[int, int]  # signalled junctions, across and up
    block: float = Field(ge=150, description="m between two junctions, and of each way in")
    lanes: int = Field(ge=1, le=4)
    speed_limit: float = Field(gt=0, description="m/s")
    lights: Literal["static", "actuated"]
    cycle: int = Field(ge=30, description="s of a light's whole plan")
    demand: float = Field(gt=0, description="vehicles per hour in all, on average")
    day_hours: int = Field(ge=1, le=24, description="hours in which the demand's course repeats")
    noise: float = Field(ge=0, le=1, description="standard deviation of a demand's logarithm")
    trucks: float = Field(ge=0, lt=1, description="share of the vehicles")
    sigma: float = Field(ge=0, le=1, description="the drivers' imperfection")
    tau: float = Field(gt=0, description="s of headway")
    depart_lane: Literal["best", "free", "random"] = "best"


RUN = SumoRun


def _make_network(programs: str, folder: Path, run: SumoRun) -> Path:
    path = folder / "network.net.xml"
    finished = subprocess.run(
        [
            f"{programs}/netgenerate",
            "--grid",
            f"--grid.x-number={run.grid[0]}",
            f"--grid.y-number={run.grid[1]}",
            f"--grid.length={run.block}",
            f"--grid.attach-length={run.block}",
            f"--default.lanenumber={run.lanes}",
            f"--default.speed={run.speed_limit}",
            "--default-junction-type=traffic_light",
            f"--tls.default-type={run.lights}",
            f"--tls.cycle.time={run.cycle}",
            "--no-turnarounds=true",
            f"--output-file={path}",
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    if finished.returncode or not path.is_file():
        raise SimulatorError(
            "sumo", "netgenerate", f"exit {finished.returncode}: {finished.stderr}", "a network"
        )
    return path


def _edges(network: Path) -> tuple[list[str], list[str]]:
    """Edges that lead into the network and edges that lead out of it."""
    root = ElementTree.parse(network).getroot()
    ends = {node.attrib["id"] for node in root.iter("junction") if node.get("type") == "dead_end"}
    edges = [edge for edge in root.iter("edge") if "from" in edge.attrib]
    return (
        [edge.attrib["id"] for edge in edges if edge.attrib["from"] in ends],
        [edge.attrib["id"] for edge in edges if edge.attrib["to"] in ends],
    )


def _write_demand(
    folder: Path, run: SumoRun, into: list[str], out: list[str], rng: np.random.Generator
) -> Path:
    """Write vehicle types and flows: each way in has its own course, each way out its own share."""
    periods = -(-run.steps * run.step_seconds // _DEMAND_SECONDS)
    text = [
        '<routes><vTypeDistribution id="any">',
        f'<vType id="car" sigma="{run.sigma}" tau="{run.tau}" probability="{1 - run.trucks}"/>',
    ]
    if run.trucks:
        text.append(f'<vType id="truck" vClass="truck" probability="{run.trucks}"/>')
    text.append("</vTypeDistribution>")
    entering = rng.dirichlet(np.full(len(into), 5.0)) * run.demand / 3600.0
    leaving = rng.dirichlet(np.full(len(out), 3.0), size=len(into))
    factors = [
        demand_factors(periods, _DEMAND_SECONDS, run.noise, rng, run.day_hours * 3600) for _ in into
    ]
    for period in range(periods):
        begin = period * _DEMAND_SECONDS
        for source, start in enumerate(into):
            # the road back is no way through: it starts at the dead end where the way in began
            ways = [target for target, end in enumerate(out) if not _is_return(start, end)]
            shares = leaving[source, ways] / leaving[source, ways].sum()
            for share, target in zip(shares, ways, strict=True):
                rate = min(1.0, entering[source] * share * factors[source][period])
                if rate > 1e-6:
                    text.append(
                        f'<flow id="{period}-{source}-{target}" type="any" from="{start}" '
                        f'to="{out[target]}" begin="{begin}" end="{begin + _DEMAND_SECONDS}" '
                        f'probability="{rate:.6f}" departLane="{run.depart_lane}" '
                        'departSpeed="max"/>'
                    )
    text.append("</routes>")
    path = folder / "demand.rou.xml"
    path.write_text("\n".join(text))
    return path


def _is_return(start: str, end: str) -> bool:
    """Whether an edge out leads back to where an edge in came from: `left0A0`, `A0left0`."""
    return len(start) == len(end) and start[-2:] == end[:2] and start[:-2] == end[2:]


def _write_detectors(
    folder: Path, run: SumoRun, edges: list[str]
) -> tuple[Path, dict[str, Source]]:
    """Write detectors before the stop line of each watched lane; return what they will say."""
    every = run.step_seconds
    text = [
        f'<edgeData id="emissions" type="emissions" freq="{every}" file="{DETECTOR_FILES["edge"]}" '
        f'edges="{" ".join(edges)}"/>'
    ]
    sources: dict[str, Source] = {}
    for edge in edges:
        sources |= {f"{attribute}_{edge}": ("edge", edge, attribute) for attribute in _EDGE}
        for lane in range(run.lanes):
            name = f"{edge}_{lane}"
            text.append(
                f'<inductionLoop id="loop_{name}" lane="{name}" pos="-15" freq="{every}" '
                f'file="{DETECTOR_FILES["loop"]}"/>'
                f'<laneAreaDetector id="area_{name}" lane="{name}" pos="-120" endPos="-0.1" '
                f'freq="{every}" file="{DETECTOR_FILES["area"]}"/>'
            )
            sources |= {f"{item}_loop_{name}": ("loop", f"loop_{name}", item) for item in _LOOP}
            sources |= {f"{item}_area_{name}": ("area", f"area_{name}", item) for item in _AREA}
    path = folder / "detectors.add.xml"
    path.write_text(f"<additional>{''.join(text)}</additional>")
    return path, sources


def _unit(attribute: str, step_seconds: int) -> str:
    return ATTRIBUTE_UNITS[attribute].replace("per 300 s", f"per {step_seconds} s")


def simulate(
    folder: Path, steps: int, data: Path, report: Progress, settings: dict[str, Any]
) -> Recording:
    """Run SUMO once with the settings of a training run.

    Args:
        folder: an empty folder, the process's own: SUMO leaves its files there.
        steps: intervals to simulate; the run's own.
        data: not used; SUMO's inputs are all written here.
        report: called after each interval.
        settings: what `SumoRun` holds.
    """
    run = checked_run("sumo", SumoRun, {**settings, "steps": steps})
    traci, programs = sumo_programs()
    rng = np.random.default_rng(run.seed)
    network = _make_network(programs, folder, run)
    into, out = _edges(network)
    watched = sorted(rng.permutation(into)[:_WATCHED_EDGES].tolist())
    demand = _write_demand(folder, run, into, out, rng)
    detectors, sources = _write_detectors(folder, run, watched)
    statistics = folder / "statistics.xml"
    traci.start(
        [
            "sumo" if traci.__name__ == "libsumo" else f"{programs}/sumo",
            f"--net-file={network}",
            f"--route-files={demand}",
            f"--additional-files={detectors}",
            f"--statistic-output={statistics}",
            f"--seed={run.seed}",
            f"--max-depart-delay={_LONGEST_WAIT}",
            "--step-length=1",
            "--threads=1",
            "--no-step-log=true",
            "--no-warnings=true",  # each teleport is one; their number is in the record
        ]
    )
    try:
        version = traci.getVersion()[1].removeprefix("SUMO ")
        for step in range(1, steps + 1):
            traci.simulationStep(step * run.step_seconds)
            report(step, steps)
    finally:
        traci.close()
    series, replaced = read_series(folder, steps, sources, run.step_seconds)
    quantities = {name: f"{source[0]} {source[2]}" for name, source in sources.items()}
    chosen = choose_series(series, quantities, run.columns, run.seed)
    return Recording(
        system="sumo",
        columns={name: series[name] for name in chosen},
        units={name: _unit(sources[name][2], run.step_seconds) for name in chosen},
        step_seconds=run.step_seconds,
        simulator="Eclipse SUMO",
        version=version,
        settings={
            **run.model_dump(),
            "watched_edges": watched,
            "longest_wait_outside_s": _LONGEST_WAIT,
            "drawn": "demand by NumPy from the seed; each vehicle's departure by SUMO",
            "absent": "speed: last seen value; time loss and halting duration: 0",
        },
        seed=run.seed,
        attribution=(
            "Series simulated for this project with Eclipse SUMO (EPL-2.0), Lopez et al. 2018; "
            "network by SUMO's netgenerate, demand and detectors written by this project"
        ),
        record={
            **read_statistics(statistics),
            "rows_without_vehicle": sum(replaced.values()),
            "series_in_all": len(series),
        },
    )
