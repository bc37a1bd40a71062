"""The README's snippets run as printed, in order, in an empty folder."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as parquet
import pytest

from whatif_jax import load_system
from whatif_jax.suites import available_suites

ROOT = Path(__file__).parents[1]
README = ROOT / "README.md"
BREWERY = Path(__file__).parent / "data" / "brewery.toml"


def blocks(language: str) -> list[str]:
    """The contents of every fenced block of a language."""
    return re.findall(rf"^```{language}\n(.*?)^```$", README.read_text("utf-8"), re.M | re.S)


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """Where a reader would work: it holds the files that the README shows, and their series."""
    folder = tmp_path_factory.mktemp("readme")
    for name, toml in zip(("brewery.toml", "recipe.toml"), blocks("toml"), strict=True):
        (folder / name).write_text(toml, "utf-8")
    noise = np.random.default_rng(0).normal(0, 0.1, (2, 2880)).astype(np.float32)
    columns = {"cooling_power": 5 + noise[0], "tank_temperature": 14 + noise[1]}
    parquet.write_table(pa.table(columns), folder / "brewery.parquet")
    return folder


@pytest.mark.slow
def test_python(folder):
    """All blocks in one process, as in one session of a reader's."""
    found = blocks("python")
    assert len(found) >= 4
    checks = (
        "assert loss(weights, held_out) < 0.8 * loss(jnp.zeros(8), held_out)",
        "assert evaluate(mine, part.take([0])).scores.num_rows == 1",
        "assert not randomised.describe()['trains_on_the_suite']",
        "assert stream.describe()['trains_on_the_suite']",
        "assert found.converged and found.objective < goal(task_of.task, found.scenario)",
        "assert table.num_rows == len(part) > 0",
        "assert skill_scores(errors, reference='naive')[0] == 0",
        "assert evaluate(make(scale=0.9), part.take([0])).scores.num_rows == 1",
        "assert effect.shape == (128,) and abs(effect).mean() > 0.1",
        "assert abs(task.future - task.future_baseline).mean() > 0.1 * task.future_baseline.mean()",
        "assert own.check(own.batch_at(0)).task.future.shape == (4, 64)",
    )
    script = folder / "snippets.py"
    script.write_text("\n\n".join([*found, *checks]), "utf-8")
    run([sys.executable, "-W", "error::DeprecationWarning:__main__", script.name], folder)


@pytest.mark.skipif(
    not (ROOT / "training" / "checkpoints" / "tiny").is_dir(), reason="no trained model here"
)
def test_the_trained_model_forecasts():
    """The three lines, run in the checkout on a batch of three series."""
    (lines,) = [block for block in blocks("py") if "load_forecaster" in block]
    before = (
        "import numpy as np",
        "horizon, levels = 8, [0.1, 0.5, 0.9]",
        "history = np.float32(10 + np.sin(np.arange(64) / 4)) * np.ones((3, 1), np.float32)",
        "covariates = np.ones((3, 72, 2), np.float32)",
    )
    after = (
        "assert np.shape(quantiles) == (3, 8, 3)",
        "assert np.all(np.isfinite(quantiles)) and np.all(np.diff(quantiles, axis=-1) >= 0)",
    )
    run([sys.executable, "-c", "\n".join([*before, lines, *after])], ROOT)


def test_commands(folder):
    """Every `$ whatif-jax` line of the console blocks."""
    lines = [line for block in blocks("console") for line in block.splitlines()]
    commands = [shlex.split(line)[1:] for line in lines if line.startswith("$ ")]
    assert commands and all(command[0] == "whatif-jax" for command in commands)
    for command in commands:
        run([sys.executable, "-m", "whatif_jax.cli", *command[1:]], folder)


def run(command: list[str], folder: Path) -> None:
    """Run outside the checkout; whatif_jax is found as this process finds it."""
    import whatif_jax

    environment = dict(os.environ)
    environment["PYTHONPATH"] = str(Path(whatif_jax.__file__).parents[1])
    environment.pop("XLA_FLAGS", None)
    result = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
    assert result.returncode == 0, result.stdout + result.stderr


def test_two_commands():
    """One line installs and exports, another installs and tests; `.ci/run` runs both."""
    commands = blocks("bash")
    assert len(commands) == 2
    for command in commands:
        assert len(command.splitlines()) == 1
        assert command.startswith("python3 -m venv .venv && .venv/bin/pip install ")
    assert ".venv/bin/whatif-jax export " in commands[0]
    assert ".venv/bin/python -m pytest" in commands[1]


def test_brewery_is_the_tested_one(folder):
    """What the catalog's own tests load is what the README shows."""

    def described(path: Path) -> tuple:
        found = load_system(path)
        return found.name, found.steps, found.covariates, found.targets, found.axes

    assert described(folder / "brewery.toml") == described(BREWERY)


def test_facts():
    """Names and files that the README mentions exist."""
    text = README.read_text("utf-8")
    assert "whatif-v1" in available_suites()
    checkout = (ROOT / "eval").is_dir()  # the programs are not beside an installed wheel's tests
    for path in re.findall(r"\]\(([\w./-]+)\)", text):
        if checkout or not path.startswith("eval/"):
            assert (ROOT / path).is_file(), path
    headings = {
        re.sub(r"[^\w -]", "", heading).lower().replace(" ", "-")
        for heading in re.findall(r"^#+ (.+)$", text, re.M)
    }
    for anchor in re.findall(r"\]\(#([^)]+)\)", re.sub(r"-\s*\n\s*", "-", text)):
        assert anchor in headings, anchor
