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
CASES = [
    *(("scores.parquet", damage, BATCHES) for damage in TABLES.items()),
    *((name, damage, LOST[name]) for name in list(LOST)[1:] for damage in list(TABLES.items())[:2]),
    *((name, damage, 1) for name in LOST for damage in list(ROWS.items())[:2]),
    ("scores.parquet", list(ROWS.items())[2], 0),
    *(("run.json", damage, 0) for damage in list(ANY.items())[1:3]),
]


@pytest.mark.parametrize(
    "name, damage, computed",
    [(name, function, computed) for name, (_, function), computed in CASES],
    ids=[f"{name}, {how}" for name, (how, _), _ in CASES],
)
def test_a_damaged_file_is_named_and_the_same_command_makes_it_whole(
    suite, whole, results, counted, name, damage, computed
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
        lambda about: about.update(complete="yes"),
        lambda about: about["metadata"].pop("suite"),
        lambda about: about["metadata"].update(settings="{"),
        lambda about: about["metadata"].update(tasks="some"),
        lambda about: about.update(metadata=[]),
    ],
)
def test_a_record_that_lacks_what_is_read_of_it_is_damaged(results, change):
    (path,) = results.rglob("run.json")
    about = json.loads(path.read_text())
    change(about)
    path.write_text(json.dumps(about))
    with pytest.raises(DamagedRunError, match=r"run\.json is not what a run writes there"):
        load_results(results)
