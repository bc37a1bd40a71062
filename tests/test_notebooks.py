"""The notebook runs from top to bottom, and the README's picture can be drawn again."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import whatif_jax

NOTEBOOKS = Path(__file__).parents[1] / "notebooks"
LIBRARY = Path(whatif_jax.__file__).parents[1]
LARGEST_BYTES = 300_000


@pytest.fixture
def environment(monkeypatch, tmp_path) -> Path:
    """A new process started in the returned folder imports whatif_jax from where we did."""
    monkeypatch.setenv("PYTHONPATH", str(LIBRARY))
    monkeypatch.setenv("MPLBACKEND", "Agg")
    monkeypatch.delenv("XLA_FLAGS", raising=False)
    return tmp_path


@pytest.mark.slow
def test_notebook_runs(environment):
    nbformat, nbclient = pytest.importorskip("nbformat"), pytest.importorskip("nbclient")
    pytest.importorskip("ipykernel")
    pytest.importorskip("matplotlib")
    os.environ.pop("MPLBACKEND")  # the kernel's own, which shows pictures
    path = NOTEBOOKS / "one_task.ipynb"
    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    client = nbclient.NotebookClient(
        notebook, timeout=600, kernel_name="python3", resources={"metadata": {"path": environment}}
    )
    client.execute()  # raises where a cell does
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    assert sum("image/png" in output.get("data", {}) for output in outputs) == 2


def test_notebook_is_small():
    assert (NOTEBOOKS / "one_task.ipynb").stat().st_size < LARGEST_BYTES


def test_picture_is_drawn_alike_whatever_the_users_settings(environment, monkeypatch):
    pytest.importorskip("matplotlib")
    from PIL import Image  # which matplotlib needs

    path = environment / "picture.png"
    monkeypatch.setenv("MATPLOTLIBRC", str(Path(__file__).parent / "data" / "hostile.matplotlibrc"))
    result = subprocess.run(
        [sys.executable, str(NOTEBOOKS / "picture.py"), str(path)],
        cwd=environment,
        capture_output=True,
        text=True,
    )
    assert result.returncode == 0, result.stderr
    assert path.read_bytes().startswith(b"\x89PNG")
    assert path.stat().st_size > 20_000
    with Image.open(path) as drawn, Image.open(NOTEBOOKS / "replay_novel.png") as shown:
        assert drawn.size == shown.size
        assert drawn.convert("RGB").getpixel((0, 0)) == (255, 255, 255)
    assert (NOTEBOOKS / "replay_novel.png").stat().st_size < LARGEST_BYTES
