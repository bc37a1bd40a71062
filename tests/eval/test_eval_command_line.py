"""`python -m eval` and wrong input: exit 2, one line, and no work before every option was read."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import eval.run
from eval.cli import main
from eval.forecasters import FORECASTERS, make_forecaster, takes
from tests.command_lines import ANYTHING, arguments, called, ended_well, refused
from tests.eval.run_helpers import MODULE

PROGRAM = "eval"


@pytest.fixture
def never(monkeypatch):
    """Work is a fault."""

    def work(*_, **__):
        raise AssertionError("work was started")

    monkeypatch.setattr(eval.run, "evaluate_batch", work)
    monkeypatch.setattr(eval.run, "check_rows", work)


def own(text: str) -> str:
    return f"--model={MODULE}:{text}"


@pytest.mark.parametrize(
    "wrong, parts",
    [
        *(
            ([f"--model={model}", f"--set=alpha={value}"], ["alpha: ", "; expected a number above"])
            for model in ("ridge", "ridge-paired-all")
            for value in ("abc", "NaN", "Infinity", "[1]", "null", "0", "true", "1" + "0" * 400)
        ),
        *(
            ([f"--model={model}", f"--set=seed={value}"], [f"seed: {said}; expected an integer in"])
            for model in ("xgboost", "xgboost-paired-z")
            for value, said in (("null", "None"), ("1.5", "1.5"), ("-1", "-1"), ("x", "'x'"))
        ),
        (
            ["--model=math:sqrt"],
            ["model: 'math:sqrt': TypeError: ", "expected a factory that returns"],
        ),
        (["--model=os:sep"], ["model: 'os:sep': ", "expected a factory that returns a forec"]),
        (["--model=os:getcwd"], ["model: 'os:getcwd' returns '/", "expected a factory that"]),
        (["--model=builtins:dict"], ["model: 'builtins:dict'"]),
        (["--model=..eval:x"], ["model: '..eval:x'; expected one of 'naive'"]),
        (["--model=eval.:x"], ["model: 'eval.:x'; expected one of 'naive'"]),
        ([own("make_unset"), "--set=needed=[1]"], ["make_unset': TypeError", "run_helpers.py"]),
        ([own("make_unset")], ["make_unset': TypeError: ", "'needed'"]),
        # a forecaster itself
        ([own("around")], ["TypeError: ", "expected a factory that returns a forecaster"]),
        (["--model=naive", "--jobs=0"], ["jobs: 0; expected a number of processes up to"]),
        (["--model=naive", "--jobs=1000000"], ["jobs: 1000000; expected a number of processes"]),
        (["--model=naive", "--jobs=-2"], ["--jobs", "'-2'"]),
        (["--model=naive", "--dask=x"], ["dask: naive computes whole batches"]),
        (["--model=naive", "--sample=0"], ["--sample", "'0'"]),
        (["--model=naive", "--sample=" + "9" * 400], ["sample: 999"]),
        (["--model=naive", "--batch-size=0.5"], ["--batch-size", "'0.5'"]),
        (["--model=naive", "--keep-forecasts=-1"], ["--keep-forecasts", "'-1'"]),
        ([own("make"), "--max-cost=nan"], ["--max-cost"]),
        ([own("make"), "--max-cost=inf"], ["--max-cost: inf; expected a finite number"]),
        (["--model=naive", "--results=file"], ["results: file", "a file is in the way"]),
        (["--model=naive", "--system=none.toml"], ["none.toml"]),
        ([], ["--model"]),
    ],
)
@pytest.mark.usefixtures("never")
def test_wrong_input_is_refused_before_any_work(tmp_path, monkeypatch, wrong, parts):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").touch()
    said = refused(main, PROGRAM, "run", *wrong)
    assert not [part for part in parts if part not in said], said
    assert [each.name for each in tmp_path.iterdir()] == ["file"]


@pytest.mark.parametrize(
    "typed",
    [["run", "--model=naive", "--results=\udcff"], ["report", "\udcff"], ["list", "\udcff"]],
)
def test_a_name_that_is_no_text_is_refused(tmp_path, monkeypatch, never, typed):
    monkeypatch.chdir(tmp_path)
    assert r"\udcff'; expected text in UTF-8" in refused(main, PROGRAM, *typed)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "wrong", ["--where=k=9", "--where=colour=1", "--sample=99999", "--suite=none", "--system=none"]
)
def test_tasks_are_chosen_before_a_model_is_loaded(monkeypatch, wrong):
    def load(**_):
        raise AssertionError("a model was loaded")

    monkeypatch.setattr("eval.forecasters.naive.make", load)
    refused(main, PROGRAM, "run", "--model=naive", wrong)


@pytest.mark.parametrize("name", FORECASTERS)
def test_every_setting_of_every_forecaster_has_a_kind(name):
    """Before its package is looked for, which need not be installed here."""
    llm = {"model": "provider/name"} if name == "llm" else {}
    for setting in takes(name):
        with pytest.raises(ValueError, match=rf"^{setting}: .*; expected ") as caught:
            make_forecaster(name, **(llm | {setting: {"no": "kind"}}))
        assert "\n" not in str(caught.value)


def test_a_secret_is_not_said():
    with pytest.raises(ValueError, match="^api_key: its value; expected a text, or null$"):
        make_forecaster("llm", model="provider/name", api_key=["sk-secret"])


RIGHT = {
    "--set": ["alpha=1", "seed=2"], "--suite": ["whatif-v1"], "--system": [], "--sample": ["3"],
    "--where": ["system=epanet"], "--batch-size": ["8"], "--results": ["results"], "--jobs": ["1"],
    "--dask": ["tcp://127.0.0.1:1"], "--keep-forecasts": ["3"], "--max-cost": ["1"],
}  # fmt: skip
COMMANDS = {
    ("run", "--dry-run", "--no-progress"): {"--model": ["naive"], **RIGHT},
    ("run", "--dry-run", "--no-progress", "--model=ridge"): RIGHT,
    ("report",): {
        "": ["out"], "--results": ["a folder"], "--suite": ["whatif-v1"], "--system": [],
        "--reference": ["naive"],
    },
    ("list",): {"--results": ["a folder"]},
}  # fmt: skip


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(typed=st.one_of(*arguments(COMMANDS), st.lists(ANYTHING, max_size=3)))
@pytest.mark.usefixtures("never")
def test_whatever_is_typed_ends_in_the_result_or_in_one_line(files, typed):
    ended_well(*called(main, PROGRAM, *typed), PROGRAM)
