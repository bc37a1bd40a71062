"""Scores against the dotime package's own, as `test_package.py` has its worlds."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest

from tests.tscm.score_sums import scored, sums

FOLDER = os.environ.get("DOTIME", "")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not FOLDER, reason="DOTIME: the folder of the unpacked dotime wheel"),
]
PROGRAM = """
import json, sys
import numpy as np, torch
from dotime.evaluation import compute_nmse, compute_rmse, direction_accuracy
found = []
for forecast, target in np.load(sys.argv[1]):
    forecast, target = torch.from_numpy(forecast), torch.from_numpy(target)
    found.append([compute_rmse(forecast, target), compute_nmse(forecast, target),
                  direction_accuracy(forecast, target)])
print(json.dumps(found))
"""


def test_scores_are_the_packages(tmp_path):
    rng = np.random.default_rng(0)
    target = rng.standard_normal((4, 400)) * np.array([[0.2], [1.0], [30.0], [1.0]])
    forecast = target + rng.standard_normal((4, 400))
    forecast[3, ::3] = 0.0
    pairs = np.stack([forecast, target], axis=1).astype(np.float32)
    np.save(tmp_path / "pairs.npy", pairs)
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(tmp_path / "pairs.npy")],
        check=True, capture_output=True, text=True, env=os.environ | {"PYTHONPATH": FOLDER},
    )  # fmt: skip
    for (one, other), (error, ratio, direction) in zip(pairs, json.loads(done.stdout), strict=True):
        np.testing.assert_allclose(
            scored(one, other), [error, ratio, direction["accuracy"]], rtol=1e-5
        )
        assert sums(one, other).directed == direction["n_valid"]
