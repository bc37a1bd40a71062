"""Resamples: their draws, the fast way and the slow one, clusters."""

import dataclasses
import functools
import importlib

import jax
import numpy as np
import pytest

from tests.error_tables import random_table, table_of
from whatif_jax import root_key
from whatif_jax.comparison import (
    Interval,
    bootstrap,
    leaderboard,
    pairwise_win_rates,
    skill_by,
    skill_differences,
    skill_scores,
    win_rates,
)
from whatif_jax.comparison.bootstrap import clusters, percentiles, resample_counts, resampled

module = importlib.import_module("whatif_jax.comparison.bootstrap")


def arrays_of(interval: Interval):
    """Estimate, lower and upper."""
    return dataclasses.astuple(interval)


def drawn(count, resamples, seed=0):
    return np.concatenate(list(resample_counts(count, resamples, key=root_key(seed))))


def test_every_resample_draws_as_many_as_there_are():
    counts = drawn(500, 400)
    assert counts.shape == (400, 500) and counts.dtype == np.float64
    assert np.all(counts.sum(axis=1) == 500) and np.all(counts >= 0)
    # binomial counts: mean 1, variance 1 - 1/500; 200,000 of them, so 1 % is 3 deviations
    assert counts.var() == pytest.approx(1, abs=0.02)
    # no task is drawn more often than another: the mean of 400 has deviation 0.05
    assert np.abs(counts.mean(axis=0) - 1).max() < 0.25


