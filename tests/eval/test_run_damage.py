"""Finished runs whose files were damaged: named, and made whole by the same command once more."""

import contextlib
import json
import re
import shutil
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

import eval.run
import eval.run_folder
from eval.results import Run, load_results, load_run
from eval.run import RunPlan, plan_run, run
from eval.run_files import DamagedRunError, ResultsError
from eval.summary import run_lines
from tests.eval import run_helpers
from tests.eval.run_helpers import WHERE
from whatif_jax import Suite, evaluate_batch

BATCHES = 5
WITH_KEPT = -1  # only the batches that hold a task whose forecast is kept
COMPARED = ("scores.parquet", "forecasts.parquet")


def plan(suite: Suite) -> RunPlan:
    return plan_run(
        run_helpers.make(), suite, where=WHERE, sample=40, batch_size=8, keep_forecasts=5
    )


def again(suite: Suite, results: Path) -> Run:
    """The same command once more."""
    return run(run_helpers.make(), plan(suite), results, progress=False, check=False, jobs=1)


@pytest.fixture(scope="module")
def whole(suite, tmp_path_factory) -> Path:
    """A finished run."""
    return again(suite, tmp_path_factory.mktemp("whole")).folder


@pytest.fixture
def results(whole, tmp_path) -> Path:
    """A copy of its results, to be damaged."""
    root = whole.parents[2]
    shutil.copytree(root, tmp_path, dirs_exist_ok=True)
    return tmp_path


@pytest.fixture
def counted(monkeypatch) -> list[int]:
    """Batches that were forecast."""
    calls: list[int] = []

    def one(forecaster, suite, task_ids, **options):
        calls.append(len(task_ids))
        return evaluate_batch(forecaster, suite, task_ids, **options)

    monkeypatch.setattr(eval.run, "evaluate_batch", one)
    return calls


def rewritten(change):
    def damage(path: Path) -> None:
        parquet.write_table(change(parquet.read_table(path)), path)

    return damage


def other_task(table: pa.Table) -> pa.Table:
    """The last task is another one."""
    ids = table.column("task_id").to_numpy().copy()
    ids[-1] += 1
    return table.set_column(0, "task_id", pa.array(ids))


def flipped(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 4] ^= 0xFF
    path.write_bytes(content)


def through_pandas(path: Path) -> None:
    parquet.write_table(pa.Table.from_pandas(parquet.read_table(path).to_pandas()), path)


def holding(name: str, value):
    """The value of the third row in a column is another one."""

    def change(table: pa.Table) -> pa.Table:
        values = table.column(name).to_pylist()
        values[2] = value
        place, field = table.column_names.index(name), table.schema.field(name)
        return table.set_column(place, field, pa.array(values, field.type))

    return rewritten(change)


ANY = {
    "missing": Path.unlink,
    "empty": lambda path: path.write_bytes(b""),
    "cut": lambda path: path.write_bytes(path.read_bytes()[:-50]),
    "junk": lambda path: path.write_bytes(bytes(range(256)) * 4),
}
TABLES = {
    **ANY,
    "a flipped byte": flipped,
    "other columns": rewritten(lambda table: table.rename_columns(["id", *table.column_names[1:]])),
    "rows twice": rewritten(lambda table: pa.concat_tables([table, table])),
}
LOST = {"scores.parquet": BATCHES, "seconds.parquet": BATCHES, "forecasts.parquet": WITH_KEPT}
ROWS = {
    "a row short": rewritten(lambda table: table.slice(1)),
    "of another task": rewritten(other_task),
    "a row too many": rewritten(
        lambda table: pa.concat_tables([table, other_task(table.slice(len(table) - 1))])
    ),
}
UNSAID = {
    "no metadata": rewritten(lambda table: table.replace_schema_metadata(None)),
    "through pandas": through_pandas,
}
VALUES = [
    ("scores.parquet", "wql", None),
    ("scores.parquet", "wql", np.nan),
    ("scores.parquet", "rmse", -1.0),
    ("scores.parquet", "coverage", None),
    ("scores.parquet", "coverage", [0.5] * 8 + [None]),
    ("scores.parquet", "coverage", [0.5]),
    ("seconds.parquet", "seconds", np.nan),
    ("forecasts.parquet", "quantiles", None),
    ("forecasts.parquet", "quantiles", []),
    ("forecasts.parquet", "quantiles", [[0.0] * 9, None]),
    ("forecasts.parquet", "quantiles", [[0.0] * 9, [0.0]]),
    ("forecasts.parquet", "quantiles", [[np.nan] * 9]),
]
CASES = [
    *(("scores.parquet", damage, BATCHES) for damage in TABLES.items()),
    *((name, damage, LOST[name]) for name in list(LOST)[1:] for damage in list(TABLES.items())[:2]),
    *((name, damage, 1) for name in LOST for damage in list(ROWS.items())[:2]),
    ("scores.parquet", list(ROWS.items())[2], 0),
    *(("run.json", damage, 0) for damage in list(ANY.items())[1:3]),
    *((name, damage, LOST[name]) for name in LOST for damage in UNSAID.items()),
    *((name, (f"{what} {value}"[:40], holding(what, value)), 1) for name, what, value in VALUES),
]


