"""Grouping by any axes, trends, fewest against most events."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.error_tables import random_table, table_of
from whatif_jax.comparison import (
    fewest_most,
    log2_trend,
    nominal_contexts,
    skill_by,
    skill_scores,
)

AXES = (
    "system", "future", "k", "n_events", "event_length", "context_pair", "setting", "target",
)  # fmt: skip


@pytest.mark.parametrize("axes", [*((name,) for name in AXES), ("future", "k"), AXES[:4], AXES])
def test_groups_equal_a_loop_over_tasks(axes):
    table = random_table(count=200)
    rows: dict[tuple, list[int]] = {}
    for row in range(len(table)):
        rows.setdefault(tuple(table.axis(name)[row] for name in axes), []).append(row)
    found = skill_by(table, axes, "m1")
    assert found.groups == sorted(rows) and found.axes == axes
    assert found.tasks.tolist() == [len(rows[group]) for group in found.groups]
    assert (found.lower, found.upper) == (None, None)
    for position, group in enumerate(found.groups):
        expected = skill_scores(table.take(np.array(rows[group])), "m1")
        np.testing.assert_allclose(found.estimate[position], expected, rtol=1e-9, atol=1e-9)


def test_one_axis_gives_plain_keys_and_rows():
    table = random_table(count=50, models=2)
    found = skill_by(table, "k")
    assert found.groups == [(1,), (2,), (3,)]
    assert all(type(value) is int for group in found.groups for value in group)
    rows = list(found.rows())
    assert len(rows) == 6
    assert rows[3] == {
        "k": 2, "tasks": int(found.tasks[1]), "model": "m1",
        "skill": found.of("m1")[1], "skill_lower": None, "skill_upper": None,
    }  # fmt: skip


def test_no_axes_is_all_tasks():
    table = random_table()
    found = skill_by(table, ())
    assert found.groups == [()] and found.tasks.tolist() == [len(table)]


def test_unknown_axis():
    with pytest.raises(ValueError, match="axis 'colour'; expected one of 'system', 'target'"):
        skill_by(random_table(), ("k", "colour"))
    with pytest.raises(ValueError, match="model 'x'; expected one of 'naive', 'm1'"):
        skill_by(random_table(models=2), "k").of("x")


@settings(max_examples=50, deadline=None)
@given(
    st.lists(st.floats(0.5, 1e4), min_size=2, max_size=8, unique=True).filter(
        lambda x: max(x) > 1.01 * min(x)
    ),
    st.integers(0, 2**32 - 1),
)
def test_trend_equals_polyfit(x, seed):
    skill = np.random.default_rng(seed).normal(size=(len(x), 3))
    trend = log2_trend(x, skill)
    slope, intercept = np.polyfit(np.log2(x), skill, 1)
    np.testing.assert_allclose(trend.slope, slope, rtol=1e-7, atol=1e-7)
    np.testing.assert_allclose(trend.intercept, intercept, rtol=1e-7, atol=1e-7)
    one = log2_trend(x, skill[:, 1])
    assert one.slope == pytest.approx(trend.slope[1], rel=1e-9, abs=1e-12)
    assert trend.at(np.array(x)).shape == skill.shape
    np.testing.assert_allclose(one.at(x), trend.at(x)[:, 1], rtol=1e-7, atol=1e-7)


def test_trend_through_points_on_a_line():
    trend = log2_trend([1, 2, 4, 64], np.array([0.1, 0.3, 0.5, 1.3]))
    assert float(trend.slope) == pytest.approx(0.2) and float(trend.intercept) == pytest.approx(0.1)
    assert float(trend.at(8)) == pytest.approx(0.7)


@pytest.mark.parametrize("x", [[1, 1], [0, 1], [-1, 2], [3], [np.nan, 1]])
def test_trend_refuses(x):
    with pytest.raises(ValueError, match="x: .* expected two or more distinct numbers above 0"):
        log2_trend(x, np.zeros(len(x)))
    with pytest.raises(ValueError, match=r"skill: \[3\] at x \[2\]"):
        log2_trend([1, 2], np.zeros(3))


def test_nominal_contexts():
    table = table_of(
        np.ones((6, 1)),
        system=np.array(["a", "a", "a", "b", "b", "a"], object),
        context_pair=np.array(["C1", "C1", "C4", "C4", "C4", "C1"], object),
        context=np.array([1024, 1876, 4000, 1000, 1500, 1024]),
    )
    # C4: 4000 once and 1000 twice
    expected = {"C1": 1024.0, "C4": (4000.0 * 1000 * 1000) ** (1 / 3)}
    assert nominal_contexts(table) == pytest.approx(expected)


def cells(*rows):
    """A table of (target, event length, context pair, events, naive, model)."""
    target, length, pair, events, naive, model = zip(*rows, strict=True)
    count = len(rows)
    return table_of(
        np.array([naive, model], float).T,
        system=np.full(count, "a", object),
        target=np.array(target, object),
        event_length=np.array(length),
        context_pair=np.array(pair, object),
        n_events=np.array(events),
        k=np.full(count, 2),
        future=np.full(count, "novel", object),
    )


def test_fewest_most_by_hand():
    table = cells(
        ("x", 32, "C1", 1, 1, 0.5), ("x", 32, "C1", 8, 1, 1.0),  # compared: 0.5 -> 1
        ("x", 32, "C4", 2, 1, 0.25), ("x", 32, "C4", 64, 1, 1.0),  # compared: 0.25 -> 1
        ("x", 512, "C4", 2, 1, 0.01), ("x", 512, "C4", 8, 1, 0.01),  # 4 times: not compared
        ("y", 32, "C1", 1, 1, 2.0), ("y", 32, "C1", 16, 1, 0.5),  # compared: 2 -> 0.5
        ("z", 32, "C1", 1, 1, 0.1), ("z", 32, "C4", 64, 1, 0.9),  # other contexts: no cell
        ("w", 32, "C1", 16, 1, 0.1),  # alone in its cell
    )  # fmt: skip
    (found,) = fewest_most(table, "m1")
    assert found.group == ("a", "novel")
    assert found.fewest == pytest.approx(1 - 0.25 ** (1 / 3))
    assert found.most == pytest.approx(1 - 0.5 ** (1 / 3))
    assert found.change == pytest.approx(found.most - found.fewest)
    assert (found.worse, found.targets, found.cells) == (1, 2, 3)  # x is worse, y better
    (naive,) = fewest_most(table, "naive", axes=())
    assert (naive.group, naive.fewest, naive.most, naive.worse) == ((), 0, 0, 0)
    (more,) = fewest_most(table, "m1", ratio=4, axes="system")
    assert (more.group, more.targets, more.cells) == (("a",), 2, 4)
    by_target = fewest_most(table, "m1", axes=("target",))
    assert [(row.group, row.worse, row.cells) for row in by_target] == [
        (("x",), 1, 2),
        (("y",), 0, 1),
    ]
    assert fewest_most(table, "m1", ratio=100) == []


def test_targets_of_one_name_in_two_systems_are_two():
    table = cells(*[("x", 32, "C1", events, 1, 1.0) for events in (1, 8, 1, 8)])
    table.axes["system"][2:] = "b"
    (found,) = fewest_most(table, "m1", axes=("future",))
    assert (found.targets, found.cells) == (2, 2)


def test_fewest_most_refuses():
    table = random_table()
    with pytest.raises(ValueError, match="axes: 'n_events'; expected among system, target"):
        fewest_most(table, "m1", axes=("n_events",))
    with pytest.raises(ValueError, match="ratio: 1; expected a number above 1"):
        fewest_most(table, "m1", ratio=1)
    with pytest.raises(ValueError, match="model 'x'"):
        fewest_most(table, "x")
