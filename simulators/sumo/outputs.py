"""SUMO's detector files turned into the thirty target series (whatif-v1.md §2, sumo)."""

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from xml.etree import ElementTree

import numpy as np

from ..errors import SimulatorError
from ..recording import check_timestamps, last_seen
from .inputs import DETECTOR_FILES, STEP_SECONDS

__all__ = ["ATTRIBUTE_UNITS", "TARGETS", "UNITS", "Source", "read_series", "read_statistics"]

Source = tuple[str, str, str]
"""Where a series comes from: kind of file ("loop", "area" or "edge"), detector, attribute."""

_GASES = ("CO2", "NOx", "PMx", "fuel")
_DELAYS = (
    "meanHaltingDuration",
    "meanTimeLoss",
    "meanVehicleNumber",
    "meanMaxJamLengthInMeters",
)

# target -> (file, detector, attribute), in the order of whatif-v1.md §2
_SOURCES: dict[str, Source] = {
    **{f"{gas}_abs_edge_e2c": ("edge", "e2c", f"{gas}_abs") for gas in _GASES},
    **{f"flow_loop_e_{lane}_near": ("loop", f"loop_e_{lane}_near", "flow") for lane in (0, 1)},
    **{f"flow_loop_e_{lane}_far": ("loop", f"loop_e_{lane}_far", "flow") for lane in (0, 1)},
    **{f"flow_loop_exit_e_{lane}": ("loop", f"loop_exit_e_{lane}", "flow") for lane in (0, 1)},
    **{
        f"occupancy_loop_e_{lane}_near": ("loop", f"loop_e_{lane}_near", "occupancy")
        for lane in (0, 1)
    },
    **{
        f"occupancy_loop_exit_e_{lane}": ("loop", f"loop_exit_e_{lane}", "occupancy")
        for lane in (0, 1)
    },
    **{f"meanOccupancy_e2_e_{lane}": ("area", f"e2_e_{lane}", "meanOccupancy") for lane in (0, 1)},
    **{f"speed_loop_e_{lane}_near": ("loop", f"loop_e_{lane}_near", "speed") for lane in (0, 1)},
    **{f"speed_loop_exit_e_{lane}": ("loop", f"loop_exit_e_{lane}", "speed") for lane in (0, 1)},
    **{f"meanSpeed_e2_e_{lane}": ("area", f"e2_e_{lane}", "meanSpeed") for lane in (0, 1)},
    **{
        f"{attribute}_e2_e_{lane}": ("area", f"e2_e_{lane}", attribute)
        for attribute in _DELAYS
        for lane in (0, 1)
    },
}
TARGETS = tuple(_SOURCES)

ATTRIBUTE_UNITS = {
    **{f"{gas}_abs": "mg per 300 s" for gas in _GASES},
    "flow": "vehicles/hour",
    "occupancy": "%",
    "meanOccupancy": "%",
    "speed": "m/s",
    "meanSpeed": "m/s",
    "meanHaltingDuration": "s",
    "meanTimeLoss": "s",
    "meanVehicleNumber": "vehicles",
    "meanMaxJamLengthInMeters": "m",
}
UNITS = {target: ATTRIBUTE_UNITS[source[2]] for target, source in _SOURCES.items()}

# SUMO writes -1 where there was no vehicle to average over. A speed keeps the last seen value
# (whatif-v1.md §2); a time lost or spent halting by nobody is none.
_SPEEDS = ("speed", "meanSpeed")
_ZERO_WHEN_ABSENT = ("meanTimeLoss", "meanHaltingDuration")


def _intervals(path: Path) -> Iterator[ElementTree.Element]:
    """Yield each <interval>, emptied after use: thirty days do not fit comfortably at once."""
    if not path.is_file():
        raise SimulatorError("sumo", path.name, "no such file", "a detector output file")
    try:
        for _, element in ElementTree.iterparse(path):
            if element.tag == "interval":
                yield element
                element.clear()
    except ElementTree.ParseError as error:
        raise SimulatorError("sumo", path.name, f"not well-formed ({error})", "whole XML") from None


def _number(attributes: dict[str, str], name: str, where: str) -> float:
    if attributes.get(name, "") == "":
        raise SimulatorError("sumo", where, f"attribute {name} is missing or empty", "a number")
    return float(attributes[name])


