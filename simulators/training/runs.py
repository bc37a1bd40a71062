"""The runs of a system, read from its TOML file: settings are data, not code."""

import importlib
import tomllib
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from ..errors import SimulatorError

__all__ = ["MODULES", "Run", "checked_run", "read_runs", "run_module"]

MODULES = {
    system: f"simulators.training.{system}" for system in ("epanet", "sumo", "gridlabd", "opendc")
}


class Run(BaseModel):
    """What every run says of itself; each system adds its own settings."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str = Field(pattern=r"^[a-z0-9][a-z0-9-]*$")
    steps: int = Field(ge=2, le=12_000)
    step_seconds: int = Field(gt=0)
    seed: int = Field(ge=0)
    columns: int = Field(ge=1, le=40, description="series kept, at most")


R = TypeVar("R", bound=Run)


def run_module(system: str) -> ModuleType:
    """The module of a system's training runs: `RUN`, a subclass of `Run`, and `simulate`."""
    return importlib.import_module(MODULES[system])


def checked_run(system: str, kind: type[R], settings: dict[str, Any]) -> R:
    """The settings of one run as a record of their system's kind.

    Raises:
        SimulatorError: a setting is missing, unknown or out of range; names the first such one.
    """
    try:
        return kind.model_validate(settings)
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(map(str, first["loc"]))
        raise SimulatorError(
            system,
            f"run {settings.get('name', '?')}, {field}",
            first["input"] if first["type"] != "missing" else "nothing",
            first["msg"],
        ) from None


def read_runs(system: str, path: Path | None = None) -> list[Run]:
    """The runs of a system in the order of its file.

    Args:
        system: one of `MODULES`.
        path: a TOML file with one table `[[run]]` a run; the system's own when omitted.

    Raises:
        SimulatorError: no such file, no TOML, a run with faulty settings, a name used twice.
    """
    path = path or Path(__file__).parent / f"{system}.toml"
    try:
        tables = tomllib.loads(path.read_text("utf-8")).get("run", [])
    except (OSError, ValueError) as error:
        raise SimulatorError(system, str(path), error, "a TOML file with runs") from None
    kind = run_module(system).RUN
    runs = [checked_run(system, kind, table) for table in tables]
    names = [run.name for run in runs]
    if not names or len(set(names)) != len(names):
        raise SimulatorError(system, path.name, names, "runs, each with a name of its own")
    return runs
