"""The notebooks run from top to bottom."""

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
    monkeypatch.setenv("NOTEBOOK_SECONDS", "1")  # of training, which is kept for a minute
    monkeypatch.setenv("NOTEBOOK_TASKS", "16")
    monkeypatch.delenv("MPLBACKEND", raising=False)  # the kernel's own shows pictures
    monkeypatch.delenv("XLA_FLAGS", raising=False)
    return tmp_path


@pytest.mark.slow
@pytest.mark.parametrize(
    "name, pictures",
    [("causal_worlds.ipynb", 3), ("one_task.ipynb", 2), ("scenarios.ipynb", 2), ("train.ipynb", 3)],
)
def test_notebook_runs(environment, name, pictures):
    nbformat, nbclient = pytest.importorskip("nbformat"), pytest.importorskip("nbclient")
    pytest.importorskip("ipykernel")
    pytest.importorskip("matplotlib")
    pytest.importorskip("optax")
    path = NOTEBOOKS / name
    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    client = nbclient.NotebookClient(
        notebook, timeout=600, kernel_name="python3", resources={"metadata": {"path": environment}}
    )
    client.execute()  # raises where a cell does
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    assert sum("image/png" in output.get("data", {}) for output in outputs) == pictures


@pytest.mark.parametrize(
    "name",
    ["causal_worlds.ipynb", "one_task.ipynb", "replay_novel.png", "scenarios.ipynb", "train.ipynb"],
)
def test_what_is_kept_is_small(name):
    assert (NOTEBOOKS / name).stat().st_size < LARGEST_BYTES
