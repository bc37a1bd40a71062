"""What must hold of skill and win rates whatever the errors."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.error_tables import any_error, error_tables, finite_error, table_of
from whatif_jax.comparison import (
    leaderboard,
    pairwise_win_rates,
    skill_scores,
    win_rates,
)

quick = settings(max_examples=60, deadline=None)


def copied(table):
    """The table with its last model a second time."""
    errors = np.concatenate([table.errors, table.errors[:, -1:]], axis=1)
    return table_of(errors, (*table.models, "copy"))


@quick
@given(error_tables())
def test_a_model_against_itself(table):
    for model in table.models:
        assert skill_scores(table, model)[table.index(model)] == 0
    twice = copied(table)
    assert pairwise_win_rates(twice)[-1, -2] == 0.5
    assert skill_scores(twice, "copy")[-2] == 0
    assert win_rates(twice.only((table.models[-1], "copy"))).tolist() == [0.5, 0.5]


@quick
@given(error_tables())
def test_pairwise_win_rates_add_up(table):
    matrix = pairwise_win_rates(table)
    assert np.all(matrix + matrix.T == 1) and np.all(np.diag(matrix) == 0.5)
    others = ~np.eye(len(table.models), dtype=bool)
    expected = [row[keep].mean() for row, keep in zip(matrix, others, strict=True)]
    np.testing.assert_allclose(win_rates(table), expected, rtol=0, atol=1e-12)
    assert win_rates(table).mean() == pytest.approx(0.5, abs=1e-12)


@quick
@given(error_tables(), st.data())
def test_joint_scaling_changes_nothing(table, data):
    scale = np.array(data.draw(st.lists(st.floats(1e-3, 1e3), min_size=12, max_size=12)))
    scaled = table_of(table.errors * scale[: len(table), None])
    np.testing.assert_allclose(skill_scores(scaled), skill_scores(table), rtol=1e-9, atol=1e-12)


@quick
@given(error_tables(), st.randoms(use_true_random=False))
def test_order_changes_nothing(table, random):
    rows, columns = list(range(len(table))), list(range(len(table.models)))
    random.shuffle(rows)
    random.shuffle(columns)
    other = table.take(np.array(rows)).only([table.models[column] for column in columns])
    np.testing.assert_allclose(
        skill_scores(other), skill_scores(table)[columns], rtol=1e-9, atol=1e-12
    )
    np.testing.assert_allclose(
        pairwise_win_rates(other), pairwise_win_rates(table)[np.ix_(columns, columns)], atol=1e-12
    )


@quick
@given(error_tables(), any_error, st.data())
def test_a_worse_error_never_helps(table, worse, data):
    row = data.draw(st.integers(0, len(table) - 1))
    column = data.draw(st.integers(1, len(table.models) - 1))
    errors = table.errors.copy()
    errors[row, column] = max(errors[row, column], worse)
    after = table_of(errors)
    assert skill_scores(after)[column] <= skill_scores(table)[column] + 1e-12
    assert win_rates(after)[column] <= win_rates(table)[column] + 1e-12
    assert np.all(pairwise_win_rates(after)[column] <= pairwise_win_rates(table)[column] + 1e-12)


@quick
@given(error_tables(finite_error))
def test_skill_equals_a_product(table):
    """The definition, one task at a time."""
    for model, skill in zip(table.models, skill_scores(table), strict=True):
        product = 1.0
        for error, reference in zip(table.column(model), table.column("naive"), strict=True):
            if reference == 0:
                ratio = 1.0 if error == 0 else 100.0
            else:
                ratio = min(max(error / reference, 0.01), 100.0)
            product *= ratio ** (1 / len(table))
        assert skill == pytest.approx(1 - product, rel=1e-9, abs=1e-9)


@pytest.mark.parametrize(
    "error, reference, skill",
    [
        (0, 0, 0), (np.inf, np.inf, 0), (1, 0, -99), (0, 1, 0.99), (np.inf, 1, -99),
        (1, np.inf, 0.99), (np.inf, 0, -99), (0, np.inf, 0.99), (1e9, 1, -99), (0.5, 1, 0.5),
    ],
)  # fmt: skip
def test_skill_of_one_task(error, reference, skill):
    assert skill_scores(table_of([[reference, error]]))[1] == pytest.approx(skill, abs=1e-12)


def test_win_rates_by_hand():
    table = table_of([[1, 2, 2], [3, 1, np.inf], [0, 0, np.inf], [np.inf, 5, np.inf]])
    expected = [[0.5, 0.375, 0.875], [0.625, 0.5, 0.875], [0.125, 0.125, 0.5]]
    np.testing.assert_array_equal(pairwise_win_rates(table), expected)
    np.testing.assert_allclose(win_rates(table), [0.625, 0.75, 0.125])


def test_errors_that_both_leave_the_clip_of_skill_are_told_apart():
    """There is one win rate, of the errors themselves."""
    table = table_of([[1, 200, 300]])
    assert win_rates(table).tolist() == [1, 0.5, 0]
    rates = {row["model"]: row["win_rate"] for row in leaderboard(table)}
    assert rates == {"naive": 1, "m1": 0.5, "m2": 0}
    assert skill_scores(table)[1] == skill_scores(table)[2] == pytest.approx(-99)


def test_leaderboard_without_a_key_and_of_one_model():
    rows = leaderboard(table_of([[1, 4, 2], [1, 1, 1]]))
    assert [row["model"] for row in rows] == ["naive", "m2", "m1"]
    assert rows[1]["skill"] == pytest.approx(1 - 2**0.5)
    assert rows[0]["skill_lower"] is None and rows[0]["imputed"] is None and rows[0]["tasks"] == 2
    (only,) = leaderboard(table_of([[1.0], [2.0]]))
    assert only["skill"] == 0 and np.isnan(only["win_rate"])


def test_refusals():
    with pytest.raises(ValueError, match=r"model 'ridge'; expected one of 'naive', 'm1'"):
        skill_scores(table_of([[1, 2]]), "ridge")
    with pytest.raises(ValueError, match="wql of 'm1' on task 1: nan; expected"):
        table_of([[1, 2], [1, np.nan]])
    with pytest.raises(ValueError, match="wql of 'm1' on task 0: -1.0; expected"):
        table_of([[1, -1]])
    with pytest.raises(ValueError, match="models: .* expected distinct names"):
        table_of([[1, 2]], ("naive", "naive"))
    with pytest.raises(ValueError, match="errors: 0 tasks of 2 models; expected some"):
        table_of(np.ones((0, 2)))
