"""Skill, win rates and intervals are those of fev on the same errors."""

import dataclasses
import warnings

import numpy as np
import pytest

from tests.error_tables import random_table
from whatif_jax import root_key
from whatif_jax.comparison import (
    ErrorTable,
    bootstrap,
    leaderboard,
    pairwise_win_rates,
    skill_scores,
    win_rates,
)
from whatif_jax.comparison.bootstrap import percentiles, resampled
from whatif_jax.evaluation.scoring import error_ratio

pytest.importorskip("fev")

import fev.analysis
import pandas as pd


def summaries(table: ErrorTable) -> pd.DataFrame:
    """One row a task and model, as fev writes them."""
    count, width = table.errors.shape
    return pd.DataFrame(
        {
            "dataset_path": np.tile([f"task-{task:05d}" for task in table.task_ids], width),
            "model_name": np.repeat(table.models, count),
            "test_error": table.errors.T.ravel(),
            "quantile_levels": "[]",
            "fev_version": fev.__version__,
        }
    )


def of_fev(function, table: ErrorTable, **options) -> pd.DataFrame:
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")  # columns we have no use for are missing
        return function(summaries(table), **options)


def square(found: pd.DataFrame, column: str, models) -> np.ndarray:
    return found[column].unstack().loc[list(models), list(models)].to_numpy()


def clipped(table: ErrorTable, reference: str = "naive") -> ErrorTable:
    """The errors that fev's leaderboard compares: their clipped ratios to the reference's."""
    ratios = error_ratio(table.errors, table.column(reference)[:, None])
    return dataclasses.replace(table, errors=ratios)


@pytest.mark.parametrize("seed", range(3))
def test_leaderboard(seed):
    table = random_table(seed=seed)
    theirs = of_fev(fev.analysis.leaderboard, table, baseline_model="naive").loc[list(table.models)]
    found = {row["model"]: row for row in leaderboard(table)}
    skill = [found[model]["skill"] for model in table.models]
    np.testing.assert_allclose(skill, theirs["skill_score"], rtol=0, atol=1e-9)
    np.testing.assert_allclose(win_rates(clipped(table)), theirs["win_rate"], rtol=0, atol=1e-9)


def test_win_rates_are_those_of_fev_where_no_ratio_leaves_the_clip():
    table = random_table()
    table = dataclasses.replace(table, errors=np.clip(table.errors, 0.2, 10.0))
    theirs = of_fev(fev.analysis.leaderboard, table, baseline_model="naive")
    for row in leaderboard(table):
        expected = theirs.loc[row["model"], "win_rate"]
        assert row["win_rate"] == pytest.approx(expected, rel=0, abs=1e-9)


def test_leaderboard_against_another_reference():
    table = random_table(models=4)
    table.errors[:, 2] = np.maximum(np.where(np.isinf(table.errors[:, 2]), 9, 0.1), 0.1)
    theirs = of_fev(fev.analysis.leaderboard, table, baseline_model="m2")
    found = {row["model"]: row for row in leaderboard(table, reference="m2")}
    assert found["m2"]["skill"] == 0
    for model, expected in theirs.iterrows():
        assert found[model]["skill"] == pytest.approx(expected["skill_score"], rel=0, abs=1e-9)
    rates = theirs.loc[list(table.models), "win_rate"]
    np.testing.assert_allclose(win_rates(clipped(table, "m2")), rates, rtol=0, atol=1e-9)


@pytest.mark.parametrize("seed", range(3))
def test_pairwise_comparison(seed):
    table = random_table(seed=seed)
    table.errors[table.errors == 0] = 1e-9  # fev has no policy for 0/0 and inf/inf
    table.errors[np.isinf(table.errors)] = 1e9
    theirs = of_fev(fev.analysis.pairwise_comparison, table)
    np.testing.assert_allclose(
        pairwise_win_rates(table), square(theirs, "win_rate", table.models), rtol=0, atol=1e-9
    )
    columns = [skill_scores(table, model) for model in table.models]
    np.testing.assert_allclose(
        np.stack(columns, 1), square(theirs, "skill_score", table.models), rtol=0, atol=1e-9
    )


def test_pairwise_win_rate_of_zeros_and_infinities():
    table = random_table(seed=5)
    assert np.isinf(table.errors).any() and (table.errors == 0).any()
    theirs = of_fev(fev.analysis.pairwise_comparison, table)
    np.testing.assert_allclose(
        pairwise_win_rates(table), square(theirs, "win_rate", table.models), rtol=0, atol=1e-9
    )


def fev_counts(count: int, resamples: int, seed: int) -> np.ndarray:
    """How often fev draws each task."""
    drawn = np.random.default_rng(seed).integers(0, count, size=(resamples, count))
    return np.stack([np.bincount(row, minlength=count) for row in drawn]).astype(np.float64)


def test_intervals_from_the_resamples_of_fev():
    """The same resamples, in two chunks, give the same bounds."""
    table = random_table(count=120)
    table.errors[table.errors == 0] = 1e-9
    table.errors[np.isinf(table.errors)] = 1e9
    counts = fev_counts(120, 200, seed=11)
    values = resampled(
        table,
        {"skill": skill_scores, "pairwise win": pairwise_win_rates},
        [counts[:70], counts[70:]],
        np.arange(120),
    )
    bounds = {name: percentiles(drawn, 0.95) for name, drawn in values.items()}
    options = {"n_resamples": 200, "seed": 11}
    board = of_fev(fev.analysis.leaderboard, table, baseline_model="naive", **options)
    board = board.loc[list(table.models)]
    pairs = of_fev(fev.analysis.pairwise_comparison, table, **options)
    for position, side in enumerate(("lower", "upper")):
        for ours, theirs in {
            "skill": board[f"skill_score_{side}"],
            "pairwise win": square(pairs, f"win_rate_{side}", table.models),
        }.items():
            np.testing.assert_allclose(bounds[ours][position], theirs, rtol=0, atol=1e-9)


def test_own_resamples_give_intervals_as_wide():
    """Bounds of 2,000 own resamples differ from fev's by no more than a tenth of the width."""
    table = random_table(count=200)
    ours = bootstrap(table, skill_scores, key=root_key(0), resamples=2000)
    board = of_fev(fev.analysis.leaderboard, table, baseline_model="naive", n_resamples=2000)
    board = board.loc[list(table.models)]
    lower, upper = board["skill_score_lower"].to_numpy(), board["skill_score_upper"].to_numpy()
    width = upper - lower
    assert np.all(width[1:] > 0)
    assert np.all(np.abs(ours.lower - lower) <= 0.1 * width)
    assert np.all(np.abs(ours.upper - upper) <= 0.1 * width)
