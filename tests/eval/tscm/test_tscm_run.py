"""Running baselines on a suite: what is kept, added to, made again and refused."""

import dataclasses
import os
import signal
import subprocess
import sys

import numpy as np
import pytest
from filelock import FileLock
from pyarrow import parquet
from typer.testing import CliRunner

import eval.tscm.command
import eval.tscm.results
import eval.tscm.run
from eval.cli import app
from eval.run_files import ResultsError
from eval.tscm import Estimate, baselines
from eval.tscm.command import chosen_baselines, chosen_suites, run_and_report
from eval.tscm.results import COLUMNS, load_estimates, stored
from eval.tscm.run import score_suite
from whatif_jax.tscm import EpisodePart, EpisodeSuite, load_episode_suite, load_prior

PRIOR = load_prior("bi_variate", {"query": {"offsets": [0, 1]}})
# parts of one size and prior, so that all of this is one program
PARTS = tuple(
    EpisodePart(name, "bi_variate", place + 1, PRIOR, 3 * place, 3)
    for place, name in enumerate(("one", "two", "other"))
)
SUITE = EpisodeSuite("small", "small-v1", 7, 40, PARTS)
CLOSED = [baselines()[name] for name in ("zero", "mean", "oracle")]


def rows(path):
    return parquet.read_table(path).to_pydict()


@pytest.fixture(scope="module")
def first(tmp_path_factory):
    folder = tmp_path_factory.mktemp("results")
    return folder, score_suite(SUITE, CLOSED, folder)


def test_every_query_of_every_episode_is_a_row_with_its_truths(first):
    folder, found = first
    assert [one.baseline for one in found] == ["zero", "mean", "oracle"]
    for one in found:
        assert one.table.schema.remove_metadata().equals(COLUMNS)
        np.testing.assert_array_equal(one.column("episode"), np.repeat(np.arange(9), 2))
        np.testing.assert_array_equal(one.column("offset"), np.tile([0, 1], 9))
        assert one.column("tier").tolist() == [1] * 6 + [2] * 6 + [3] * 6
        assert rows(stored(folder, "small-v1", "before", one.baseline))["part"][-1] == "other"
    _, _, episodes = next(SUITE.batches())
    node, steps = episodes.query.node, np.asarray(episodes.query.steps)
    row = np.arange(3)[:, None]
    for name in ("factual", "counterfactual", "interventional"):
        expected = np.asarray(getattr(episodes, name))[row, steps, np.asarray(node)[:, None]]
        np.testing.assert_array_equal(found[0].column(name)[:6], expected.ravel())
    onset = np.asarray(episodes.intervention.onset)
    series = np.asarray(episodes.factual)[np.arange(3), :, np.asarray(node)]
    means = [row[:start].mean() for row, start in zip(series, onset, strict=True)]
    np.testing.assert_allclose(
        found[1].column("estimated_interventional")[:6], np.repeat(means, 2), atol=1e-6
    )
    oracle = found[2]
    for rung in ("interventional", "counterfactual"):
        np.testing.assert_array_equal(oracle.column(f"estimated_{rung}"), oracle.column(rung))


def test_values_do_not_depend_on_batches_or_on_what_else_is_run(first, tmp_path):
    _, found = first
    alone = score_suite(SUITE, CLOSED[1:2], tmp_path, numbers=np.array([7, 2]))[0]
    assert alone.episodes.tolist() == [2, 7]
    both = found[1].table.filter(np.isin(found[1].column("episode"), [2, 7]))
    assert alone.table.replace_schema_metadata().equals(both.replace_schema_metadata())


def test_a_run_goes_on_from_what_is_there(first, tmp_path, monkeypatch):
    _, found = first
    score_suite(SUITE, CLOSED[:1], tmp_path, numbers=np.arange(5))
    made = []
    batches = EpisodeSuite.batches

    def counted(self, *, batch_size, numbers):
        made.append(list(numbers))
        return batches(self, batch_size=batch_size, numbers=numbers)

    monkeypatch.setattr(EpisodeSuite, "batches", counted)
    again = score_suite(SUITE, CLOSED[:2], tmp_path)
    assert sorted(made, key=len) == [[5, 6, 7, 8], list(range(9))]
    for one, other in zip(again, found, strict=False):
        assert one.table.replace_schema_metadata().equals(other.table.replace_schema_metadata())
    score_suite(SUITE, CLOSED[:2], tmp_path)
    assert len(made) == 2, "all is there"
    monkeypatch.setattr(eval.tscm.results, "code", lambda: "other")
    score_suite(SUITE, CLOSED[:1], tmp_path)
    assert len(made) == 3, "other code makes it again"