@pytest.mark.parametrize(
    "name, damage, computed",
    [(name, function, computed) for name, (_, function), computed in CASES],
    ids=[f"{name}, {how}" for name, (how, _), _ in CASES],
)
def test_a_damaged_file_is_named_and_the_same_command_makes_it_whole(
    suite, whole, results, counted, capsys, name, damage, computed
):
    path = results / whole.relative_to(whole.parents[2]) / name
    damage(path)
    if damage is not ROWS["of another task"]:  # which the plan alone can tell
        for read in (load_results, lambda folder: load_run(path.parent)):
            with pytest.raises(DamagedRunError, match=re.escape(str(path))) as caught:
                read(results)
            said = str(caught.value)
            assert "\n" not in said and "running the same `python -m eval run` command" in said
            assert run_lines(results) == [said]
    found = again(suite, results)
    count = f"{len(counted)} of {BATCHES} batches are run again"
    said = capsys.readouterr().err
    assert said.endswith(f"{count}\n") and said.count("\n") == 1
    if damage is not ROWS["of another task"]:  # the files disagree, and either is named
        assert said.startswith(f"{name} was damaged: ")
    if computed == WITH_KEPT:
        planned = plan(suite)
        computed = sum(np.isin(ids, planned.kept).any() for ids in planned.batches)
        assert 0 < computed < BATCHES
    assert len(counted) == computed
    for each in COMPARED:
        assert (found.folder / each).read_bytes() == (whole / each).read_bytes(), each
    assert found.seconds.column("task_id") == found.scores.column("task_id")
    assert {each.name for each in found.folder.iterdir()} == {each.name for each in whole.iterdir()}
    assert load_results(results)[0].scores.equals(found.scores)


def test_an_infinite_error_and_a_direction_without_steps_are_whole(results):
    (path,) = results.rglob("scores.parquet")
    holding("wql", np.inf)(path)
    holding("direction_accuracy", None)(path)
    assert load_run(path.parent).scores.column("wql")[2].as_py() == np.inf


def test_values_that_no_run_writes_are_not_taken_from_a_part_either(
    suite, whole, results, counted, monkeypatch
):
    next(results.rglob("scores.parquet")).unlink()
    with monkeypatch.context() as patch:
        patch.setattr(eval.run_folder.RunFolder, "finish", lambda self: load_run(self.path))
        with pytest.raises(ResultsError, match="is not complete"):
            again(suite, results)
    first, *_, last = sorted(results.rglob("parts/*.parquet"))
    holding("mase", None)(first)
    rewritten(lambda table: table.replace_schema_metadata(None))(last)
    counted.clear()
    found = again(suite, results)
    assert len(counted) == 2
    for each in COMPARED:
        assert (found.folder / each).read_bytes() == (whole / each).read_bytes()


@pytest.mark.parametrize(
    "name", ["run.json", "scores.parquet", "seconds.parquet", "forecasts.parquet"]
)
def test_a_folder_in_the_place_of_a_file_is_named_before_anything_is_run(
    suite, results, counted, name
):
    (path,) = results.rglob(name)
    path.unlink()
    path.mkdir()
    said = re.escape(f"results: {path} is a folder; expected a file: remove it and run the same")
    with pytest.raises(ResultsError, match=said):
        again(suite, results)
    with pytest.raises(ResultsError, match=said):
        load_results(results)
    path.rmdir()
    assert counted == [] and len(again(suite, results).scores) == 40


def test_a_file_in_the_place_of_the_parts_is_named(suite, results):
    path = next(results.rglob("run.json")).parent / "parts"
    path.touch()
    said = re.escape(f"results: {path} is a file; expected a folder: remove it and run the same")
    with pytest.raises(ResultsError, match=said):
        again(suite, results)


def test_the_same_rows_are_needed_on_both_sides_of_a_record(results):
    """Its number of rows is checked, not only that the files agree."""
    for path in (*results.rglob("scores.parquet"), *results.rglob("seconds.parquet")):
        rewritten(lambda table: table.slice(0, 30))(path)
    with pytest.raises(DamagedRunError, match=r"scores\.parquet holds 30 rows; expected 40 as run"):
        load_results(results)


