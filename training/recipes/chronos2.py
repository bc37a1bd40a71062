"""Fine-tune Chronos-2 on the stream: `python -m training.recipes.chronos2 --help`.

The folder it writes is a model of `python -m eval run --model chronos-2 --set model=FOLDER`.
Imports what the work needs inside it, so that `--help` starts in a moment.
"""

from pathlib import Path
from typing import Annotated, Any

import typer

from whatif_jax.compilation_cache import cache_rule, compilation_said, keep_compiled

__all__ = ["app", "main", "open_stream"]

app = typer.Typer(epilog=cache_rule(), add_completion=False, pretty_exceptions_enable=False)

# A split by what its forecaster declares as its `trained_on`.
SPLITS = {
    "randomised": "randomised",
    "leave-one-system-out": "left-out-system",
    "in-distribution": "in-distribution",
}


def open_stream(
    split: str, left_out: str | None, key: int, batch_size: int, buckets: list[tuple[int, int]]
) -> tuple[Any, dict[str, Any]]:
    """The stream of a split, and what a record says of it.

    Raises:
        ValueError: a split or system that is none.
    """
    if split not in SPLITS:
        raise ValueError(f"split: {split!r}; expected one of {', '.join(SPLITS)}")
    from whatif_jax import TaskStream, builtin_systems

    systems = builtin_systems()
    if (split == "leave-one-system-out") != (left_out is not None) or (
        left_out is not None and left_out not in systems
    ):
        raise ValueError(
            f"left_out: {left_out!r}; expected one of {', '.join(systems)} with "
            f"leave-one-system-out, and none with another split"
        )
    arguments: dict[str, Any] = dict(batch_size=batch_size, buckets=buckets)
    about = {"split": split, "key": key, "buckets": [list(bucket) for bucket in buckets]}
    if split == "randomised":
        from whatif_jax import RandomisedStream

        stream = RandomisedStream(key, **arguments)
        return stream, {**about, "stream": stream.describe()}
    chosen = [name for name in systems if name != left_out]
    about |= {"systems": chosen} if left_out is None else {"left_out": [left_out]}
    return TaskStream(key, systems=chosen, **arguments), about


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
    buckets = [_bucket(text) for text in bucket or ["1024+64"]]
    stream, about = open_stream(split, left_out, seed, batch_size, buckets)
    from .chronos2_tuning import TuningConfig, fine_tune

    with compilation_said(True):
        record = fine_tune(
            model, stream, out, TuningConfig(steps, start, learning_rate, seed),
            trained_on=SPLITS[split], training=about, device=choose_device(device, "chronos"),
        )  # fmt: skip
    typer.echo(f"{out}: {steps} steps, trained on {record.trained_on}")


def _bucket(text: str) -> tuple[int, int]:
    parts = text.split("+")
    if len(parts) != 2 or not all(part.isascii() and part.isdigit() for part in parts):
        raise ValueError(f"--bucket: {text!r}; expected CONTEXT+HORIZON, such as 512+64")
    return int(parts[0]), int(parts[1])


def main() -> None:
    """Run `python -m training.recipes.chronos2`."""
    from whatif_jax.cli import run_app

    keep_compiled()
    run_app(app, "training.recipes.chronos2")


if __name__ == "__main__":
    main()
