"""The hours that a TMY2 or TMY3 weather file holds."""

import re
from pathlib import Path

from ..errors import SimulatorError

__all__ = ["check_weather"]

_MONTH_DAYS = (31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)


def _hours(path: Path) -> list[tuple[int, int, int]]:
    """(month, day, hour 1..24) of each data row; a TMY2 header is one line, a TMY3 header two."""
    lines = path.read_text(errors="replace").splitlines()
    if path.suffix.lower() == ".tmy2":
        header, date = 1, re.compile(r"^ \d\d(\d\d)(\d\d)(\d\d)")
    elif path.suffix.lower() == ".tmy3":
        header, date = 2, re.compile(r"^(\d\d)/(\d\d)/\d{4},(\d\d):00,")
    else:
        raise SimulatorError("gridlabd", "weather file", path.name, "a .tmy2 or .tmy3 file")
    hours = []
    for number, line in enumerate(filter(str.strip, lines[header:]), start=1):
        row = date.match(line)
        if row is None:
            raise SimulatorError(
                "gridlabd",
                "weather file",
                f"{path.name}: data row {number} has no date",
                "one",
            )
        month, day, hour = map(int, row.groups())
        hours.append((month, day, hour))
    return hours


def check_weather(path: Path, seconds: int) -> int:
    """Refuse a weather file that does not hold every hour of a run from 1 January.

    GridLAB-D itself runs on past the end with the weather it had last, which is no data.

    Returns:
        The hours in the file.
    """
    if not path.is_file():
        raise SimulatorError("gridlabd", "weather file", f"{path} does not exist", "a TMY2 or TMY3")
    hours = _hours(path)
    needed = -(-seconds // 3600) + 1  # one more, to interpolate towards
    year = (
        (month + 1, day + 1, hour + 1)
        for month, days in enumerate(_MONTH_DAYS)
        for day in range(days)
        for hour in range(24)
    )
    for row, (found, wanted) in enumerate(zip(hours[:needed], year, strict=False)):
        if found != wanted:
            raise SimulatorError(
                "gridlabd",
                "weather file",
                f"{path.name}: (month, day, hour) {found} at data row {row + 1}",
                f"{wanted}: every hour of the year once, in order",
            )
    if len(hours) < needed:
        raise SimulatorError(
            "gridlabd",
            "weather file",
            f"{path.name}: {len(hours)} hours",
            f"{needed} hours or more",
        )
    return len(hours)