@dataclasses.dataclass(frozen=True)
class Outside:
    """A baseline on the host, which is stopped after some calls."""

    name: str = "outside"
    label: str = "Outside"
    trained_on: str = "published"
    bad: bool = False
    left: list = dataclasses.field(default_factory=lambda: [10**9])

    def applies(self, structure):
        return True

    def estimate_many(self, questions, structure="", *, episode=None):
        assert episode is None, "the truth is the oracle's alone"
        steps = np.asarray(questions.query.steps)
        self.left[0] -= 1
        if self.left[0] < 0:
            raise KeyboardInterrupt
        value = np.full(steps.shape, np.nan if self.bad else 1.0, np.float32)
        return Estimate(value, np.zeros_like(value))


def test_a_baseline_on_the_host_says_what_it_was_trained_on(tmp_path):
    found = score_suite(SUITE, [Outside(), *CLOSED[:1]], tmp_path)
    assert found[0].about["trained_on"] == "published"
    assert found[1].about["trained_on"] == "nothing"
    assert set(found[0].column("estimated_interventional")) == {1.0}


def test_what_was_estimated_before_an_interruption_is_kept(tmp_path, monkeypatch):
    monkeypatch.setattr(eval.tscm.run, "_SAVE_SECONDS", 0.0)
    with pytest.raises(KeyboardInterrupt):
        score_suite(SUITE, [Outside(left=[2])], tmp_path)
    kept = load_estimates(tmp_path, [SUITE])
    assert [one.episodes.tolist() for one in kept] == [[0, 1, 2, 3, 4, 5]]


def test_results_of_another_suite_or_settings_or_damaged_ones_are_refused(tmp_path):
    score_suite(SUITE, [Outside()], tmp_path, numbers=np.arange(2))
    other = dataclasses.replace(SUITE, seed=8)
    with pytest.raises(ResultsError, match=r"^results: .* is of another small-v1; expected"):
        score_suite(other, [Outside()], tmp_path)
    with pytest.raises(ResultsError, match=r"^results: .*: made with .*; expected"):
        score_suite(SUITE, [Outside(label="Another")], tmp_path)
    path = stored(tmp_path, "small-v1", "before", "outside")
    path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(ResultsError, match=r"^results: .*expected a whole file"):
        score_suite(SUITE, [Outside()], tmp_path)


def test_a_sample_has_every_part_in_proportion_and_grows():
    suite = load_episode_suite("generic")
    before = np.array([], int)
    for size in (5, 100, 12_345, 100_000):
        found = suite.sample(size)
        assert len(found) == len(np.unique(found)) == size
        shares = [np.isin(found, part.numbers).sum() / size for part in suite.parts]
        if size > 5:
            np.testing.assert_allclose(shares, [0.35, 0.35, 0.15, 0.075, 0.075], atol=1 / size)
        assert np.isin(before, found).all()
        before = found
    with pytest.raises(ValueError, match="^sample: 100001; expected .* 1 to 100000"):
        suite.sample(100_001)


def test_suites_and_baselines_are_chosen_by_name():
    labels = [suite.version for suite in chosen_suites("all", ["prior"])]
    assert labels == [
        "identifiability-v1", "linear-instrument-v1", "long-v1", "regime-v1", "continuous-v1",
        "generic-v1",
    ]  # fmt: skip
    assert len(chosen_suites("all")) == 10, "variants of the suite of structures"
    assert [one.version for one in chosen_suites("regime")] == ["regime-v1"]
    assert [one.name for one in chosen_baselines(["oracle", "zero"])] == ["oracle", "zero"]
    closed = [one.name for one in chosen_baselines()]
    assert "chronos-2" not in closed and {"var", "interrupted", "oracle"} <= set(closed)


