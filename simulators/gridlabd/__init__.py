"""GridLAB-D: one house in Seattle, January, recorded every 60 s (whatif-v1.md §2, gridlabd).

References:
    Chassin et al. (2008), GridLAB-D: An open-source power systems modeling and simulation
    environment.
"""

import csv
import importlib
import re
import shutil
import subprocess
import sys
from datetime import datetime, timedelta
from pathlib import Path

import numpy as np

from ..errors import SimulatorError, missing_simulator
from ..recording import Progress, Recording, check_timestamps
from .weather import check_weather

__all__ = [
    "CHECK_STEPS",
    "SEED",
    "STEPS",
    "STEP_SECONDS",
    "TARGETS",
    "TOLERANCE",
    "UNITS",
    "find_weather",
    "read_recorder",
    "run_model",
    "simulate",
]

STEPS = 9000
STEP_SECONDS = 60
CHECK_STEPS = STEPS  # a second
# Thermostats switch at a threshold: one rounding can move a switch by a step, so a run either
# agrees to rounding or not at all.
TOLERANCE = 1e-5
SEED = 42
START = datetime(2001, 1, 1)  # no leap year, so that the hours of a TMY file fit

UNITS = {
    "actual_power": "kVA",
    "total_load": "kW",
    "hvac_load": "kW",
    "hvac_power": "kVA",
    "fan_power": "kW",
    "air_temperature": "degF",
    "mass_temperature": "degF",
    "heating_demand": "kW",
    "is_AUX_on": "1 = off, 2 = on",
    "is_HEAT_on": "1 = off, 2 = on",
    "is_COOL_on": "1 = off, 2 = on",
}
TARGETS = tuple(UNITS)
_POLAR = re.compile(r"([+-]?[\d.]+(?:e[+-]?\d+)?)[+-][\d.]+(?:e[+-]?\d+)?d")
_STATES = ("is_AUX_on", "is_HEAT_on", "is_COOL_on")


def find_weather(data: Path) -> Path:
    """The weather file: `data` itself, or the one TMY2 or TMY3 file under `data/gridlabd`."""
    if data.is_file():
        return data
    found = sorted(
        path for path in (data / "gridlabd").glob("*") if path.suffix.lower() in (".tmy2", ".tmy3")
    )
    if len(found) != 1:
        raise SimulatorError(
            "gridlabd",
            "weather file",
            f"{[path.name for path in found]} in {data / 'gridlabd'}",
            "one TMY2 or TMY3 file there (option --data)",
        )
    return found[0]


