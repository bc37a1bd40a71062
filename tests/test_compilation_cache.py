"""The programs keep what XLA compiled in the user's cache folder, unless told otherwise."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import whatif_jax
from whatif_jax.compilation_cache import cache_folder

PROGRAMS = ["whatif_jax.cli"]
if (Path(whatif_jax.__file__).parents[1] / "eval").is_dir():
    PROGRAMS.append("eval.cli")

# A program's `main`, at whose end JAX is asked for what it works with
CALL = """
import sys
{before}
from {program} import main
sys.argv = ["program", *{arguments}]
try:
    main()
except SystemExit:
    pass
import jax, jax.numpy
print("folder:", jax.config.jax_compilation_cache_dir)
"""


def folder(
    tmp_path: Path, program: str, *, before: str = "", arguments: str = "['--help']", **variables
) -> str:
    """The folder JAX keeps compiled programs in, after a program began."""
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith("JAX_COMP")
    }
    environment |= {"XDG_CACHE_HOME": str(tmp_path), "JAX_PLATFORMS": "cpu", **variables}
    environment["PYTHONPATH"] = str(Path(whatif_jax.__file__).parents[1])
    done = subprocess.run(
        [sys.executable, "-c", CALL.format(program=program, before=before, arguments=arguments)],
        env=environment, cwd=tmp_path, capture_output=True, text=True, check=True,
    )  # fmt: skip
    return done.stdout.rpartition("folder: ")[2].strip()


@pytest.mark.parametrize("program", PROGRAMS)
def test_programs_keep_what_they_compiled(tmp_path, program):
    assert folder(tmp_path, program) == str(tmp_path / "whatif-jax" / "compiled")


def test_whoever_chose_a_folder_keeps_it(tmp_path):
    program = "whatif_jax.cli"
    assert folder(tmp_path, program, JAX_COMPILATION_CACHE_DIR="/own") == "/own"
    assert folder(tmp_path, program, JAX_COMPILATION_CACHE_DIR="") in ("", "None")
    before = "import jax; jax.config.update('jax_compilation_cache_dir', '/own')"
    assert folder(tmp_path, program, before=before) == "/own"
    (tmp_path / "file").touch()
    assert folder(tmp_path, program, XDG_CACHE_HOME=str(tmp_path / "file")) == "None"


def test_a_run_leaves_its_programs_there(tmp_path):
    folder(tmp_path, "whatif_jax.cli", arguments="['export', 'out', '--limit', '2']")
    assert list((tmp_path / "whatif-jax" / "compiled").glob("*-cache"))


def test_help_says_where(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_folder() == tmp_path / "whatif-jax" / "compiled"
    environment = {**os.environ, "PYTHONPATH": str(Path(whatif_jax.__file__).parents[1])}
    done = subprocess.run(
        [sys.executable, "-m", "whatif_jax.cli", "--help"],
        env={**environment, "COLUMNS": "200"}, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert str(cache_folder()) in done.stdout and "JAX_COMPILATION_CACHE_DIR" in done.stdout