@pytest.mark.parametrize(
    "arguments, said",
    [
        (["--suite=nonsense"], "suite: 'nonsense'; expected"),
        (["--baselines=zero,nonsense"], "baselines: 'nonsense'; expected"),
        (["--values=nonsense"], "values: 'nonsense'; expected"),
        (["--evidence=nonsense", "--suite=regime"], "evidence: 'nonsense'; expected"),
        (["--set=model=x", "--suite=regime"], "--set: .*; expected chronos-2"),
    ],
)
def test_the_command_refuses_what_it_cannot_do_before_it_writes(arguments, said, tmp_path):
    with pytest.raises(ValueError, match=f"^{said}"):
        CliRunner().invoke(
            app, ["tscm", *arguments, f"--out={tmp_path / 'out'}"], catch_exceptions=False
        )
    assert not (tmp_path / "out").exists()


def test_the_command_prints_the_reference_table_and_the_page(tmp_path, monkeypatch):
    monkeypatch.setattr(eval.tscm.command, "chosen_suites", lambda name, values=(): [SUITE])
    out = tmp_path / "out"
    done = CliRunner().invoke(
        app, ["tscm", "--baselines=zero,oracle", f"--out={out}"], catch_exceptions=False
    )
    lines = done.stdout.splitlines()
    assert lines[0] == "| method | small-v1 |"
    assert lines[3] == "| oracle | 0.000 ± 0.000 (1.00) |"
    assert lines[-1] == str(out / "index.html") and (out / "index.html").is_file()
    # more baselines are added to what is there, and failed forecasts are said
    board, _ = run_and_report([SUITE], [Outside(bad=True)], out, resamples=10)
    assert list(board.order) == ["zero", "oracle", "outside"]
    assert "∞" in (out / "index.html").read_text("utf-8")


def test_a_place_that_cannot_be_written_or_is_in_use_is_refused_before_the_work(
    tmp_path, monkeypatch
):
    monkeypatch.setattr(eval.tscm.command, "score_suite", lambda *_, **__: pytest.fail("work"))
    (tmp_path / "file").write_text("")
    for name, said in (("file", "a file is in the way"), ("taken", "is writing here")):
        with (
            FileLock(tmp_path / "taken" / "results" / ".lock"),
            pytest.raises(ResultsError, match=f"^out: .*{said}.*; expected") as found,
        ):
            run_and_report([SUITE], CLOSED, tmp_path / name)
        assert "\n" not in str(found.value)


@pytest.mark.slow
def test_the_command_runs_on_a_suite_and_ends_when_it_is_told_to(tmp_path):
    arguments = [sys.executable, "-m", "eval", "tscm", "--suite=regime", "--sample=30",
                 "--baselines=zero,mean,oracle", f"--out={tmp_path}"]  # fmt: skip
    done = subprocess.run(arguments, capture_output=True, text=True, check=True)
    assert done.stdout.startswith("| method | regime-v1 |")
    started = subprocess.Popen(
        [*arguments[:-1], f"--out={tmp_path / 'other'}"], stderr=subprocess.PIPE
    )
    started.stderr.read(20)
    os.kill(started.pid, signal.SIGINT)
    assert started.wait(120) in (130, -signal.SIGINT)


def test_a_baseline_of_ones_own_is_named_by_module_and_factory(tmp_path, monkeypatch):
    (tmp_path / "mine_tscm.py").write_text(
        "from eval.tscm import ClosedForm\n"
        "from eval.tscm.trivial import mean\n"
        "def make():\n    return ClosedForm('mine', 'Mine', mean)\n"
        "def taken():\n    return ClosedForm('mean', 'Mine', mean)\n"
        "def none():\n    return 3\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    found = chosen_baselines(["mean", "mine_tscm:make"])
    assert [one.name for one in found] == ["mean", "mine"]
    for name, words in (("taken", "the name 'mean'"), ("none", "returned int"), ("no", "no")):
        with pytest.raises(ValueError, match=f"^baselines: .*{words}"):
            chosen_baselines([f"mine_tscm:{name}"])
