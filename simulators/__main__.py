"""Command line: build the baseline files, or check them by a fresh run (whatif-v1.md §2, §8)."""

import os
import time
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer
from tqdm import tqdm

from .cache import compare, write_baseline
from .catalog import SYSTEMS, runner
from .errors import SimulatorError
from .isolation import DEFAULT_STALL_SECONDS, run_isolated
from .recording import Recording, check_recording
from .training.build import build_training

CHECKOUT = Path(__file__).resolve().parents[1]

application = typer.Typer(add_completion=False, no_args_is_help=True, help=__doc__)


class Choice(StrEnum):
    """What the commands accept as a system."""

    epanet = "epanet"
    sumo = "sumo"
    gridlabd = "gridlabd"
    opendc = "opendc"
    all = "all"


System = Annotated[Choice, typer.Argument(help="the system, or all of them")]
Data = Annotated[
    Path,
    typer.Option(help="folder with opendc/*.parquet and gridlabd/*.tmy2 or *.tmy3"),
]
Folder = Annotated[Path, typer.Option(help="folder of the baseline files")]
Stall = Annotated[float, typer.Option(help="seconds without progress after which a run is stopped")]
Keep = Annotated[
    Path | None,
    typer.Option(help="run in this folder, one sub-folder a system, and keep it"),
]
Program = Annotated[
    bool, typer.Option("--program", help="opendc: run the real program in OPENDC_HOME")
]
Training = Annotated[
    bool,
    typer.Option(
        "--training",
        help="make the training-only series instead, at settings other than the benchmark's",
    ),
]
Series = Annotated[Path, typer.Option(help="--training: folder of the training series' files")]
Runs = Annotated[
    Path | None, typer.Option(help="--training: a TOML file of runs instead of the system's own")
]
DATA = CHECKOUT.parent / "shared" / "data"
CATALOG = CHECKOUT / "whatif_jax" / "catalog"
SERIES = CHECKOUT / "whatif_jax" / "tasks" / "randomised" / "series"


def _module(system: str, program: bool) -> str:
    return "simulators.opendc.program" if program and system == "opendc" else SYSTEMS[system]


def _run(
    system: str, steps: int, data: Path, stall: float, keep: Path | None, program: bool
) -> Recording:
    """Run with a progress bar and elapsed time, show the simulator's warnings, check the result."""
    started = time.monotonic()
    with tqdm(total=steps, desc=f"{system}: simulated steps") as bar:
        recording = run_isolated(
            _module(system, program),
            steps,
            data,
            system=system,
            report=lambda done, total: bar.update(done - bar.n),
            stall_seconds=stall,
            keep=None if keep is None else keep / system,
        )
    for warning in recording.warnings:
        typer.secho(f"{system}: {warning}", fg="yellow", err=True)
    check_recording(recording, runner(system).TARGETS, steps)
    typer.echo(
        f"{system}: {recording.simulator} {recording.version}, {steps} steps in "
        f"{time.monotonic() - started:.1f} s, {recording.record}"
    )
    return recording


def _each(choice: Choice) -> list[str]:
    return list(SYSTEMS) if choice is Choice.all else [choice.value]


def _fail(error: SimulatorError) -> None:
    typer.secho(f"error: {error}", fg="red", err=True)
    raise typer.Exit(1)


def _refuse_mixed(system: Choice, program: bool, training: bool, runs: Path | None) -> None:
    """Refuse options that say nothing together, before anything runs."""
    if training and program:
        raise typer.BadParameter("--program is not for --training, which replays the trace")
    if runs is not None and not training:
        raise typer.BadParameter("--runs is for --training alone")
    if runs is not None and system is Choice.all:
        raise typer.BadParameter("--runs is for one system, not for all")


@application.command()
def build(
    system: System,
    data: Data = DATA,
    baselines: Folder = CATALOG,
    stall: Stall = DEFAULT_STALL_SECONDS,
    keep: Keep = None,
    program: Program = False,
    training: Training = False,
    series: Series = SERIES,
    runs: Runs = None,
) -> None:
    """Run a simulator on its base setting and write its baseline file, or its training series."""
    _refuse_mixed(system, program, training, runs)
    try:
        for name in _each(system):
            if training:
                path = series / f"{name}.parquet"
                size = build_training(
                    name,
                    data,
                    path,
                    runs=runs,
                    stall_seconds=stall,
                    keep=None if keep is None else keep / name,
                    say=tqdm.write,
                )
                typer.echo(f"{name}: wrote {path}, {size} bytes")
                continue
            recording = _run(name, runner(name).STEPS, data, stall, keep, program)
            path = baselines / f"{name}.parquet"
            write_baseline(recording, path)
            typer.echo(f"{name}: wrote {path}, {os.path.getsize(path)} bytes")
    except SimulatorError as error:
        _fail(error)


@application.command()
def check(
    system: System,
    data: Data = DATA,
    baselines: Folder = CATALOG,
    stall: Stall = DEFAULT_STALL_SECONDS,
    keep: Keep = None,
    program: Program = False,
) -> None:
    """Rerun a simulator (SUMO: its first simulated day) and compare with its baseline file."""
    try:
        for name in _each(system):
            module = runner(name)
            recording = _run(name, module.CHECK_STEPS, data, stall, keep, program)
            path = baselines / f"{name}.parquet"
            if program and name == "opendc":
                largest = compare(recording, path, module.TOLERANCE, module.program_slack)
            else:
                largest = compare(recording, path, module.TOLERANCE)
            worst = max(largest, key=largest.__getitem__)
            typer.echo(
                f"{name}: {module.CHECK_STEPS} steps agree within {module.TOLERANCE:g}; largest "
                f"difference {largest[worst]:.2g} ({worst})"
            )
    except SimulatorError as error:
        _fail(error)


if __name__ == "__main__":
    application(prog_name="python -m simulators")
