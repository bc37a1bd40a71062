"""The programs keep what XLA compiled in the user's cache folder, unless told otherwise."""

import os
import subprocess
import sys
import threading
from pathlib import Path

import jax
import numpy as np
import pytest

import whatif_jax
from whatif_jax.compilation_cache import cache_folder, compilation_said

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
    (tmp_path / "whatif-jax").mkdir()
    (tmp_path / "whatif-jax" / "compiled").touch()  # a file in place of the folder itself
    assert folder(tmp_path, program) == "None"


HOMELESS = """
import os, pwd
os.environ.pop("HOME", None)
def nobody(uid): raise KeyError(uid)
pwd.getpwuid = nobody
"""


@pytest.mark.parametrize("program", PROGRAMS)
def test_without_a_home_folder_there_is_no_cache_and_the_help_says_the_rule(tmp_path, program):
    pytest.importorskip("pwd")
    assert folder(tmp_path, program, before=HOMELESS, XDG_CACHE_HOME="") == "None"
    code = CALL.format(program=program, before=HOMELESS, arguments=["--help"])
    environment = {**os.environ, "PYTHONPATH": str(Path(whatif_jax.__file__).parents[1])}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment | {"COLUMNS": "200", "XDG_CACHE_HOME": ""},
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert "and nowhere without a home folder" in done.stdout and not done.stderr


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


def compile_something() -> None:
    jax.block_until_ready(jax.jit(lambda x: x + 1)(np.zeros(3, np.float32)))


def test_on_a_terminal_a_long_compilation_is_named_with_its_seconds(monkeypatch, capsys):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    with compilation_said(after=0.0):
        compile_something()
    assert "compiled jit(<lambda>) in 0." in capsys.readouterr().err
    compile_something()
    with compilation_said(after=600.0):
        compile_something()
    with compilation_said(False, after=0.0):
        compile_something()
    assert capsys.readouterr().err == ""


def test_a_compilation_is_named_while_it_lasts(monkeypatch):
    lines, named = [], threading.Event()

    class Terminal:
        def isatty(self) -> bool:
            return True

        def write(self, part: str) -> None:
            lines.append(part)
            if "compiling" in part:
                named.set()

        def flush(self) -> None:
            pass

    monkeypatch.setattr(sys, "stderr", Terminal())
    event = "/jax/core/compile/backend_compile_duration"  # of XLA, were it slow
    with compilation_said(after=0.01):
        jax.monitoring.record_scalar(event, 0.0, fun_name="jit(slow)")
        assert named.wait(60)
        jax.monitoring.record_event_duration_secs(event, 71.23, fun_name="jit(slow)")
    assert "".join(lines) == "compiling jit(slow) ...\ncompiled jit(slow) in 71.2 s\n"


def test_off_a_terminal_nothing_is_said(capsys):
    with compilation_said(after=0.0):
        compile_something()
    assert capsys.readouterr().err == ""
