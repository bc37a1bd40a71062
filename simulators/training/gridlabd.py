"""GridLAB-D on other houses, set-points and months, with drawn loads and water use.

References:
    Chassin et al. (2008), GridLAB-D: An open-source power systems modeling and simulation
    environment.
"""

import shutil
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Literal

import numpy as np
from pydantic import Field, field_validator

from ..gridlabd import UNITS, find_weather, read_recorder, run_model
from ..gridlabd.weather import check_weather
from ..recording import Progress, Recording
from .choose import choose_series
from .demand import demand_factors
from .runs import Run, checked_run

__all__ = ["RUN", "GridlabdRun", "simulate"]

_FIRST_HOUR = datetime(2001, 1, 1)  # of the weather file


class GridlabdRun(Run):
    """A house, its thermostat and its weather."""

    start: datetime  # midnight; the run stays in one season of clock time
    floor_area: float = Field(gt=0, description="square feet")
    integrity: Literal["VERY_LITTLE", "LITTLE", "BELOW_NORMAL", "NORMAL", "ABOVE_NORMAL", "GOOD"]
    deadband: float = Field(gt=0, le=5, description="degF")
    heating: Literal["HEAT_PUMP", "RESISTANCE", "GAS"]
    cooling: Literal["ELECTRIC", "NONE"]
    heating_setpoint: tuple[float, float]  # day, night; degF
    cooling_setpoint: tuple[float, float]
    load: float = Field(gt=0, description="mean kW of the load")
    noise: float = Field(ge=0, le=1.5, description="standard deviation of the load's logarithm")
    load_seconds: int = Field(gt=0, description="time between two changes of the load")
    heat_fraction: float = Field(ge=0, le=1)
    shares: tuple[float, float, float]  # of impedance, current and power in the load
    tank_volume: float = Field(gt=0, description="gallons")
    tank_setpoint: float = Field(gt=0, description="degF")
    draws_per_day: float = Field(gt=0, description="of hot water")

    @field_validator("start")
    @classmethod
    def _in_another_month(cls, start: datetime) -> datetime:
        if start.year != _FIRST_HOUR.year or start.month == 1 or start.hour:
            raise ValueError("a midnight of 2001 outside January, the benchmark's month")
        return start


RUN = GridlabdRun
_UNITS = {
    **UNITS,
    "measured_real_power": "W",
    "measured_current_1": "A",
    "measured_voltage_1": "V",
    "temperature": "degF",
    "actual_load": "kW",
    "water_demand": "gpm",
    "cooling_demand": "kW",
    "outdoor_temperature": "degF",
}
_RECORDERS = ("meter", "load", "heater", "house")


def _write_player(folder: Path, name: str, start: datetime, rows: list[tuple[int, float]]) -> None:
    """Write values that hold from so many seconds after the start."""
    lines = [f"{start + timedelta(seconds=seconds)},{value:.5f}\n" for seconds, value in rows]
    (folder / f"{name}.player").write_text("".join(lines))


