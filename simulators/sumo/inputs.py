"""The files that SUMO reads: network, vehicle type, routes, detectors (whatif-v1.md §2, sumo).

A centre node with four approaches at +-500 m, two lanes each way, static lights, through
movements only. Everything is written as text here, so that a run needs nothing but SUMO itself.
"""

from collections.abc import Iterator
from pathlib import Path

__all__ = [
    "APPROACHES",
    "DEPART_SPEED",
    "DETECTOR_FILES",
    "PERIODS",
    "STEP_SECONDS",
    "VEHICLE_TYPE",
    "departures",
    "write_demand",
    "write_detectors",
    "write_network",
]

STEP_SECONDS = 300
DAY_SECONDS = 86_400

# approach -> the arm that its through movement leaves by
APPROACHES = {"e": "w", "w": "e", "n": "s", "s": "n"}
_POSITIONS = {"c": (0, 0), "e": (500, 0), "w": (-500, 0), "n": (0, 500), "s": (0, -500)}
_LANES = (0, 1)
SPEED_LIMIT = 13.89  # m/s [P]
SIGNAL_OFFSET = 10  # s, base of the covariate `offset` [R]

# (from hour, to hour, vehicles per hour and movement), the same every day [R]
PERIODS = ((0, 6, 120), (6, 9, 2000), (9, 16, 800), (16, 19, 2000), (19, 24, 400))

# A given departure speed is kept exactly (SUMO waits for a gap that allows it), unlike "max",
# which SUMO lowers. A vehicle enters with its front at 5.1 m; from 10 m/s it cannot brake below
# 5.5 m/s within its first second, so its rear has passed the far loop at 5.2 m before it can change
# lanes, and the far loop of lane 1 counts nothing whatever the seed. With "max", "avg" or 0 a slow
# entrant now and then changes lanes on top of the loop and is counted there, about once a day.
DEPART_SPEED = 10.0  # m/s [R: whatif-v1.md §2 leaves it open]

DETECTOR_FILES = {"loop": "loops.xml", "area": "areas.xml", "edge": "emissions.xml"}

NEAR_POSITION = -20  # m, counted back from the stop line [R]
FAR_POSITION = 5.2  # m from the start of the edge [R]
EXIT_POSITION = 50  # m from the start of the exit edge [R]
AREA_LENGTH = 200  # m before the stop line [R]


# the vehicle covariates of whatif-v1.md §2 at their base values, by SUMO's own attribute names
VEHICLE_TYPE = {
    "minGap": 2.5,
    "accel": 2.6,
    "decel": 4.5,
    "maxSpeed": 55.56,
    "sigma": 0.5,
    "tau": 1.0,
    "length": 5.0,
    "speedDev": 0.1,
    "width": 1.8,
    "height": 1.5,
    "lcStrategic": 1.0,
    "lcCooperative": 1.0,
    "lcSpeedGain": 1.0,
    "impatience": 0.5,
    "actionStepLength": 1.0,
}


def write_network(folder: Path) -> dict[str, Path]:
    """Write netconvert's inputs: nodes, edges, connections (through only) and the signal plan."""
    nodes = "".join(
        f'<node id="{name}" x="{x}" y="{y}" '
        f'type="{"traffic_light" if name == "c" else "priority"}"/>'
        for name, (x, y) in _POSITIONS.items()
    )
    edges = "".join(
        f'<edge id="{source}2{target}" from="{source}" to="{target}" numLanes="{len(_LANES)}" '
        f'speed="{SPEED_LIMIT}"/>'
        for arm in APPROACHES
        for source, target in ((arm, "c"), ("c", arm))
    )
    links = [(arm, lane) for arm in APPROACHES for lane in _LANES]

    def connection(arm: str, lane: int, extra: str = "") -> str:
        return (
            f'<connection from="{arm}2c" to="c2{APPROACHES[arm]}" fromLane="{lane}" '
            f'toLane="{lane}"{extra}/>'
        )

    east_west = "".join("G" if arm in "ew" else "r" for arm, _ in links)
    north_south = "".join("r" if arm in "ew" else "G" for arm, _ in links)
    plan = [
        (42, east_west),
        (3, east_west.replace("G", "y")),
        (42, north_south),
        (3, north_south.replace("G", "y")),
    ]
    phases = "".join(f'<phase duration="{seconds}" state="{state}"/>' for seconds, state in plan)
    signalled = "".join(
        connection(arm, lane, f' tl="c" linkIndex="{index}"')
        for index, (arm, lane) in enumerate(links)
    )
    texts = {
        "node-files": ("network.nod.xml", f"<nodes>{nodes}</nodes>"),
        "edge-files": ("network.edg.xml", f"<edges>{edges}</edges>"),
        "connection-files": (
            "network.con.xml",
            f"<connections>{''.join(connection(*link) for link in links)}</connections>",
        ),
        "tllogic-files": (
            "network.tll.xml",
            (
                f'<tlLogics><tlLogic id="c" type="static" programID="0" offset="{SIGNAL_OFFSET}">'
                f"{phases}</tlLogic>{signalled}</tlLogics>"
            ),
        ),
    }
    paths = {}
    for option, (name, text) in texts.items():
        paths[option] = folder / name
        paths[option].write_text(text)
    return paths


def write_demand(folder: Path) -> Path:
    """Write the vehicle type and the four routes; vehicles are fed in by the driver."""
    attributes = " ".join(f'{name}="{value:g}"' for name, value in VEHICLE_TYPE.items())
    routes = "".join(
        f'<route id="{arm}" edges="{arm}2c c2{opposite}"/>' for arm, opposite in APPROACHES.items()
    )
    path = folder / "demand.rou.xml"
    path.write_text(f'<routes><vType id="car" {attributes}/>{routes}</routes>')
    return path


def write_detectors(folder: Path) -> Path:
    """Write the loops, lane-area detectors and edge emissions of the eastern approach."""
    parts = [
        (
            f'<edgeData id="emissions" type="emissions" freq="{STEP_SECONDS}" '
            f'file="{DETECTOR_FILES["edge"]}" edges="e2c"/>'
        )
    ]
    for lane in _LANES:
        for name, edge, position in (
            (f"loop_e_{lane}_near", "e2c", NEAR_POSITION),
            (f"loop_e_{lane}_far", "e2c", FAR_POSITION),
            (f"loop_exit_e_{lane}", "c2e", EXIT_POSITION),
        ):
            parts.append(
                f'<inductionLoop id="{name}" lane="{edge}_{lane}" pos="{position}" '
                f'freq="{STEP_SECONDS}" file="{DETECTOR_FILES["loop"]}"/>'
            )
        parts.append(
            f'<laneAreaDetector id="e2_e_{lane}" lane="e2c_{lane}" pos="-{AREA_LENGTH}" '
            f'endPos="-0.1" freq="{STEP_SECONDS}" file="{DETECTOR_FILES["area"]}"/>'
        )
    path = folder / "detectors.add.xml"
    path.write_text(f"<additional>{''.join(parts)}</additional>")
    return path


def departures() -> Iterator[float]:
    """Seconds at which one movement's vehicles are due, evenly spaced within each period."""
    day = 0
    while True:
        for start, end, per_hour in PERIODS:
            first = day * DAY_SECONDS + start * 3600
            for index in range((end - start) * per_hour):
                yield first + index * 3600 / per_hour
        day += 1
