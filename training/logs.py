"""What a run shows and writes as it goes: a bar, CSV files, TensorBoard's, and pictures of them."""

import csv
import math
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self

from tensorboardX import SummaryWriter
from tqdm import tqdm

from whatif_jax.files import write_whole

from .config import FitConfig
from .record import Record

__all__ = ["EVALUATIONS", "STEPS", "Logs", "draw_logs", "read_log"]

# share: of the budget, which decides the learning rate and is kept nowhere else
STEPS = ("step", "loss", "learning_rate", "gradient_norm", "seconds", "waited", "share")
EVALUATIONS = ("step", "validation", "suite", "replay", "novel")
SECONDS_A_LINE = 15.0  # where there is no terminal


class Logs:
    """Logs of a run, flushed at every row. A context manager.

    Args:
        folder: of the run.
        config: of the run.
        record: where it goes on; what was logged after that is dropped.
        progress: show a bar on a terminal, a line now and then elsewhere.
    """

    def __init__(self, folder: Path, config: FitConfig, record: Record, *, progress: bool):
        self._folder, self._config, self._progress = folder, config, progress
        self._files = {
            "steps": CsvLog(folder / "steps.csv", STEPS, record.steps),
            "evaluations": CsvLog(folder / "evaluations.csv", EVALUATIONS, record.evaluated),
        }
        self._board = SummaryWriter(str(folder / "tensorboard"), purge_step=record.steps + 1)
        total = None if config.steps is None else config.steps * config.batch_size
        self._bar = tqdm(total=total, initial=record.tasks, unit="task", smoothing=0.05,
                         disable=not (progress and sys.stderr.isatty()))  # fmt: skip
        self._said, self._before = time.perf_counter(), record

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.close()
        self._board.close()
        for file in self._files.values():
            file.close()

    def step(self, record: Record, row: Mapping[str, float]) -> None:
        """A row of a step."""
        self._add("steps", row)
        self._bar.update(self._config.batch_size)
        now = time.perf_counter()
        if now - self._said < (0.5 if not self._bar.disable else SECONDS_A_LINE):
            return
        seconds = max(record.seconds - self._before.seconds, 1e-9)
        rate = (record.tasks - self._before.tasks) / seconds
        waiting = (record.waited - self._before.waited) / seconds
        self._said, self._before = now, record
        if not self._bar.disable:
            self._bar.set_postfix(loss=f"{row['loss']:.4f}", waiting=f"{waiting:.0%}")
        else:
            self.say(
                f"step {record.steps:,}: loss {row['loss']:.4f}, {rate:,.0f} tasks/s, "
                f"{waiting:.0%} of the time waiting for data"
            )

    def evaluation(self, record: Record) -> None:
        """A row of an evaluation, and the pictures anew."""
        assert record.validation is not None
        skill = "".join(f", {name} {value:.1f}" for name, value in record.skill.items())
        row = {"step": record.steps, "validation": record.validation, **record.skill}
        self._add("evaluations", row)
        self.say(f"step {record.steps:,}: validation loss {record.validation:.4f}{skill}")
        draw_logs(self._folder)

    def say(self, text: str) -> None:
        """A line on standard error, above the bar if there is one."""
        if self._progress:
            tqdm.write(text, file=sys.stderr)
            sys.stderr.flush()

    def _add(self, name: str, row: Mapping[str, float]) -> None:
        self._files[name].add(row)
        for column, value in row.items():
            if column != "step":
                self._board.add_scalar(f"{name}/{column}", value, int(row["step"]))


class CsvLog:
    """A CSV file of one row a step.

    Args:
        path: the file.
        columns: its names, the step first.
        until: the step that is gone on from; rows of later steps, and a half-written one, go.
    """

    def __init__(self, path: Path, columns: Sequence[str], until: int):
        rows = [row for row in read_log(path) if row["step"] <= until]

        def save(at: Path) -> None:
            with at.open("w", newline="", encoding="utf-8") as file:
                writer = csv.DictWriter(file, columns)
                writer.writeheader()
                for row in rows:
                    writer.writerow({k: v for k, v in row.items() if not math.isnan(v)})

        write_whole(path, save)
        self._file = path.open("a", newline="", encoding="utf-8")
        self._writer = csv.DictWriter(self._file, columns)

    def add(self, row: Mapping[str, float]) -> None:
        """Add a row; columns that it lacks stay empty."""
        self._writer.writerow(row)
        self._file.flush()

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def read_log(path: Path) -> list[dict[str, Any]]:
    """Rows of a log, those that are whole; an empty cell is NaN."""
    if not path.is_file():
        return []
    text = path.read_text("utf-8")
    rows = csv.DictReader(text[: text.rfind("\n") + 1].splitlines())
    return [
        {name: float(value) if value else math.nan for name, value in row.items()}
        | {"step": int(row["step"])}
        for row in rows
    ]


def draw_logs(folder: Path) -> None:
    """Draw loss.png and skill.png from the logs of a run."""
    from matplotlib.figure import Figure

    steps, evaluations = (read_log(folder / f"{name}.csv") for name in ("steps", "evaluations"))

    def draw(name: str, label: str, lines: Mapping[str, tuple[list[dict[str, Any]], str]]) -> None:
        figure = Figure(figsize=(7, 4), layout="constrained")
        axes = figure.subplots()
        for line, (rows, column) in lines.items():
            values = [row[column] for row in rows]
            marker = "." if len(rows) < 100 else ""
            axes.plot([row["step"] for row in rows], values, marker=marker, lw=1, label=line)
        axes.set(xlabel="step", ylabel=label)
        axes.legend()
        write_whole(folder / name, lambda at: figure.savefig(at, format="png", dpi=120))

    draw(
        "loss.png",
        "quantile loss over scale",
        {"training": (steps, "loss"), "validation": (evaluations, "validation")},
    )
    if any(not math.isnan(row["suite"]) for row in evaluations):
        parts = {name: (evaluations, name) for name in ("suite", "replay", "novel")}
        draw("skill.png", "skill against naive on a part of the suite, %", parts)