def _water(seconds: int, per_day: float, rng: np.random.Generator) -> list[tuple[int, float]]:
    """Draws of hot water: minutes long, most of them in the morning and the evening."""
    use = [0.0] * (seconds // 60)
    for day in range(-(-seconds // 86_400)):
        for _ in range(int(rng.poisson(per_day))):
            hour = rng.choice([rng.normal(7, 1.2), rng.normal(19, 2.0), rng.uniform(0, 24)])
            first = day * 1440 + int(hour * 60) % 1440
            flow = float(rng.uniform(0.3, 2.5))
            for minute in range(first, min(first + int(rng.integers(2, 13)), len(use))):
                use[minute] = flow
    changes = [0, *(minute for minute in range(1, len(use)) if use[minute] != use[minute - 1])]
    return [(minute * 60, use[minute]) for minute in changes]


def _thermostat(seconds: int, day_night: tuple[float, float]) -> list[tuple[int, float]]:
    """Day from 06:00 to 22:00."""
    rows = [(0, day_night[1])]
    for midnight in range(0, seconds, 86_400):
        rows += [
            (midnight + 6 * 3600, day_night[0]),
            (midnight + 22 * 3600, day_night[1]),
        ]
    return rows


def write_players(folder: Path, run: GridlabdRun) -> None:
    """Write the files that drive load, hot water and thermostat."""
    seconds = run.steps * run.step_seconds
    rng = np.random.default_rng(run.seed)
    changes = -(-seconds // run.load_seconds)
    load = run.load * demand_factors(changes, run.load_seconds, run.noise, rng)
    rows = [(index * run.load_seconds, float(value)) for index, value in enumerate(load)]
    _write_player(folder, "base_power", run.start, rows)
    _write_player(folder, "water_demand", run.start, _water(seconds, run.draws_per_day, rng))
    for name, day_night in (
        ("heating_setpoint", run.heating_setpoint),
        ("cooling_setpoint", run.cooling_setpoint),
    ):
        _write_player(folder, name, run.start, _thermostat(seconds, day_night))


def model_text(run: GridlabdRun, weather: Path) -> str:
    """The model of house.glm with the run's settings filled in."""
    stop = run.start + timedelta(seconds=run.steps * run.step_seconds)
    pump = run.heating == "HEAT_PUMP"
    text = (Path(__file__).parent / "house.glm").read_text("utf-8")
    for mark, value in {
        "randomseed": run.seed,
        "starttime": run.start,
        "stoptime": stop,
        "weather": weather.name,
        "interval": run.step_seconds,
        "floor_area": run.floor_area,
        "integrity": run.integrity,
        "deadband": run.deadband,
        "heating": run.heating,
        "cooling": run.cooling,
        "auxiliary": "ELECTRIC" if pump else "NONE",
        "auxiliary_strategy": "DEADBAND" if pump else "NONE",
        "heating_setpoint": run.heating_setpoint[1],
        "cooling_setpoint": run.cooling_setpoint[1],
        "impedance": run.shares[0],
        "current": run.shares[1],
        "power": run.shares[2],
        "heat_fraction": run.heat_fraction,
        "tank_volume": run.tank_volume,
        "tank_setpoint": run.tank_setpoint,
    }.items():
        text = text.replace(f"@{mark}@", str(value))
    return text


def simulate(
    folder: Path, steps: int, data: Path, report: Progress, settings: dict[str, Any]
) -> Recording:
    """Run GridLAB-D once with the settings of a training run.

    Args:
        folder: an empty folder, the process's own: players and recorders lie there.
        steps: rows wanted; the run's own.
        data: folder with `gridlabd/*.tmy2` or `*.tmy3`, or such a file.
        report: called once, at the end.
        settings: what `GridlabdRun` holds.
    """
    run = checked_run("gridlabd", GridlabdRun, {**settings, "steps": steps})
    weather = find_weather(data)
    stop = run.start + timedelta(seconds=steps * run.step_seconds)
    check_weather(weather, int((stop - _FIRST_HOUR).total_seconds()))
    shutil.copy(weather, folder / weather.name)
    write_players(folder, run)
    version = run_model(model_text(run, weather), folder)
    recorded: dict[str, np.ndarray] = {}
    for recorder in _RECORDERS:
        recorded |= read_recorder(folder / f"{recorder}.csv", steps, run.step_seconds)
    series = {
        name: values + 1 if name.startswith("is_") else values for name, values in recorded.items()
    }
    chosen = choose_series(series, {name: name for name in series}, run.columns, run.seed)
    report(steps, steps)
    return Recording(
        system="gridlabd",
        columns={name: series[name] for name in chosen},
        units={name: _UNITS[name] for name in chosen},
        step_seconds=run.step_seconds,
        simulator="GridLAB-D",
        version=version,
        settings={
            **run.model_dump(mode="json"),
            "weather_file": weather.name,
            "drawn": "load, hot water by NumPy from the seed",
            "states": "stored + 1",
        },
        seed=run.seed,
        attribution=(
            "Series simulated for this project with GridLAB-D (Battelle/PNNL, BSD-style licence), "
            "Chassin et al. 2008; weather: NREL Typical Meteorological Year, Seattle WA"
        ),
        record={"series_in_all": len(series)},
    )
