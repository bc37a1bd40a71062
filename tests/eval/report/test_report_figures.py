"""The report's figures: what they show, and that a user's settings of matplotlib change nothing."""

import importlib
import importlib.util

import matplotlib
import pytest

import eval.report
from eval.report.figures.charts import fewest_most_figure, leaderboard_figure
from eval.report.figures.drawing import figure, report_settings, save
from eval.report.labels import Switches
from eval.report.style import styles
from tests.eval.report.report_helpers import compare


def test_a_users_matplotlibrc_changes_nothing(tables, comparison, tmp_path):
    def draw(name):
        with report_settings():
            rows = tables["leaderboard"].where(reference="naive")
            made = leaderboard_figure(rows, Switches("wql", "naive"), comparison)
            save(made, tmp_path / name)
        return [(tmp_path / f"{name}.{ending}").read_bytes() for ending in ("svg", "png")]

    expected = draw("a")
    own = {"text.usetex": True, "axes.facecolor": "black", "text.color": "white", "font.size": 30,
           "figure.facecolor": "black", "hatch.color": "red", "axes.linewidth": 5}  # fmt: skip
    with matplotlib.rc_context(own):
        assert draw("b") == expected
        assert matplotlib.rcParams["font.size"] == 30  # and are given back
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.png", "a.svg", "b.png", "b.svg"]


def test_a_picture_that_cannot_be_written_leaves_no_part_of_itself(monkeypatch, tmp_path):
    def full(canvas, path, **options):
        path.write_bytes(b"half")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("eval.report.figures.drawing.FigureCanvasAgg.print_png", full)
    with report_settings(), pytest.raises(OSError, match="No space"):
        save(figure(1, 1, 2.0)[0], tmp_path / "a")
    assert [path.name for path in tmp_path.iterdir()] == ["a.svg"]


def test_fewest_and_most_events_have_a_panel_a_future_and_system(tables, comparison):
    rows = tables["fewest_most"].where(metric="wql", reference="naive")
    with report_settings():
        made = fewest_most_figure(rows, Switches("wql", "naive"), comparison)
    titles = [panel.get_title(loc="left") for panel in made.axes]
    assert titles[-1] == "all, Novel" and len(titles) == 2 * rows["system"].n_unique()
    for panel, title in zip(made.axes, titles, strict=True):
        system, future = title.split(", ")
        drawn = rows.filter(system=system, future=future.lower())
        lines = [list(line.get_ydata()) for line in panel.lines[: len(drawn)]]
        assert lines == [list(ends) for ends in drawn.select("fewest", "most").iter_rows()]


def test_charts_of_lines_draw_the_best_of_the_best_kinds_first(runs, part, monkeypatch):
    found = compare(runs.values(), part)
    # linear-paired-z-s is the best of its kind, and linear is what it is a variant of
    assert found.drawn == found.order and set(found.order) == set(runs)
    monkeypatch.setattr("eval.report.comparison.MOST_DRAWN", 1)
    found = compare(runs.values(), part)
    assert found.order[0] == "chronos-2"
    assert set(found.drawn) == {"chronos-2", "linear", "naive"}  # the references are always there
    assert list(found.styles)[:3] == found.drawn


def test_no_two_models_look_alike():
    found = styles(["naive", *(f"model {number}" for number in range(21))])
    assert len({(one.colour, one.dashes) for one in found.values()}) == 22
    assert len({(one.colour, one.marker) for one in found.values()}) == 22


@pytest.mark.parametrize("missing", ["jinja2", "matplotlib", "polars"])
def test_a_missing_package_names_the_extra(monkeypatch, missing):
    find = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: None if name == missing else find(name)
    )
    with pytest.raises(ImportError, match=rf"{missing} is not installed; pip .*\[eval\]"):
        importlib.reload(eval.report)