def _attributes(
    kind: str, interval: ElementTree.Element, wanted: Iterable[str]
) -> Iterator[tuple[str, dict[str, str]]]:
    """What an interval says of each of the wanted detectors or edges that it is about."""
    if kind != "edge":
        if interval.attrib["id"] in wanted:
            yield interval.attrib["id"], dict(interval.attrib)
        return
    found = {edge.attrib["id"]: dict(edge.attrib) for edge in interval.findall("edge")}
    for edge in wanted:
        if float(found.get(edge, {}).get("sampledSeconds", 0)) == 0:
            # nobody was on the edge, and SUMO may leave its attributes out: nothing was emitted
            yield edge, {f"{gas}_abs": "0" for gas in _GASES}
        else:
            yield edge, found[edge]


def read_series(
    folder: Path,
    steps: int,
    sources: Mapping[str, Source] = _SOURCES,
    step_seconds: int = STEP_SECONDS,
) -> tuple[dict[str, np.ndarray], dict[str, int]]:
    """Read the detector files of a finished run.

    Args:
        folder: where they lie.
        steps: intervals of the run.
        sources: what to read, by the name of the series; the benchmark's targets when omitted.
        step_seconds: length of an interval.

    Returns:
        The series by target, and by target how many rows had no vehicle and were replaced.

    Raises:
        SimulatorError: a file is missing or cut, an interval repeats, is missing or is not as
            long as a step, there are more or fewer than `steps` of them, or a value is absent.
    """
    raw: dict[tuple[str, str, str], list[float]] = {source: [] for source in sources.values()}
    for kind, name in DETECTOR_FILES.items():
        wanted = {
            detector: [a for k, d, a in raw if (k, d) == (kind, detector)]
            for detector in {d for k, d, _ in raw if k == kind}
        }
        begins: dict[str, list[float]] = {detector: [] for detector in wanted}
        for interval in _intervals(folder / name):
            begin, end = float(interval.attrib["begin"]), float(interval.attrib["end"])
            for detector, attributes in _attributes(kind, interval, wanted):
                where = f"{name}, {detector}, interval at {begin:.0f} s"
                if end - begin != step_seconds:
                    expected = f"{step_seconds} s"
                    raise SimulatorError("sumo", where, f"{end - begin:g} s long", expected)
                begins[detector].append(begin)
                for attribute in wanted[detector]:
                    raw[kind, detector, attribute].append(_number(attributes, attribute, where))
        for detector, times in begins.items():
            check_timestamps("sumo", f"{name}, {detector}", times, step_seconds)
            if len(times) != steps:
                raise SimulatorError(
                    "sumo",
                    f"{name}, {detector}",
                    f"{len(times)} intervals",
                    f"{steps} intervals",
                )
    series, replaced = {}, {}
    for target, source in sources.items():
        values = np.asarray(raw[source])
        absent = values < 0  # none of these quantities is negative
        if absent.any():
            if source[2] in _SPEEDS and not absent.all():
                values = last_seen(values, absent)
            elif source[2] in _ZERO_WHEN_ABSENT:
                values = np.where(absent, 0.0, values)
            else:
                row = int(np.flatnonzero(absent)[0])
                raise SimulatorError(
                    "sumo",
                    target,
                    f"{values[row]} at row {row}",
                    "a non-negative value",
                )
            replaced[target] = int(absent.sum())
        series[target] = values
    return series, replaced


def read_statistics(path: Path) -> dict[str, int]:
    """Counts from SUMO's statistic output: teleports, collisions, emergency stops, inserted."""
    if not path.is_file():
        raise SimulatorError("sumo", path.name, "no such file", "SUMO's statistic output")
    root = ElementTree.parse(path).getroot()
    wanted = {
        "teleports": ("teleports", "total"),
        "collisions": ("safety", "collisions"),
        "emergency_stops": ("safety", "emergencyStops"),
        "vehicles_inserted": ("vehicles", "inserted"),
    }
    counts = {}
    for name, (tag, attribute) in wanted.items():
        element = root.find(tag)
        if element is None or attribute not in element.attrib:
            raise SimulatorError("sumo", path.name, f"no {tag}.{attribute}", "a count")
        counts[name] = int(float(element.attrib[attribute]))
    return counts