def run_model(text: str, folder: Path) -> str:
    """Write a model into `folder`, run it there, and return GridLAB-D's version.

    Raises:
        SimulatorError: GridLAB-D is missing, or does not load, start or finish the model.
    """
    try:
        gridlabd = importlib.import_module("gridlabd")
    except ImportError as error:
        raise missing_simulator("gridlabd", "gridlabd", error) from None
    model = folder / "house.glm"
    model.write_text(text)
    finished = subprocess.run(
        [sys.executable, "-m", "simulators.gridlabd.engine", str(model)],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    output = finished.stdout + finished.stderr
    print(output)  # into the console file: warnings are taken from there
    if finished.returncode != 0:
        raise SimulatorError(
            "gridlabd",
            "run",
            f"exit {finished.returncode}: {output.strip()[-800:]}",
            "success",
        )
    return str(gridlabd.__version__)


def _number(text: str) -> float:
    """A recorder's number; of a complex one, as +9.99-0.1j, the magnitude (whatif-v1.md §2).

    A voltage comes as magnitude and degrees, +119.9-0.06d.
    """
    text = text.strip()
    polar = _POLAR.fullmatch(text)
    if polar:
        return abs(float(polar[1]))
    return abs(complex(text[:-1] + "j")) if text.endswith(("i", "j")) else float(text)


def read_recorder(
    path: Path, steps: int, step_seconds: int = STEP_SECONDS
) -> dict[str, np.ndarray]:
    """Read one recorder file: its columns by property name.

    A recorder that also wrote the stop time has one row too many, which is dropped.

    Raises:
        SimulatorError: no file, nothing but a header, a row cut short, a number that is none,
            rows missing, repeated or uneven.
    """
    if not path.is_file():
        raise SimulatorError("gridlabd", path.name, "no such file", "a recorder file")
    lines = path.read_text().splitlines()
    header = [line for line in lines if line.startswith("# timestamp")]
    rows = [row for row in csv.reader(lines) if row and not row[0].startswith("#")]
    if not header or not rows:
        raise SimulatorError("gridlabd", path.name, "only a header", f"{steps} rows")
    names = [name.strip() for name in header[-1].lstrip("# ").split(",")][1:]
    times, values = [], []
    for number, row in enumerate(rows):
        try:
            # "2001-01-01 00:00:00 PST": the run lies within one time zone and season
            time = datetime.strptime(row[0][:19], "%Y-%m-%d %H:%M:%S")
            numbers = [_number(text) for text in row[1:]]
        except (ValueError, IndexError) as error:
            raise SimulatorError(
                "gridlabd",
                path.name,
                f"row {number}: {row} ({error})",
                "a time and numbers",
            ) from None
        if len(numbers) != len(names):
            raise SimulatorError(
                "gridlabd",
                path.name,
                f"row {number}: {len(numbers)} values",
                f"{len(names)}",
            )
        times.append((time - START).total_seconds())
        values.append(numbers)
    check_timestamps("gridlabd", path.name, times, step_seconds)
    if len(values) == steps + 1:
        values.pop()
    if len(values) != steps:
        raise SimulatorError("gridlabd", path.name, f"{len(values)} rows", f"{steps} rows")
    table = np.asarray(values, dtype=np.float64)
    return {name: table[:, column] for column, name in enumerate(names)}


def simulate(folder: Path, steps: int, data: Path, report: Progress) -> Recording:
    """Run GridLAB-D on the house of house.glm for `steps` minutes (whatif-v1.md §2).

    Args:
        folder: an empty folder, the process's own: recorders write there.
        steps: minutes to record, the first at 1 January 00:00.
        data: folder with `gridlabd/*.tmy2` or `*.tmy3`, or such a file.
        report: called once, at the end.
    """
    weather = find_weather(data)
    hours = check_weather(weather, steps * STEP_SECONDS)
    # GridLAB-D looks for the file beside the model, and by its suffix tells TMY2 from TMY3
    shutil.copy(weather, folder / weather.name)
    text = (Path(__file__).parent / "house.glm").read_text()
    stop = START + timedelta(seconds=steps * STEP_SECONDS)
    for mark, value in {
        "randomseed": str(SEED),
        "starttime": f"{START:%Y-%m-%d %H:%M:%S}",
        "stoptime": f"{stop:%Y-%m-%d %H:%M:%S}",
        "weather": weather.name,
        "interval": str(STEP_SECONDS),
    }.items():
        text = text.replace(f"@{mark}@", value)
    version = run_model(text, folder)
    recorded = {
        **read_recorder(folder / "load.csv", steps),
        **read_recorder(folder / "house.csv", steps),
    }
    report(steps, steps)
    missing = [target for target in TARGETS if target not in recorded]
    if missing:
        raise SimulatorError("gridlabd", "recorded properties", list(recorded), f"also {missing}")
    columns = {
        target: recorded[target] + 1 if target in _STATES else recorded[target]
        for target in TARGETS
    }
    with open(weather, errors="replace") as file:
        station = " ".join(file.readline().split())
    return Recording(
        system="gridlabd",
        columns=columns,
        units=UNITS,
        step_seconds=STEP_SECONDS,
        simulator="GridLAB-D",
        version=version,
        settings={
            "model": text,
            "weather_file": weather.name,
            "weather_station": station,
            "weather_hours": hours,
            "start": START.isoformat(),
            "states": "stored + 1",
            "complex_power": "stored as its magnitude",
        },
        seed=SEED,
        attribution=(
            "Series simulated for this project with GridLAB-D (Battelle/PNNL, BSD-style licence), "
            "Chassin et al. 2008; weather: NREL Typical Meteorological Year, Seattle WA"
        ),
        record={
            "switches_on": {name: int(np.sum(np.diff(columns[name]) > 0)) for name in _STATES},
        },
    )