@pytest.mark.parametrize("stop", ["in the parts", "before the record", "in the batches"])
def test_making_it_whole_can_itself_be_killed(suite, whole, results, counted, monkeypatch, stop):
    (path,) = results.rglob("scores.parquet")
    rewritten(lambda table: table.slice(12))(path)  # two batches of five lose rows
    with monkeypatch.context() as patch:
        places = {
            "in the parts": (eval.run_folder.RunFolder, "write_part"),
            "before the record": (eval.run_folder.RunFolder, "_note"),
            "in the batches": (eval.run, "evaluate_batch"),
        }
        (owner, attribute), calls = places[stop], []
        real = getattr(owner, attribute)

        def killed(*arguments, **options):
            calls.append(1)
            if len(calls) == (2 if stop == "in the parts" else 1):
                raise KeyboardInterrupt
            return real(*arguments, **options)

        patch.setattr(owner, attribute, killed)
        with pytest.raises(KeyboardInterrupt):
            again(suite, results)
    if stop == "in the batches":
        assert load_results(results) == []
        assert "unfinished" in run_lines(results)[0]
    counted.clear()
    found = again(suite, results)
    for each in COMPARED:
        assert (found.folder / each).read_bytes() == (whole / each).read_bytes()


@pytest.mark.parametrize("renamed", [False, True])
def test_a_run_that_is_killed_at_any_write_goes_on(suite, tmp_path, monkeypatch, renamed):
    """Just before and just after each file gets its name; what is half-written stays there."""

    def two_batches(results: Path):
        forecaster = run_helpers.make()
        planned = plan_run(
            forecaster, suite, where=WHERE, sample=10, batch_size=5, keep_forecasts=3
        )
        return run(forecaster, planned, results, progress=False, check=False).folder

    rename, written = Path.replace, []

    def counting(self, target):
        written.append(target)
        return rename(self, target)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "replace", counting)
        undisturbed = two_batches(tmp_path / "undisturbed")
    assert len(written) == 7  # the record, parts, files, the record once more
    for last in range(len(written)):
        results, done = tmp_path / f"{last}", []

        def killed(self, target, last=last, done=done):
            done.append(target)
            if len(done) <= last:
                return rename(self, target)
            if renamed:
                rename(self, target)
            target.with_name(f".{target.name}.unfinished").write_bytes(b"half")
            raise KeyboardInterrupt

        with monkeypatch.context() as patch:
            patch.setattr(Path, "replace", killed)
            with pytest.raises(KeyboardInterrupt):
                two_batches(results)
        found = two_batches(results)
        assert {each.name for each in found.iterdir()} == {
            each.name for each in undisturbed.iterdir()
        }
        for each in COMPARED:
            assert (found / each).read_bytes() == (undisturbed / each).read_bytes()


def test_a_damaged_run_of_other_batches_is_not_mixed(suite, results):
    next(results.rglob("scores.parquet")).unlink()
    forecaster = run_helpers.make()
    planned = plan_run(forecaster, suite, where=WHERE, sample=40, batch_size=4, keep_forecasts=5)
    with pytest.raises(ResultsError, match="batch_size: 4, but .* was begun with 8"):
        run(forecaster, planned, results, progress=False)


def test_no_flipped_byte_changes_a_result(results):
    (path,) = results.rglob("scores.parquet")
    content, expected = path.read_bytes(), load_run(path.parent).scores
    for place in np.random.default_rng(0).integers(0, len(content), 300).tolist():
        changed = bytearray(content)
        changed[place] ^= 1 << place % 8
        path.write_bytes(changed)
        found = expected
        with contextlib.suppress(ResultsError):
            found = load_run(path.parent).scores
        assert found.equals(expected), place


@pytest.mark.parametrize(
    "change",
    [
        lambda about: about.pop("task_count"),
        lambda about: about.pop("batch_size"),
        lambda about: about.update(keep_forecasts="5"),
        lambda about: about["metadata"].pop("levels"),
        lambda about: about.update(complete="yes"),
        lambda about: about["metadata"].pop("suite"),
        lambda about: about["metadata"].update(settings="{"),
        lambda about: about["metadata"].update(tasks="some"),
        lambda about: about.update(metadata=[]),
    ],
)
def test_a_record_that_lacks_what_is_read_of_it_is_damaged(suite, results, counted, change):
    (path,) = results.rglob("run.json")
    about = json.loads(path.read_text())
    change(about)
    path.write_text(json.dumps(about))
    with pytest.raises(DamagedRunError, match=r"run\.json is not what a run writes there"):
        load_results(results)
    assert len(again(suite, results).scores) == 40 and counted == []
    assert load_results(results)


@pytest.mark.parametrize("name", ["task_count", "forecast_count"])
def test_a_record_that_counts_wrongly_is_made_right(suite, whole, results, name):
    (path,) = results.rglob("run.json")
    path.write_text(json.dumps(json.loads(path.read_text()) | {name: 3}))
    again(suite, results)
    assert json.loads(path.read_text())[name] == json.loads((whole / "run.json").read_text())[name]
