"""EPANET 2.2 through WNTR on the stock Net1 network (whatif-v1.md §2, epanet).

References:
    Rossman (2000), EPANET 2 Users Manual, Example Network 1.
"""

import importlib
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from .errors import SimulatorError, missing_simulator
from .recording import Progress, Recording, check_timestamps

__all__ = [
    "CHECK_STEPS",
    "STEPS",
    "STEP_SECONDS",
    "TARGETS",
    "TOLERANCE",
    "read_report",
    "simulate",
    "solve",
    "wntr_module",
]

STEPS = 9000
STEP_SECONDS = 600
CHECK_STEPS = STEPS  # half a second
# EPANET iterates to a relative flow change of 0.001 in float32 output; the same iterations on
# another platform end within rounding of each other.
TOLERANCE = 1e-5

_NODES = ("10", "11", "12", "13", "21", "22", "23", "31", "32", "2")
_PIPES = ("10", "11", "12", "21", "22", "31", "110", "111", "112", "113", "121", "122")
# target -> (results table, element, unit); the order of whatif-v1.md §2
_SOURCES: dict[str, tuple[str, str, str]] = {
    **{f"pressure_{node}": ("pressure", node, "psi") for node in _NODES},
    **{f"demand_{node}": ("demand", node, "GPM") for node in ("9", "2")},
    **{f"flowrate_{link}": ("flowrate", link, "GPM") for link in (*_PIPES, "9")},
    **{f"velocity_{pipe}": ("velocity", pipe, "ft/s") for pipe in _PIPES},
}
TARGETS = tuple(_SOURCES)
UNITS = {target: source[2] for target, source in _SOURCES.items()}


def wntr_module() -> ModuleType:
    """WNTR, or the refusal that names the extra."""
    try:
        return importlib.import_module("wntr")
    except ImportError as error:  # also when `six` is missing, which wntr does not declare
        raise missing_simulator("epanet", "wntr", error) from None


def base_model(steps: int) -> Any:
    """Net1 as WNTR ships it, run in steps of 600 s, hydraulics only."""
    wntr = wntr_module()
    network = Path(str(wntr.__file__)).parent / "library" / "networks" / "Net1.inp"
    if not network.is_file():
        raise SimulatorError("epanet", "network", f"{network} is missing", "WNTR's Net1.inp")
    model = wntr.network.WaterNetworkModel(str(network))
    time = model.options.time
    time.duration = (steps - 1) * STEP_SECONDS  # EPANET reports the first and the last instant
    time.hydraulic_timestep = time.report_timestep = STEP_SECONDS
    # no target is about chlorine, and hydraulics do not depend on it
    model.options.quality.parameter = "NONE"
    return model


def read_report(path: Path) -> list[str]:
    """The warnings of EPANET's report file.

    Raises:
        SimulatorError: a warning says that the hydraulics did not balance, or there is no report.
    """
    if not path.is_file():
        raise SimulatorError("epanet", path.name, "no such file", "EPANET's report file")
    warnings = [
        line.strip()
        for line in path.read_text(errors="replace").splitlines()
        if "warning" in line.lower()
    ]
    for line in warnings:
        if "unbalanced" in line.lower() or "converge" in line.lower():
            raise SimulatorError("epanet", "hydraulics", line, "a balanced solution at every step")
    return warnings


def solve(model: Any, folder: Path, steps: int) -> tuple[dict[str, np.ndarray], list[str]]:
    """Run EPANET on a model in `folder` and return the target series and its warnings."""
    wntr = wntr_module()
    try:
        results = wntr.sim.EpanetSimulator(model).run_sim(
            file_prefix=str(folder / "net1"), version=2.2
        )
    except wntr.epanet.exceptions.EpanetException as error:
        read_report(folder / "net1.rpt")  # says more, when it is about the balance
        raise SimulatorError("epanet", "run", error, "a run without error") from None
    warnings = read_report(folder / "net1.rpt")
    util = wntr.epanet.util
    parameters = {
        "pressure": util.HydParam.Pressure,
        "demand": util.HydParam.Demand,
        "flowrate": util.HydParam.Flow,
        "velocity": util.HydParam.Velocity,
    }
    series = {}
    for target, (table, element, _) in _SOURCES.items():
        frame = (results.link if table in ("flowrate", "velocity") else results.node)[table]
        check_timestamps("epanet", f"{table} table", frame.index.to_numpy(), STEP_SECONDS)
        if len(frame) != steps:
            raise SimulatorError("epanet", f"{table} table", f"{len(frame)} rows", f"{steps} rows")
        # WNTR hands out SI units; the catalog's bases are in the network's own (whatif-v1.md §2)
        series[target] = np.asarray(
            util.from_si(util.FlowUnits.GPM, frame[element].to_numpy(), parameters[table]),
            dtype=np.float64,
        )
    return series, warnings


def simulate(folder: Path, steps: int, data: Path, report: Progress) -> Recording:
    """Run EPANET on Net1 for `steps` report steps of 600 s (whatif-v1.md §2).

    Args:
        folder: an empty folder, the process's own.
        steps: rows wanted, the first at time zero.
        data: not used; WNTR ships the network.
        report: called once, at the end.
    """
    model = base_model(steps)
    series, warnings = solve(model, folder, steps)
    report(steps, steps)
    levels = series["pressure_2"] / 0.4333  # psi per foot of water
    return Recording(
        system="epanet",
        columns=series,
        units=UNITS,
        step_seconds=STEP_SECONDS,
        simulator="EPANET 2.2 (WNTR)",
        version=str(wntr_module().__version__),
        settings={
            "network": "Net1.inp, EPANET Example Network 1, as shipped with WNTR",
            "hydraulic_timestep_s": STEP_SECONDS,
            "report_timestep_s": STEP_SECONDS,
            "quality": "none",
            "demand_model": model.options.hydraulic.demand_model,
            "headloss": model.options.hydraulic.headloss,
            "accuracy": model.options.hydraulic.accuracy,
            "controls": [str(control) for _, control in model.controls()],
            "sign": "EPANET's own: a demand is positive into the node's consumers or tank, so the "
            "reservoir's is negative; a flow is positive from start node to end node",
        },
        seed=None,  # nothing random
        attribution=(
            "Series simulated for this project with EPANET 2.2 (US EPA, public domain) through "
            "WNTR; network: EPANET Example Network 1 (Rossman 2000)"
        ),
        record={
            "tank_level_lowest_ft": float(levels.min()),
            "tank_level_highest_ft": float(levels.max()),
            "pump_starts": int(
                np.sum((series["flowrate_9"][1:] > 1) & (series["flowrate_9"][:-1] <= 1))
            ),
        },
        warnings=warnings,
    )
