"""Series as the page holds them."""

import numpy as np

from eval.report.browser import pack
from tests.eval.report.report_helpers import unpack


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
