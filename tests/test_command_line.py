"""`whatif-jax` and wrong input: exit 2, one line, and no work before every option was looked at."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import whatif_jax.export
import whatif_jax.suites.freeze
from tests.command_lines import ANYTHING, arguments, called, ended_well, refused
from whatif_jax.cli import main
from whatif_jax.suites.recipe import read_recipe

PROGRAM = "whatif-jax"
CHECKOUT = Path(__file__).parents[1]


@pytest.fixture
def idle(monkeypatch):
    """Work ends a call at once: as if it had gone well, with 0."""

    def work(*_, **__):
        raise SystemExit(0)

    monkeypatch.setattr(whatif_jax.suites.freeze, "search_seed", work)
    monkeypatch.setattr(whatif_jax.export, "export", work)


@pytest.fixture
def never(monkeypatch):
    """Work is a fault."""

    def work(*_, **__):
        raise AssertionError("work was started")

    monkeypatch.setattr(whatif_jax.suites.freeze, "search_seed", work)
    monkeypatch.setattr(whatif_jax.export, "export", work)


RECIPE = '[[systems]]\nname = "epanet"\nfull_targets = {full}\npartial_tasks = {partial}\n'


@pytest.mark.parametrize(
    "wrong, parts",
    [
        (["suite", "build", "--most-seeds=-1"], ["--most-seeds", "-1"]),
        (["suite", "build", "--most-seeds=x"], ["--most-seeds", "'x'"]),
        (["suite", "build", "FOLDER"], ["out: ", "Is a directory"]),
        (["suite", "build", "FOLDER/name = 1/x"], ["out: ", "a file is in the way"]),
        (["suite", "build", "/proc/none/x"], ["out: /proc/none/x"]),
        (["suite", "build", "--recipe=FOLDER/none"], ["FOLDER/none: No such file", "; expected a"]),
        (
            ["suite", "build", "--recipe=FOLDER/name = 1"],
            ["name = 1: name: 1; expected a string; and systems: missing; exp"],
        ),
        (["suite", "build", "--recipe=FOLDER/name = "], ["name = : ", "expected TOML"]),
        (["suite", "build", "--recipe=FOLDER/full"], ["full_targets of epanet: 34; expected at"]),
        (["suite", "build", "--recipe=FOLDER/partial"], ["partial_tasks of epanet: 1601; exp"]),
        (["suite", "build", "--recipe=FOLDER/twice"], ["distinct names"]),
        (
            ["suite", "define", "own.toml"],
            ["whatif-v1 (a system", "`whatif-jax describe own.toml`"],
        ),
        (["suite", "define", "sumo"], ["'sumo'; expected one of whatif-v1 (a system is printed"]),
        (["export", "out", "--limit=0"], ["--limit", "'0'"]),
        (["export", "out", "--where=k=many"], ["--where: 'k=many'; expected whole numbers"]),
        (["export", "out", "--suite=FOLDER"], ["FOLDER"]),
        (["export", "out", "--limit=" + "9" * 5000], ["--limit"]),
        (["export"], ["out"]),
        (["exprot"], ["exprot", "export"]),
        (["describe", "a", "--schema"], ["--schema: given with 'a'"]),
        (["describe", "a\udcff"], [r"'a\udcff'; expected text in UTF-8"]),
        (["export", "\udcff"], [r"argument: '\udcff'; expected text in UTF-8"]),
        (["suite", "build", "\udcff"], [r"argument: '\udcff'; expected text in UTF-8"]),
    ],
)
@pytest.mark.usefixtures("never")
def test_wrong_input_is_refused_before_any_work(tmp_path, monkeypatch, wrong, parts):
    monkeypatch.chdir(tmp_path)
    whole = RECIPE.format(full=33, partial=65)
    for name, text in {
        "name = 1": "name = 1", "name = ": "name = ", "twice": f'name = "a"\n{whole}{whole}',
        "full": 'name = "a"\n' + RECIPE.format(full=34, partial=0),
        "partial": 'name = "a"\n' + RECIPE.format(full=0, partial=1601),
    }.items():  # fmt: skip
        (tmp_path / name).write_text(text)
    before = sorted(tmp_path.rglob("*"))
    said = refused(main, PROGRAM, *(each.replace("FOLDER", str(tmp_path)) for each in wrong))
    missing = [part for part in parts if part.replace("FOLDER", str(tmp_path)) not in said]
    assert not missing, said
    assert sorted(tmp_path.rglob("*")) == before


def test_a_baseline_of_any_system_is_read_before_the_first_is_drawn(tmp_path, never):
    other = (CHECKOUT / "tests/data/brewery.toml").read_text("utf-8")
    (tmp_path / "brewery.toml").write_text(other, "utf-8")
    (tmp_path / "brewery.parquet").write_bytes(b"PAR1")
    own = '[[systems]]\nname = "brewery.toml"\nfull_targets = 0\npartial_tasks = 0\n'
    text = f'name = "a"\n{RECIPE.format(full=33, partial=65)}{own}'
    (tmp_path / "recipe.toml").write_text(text)
    said = refused(main, PROGRAM, "suite", "build", f"--recipe={tmp_path / 'recipe.toml'}")
    assert "brewery.parquet: file: content" in said and "expected a parquet file" in said


def test_a_name_of_bytes_that_are_no_text_is_one_line_from_outside(tmp_path):
    done = subprocess.run(
        [os.fsencode(sys.executable), b"-m", b"whatif_jax.cli", b"suite", b"build", b"\xff"],
        cwd=tmp_path, capture_output=True, check=False, env=os.environ | {"PYTHONPATH": CHECKOUT},
    )  # fmt: skip
    assert done.returncode == 2
    assert done.stderr == b"whatif-jax: argument: '\\udcff'; expected text in UTF-8\n"


def test_a_call_without_a_command_is_its_help():
    code, said = called(main, PROGRAM)
    assert code == 2 and "Traceback" not in said
    assert called(main, PROGRAM, "--help")[0] == 0


def test_the_help_of_build_shows_a_recipe_that_can_be_read(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", [PROGRAM, "suite", "build", "--help"])
    with pytest.raises(SystemExit):
        main()
    lines = capsys.readouterr().out.splitlines()
    first = next(at for at, line in enumerate(lines) if line.strip().startswith("name = "))
    (tmp_path / "own.toml").write_text("\n".join(lines[first : first + 5]))
    recipe = read_recipe(tmp_path / "own.toml")
    assert (recipe.name, recipe.systems[0].full_targets) == ("own", 2)


COMMANDS = {
    ("describe",): {"": ["epanet", "epanet/none"], "--schema": None},
    ("suite", "show"): {"": ["whatif-v1"], "--system": []},
    ("suite", "define"): {"": ["whatif-v1"], "--scores": None},
    ("suite", "build"): {"": ["out.parquet"], "--recipe": [], "--most-seeds": ["2"]},
    ("export", "--no-progress"): {
        "": ["out"], "--format": ["fev"], "--where": ["k=1"], "--limit": ["3"],
        "--suite": ["whatif-v1"], "--system": [],
    },
}  # fmt: skip


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(typed=st.one_of(*arguments(COMMANDS), st.lists(ANYTHING, max_size=3)))
@pytest.mark.usefixtures("idle")
def test_whatever_is_typed_ends_in_the_result_or_in_one_line(files, typed):
    ended_well(*called(main, PROGRAM, *typed), PROGRAM)
