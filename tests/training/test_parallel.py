"""Several devices, and several processes, train as one. Real processes."""

import socket

import numpy as np
import pytest

from tests.training.training_helpers import finished, rows_of, start_fit

# The same sums in another order, through twelve steps of Adam; float32.
TOLERANCE = {"rtol": 2e-5, "atol": 1e-6}


def assert_same_run(run, whole_run):
    for name in ("steps.csv", "evaluations.csv"):
        found, expected = (np.array(rows_of(each / name), float) for each in (run, whole_run))
        np.testing.assert_allclose(found, expected, **TOLERANCE)


@pytest.mark.slow
def test_two_devices_train_as_one(whole_run, tmp_path):
    finished(start_fit(tmp_path / "run", devices=2))
    assert_same_run(tmp_path / "run", whole_run)


@pytest.mark.slow
def test_two_processes_train_as_one_on_the_union_of_their_rows(whole_run, tmp_path):
    with socket.socket() as free:
        free.bind(("localhost", 0))
        port = free.getsockname()[1]
    options = ("--coordinator", f"localhost:{port}", "--processes", "2", "--process")
    both = [start_fit(tmp_path / "run", *options, str(number)) for number in range(2)]
    for process in both:
        finished(process)
    assert_same_run(tmp_path / "run", whole_run)
    assert (tmp_path / "run/checkpoints/latest/12").is_dir()
