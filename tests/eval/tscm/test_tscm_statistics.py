"""Scores by part with bootstrap by episode, against the same done by hand."""

import dataclasses

import numpy as np
import pyarrow as pa
import pytest

from eval.tscm.statistics import ALL, METRICS, statistics
from tests.eval.tscm.board_cases import CONTINUOUS, estimates
from whatif_jax import root_key
from whatif_jax.comparison.bootstrap import resample_counts

RESAMPLES = 50


@pytest.fixture(scope="module")
def made():
    return {one.name: one for one in estimates(CONTINUOUS)}


@pytest.fixture(scope="module")
def found(made):
    return statistics(made.values(), key=root_key(0), resamples=RESAMPLES)


def by_hand(forecast, target):
    error = np.mean((forecast - target) ** 2)
    directed = np.abs(target) >= np.float32(0.1)
    right = np.sign(forecast[directed]) == np.sign(target[directed])
    return {
        "rmse": np.sqrt(error),
        "nmse": error / np.var(target),
        "direction": np.mean(right) if directed.any() else np.nan,
    }


def pairs(one):
    column = {name: one.column(name).astype(np.float64) for name in one.table.column_names[6:]}
    effect = (one.column("counterfactual") - one.column("factual")).astype(np.float64)
    change = one.column("estimated_counterfactual") - one.column("factual")
    return {
        "interventional": (column["estimated_interventional"], column["interventional"]),
        "counterfactual": (column["estimated_counterfactual"], column["counterfactual"]),
        "effect": (column["estimated_effect"], effect),
        "change": (change.astype(np.float64), effect),
    }


def rows_of(one, group):
    axis, value = group
    return slice(None) if group == ALL else one.column(axis) == value


def test_groups_are_the_values_of_every_axis_that_has_several(found):
    axes = {axis for axis, _ in found["mean"]}
    assert axes == {"all", "structure", "tier", "offset"}, "parts are named by their structures"
    assert [value for axis, value in found["mean"] if axis == "offset"] == [1, 2, 3, 5, 10]


def test_every_score_of_every_part_is_the_one_computed_by_hand(made, found):
    for name, one in made.items():
        for group, scored in found[name].items():
            rows = rows_of(one, group)
            expected = {key: by_hand(a[rows], b[rows]) for key, (a, b) in pairs(one).items()}
            for metric in METRICS:
                np.testing.assert_allclose(
                    scored.scores[metric.key][0], expected[metric.pair][metric.score],
                    rtol=2e-5, atol=1e-6, err_msg=f"{name} {group} {metric.key}",
                )  # fmt: skip
            assert scored.queries == np.size(one.column("offset")[rows])
            assert scored.failed == 0


def test_resamples_draw_whole_episodes_the_same_for_all_parts(made, found):
    one = made["regression"]
    number = one.column("episode")
    count = len(np.unique(number))
    drawn = np.concatenate(list(resample_counts(count, RESAMPLES, key=root_key(0))))
    forecast, target = pairs(one)["interventional"]
    for group in (ALL, ("structure", "front_door"), ("offset", 10)):
        rows = np.arange(len(number))[rows_of(one, group)]
        for resample in (0, RESAMPLES - 1):
            some = np.repeat(rows, drawn[resample][number[rows]].astype(int))
            expected = by_hand(forecast[some], target[some])
            for score, value in expected.items():
                got = found["regression"][group].scores[f"interventional_{score}"][1 + resample]
                np.testing.assert_allclose(got, value, rtol=2e-5)


def test_baselines_with_fewer_episodes_are_scored_on_their_own(made, found):
    less = made["mean"]
    less = dataclasses.replace(less, table=less.table.slice(0, 50))
    again = statistics([less, made["zero"]], key=root_key(0), resamples=RESAMPLES)
    assert again["mean"][ALL].episodes == 10 and again["zero"][ALL].episodes == 80
    np.testing.assert_array_equal(
        again["zero"][ALL].scores["effect_rmse"], found["zero"][ALL].scores["effect_rmse"]
    )


def test_a_forecast_that_is_not_finite_makes_its_baseline_no_better(made, found):
    one = made["regression"]
    values = one.column("estimated_interventional").copy()
    values[3] = np.nan
    place = one.table.column_names.index("estimated_interventional")
    table = one.table.set_column(place, one.table.schema.field(place), pa.array(values))
    broken = dataclasses.replace(one, table=table)
    again = statistics([broken], key=root_key(0), resamples=RESAMPLES)["regression"][ALL]
    before = found["regression"][ALL]
    assert again.failed == 1
    error = again.scores["interventional_rmse"]
    assert error[0] == np.inf and np.all(error[1:] >= before.scores["interventional_rmse"][1:])
    assert np.isfinite(again.scores["effect_rmse"]).all()
    direction = "interventional_direction"
    assert np.all(again.scores[direction] <= before.scores[direction])


def test_one_episode_has_no_interval(made):
    one = dataclasses.replace(made["mean"], table=made["mean"].table.slice(0, 5))
    scores = statistics([one], key=root_key(0), resamples=5)["mean"][ALL].scores
    assert np.isfinite(scores["effect_rmse"][0]) and np.isnan(scores["effect_rmse"][1:]).all()


def test_equal_targets_have_no_normalised_error_however_large(made):
    """A square rounded to float32 is off by 6e-8 of it, which is no variance."""
    one = made["mean"]
    for size in (1e2 / 3, 4321.7):
        table = one.table
        for name in ("interventional", "counterfactual"):
            place = table.column_names.index(name)
            values = pa.array(np.full(len(table), size, np.float32))
            table = table.set_column(place, table.schema.field(place), values)
        again = statistics(
            [dataclasses.replace(one, table=table)], key=root_key(0), resamples=RESAMPLES
        )["mean"][ALL]
        assert np.isnan(again.scores["interventional_nmse"]).all()
        assert np.isfinite(again.scores["interventional_rmse"]).all()
