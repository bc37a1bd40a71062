"""The four systems' runners by name."""

import importlib
from types import ModuleType

__all__ = ["SYSTEMS", "runner"]

SYSTEMS = {
    "epanet": "simulators.epanet",
    "sumo": "simulators.sumo",
    "gridlabd": "simulators.gridlabd",
    "opendc": "simulators.opendc",
}


def runner(system: str) -> ModuleType:
    """The runner module of a system: STEPS, TARGETS, TOLERANCE, CHECK_STEPS and simulate."""
    return importlib.import_module(SYSTEMS[system])
