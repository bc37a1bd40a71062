"""The command line of running: what it says, refuses and leaves behind."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

import eval.cli
from eval.cli import app
from eval.forecasters import FORECASTERS, NEEDS, make_forecaster, needs, takes
from tests.eval.run_helpers import MODULE, WHERE_OPTIONS
from whatif_jax.cli import parse_settings

CHECKOUT = Path(__file__).parents[2]
SMALL = [*WHERE_OPTIONS, "--batch-size=8", "--jobs=1"]


def call(*arguments: str):
    return CliRunner().invoke(app, list(arguments), catch_exceptions=False)


def refused(capsys, monkeypatch, *arguments: str) -> str:
    """The one line that `python -m eval` says to wrong input."""
    monkeypatch.setattr(sys, "argv", ["eval", *arguments])
    with pytest.raises(SystemExit) as stopped:
        eval.cli.main()
    assert stopped.value.code == 2
    said = capsys.readouterr().err
    assert said.startswith("eval: ") and said.count("\n") == 1
    return said


def test_a_run_ends_with_its_summary_and_skill_against_naive(tmp_path):
    results = f"--results={tmp_path}"
    alone = call("run", f"--model={MODULE}:make", *SMALL, results, "--sample=30")
    assert "around 3: 30 tasks (a stratified sample of" in alone.stdout
    assert re.search(r"0 imputed, \d+ crossings, [\d.e-]+ s a series", alone.stdout)
    assert "run naive too" in alone.stdout
    assert "30/30 [" in alone.stderr

    naive = call("run", "--model=naive", *SMALL, results)
    assert re.search(r"naive 1: 44 tasks \(.*system epanet.*\), 0 imputed", naive.stdout)
    assert "skill" not in naive.stdout

    # finished, so it is read; and naive has more tasks than it
    again = call("run", f"--model={MODULE}:make", *SMALL, results, "--sample=30")
    number = r"-?[\d.]+ \[-?[\d.]+, -?[\d.]+\]"
    assert re.search(
        rf"skill against naive \(wQL, 95 % intervals\): all {number}, novel {number}, "
        rf"replay {number}\n", again.stdout
    )  # fmt: skip
    assert "is complete; nothing to run" in again.stderr and "30/30" not in again.stderr

    listed = call("list", results).stdout
    assert re.search(
        r"^whatif-v1 0cdd0f3e4140, metrics 1: around 3 .*: 30 tasks, trained on: \w+$", listed, re.M
    )
    assert re.search(
        r"^whatif-v1 0cdd0f3e4140, metrics 1: naive 1, .*: 44 tasks, trained on: nothing$",
        listed,
        re.M,
    )


def test_a_dry_run_counts_tasks_batches_shapes_and_cost_and_writes_nothing(tmp_path):
    where = ["--sample=10", "--batch-size=8", f"--results={tmp_path / 'none'}"]
    said = call("run", f"--model={MODULE}:make_costly", *WHERE_OPTIONS, *where, "--dry-run").stdout
    assert "costly 0: 10 tasks, 2 batches of at most 8, forecasts of 10 tasks kept" in said
    assert re.search(r"^ +1,024 +128 +1 +10 +2$", said, re.M)
    assert "estimate: 10,240 tokens sent, 1,280 written, cost 5.00 USD" in said
    assert not list(tmp_path.iterdir())
    plain = call("run", "--model=naive", *WHERE_OPTIONS, *where, "--dry-run").stdout
    assert "estimate" not in plain and not list(tmp_path.iterdir())


def test_refuses_by_name_with_what_is_known(capsys, monkeypatch, tmp_path):
    run = ["run", f"--results={tmp_path}"]
    for more, parts in (
        (["--model=nayve"], ["model: 'nayve'", "did you mean 'naive'", "MODULE:FACTORY"]),
        (["--model=no_such_module:make"], ["model: 'no_such_module:make': No module"]),
        ([f"--model={MODULE}:no_such"], ["model: ", "no_such"]),
        (["--model=xgboost", "--set=sed=1"], ["of xgboost: sed; expected", "did you mean 'seed'"]),
        (["--model=naive", "--set=alpha=1"], ["settings of naive: alpha; expected nothing"]),
        (["--model=naive", "--where=sistem=epanet"], ["--where: ", "did you mean 'system'"]),
        (["--model=naive", "--where=system=epanett"], ["where: ", "did you mean 'epanet'"]),
        (["--model=naive", "--set=alpha"], ["--set: 'alpha'; expected KEY=VALUE"]),
        (["--model=naive", "--max-cost=1"], ["--max-cost: naive costs nothing"]),
        (["--model=naive", "--where=colour=1"], ["--where: 'colour=1'", "context_pair"]),
        (["--model=naive", "--where=k=9"], ["k=9", "one of 1, 2, 3, 4, 5"]),
        (["--model=naive", "--suite=other"], ["other", "whatif-v1"]),
        (["--model=naive", "--dask=tcp://127.0.0.1:1"], ["dask: naive computes whole batches"]),
    ):
        said = refused(capsys, monkeypatch, *run, *more)
        assert all(part in said for part in parts), said
    said = refused(capsys, monkeypatch, "report", str(tmp_path), f"--results={tmp_path}")
    assert "holds no finished run on whatif-v1" in said
    assert not list(tmp_path.rglob("*.parquet"))


def test_a_forecaster_that_fails_shows_where(tmp_path, monkeypatch):
    options = [f"--model={MODULE}:make_broken", *SMALL, "--sample=4", f"--results={tmp_path}"]
    monkeypatch.setattr(sys, "argv", ["eval", "run", *options])
    with pytest.raises(ValueError, match="matmul") as raised:
        eval.cli.main()
    assert any("forecaster broken, tasks [" in note for note in raised.value.__notes__)


def test_settings_are_json_else_text():
    assert parse_settings(["a=1", "b=[0.5]", "c=true", "d=gpt/x=1", 'e="1"', "f="]) == {
        "a": 1, "b": [0.5], "c": True, "d": "gpt/x=1", "e": "1", "f": "",
    }  # fmt: skip
    with pytest.raises(ValueError, match="--set: a is given twice"):
        parse_settings(["a=1", "a=2"])


def test_what_forecasters_need_is_what_they_import():
    """Every `require(module, extra)` of a forecaster's own package is in the list, and no other."""
    folder = Path(eval.cli.__file__).parent / "forecasters"
    required = set()
    for path in folder.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "require":
                constants = [each.value for each in node.args if isinstance(each, ast.Constant)]
                if len(constants) == 2:
                    required.add((constants[0].partition(".")[0], constants[1]))
    assert set(NEEDS) <= set(FORECASTERS)
    assert set(NEEDS.values()) <= required
    assert {extra for _, extra in NEEDS.values()} == {extra for _, extra in required}
    assert needs("naive") == ("", True)