@pytest.mark.parametrize("count, resamples", [(50, 1030), (2500, 9)])
def test_a_resample_depends_on_its_number_alone(count, resamples):
    whole = drawn(count, resamples)
    np.testing.assert_array_equal(drawn(count, 7), whole[:7])
    assert not np.array_equal(drawn(count, 7, seed=1), whole[:7])
    for resample in (3, resamples - 1):
        own = jax.random.fold_in(root_key(0), resample)
        blocks = [
            np.asarray(jax.random.bits(jax.random.fold_in(own, block), (1024,), "uint32"))
            for block in range(-(-count // 1024))
        ]
        numbers = [int(number) * count >> 32 for number in np.concatenate(blocks)[:count]]
        np.testing.assert_array_equal(whole[resample], np.bincount(numbers, minlength=count))


def test_more_blocks_than_a_call_holds(monkeypatch):
    expected = drawn(2500, 5)
    monkeypatch.setattr(module, "_BLOCKS", 2)
    np.testing.assert_array_equal(drawn(2500, 5), expected)


@pytest.mark.parametrize("by", ["task", "pair", "target"])
@pytest.mark.parametrize(
    "statistic",
    [
        skill_scores,
        functools.partial(skill_scores, reference="m2"),
        functools.partial(skill_scores, reference="m1"),
        win_rates,
        pairwise_win_rates,
    ],
)
def test_counts_give_what_copies_of_the_table_give(statistic, by):
    table = random_table(count=41)
    fast = bootstrap(table, statistic, key=root_key(1), resamples=40, by=by)
    # wrapped, it is any function, which is called on every resample
    slow = bootstrap(table, lambda part: statistic(part), key=root_key(1), resamples=40, by=by)
    for ours, expected in zip(arrays_of(fast), arrays_of(slow), strict=True):
        np.testing.assert_allclose(ours, expected, rtol=1e-9, atol=1e-9)


def test_a_known_statistic_is_never_called_on_a_resample(monkeypatch):
    monkeypatch.setattr("whatif_jax.comparison.ErrorTable.take", None)
    found = bootstrap(random_table(), skill_scores, key=root_key(0), resamples=5)
    assert np.isfinite(found.estimate).all()
    with pytest.raises(TypeError, match="NoneType"):
        bootstrap(random_table(), lambda part: skill_scores(part), key=root_key(0), resamples=5)


def test_clusters():
    table = table_of(
        np.ones((4, 1)),
        system=np.array(["a", "b", "a", "a"], object),
        target=np.array(["x", "x", "y", "x"], object),
        pair_id=np.array([9, 9, 4, 7]),
    )
    assert clusters(table, "task").tolist() == [0, 1, 2, 3]
    assert clusters(table, "pair").tolist() == [2, 2, 0, 1]
    assert clusters(table, "target").tolist() == [0, 2, 1, 0]  # b's x is another target


def test_duplicated_tasks_widen_the_interval_by_pair_alone():
    """Twin tasks hold half the information: by pair the interval is sqrt(2) times as wide."""
    rng = np.random.default_rng(3)
    single = np.exp(rng.normal(size=(400, 2)))
    twins = table_of(np.repeat(single, 2, axis=0))
    widths = {}
    for by in ("task", "pair"):
        found = bootstrap(twins, skill_scores, key=root_key(0), resamples=1500, by=by)
        widths[by] = (found.upper - found.lower)[1]
    assert widths["pair"] / widths["task"] == pytest.approx(2**0.5, rel=0.12)


def test_by_target_keeps_a_targets_tasks_together():
    """All tasks of a target alike: the interval is that of as many tasks as targets."""
    rng = np.random.default_rng(4)
    single = np.exp(rng.normal(size=(30, 2)))
    target = np.repeat([f"t{index}" for index in range(30)], 6).astype(object)
    many = table_of(np.repeat(single, 6, axis=0), target=target, system=np.full(180, "a", object))
    found = bootstrap(many, skill_scores, key=root_key(0), resamples=300, by="target")
    names = np.array([f"t{index}" for index in range(30)], object)
    few = table_of(single, target=names, system=np.full(30, "a", object))
    expected = bootstrap(few, skill_scores, key=root_key(0), resamples=300, by="target")
    for ours, theirs in zip(arrays_of(found), arrays_of(expected), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-9, atol=1e-12)


def test_models_share_their_resamples():
    """A model and its copy have the same bounds, and their comparison has no width."""
    table = random_table(models=3)
    twice = table_of(
        np.concatenate([table.errors, table.errors[:, 1:2]], 1), (*table.models, "copy")
    )
    found = bootstrap(twice, skill_scores, key=root_key(0), resamples=100)
    assert found.lower[1] == found.lower[3] < found.estimate[1] < found.upper[3] == found.upper[1]
    pairs = bootstrap(twice, pairwise_win_rates, key=root_key(0), resamples=100)
    assert pairs.lower[1, 3] <= pairs.estimate[1, 3] <= pairs.upper[1, 3]
    matrix = pairs.lower + pairs.upper.T
    np.testing.assert_allclose(matrix, np.ones_like(matrix), atol=1e-12)


def test_coverage_of_the_interval():
    """Of 400 tables with a known skill, about 95 % of the intervals hold it."""
    rng = np.random.default_rng(5)
    counts = drawn(80, 400)
    held = 0
    for _ in range(400):
        logs = rng.normal(-0.5, 0.4, size=80)
        table = table_of(np.stack([np.ones(80), np.exp(logs)], 1))
        values = resampled(table, {"skill": skill_scores}, [counts], np.arange(80))["skill"]
        lower, upper = percentiles(values, 0.95)
        held += bool(lower[1] <= 1 - np.exp(-0.5) <= upper[1])
    # 380 with a deviation of 4.4; the percentile interval of 80 tasks is a little too narrow
    assert 360 <= held <= 394


def test_level_narrows():
    table = random_table(models=2)
    wide = bootstrap(table, skill_scores, key=root_key(0), resamples=200, level=0.99)
    narrow = bootstrap(table, skill_scores, key=root_key(0), resamples=200, level=0.5)
    assert wide.lower[1] < narrow.lower[1] < narrow.upper[1] < wide.upper[1]
    assert wide.estimate[1] == narrow.estimate[1] == skill_scores(table)[1]


def test_one_cluster_has_no_interval():
    table = table_of(np.ones((3, 2)), pair_id=np.zeros(3, np.int64))
    found = bootstrap(table, skill_scores, key=root_key(0), resamples=10, by="pair")
    assert np.isnan(found.lower).all() and np.isnan(found.upper).all()
    assert found.estimate.tolist() == [0, 0]


def test_leaderboard_intervals_are_those_of_the_bootstrap():
    table = random_table()
    options = {"resamples": 50, "by": "pair", "level": 0.9}
    skill = bootstrap(
        table, functools.partial(skill_scores, reference="m1"), key=root_key(2), **options
    )
    win = bootstrap(table, win_rates, key=root_key(2), **options)
    for row in leaderboard(table, reference="m1", key=root_key(2), **options):
        column = table.index(row["model"])
        assert row["skill_lower"] == pytest.approx(skill.lower[column], abs=1e-12)
        assert row["skill_upper"] == pytest.approx(skill.upper[column], abs=1e-12)
        assert row["win_rate_lower"] == pytest.approx(win.lower[column], abs=1e-12)
        assert row["win_rate_upper"] == pytest.approx(win.upper[column], abs=1e-12)


@pytest.mark.parametrize("by", ["task", "pair", "target"])
def test_intervals_of_groups(by):
    """Bounds of a group are the percentiles of its skill on resamples of all tasks."""
    table = random_table(count=240, models=3)
    found = skill_by(table, ("future", "system"), key=root_key(0), resamples=60, by=by)

    def of(future, system):
        def statistic(part):
            keep = (part.axis("future") == future) & (part.axis("system") == system)
            # a resample without the group says nothing of it
            return skill_scores(part.take(keep)) if keep.any() else np.full(3, np.nan)

        return bootstrap(table, statistic, key=root_key(0), resamples=60, by=by)

    assert found.groups == [("novel", "a"), ("novel", "b"), ("replay", "a"), ("replay", "b")]
    for row, group in enumerate(found.groups):
        expected = of(*group)
        np.testing.assert_allclose(found.estimate[row], expected.estimate, atol=1e-12)
        np.testing.assert_allclose(found.lower[row], expected.lower, atol=1e-9)
        np.testing.assert_allclose(found.upper[row], expected.upper, atol=1e-9)


def test_a_group_that_some_resamples_lack():
    """One task of 5 is in a group of its own: no interval; two tasks: from resamples with any."""
    names = np.array(["a", "b", "b", "c", "c"], object)
    errors = np.array([[1, 1], [1, 2], [1, 4], [1, 2], [1, 2]], float)
    found = skill_by(table_of(errors, system=names), "system", key=root_key(0), resamples=300)
    assert np.isnan(found.lower[0]).all() and np.isnan(found.upper[0]).all()
    assert found.lower[1, 1] == pytest.approx(-3) and found.upper[1, 1] == pytest.approx(-1)
    assert found.lower[2, 1] == pytest.approx(-1) and found.upper[2, 1] == pytest.approx(-1)


@pytest.mark.parametrize(
    "options, message",
    [
        ({"by": "series"}, "by: 'series'; expected 'task', 'pair' or 'target'"),
        ({"resamples": 0}, "resamples: 0; expected a whole number of at least 1"),
        ({"level": 1.0}, r"level: 1.0; expected a number in \(0, 1\)"),
        ({"key": 0}, r"key: 0; expected a key, whatif_jax.root_key\(seed\)"),
        ({"key": None}, "key: None; expected a key"),
    ],
)
def test_refused_options(options, message):
    with pytest.raises(ValueError, match=message):
        bootstrap(random_table(), skill_scores, **{"key": root_key(0), **options})


def test_refuses_more_groups_than_fit(monkeypatch):
    groups = importlib.import_module("whatif_jax.comparison.groups")
    monkeypatch.setattr(groups, "_MOST_RESAMPLED", 1000)
    table = random_table(models=2)
    with pytest.raises(
        ValueError, match="groups: 150 with 100 resamples of 2 models; .* at most 5"
    ):
        skill_by(table, "pair_id", key=root_key(0), resamples=100)
    assert len(skill_by(table, "pair_id").groups) == 150


def test_the_interval_of_a_difference_is_of_the_same_draws_for_both():
    """Against skills of drawn tables, one at a time; float64, 1e-9 for sums in another order."""
    table = random_table(60, 3, seed=5)
    first, other = table.models[0], table.models[2]
    statistic = functools.partial(skill_differences, other=other, reference=first)
    found = bootstrap(table, statistic, key=root_key(3), resamples=40)
    skills = skill_scores(table, first)
    np.testing.assert_allclose(found.estimate, skills - skills[2], atol=1e-12)
    values = []
    for row in resample_counts(60, 40, key=root_key(3)):
        for counts in np.atleast_2d(row).astype(int):
            some = skill_scores(table.take(np.repeat(np.arange(60), counts)), first)
            values.append(some - some[2])
    lower, upper = np.quantile(values, [0.025, 0.975], axis=0)
    np.testing.assert_allclose([found.lower, found.upper], [lower, upper], rtol=1e-9, atol=1e-12)
    with pytest.raises(ValueError, match="model 'nobody'"):
        skill_differences(table, other="nobody", reference=first)
