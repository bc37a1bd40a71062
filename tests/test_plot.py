"""Pictures of tasks: what is in them, whoever's matplotlib they are drawn with."""

import re
import sys

import equinox as eqx
import numpy as np
import pytest

from tests.export_helpers import small_suite
from whatif_jax import cli, load_systems, plot_task, with_factors

pytest.importorskip("matplotlib")


@pytest.fixture(scope="module")
def pair(suite):
    part = suite.where(system="epanet", context=1024, k=2, event_length=64)
    return part.where(pair_id=int(part.column("pair_id")[0]))


def lines(axis) -> dict[str, np.ndarray]:
    return {line.get_label(): line.get_ydata() for line in axis.get_lines()}


def test_a_pair_stands_side_by_side(pair):
    ids = pair.column("task_id").tolist()
    figure = plot_task([pair.spec(each) for each in ids], pair.systems)
    tops, bottoms = np.reshape(figure.axes, (2, 2))
    for top, bottom, each in zip(tops, bottoms, ids, strict=True):
        task, row = pair.task(each), pair.where(task_id=each).table.to_pylist()[0]
        drawn = lines(top)
        np.testing.assert_allclose(drawn["history"], task.history, rtol=1e-6)
        np.testing.assert_allclose(drawn["future to forecast"], task.future, rtol=1e-6)
        usual = drawn["without intervention"]
        np.testing.assert_array_equal(usual[1024:], task.future_baseline)
        assert top.get_title().startswith(row["future"].capitalize())
        for name, factor in zip(row["covariates"], row["future_factors"], strict=True):
            values = lines(bottom)[name.replace("_", " ")]
            assert len(values) == 1024 + 128
            assert values[1024:].max() == pytest.approx(factor, rel=1e-5) or factor < 1
    assert tops[0].get_ylabel() and not tops[1].get_ylabel()
    assert figure._repr_png_().startswith(b"\x89PNG")  # what a notebook shows


def test_the_title_is_of_the_factors_that_are_drawn(pair):
    novel = pair.where(future="novel")
    spec = novel.spec(int(novel.column("task_id")[0]))
    past = np.asarray(spec.factors)[0, :2]
    others = np.array([past[0], 1.01 * past[1]])
    titles = [
        plot_task(with_factors(spec, future), novel.systems).axes[0].get_title()
        for future in (past, others)
    ]
    assert titles == ["Replay: the factors of a past event", "Future: other factors"]


def test_what_is_not_the_spec_of_a_task_is_refused(pair):
    batched = pair.specs([0])
    for spec in (17, None, [3], batched, pair.task(int(pair.column("task_id")[0]))):
        with pytest.raises(ValueError, match="^spec: .*expected a TaskSpec of one task"):
            plot_task(spec, pair.systems)
    with pytest.raises(ValueError, match="^spec: 0 tasks of .*expected tasks of one target"):
        plot_task([], pair.systems)


def test_what_a_spec_cannot_be_drawn_with_is_refused(pair, suite):
    spec = pair.spec(int(pair.column("task_id")[0]))
    for systems in ("epanet", None, pair):
        with pytest.raises(ValueError, match="^systems: .*; expected Systems, such as suite.sys"):
            plot_task(spec, systems)
    with pytest.raises(ValueError, match="^path: 5; expected the path of a file"):
        plot_task(spec, pair.systems, path=5)
    epanet, other = load_systems("epanet"), suite.where(system="sumo")
    foreign = other.spec(int(other.column("task_id")[0]))
    for row in (foreign.target, 0):  # 0: as if it came from Systems of sumo alone
        at = eqx.tree_at(lambda each: each.target, foreign, np.int32(row))
        late = eqx.tree_at(lambda each: each.window_start, at, np.int32(10**6))
        with pytest.raises(ValueError, match="^systems: epanet; expected those of the spec"):
            plot_task([late], epanet)
    with pytest.raises(ValueError, match="^systems: epanet; expected those of the spec"):
        plot_task(foreign, epanet)


def test_a_padded_task_of_a_users_system(tmp_path):
    own = small_suite().where(context=256, system="bakery", k=1)
    spec = own.spec(int(own.column("task_id")[0]))
    figure = plot_task(spec, own.systems, catalog=own.catalog, path=tmp_path / "a.svg")
    top, bottom = figure.axes
    assert len(lines(bottom)) == 1
    assert "30 minutes" in bottom.get_xlabel() and top.get_ylabel().endswith(")")
    assert (tmp_path / "a.svg").read_bytes().startswith(b"<?xml")
    with pytest.raises(ValueError, match="bakery"):
        plot_task(spec, own.systems)


def test_a_users_matplotlib_settings_change_nothing(pair, tmp_path):
    import matplotlib

    spec = pair.spec(int(pair.column("task_id")[0]))
    plot_task(spec, pair.systems, path=tmp_path / "plain.png")
    theirs = {
        "text.usetex": True, "figure.facecolor": "black", "axes.facecolor": "black",
        "savefig.dpi": 7, "savefig.facecolor": "red", "font.size": 30, "axes.spines.top": True,
    }  # fmt: skip
    with matplotlib.rc_context(theirs):
        plot_task(spec, pair.systems, path=tmp_path / "own.png")
        assert matplotlib.rcParams["text.usetex"]
    assert (tmp_path / "own.png").read_bytes() == (tmp_path / "plain.png").read_bytes()


def command(monkeypatch, capsys, *arguments: str) -> tuple[int, str]:
    monkeypatch.setattr(sys, "argv", ["whatif-jax", "plot", *arguments])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    out = capsys.readouterr()
    return ended.value.code, (out.out + out.err).strip()


def test_the_command_draws_a_file(pair, tmp_path, monkeypatch, capsys):
    ids = map(str, pair.column("task_id").tolist())
    out = tmp_path / "pair.png"
    assert command(monkeypatch, capsys, *ids, "--output", str(out)) == (0, str(out))
    assert out.read_bytes().startswith(b"\x89PNG")


def test_what_cannot_be_drawn_is_one_line(tmp_path, monkeypatch, capsys):
    cases = {
        ("0", "9000"): "spec: 2 tasks of .*expected tasks of one target",
        ("0", "--output", "a.xyz"): "path: 'a.xyz'; expected an ending of .*png",
        ("0", "--output", "/dev/null/a.png"): "path: /dev/null/a.png: a file is in the way",
        ("-1",): "",
        ("99999",): r"task_ids: \[99999\] are not among the 37665 tasks",
    }
    monkeypatch.chdir(tmp_path)
    for arguments, message in cases.items():
        code, text = command(monkeypatch, capsys, *arguments)
        assert code == 2
        if message:
            assert re.fullmatch(f"whatif-jax: {message}.*", text), text
    assert not list(tmp_path.iterdir())


def test_without_matplotlib_the_extra_is_named(pair, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    spec = pair.spec(int(pair.column("task_id")[0]))
    with pytest.raises(ImportError, match=r"pip install 'whatif-jax\[plot\]'"):
        plot_task(spec, pair.systems)
