"""`python -m tests.benchmarks {generate,evaluate,training,tscm} [--out FILE]`."""

from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(no_args_is_help=True, add_completion=False)


@app.callback()
def benchmarks() -> None:
    """Benchmarks. Each prints one table; times of one run are compared with each other only."""


@app.command()
def generate(
    out: Annotated[Path | None, typer.Option(help="Also write the table here.")] = None,
    repeats: Annotated[int, typer.Option(min=3, help="Timed repetitions of each row.")] = 30,
) -> None:
    """Generation: tasks a second by jit+vmap and by a NumPy loop, and the machine's copy speed."""
    from tests.benchmarks.generate import run

    text = run(repeats)
    typer.echo(text)
    if out is not None:
        out.write_text(text)


@app.command()
def evaluate(
    out: Annotated[Path | None, typer.Option(help="Also write the tables here.")] = None,
    repeats: Annotated[int, typer.Option(min=3, help="Rounds of the metrics' table.")] = 5,
) -> None:
    """Evaluation: metric kernels against fev and a loop; regressions against scikit-learn."""
    from tests.benchmarks.evaluate import metric_rows
    from tests.benchmarks.evaluate_regressions import regression_rows

    head = ["# Evaluation", "", "`python -m tests.benchmarks evaluate`", ""]
    parts = [*head, "## Metrics", "", *metric_rows(repeats), "", "## Regressions", ""]
    text = "\n".join([*parts, *regression_rows(), ""])
    typer.echo(text)
    if out is not None:
        out.write_text(text)


@app.command()
def training(
    out: Annotated[Path | None, typer.Option(help="Also write the table here.")] = None,
    repeats: Annotated[int, typer.Option(min=3, help="Timed rounds and steps of each row.")] = 30,
    size: Annotated[str, typer.Option(help="Of the model: tiny or base.")] = "tiny",
    batch_size: Annotated[int, typer.Option(min=1, help="Tasks of a step.")] = 64,
) -> None:
    """Training: streams, a step of the model, what it waits for data, the closed form."""
    from tests.benchmarks.training import run

    text = run(repeats, size, batch_size)
    typer.echo(text)
    if out is not None:
        out.write_text(text)


@app.command()
def tscm(
    out: Annotated[Path | None, typer.Option(help="Also write the tables here.")] = None,
    repeats: Annotated[int, typer.Option(min=1, help="Rounds, alternating.")] = 5,
    seconds: Annotated[float, typer.Option(min=0.1, help="Of the package, a prior a round.")] = 4,
) -> None:
    """Temporal causal worlds: episodes a second of ours and of the dotime package."""
    from tests.benchmarks.tscm import run

    text = run(repeats, seconds)
    typer.echo(text)
    if out is not None:
        out.write_text(text)


if __name__ == "__main__":
    app()