def test_a_package_that_is_missing_is_listed_with_its_extra(monkeypatch, tmp_path):
    monkeypatch.setitem(NEEDS, "xgboost", ("no_such_package", "xgboost"))
    said = call("list", f"--results={tmp_path / 'none'}").stdout
    for name in ("xgboost", "xgboost-paired-z"):
        assert re.search(
            rf"^{name} +trained on: nothing +not installed: pip install -e '\.\[xgboost\]'$",
            said,
            re.M,
        )
    assert "naive                    trained on: nothing\n" in said and "is no folder" in said


def test_own_factories_take_settings_by_name():
    assert takes(f"{MODULE}:make") == ["api_key", "max_cost", "spread"]
    assert make_forecaster(f"{MODULE}:make", spread=0.3).settings["spread"] == 0.3
    with pytest.raises(
        ValueError, match="make: width; expected one of 'api_key', 'max_cost', 'spread'"
    ):
        make_forecaster(f"{MODULE}:make", width=1)
    # a setting may have any name; what a registered name stands for is none
    assert {"model", "name"} <= set(takes("llm"))
    assert takes("linear-paired-z") == ["standardise"]


@pytest.mark.parametrize("arguments", [["--help"], ["run", "--help"], ["list"]])
def test_help_and_list_import_no_jax(arguments):
    code = (
        "import sys; from eval.cli import app\n"
        "try: app(sys.argv[1:])\n"
        "except SystemExit: pass\n"
        "assert not {'jax', 'torch', 'xgboost', 'pyarrow', 'numpy'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code, *arguments], cwd=CHECKOUT, check=True)
