"""Fine-tune Chronos-2 on the stream: `python -m training.recipes.chronos2 --help`.

The folder it writes is a model of `python -m eval run --model chronos-2 --set model=FOLDER`.
Imports what the work needs inside it, so that `--help` starts in a moment.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from whatif_jax.compilation_cache import cache_rule, compilation_said, keep_compiled

from ..cli import parse_buckets

__all__ = ["app", "main", "open_stream"]

app = typer.Typer(epilog=cache_rule(), add_completion=False, pretty_exceptions_enable=False)

# A split by what its forecaster declares as its `trained_on`.
SPLITS = {
    "randomised": "randomised",
    "leave-one-system-out": "left-out-system",
    "in-distribution": "in-distribution",
}


def open_stream(
    split: str, left_out: str | None, key: int, batch_size: int, buckets: Sequence[Sequence[int]]
) -> tuple[Any, dict[str, Any]]:
    """The stream of a split, and what a record says of it.

    Raises:
        ValueError: a split or system that is none.
    """
    if split not in SPLITS:
        raise ValueError(f"split: {split!r}; expected one of {', '.join(SPLITS)}")
    from whatif_jax import builtin_systems, training_stream

    stream = training_stream(split, key, batch_size, left_out=left_out, buckets=buckets)
    about: dict[str, Any] = {
        "split": split,
        "key": key,
        "buckets": [list(pair) for pair in buckets],
    }
    if split == "randomised":
        about["stream"] = stream.describe()
    elif left_out is None:
        about["systems"] = list(builtin_systems())
    else:
        about["left_out"] = [left_out]
    return stream, about


@app.command()
def tune(
    model: Annotated[str, typer.Option(help="Hub id, or a local folder.")],
    steps: Annotated[int, typer.Option(min=1, help="Steps of the optimiser.")],
    out: Annotated[Path, typer.Option(help="New folder for the fine-tuned model.")],
    split: Annotated[
        str, typer.Option(help="randomised, leave-one-system-out or in-distribution.")
    ] = "randomised",
    left_out: Annotated[
        str | None, typer.Option(help="The system of leave-one-system-out.")
    ] = None,
    bucket: Annotated[
        list[str] | None,
        typer.Option(help="CONTEXT+HORIZON of the tasks, 1024+64 if none; repeatable."),
    ] = None,
    batch_size: Annotated[
        int, typer.Option(min=1, help="Tasks of a step; each takes 1 + K rows of the model.")
    ] = 32,
    learning_rate: Annotated[float, typer.Option(min=0, help="Of the first step.")] = 1e-6,
    seed: Annotated[int, typer.Option(min=0, help="Of the stream, and of torch.")] = 0,
    start: Annotated[
        int, typer.Option(min=0, help="Step of the stream to begin at, to go on from a model.")
    ] = 0,
    device: Annotated[
        str | None, typer.Option(help="Of torch; the accelerator if there is one.")
    ] = None,
) -> None:
    """Fine-tune Chronos-2 on a stream by its own classes; `eval run` declares what it saw."""
    if out.exists():
        raise ValueError(f"--out: {str(out)!r} exists; expected a new folder")
    from eval.forecasters.base import require
    from eval.forecasters.foundation import choose_device

    require("chronos", "chronos")
    buckets = parse_buckets(bucket) or [[1024, 64]]
    stream, about = open_stream(split, left_out, seed, batch_size, buckets)
    from .chronos2_tuning import TuningConfig, fine_tune

    with compilation_said(True):
        record = fine_tune(
            model, stream, out, TuningConfig(steps, start, learning_rate, seed),
            trained_on=SPLITS[split], training=about, device=choose_device(device, "chronos"),
        )  # fmt: skip
    typer.echo(f"{out}: {steps} steps, trained on {record.trained_on}")


def main() -> None:
    """Run `python -m training.recipes.chronos2`."""
    from whatif_jax.cli import run_app

    keep_compiled()
    run_app(app, "training.recipes.chronos2")


if __name__ == "__main__":
    main()
