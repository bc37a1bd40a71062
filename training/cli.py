"""The command line: `python -m training fit | export | rows`.

Imports what a command needs inside it, so that `--help` starts in a moment.
"""

import signal
from pathlib import Path
from typing import Annotated, Any

import typer

from whatif_jax.cli import parse_settings
from whatif_jax.compilation_cache import cache_rule, compilation_said, keep_compiled

__all__ = ["app", "main", "parse_buckets"]

app = typer.Typer(
    help="Train a forecaster on the stream.",
    epilog=cache_rule(),
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)

Run = Annotated[Path, typer.Argument(metavar="RUN", help="Folder of the run.")]
NOT_FINITE = 3  # exit code


@app.command()
def fit(
    run: Run,
    steps: Annotated[int | None, typer.Option(help="Budget in steps.")] = None,
    minutes: Annotated[
        float | None, typer.Option(help="Budget in minutes instead, those of compiling included.")
    ] = None,
    split: Annotated[
        str | None,
        typer.Option(help="randomised, leave-one-system-out or in-distribution."),
    ] = None,
    left_out: Annotated[
        str | None, typer.Option(help="The system of leave-one-system-out.")
    ] = None,
    model: Annotated[
        str | None,
        typer.Option(help="MODULE:FACTORY of your own model, called as FACTORY(size, key=...)."),
    ] = None,
    size: Annotated[str | None, typer.Option(help="Of the model.")] = None,
    bucket: Annotated[
        list[str] | None,
        typer.Option(help="CONTEXT+HORIZON of the tasks, such as 512+64; repeatable."),
    ] = None,
    batch_size: Annotated[int | None, typer.Option(help="Tasks of a step.")] = None,
    learning_rate: Annotated[float | None, typer.Option(help="The largest.")] = None,
    precision: Annotated[
        str | None, typer.Option(help="float32 or bfloat16, of the computation.")
    ] = None,
    seed: Annotated[int | None, typer.Option(help="Of the model and of the stream.")] = None,
    set_: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            help="KEY=VALUE, another field of the run, as JSON, such as evaluate_every=100 or "
            """'stream={"hard_cases": {"delayed": 0.5}}'; repeatable.""",
        ),
    ] = None,
    coordinator: Annotated[
        str | None, typer.Option(help="HOST:PORT of process 0, where several train together.")
    ] = None,
    processes: Annotated[int | None, typer.Option(help="How many.")] = None,
    process: Annotated[int | None, typer.Option(help="Which of them this is, from 0.")] = None,
    progress: Annotated[bool, typer.Option(help="Show progress on standard error.")] = True,
) -> None:
    """Train, or go on with the run of a folder, which needs no options then.

    Ends with 0 when the budget is spent, 143 after SIGTERM and 130 after SIGINT, when all is saved
    to go on from, and 3 where a loss is not finite.
    """
    from .config import config_of

    named = {
        "steps": steps, "minutes": minutes, "split": split, "left_out": left_out, "model": model,
        "size": size, "batch_size": batch_size, "learning_rate": learning_rate,
        "precision": precision, "seed": seed, "buckets": parse_buckets(bucket),
    }  # fmt: skip
    values = {name: value for name, value in named.items() if value is not None}
    if not values and not set_ and not (run / "config.json").is_file():
        raise ValueError(f"run: {run} holds none; to begin one, give --steps or --minutes")
    config = config_of({**_kept(run), **values, **parse_settings(set_ or [])})
    _together(coordinator, processes, process)
    _needs("optax", "orbax.checkpoint", "tensorboardX", "matplotlib")

    from .fit import fit as train
    from .stopping import NonFiniteLossError

    try:
        with compilation_said(progress):
            record, stopped = train(config, run, progress=progress)
    except NonFiniteLossError as error:
        typer.echo(f"training: {error}", err=True)
        raise typer.Exit(NOT_FINITE) from None
    loss = "" if record.validation is None else f", validation loss {record.validation:.4f}"
    waiting = record.waited / max(record.seconds, 1e-9)
    typer.echo(
        f"{run}: {record.steps:,} steps, {record.tasks:,} tasks in {record.seconds:,.0f} s, "
        f"{waiting:.1%} of it waiting for data{loss}"
    )
    if stopped:
        name = signal.Signals(stopped).name
        typer.echo(f"{run}: stopped by {name}, saved; the same command goes on", err=True)
        raise typer.Exit(128 + stopped)


@app.command()
def export(
    run: Run,
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="Folder to write into.")],
    which: Annotated[str, typer.Option(help="best or latest.")] = "best",
) -> None:
    """Write the weights of a run, and their record, for `load_forecaster` and `eval run`."""
    if which not in ("best", "latest"):
        raise ValueError(f"--which: {which!r}; expected best or latest")
    from .forecaster import export as write

    record = write(run, folder, which=which)
    size = sum(path.stat().st_size for path in folder.iterdir())
    typer.echo(f"{folder}: {which} of {record.training.steps:,} steps, {size:,} bytes")


@app.command()
def rows(
    run: Run,
    step: Annotated[int, typer.Option(min=0, help="The step.")],
    rows: Annotated[str | None, typer.Option(help="Rows of its batch, such as 3,17.")] = None,
) -> None:
    """Show rows of a step again, by the parameters that met them."""
    try:
        chosen = None if rows is None else [int(row) for row in rows.split(",")]
    except ValueError:
        raise ValueError(f"--rows: {rows!r}; expected row numbers, such as 3,17") from None
    from .rows import describe_rows

    typer.echo("\n".join(describe_rows(run, step, chosen)))


def parse_buckets(texts: list[str] | None) -> list[list[int]] | None:
    """`["512+64"]` into pairs.

    Raises:
        ValueError: not CONTEXT+HORIZON.
    """
    if texts is None:
        return None
    pairs = [text.split("+") for text in texts]
    for text, pair in zip(texts, pairs, strict=True):
        if len(pair) != 2 or not all(part.isascii() and part.isdigit() for part in pair):
            raise ValueError(f"--bucket: {text!r}; expected CONTEXT+HORIZON, such as 512+64")
    return [[int(part) for part in pair] for pair in pairs]


def _kept(run: Path) -> dict[str, Any]:
    """Fields of the run that a folder holds; none where it holds none."""
    from .config import read_config

    return read_config(run).model_dump(mode="json") if (run / "config.json").is_file() else {}


def _together(coordinator: str | None, processes: int | None, process: int | None) -> None:
    """Join the processes that train together, before JAX's backend starts."""
    given = [each is not None for each in (coordinator, processes, process)]
    if not any(given):
        return
    if not all(given):
        raise ValueError("--coordinator, --processes, --process: expected all three or none")
    import jax

    jax.config.update("jax_cpu_collectives_implementation", "gloo")
    jax.distributed.initialize(coordinator, processes, process)


def _needs(*modules: str) -> None:
    """Refuse to start without what the extra installs."""
    import importlib.util

    for module in modules:
        if importlib.util.find_spec(module.partition(".")[0]) is None:
            raise ImportError(f"{module} is not installed; pip install -e '.[training]'")


def main() -> None:
    """Run `python -m training`."""
    from whatif_jax.cli import run_app

    keep_compiled()
    run_app(app, "training")
