"""Series as the page holds them."""

import numpy as np
import polars as pl

from eval.report.browser import browser_tasks, clarity, pack
from eval.report.models import models_of
from tests.eval.report.report_helpers import made_run, unpack


def test_packed_series_come_back_within_their_quantisation():
    random = np.random.default_rng(5)
    series = [
        ({"part": "history"}, random.normal(50, 10, 8192).cumsum()),
        ({"part": "covariate", "name": "constant"}, np.full(300, 7.25)),
        ({"part": "truth"}, np.array([np.nan, 1.0, -np.inf, 3.0])),
        ({"part": "baseline"}, np.full(3, np.nan)),
        ({"part": "median"}, np.zeros(0)),
    ]
    found = unpack(pack(series))
    assert [one["part"] for one, _ in found] == [one["part"] for one, _ in series]
    for (_, values), (_, back) in zip(series, found, strict=True):
        finite = np.isfinite(values)
        assert back.shape == values.shape and np.isnan(back[~finite]).all()
        if finite.any():
            limit = np.ptp(values[finite]) / 65534 * 0.51 + 1e-12
            np.testing.assert_allclose(back[finite], values[finite], atol=limit, rtol=1e-12)
    assert len(pack([({}, np.ones(8192))])) < 200


def test_both_futures_of_the_pairs_that_most_models_kept_are_shown(short, kept):
    table = pl.DataFrame(short.table.select(["task_id", "pair_id"]))
    alone = table.filter(pl.len().over("pair_id") == 1)["task_id"][0]
    one_future = made_run(short, "linear", quality=0.4, kept=(kept[0], alone))
    models, _ = models_of(
        [made_run(short, "naive", quality=0, point=True, kept=kept), one_future], short
    )
    pair = dict(table.iter_rows())[kept[0]]
    both = [number for number in kept if dict(table.iter_rows())[number] == pair]
    tasks = browser_tasks(models, short)
    assert [task["id"] for task in tasks] == sorted([*kept, alone])
    for most in (2, 3):
        assert [task["id"] for task in browser_tasks(models, short, most=most)] == both
    assert [task["kept"] for task in browser_tasks(models, short, most=2)] == [
        2 if number == kept[0] else 1 for number in both
    ]
    assert browser_tasks(models_of([made_run(short, "naive", quality=0)], short)[0], short) == []


def test_the_clearest_future_is_moved_far_and_does_not_jump_about():
    steps = np.linspace(0, 1, 100)
    slope = clarity(steps, steps - 1)
    assert slope == 1.0
    jumps = clarity(steps + np.arange(100) % 2, steps - 1)
    still = clarity(np.ones(100), np.zeros(100))
    assert still == 0.0 < jumps < 0.1
    assert 0 < clarity(steps, steps - 0.1) < slope
    assert clarity(np.full(3, np.nan), np.zeros(3)) == 0.0
