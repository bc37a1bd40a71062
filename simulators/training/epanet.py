"""EPANET on the other networks that WNTR ships, under drawn demand.

References:
    Rossman (2000), EPANET 2 Users Manual; Jolly et al. (2014), Research database of water
    distribution system models (the networks of Kentucky).
"""

from pathlib import Path
from typing import Any, Literal

import numpy as np
from pydantic import Field

from ..epanet import read_report, wntr_module
from ..errors import SimulatorError
from ..recording import Progress, Recording, check_timestamps
from .choose import choose_series
from .demand import demand_factors
from .runs import Run, checked_run

__all__ = ["RUN", "WARM_UP", "EpanetRun", "simulate"]

WARM_UP = 200  # steps before the first kept one, in which tanks leave their initial levels


class EpanetRun(Run):
    """A network and what is drawn for it."""

    network: Literal["Net2", "Net3", "Net6", "ky4", "ky10"]  # the benchmark's is Net1
    groups: int = Field(ge=1, le=64, description="groups of junctions, each with its own demand")
    noise: float = Field(ge=0, le=1, description="standard deviation of a demand's logarithm")
    demand_multiplier: float = Field(gt=0)
    age: bool = Field(default=False, description="also simulate the age of the water")


RUN = EpanetRun
_UNITS = {
    "pressure": "psi",
    "demand": "GPM",
    "level": "ft",
    "flowrate": "GPM",
    "velocity": "ft/s",
    "age": "h",
}


def drawn_model(run: EpanetRun) -> Any:
    """The network with its demand patterns replaced by those of `run`."""
    wntr = wntr_module()
    path = Path(str(wntr.__file__)).parent / "library" / "networks" / f"{run.network}.inp"
    if not path.is_file():
        raise SimulatorError("epanet", "network", f"{path} is missing", f"WNTR's {path.name}")
    model = wntr.network.WaterNetworkModel(str(path))
    time = model.options.time
    if time.pattern_timestep % run.step_seconds:
        raise SimulatorError(
            "epanet",
            f"run {run.name}, step_seconds",
            run.step_seconds,
            f"a divisor of the network's pattern step, {time.pattern_timestep} s",
        )
    # reservoirs and pumps keep their patterns: finer steps, the same course
    repeats = int(time.pattern_timestep // run.step_seconds)
    for _, pattern in model.patterns():
        pattern.multipliers = np.repeat(np.asarray(pattern.multipliers), repeats)
    steps = WARM_UP + run.steps
    time.duration = (steps - 1) * run.step_seconds  # EPANET reports the first and the last instant
    time.hydraulic_timestep = time.report_timestep = time.pattern_timestep = run.step_seconds
    time.start_clocktime = 0
    rng = np.random.default_rng(run.seed)
    for group in range(run.groups):
        factors = demand_factors(steps, run.step_seconds, run.noise, rng)
        model.add_pattern(f"group{group}", np.round(factors, 5))
    for _, junction in model.junctions():
        for demand in junction.demand_timeseries_list:
            demand.pattern_name = f"group{rng.integers(run.groups)}"
    model.options.hydraulic.demand_multiplier = run.demand_multiplier
    model.options.quality.parameter = "AGE" if run.age else "NONE"
    time.quality_timestep = min(300, run.step_seconds)
    return model


def _solve(
    model: Any, run: EpanetRun, folder: Path
) -> tuple[dict[str, np.ndarray], dict[str, str], list[str]]:
    """All series of a model, the quantity of each, and EPANET's warnings."""
    wntr = wntr_module()
    try:
        results = wntr.sim.EpanetSimulator(model).run_sim(
            file_prefix=str(folder / "network"), version=2.2
        )
    except wntr.epanet.exceptions.EpanetException as error:
        read_report(folder / "network.rpt")  # says more, when it is about the balance
        raise SimulatorError("epanet", f"run {run.name}", error, "a run without error") from None
    warnings = read_report(folder / "network.rpt")
    util = wntr.epanet.util
    tables = {
        "pressure": (results.node["pressure"], model.junction_name_list, util.HydParam.Pressure),
        "demand": (results.node["demand"], model.node_name_list, util.HydParam.Demand),
        # in a tank WNTR's pressure is the height of the water
        "level": (results.node["pressure"], model.tank_name_list, util.HydParam.Length),
        "flowrate": (results.link["flowrate"], model.link_name_list, util.HydParam.Flow),
        "velocity": (results.link["velocity"], model.pipe_name_list, util.HydParam.Velocity),
    }
    if run.age:
        ages = (results.node["quality"], model.node_name_list, util.QualParam.WaterAge)
        tables["age"] = ages
    series, quantities = {}, {}
    for quantity, (frame, elements, parameter) in tables.items():
        check_timestamps(
            "epanet", f"{quantity} table", frame.index.to_numpy(), float(run.step_seconds)
        )
        rows = WARM_UP + run.steps
        if len(frame) != rows:
            raise SimulatorError(
                "epanet", f"{quantity} table", f"{len(frame)} rows", f"{rows} rows"
            )
        for element in elements:
            name = f"{quantity}_{element}"
            series[name] = np.asarray(
                util.from_si(util.FlowUnits.GPM, frame[element].to_numpy()[WARM_UP:], parameter),
                dtype=np.float64,
            )
            quantities[name] = quantity
    return series, quantities, warnings


def simulate(
    folder: Path, steps: int, data: Path, report: Progress, settings: dict[str, Any]
) -> Recording:
    """Run EPANET once with the settings of a training run.

    Args:
        folder: an empty folder, the process's own.
        steps: rows wanted; the run's own.
        data: not used; WNTR ships the networks.
        report: called once, at the end.
        settings: what `EpanetRun` holds.
    """
    run = checked_run("epanet", EpanetRun, {**settings, "steps": steps})
    model = drawn_model(run)
    series, quantities, warnings = _solve(model, run, folder)
    chosen = choose_series(series, quantities, run.columns, run.seed)
    report(steps, steps)
    return Recording(
        system="epanet",
        columns={name: series[name] for name in chosen},
        units={name: _UNITS[quantities[name]] for name in chosen},
        step_seconds=run.step_seconds,
        simulator="EPANET 2.2 (WNTR)",
        version=str(wntr_module().__version__),
        settings={
            **run.model_dump(),
            "network": f"{run.network}.inp, as shipped with WNTR",
            "warm_up_steps": WARM_UP,
            "demand": "patterns drawn by NumPy from the seed: profile of the day, weekday, noise",
        },
        seed=run.seed,
        attribution=(
            "Series simulated for this project with EPANET 2.2 (US EPA, public domain) through "
            f"WNTR; network: {run.network} as shipped with WNTR"
        ),
        record={"series_in_all": len(series)},
        warnings=warnings,
    )
