"""A real report from the command line, and places that no report can be written to."""

import contextlib
import copy
import json
import os
import resource
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow.parquet as parquet
import pytest

from eval.report.figures.drawing import figure, report_settings, save
from eval.report.models import ReportError
from eval.report.tables import Column, Table, write_csv
from eval.report.write import write_report
from tests.eval.report.report_helpers import made_run

TESTS = Path(__file__).parents[2]
LEADERBOARD = TESTS.parent / "eval" / "leaderboard"


@contextlib.contextmanager
def largest_file(size):
    """Writing more than so many bytes into a file fails, as on a full disk."""
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, handler)


@pytest.fixture
def results(tmp_path):
    """The first 300 tasks of the committed run of naive, as a run of 300 tasks."""
    source = next(LEADERBOARD.glob("*/*/naive-*"))
    folder = tmp_path / "results" / source.name
    folder.mkdir(parents=True)
    record = json.loads((source / "run.json").read_text())
    (folder / "run.json").write_text(json.dumps(record | {"task_count": 300, "forecast_count": 0}))
    for name in ("scores.parquet", "seconds.parquet"):
        parquet.write_table(parquet.read_table(source / name).slice(0, 300), folder / name)
    return folder.parent


@pytest.mark.slow
def test_a_real_report_is_drawn_alike_whatever_the_users_matplotlibrc(results, tmp_path):
    from PIL import Image  # which matplotlib needs

    done = subprocess.run(
        [sys.executable, "-m", "eval", "report", str(tmp_path / "out"), f"--results={results}"],
        cwd=TESTS.parent,
        env={**os.environ, "MATPLOTLIBRC": str(TESTS / "data" / "hostile.matplotlibrc")},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == str(tmp_path / "out" / "index.html")
    pictures = list((tmp_path / "out" / "figures").glob("*.png"))
    assert len(pictures) > 10
    for path in pictures:
        with Image.open(path) as picture:
            grey = np.asarray(picture.convert("L"))
        assert grey[0, 0] == 255 and grey.mean() > 200 and grey.min() < 80, path.name


def test_a_report_into_a_file_is_refused_before_the_work(short, tmp_path):
    place = tmp_path / "report"
    place.write_text("mine")
    said = []
    with pytest.raises(ReportError, match=rf"^out: {place}: a file is in the way; expected "):
        write_report([made_run(short, "naive", quality=0)], short, place, progress=said.append)
    assert said == [] and place.read_text() == "mine"


def test_a_report_of_another_suite_has_none_of_the_papers_findings(short, tmp_path, monkeypatch):
    monkeypatch.setattr("eval.report.write.draw_figures", lambda *_: {})
    own = copy.copy(short)
    own.name = "own"
    runs = [made_run(own, "naive", quality=0), made_run(own, "linear", quality=0.4)]
    page = write_report(runs, own, tmp_path / "out", resamples=10)
    text = page.read_text("utf-8")
    assert "paper's findings" not in text and "Paper and ours" not in text
    assert not list((page.parent / "tables").glob("*finding*"))


def test_every_file_is_written_whole_or_not_at_all(tmp_path):
    rows = [{"model": f"model {number}"} for number in range(100)]
    table = Table.of_rows("long", "Long", [Column("model", "Model")], rows)
    with report_settings():
        made = figure(1, 1, 2.0)[0]
    for write in (lambda: write_csv(table, tmp_path), lambda: save(made, tmp_path / "figure")):
        with largest_file(500), report_settings(), pytest.raises(OSError, match="File too large"):
            write()
        assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("size", [400, 50_000])
def test_a_report_that_runs_out_of_space_is_one_line_and_no_part_of_a_file(
    short, kept, tmp_path, monkeypatch, size
):
    """Of the tables the first has no room, then the page alone."""
    monkeypatch.setattr("eval.report.write.draw_figures", lambda *_: {})  # is tested above
    runs = [made_run(short, "naive", quality=0, point=True, kept=kept)]
    with largest_file(size), pytest.raises(ReportError, match="^out: .*too large.*; expected a"):
        write_report(runs, short, tmp_path / "out", resamples=10)
    whole = write_report(runs, short, tmp_path / "whole", resamples=10).parent
    left = [path for path in (tmp_path / "out").rglob("*") if path.is_file()]
    assert not [path for path in left if path.suffix not in (".csv", ".md")]
    assert bool(left) == (size > 400)
    for path in left:
        assert path.read_bytes() == (whole / path.relative_to(tmp_path / "out")).read_bytes()
