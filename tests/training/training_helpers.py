"""Tiny runs: one bucket of one system, a model of one linear map."""

import os
import subprocess
import sys
from pathlib import Path

from training.config import FitConfig, config_of

ROOT = Path(__file__).parents[2]
FIELDS = {
    "model": "training.stand_in:make_model",
    "split": "in-distribution",
    "systems": ["epanet"],
    "buckets": [[256, 32]],
    "batch_size": 8,
    "stream": {"k": [1], "event_lengths": [32], "n_events": [1]},
    "steps": 12,
    "learning_rate": 0.01,
    "evaluate_every": 4,
    "validation_batches": 3,
    "suite_tasks": 0,
    "save_every": 3,
}


def tiny(**changes: object) -> FitConfig:
    """The config of a tiny run."""
    return config_of({**FIELDS, **changes})


def start_fit(folder: Path, *options: str, devices: int = 1) -> subprocess.Popen[str]:
    """A process that trains a tiny run whose config.json is in the folder."""
    folder.mkdir(exist_ok=True)
    if not (folder / "config.json").exists():
        (folder / "config.json").write_text(tiny().model_dump_json(), "utf-8")
    environment = {
        **os.environ,
        "XLA_FLAGS": f"--xla_force_host_platform_device_count={devices}",
        "JAX_PLATFORMS": "cpu",
        "PYTHONPATH": str(ROOT),
    }
    return subprocess.Popen(
        [sys.executable, "-m", "training", "fit", str(folder), "--no-progress", *options],
        env=environment,
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def finished(process: subprocess.Popen[str], code: int = 0) -> str:
    """What a process said on standard error at its end."""
    _, said = process.communicate(timeout=300)
    assert process.returncode == code, said[-2000:]
    return said


def rows_of(path: Path) -> list[list[str]]:
    """Cells of a log's whole rows, without those that tell time."""
    if not path.is_file():
        return []
    text = path.read_text("utf-8")
    lines = text[: text.rfind("\n") + 1].splitlines()[1:]
    width = 4 if path.name == "steps.csv" else 2
    return [line.split(",")[:width] for line in lines]
