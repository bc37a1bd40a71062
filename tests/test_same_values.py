"""What was published stays what it is: the suite, the stream's draws, and the committed scores."""

from pathlib import Path

import numpy as np
import pyarrow.parquet as parquet
import pytest

from whatif_jax import TaskStream, evaluate

ROOT = Path(__file__).parents[1]
FINGERPRINT = "0cdd0f3e4140abae59ba3dff4926b4f811545505daa5af3c1c7c68f96f4e6a61"
STREAMS = {
    "readme": dict(
        key=0, batch_size=8, buckets=[(512, 64)], systems=["epanet"], event_lengths=[32]
    ),
    "default": dict(key=7, batch_size=16),
    "own": dict(
        key=3, batch_size=16, buckets=[(1024, 128), (512, 64)], k=(2, 4), n_events=(1, 3),
        shapes=("ramp", "half_sine", "bell"), factor_range=(0.2, 5.0), event_lengths=(32, 57),
        novel=0.7,
    ),
    "targets": dict(
        key=9, batch_size=8, buckets=[(700, 50)], event_lengths=(32,),
        targets=["gridlabd/total_load", "pressure_10"],
    ),
}  # fmt: skip


def test_the_suite_is_the_frozen_one(suite):
    assert suite.fingerprint == FINGERPRINT


@pytest.mark.slow
@pytest.mark.parametrize("name", STREAMS)
def test_a_key_draws_the_same_tasks(name):
    """Draws of the first version, whole numbers exactly and factors to float32 rounding (1e-6)."""
    table = parquet.read_table(Path(__file__).parent / "data" / "stream_draws.parquet")
    rows = [row for row in table.to_pylist() if row["stream"] == name]
    stream, batches = TaskStream(**STREAMS[name]), {}
    for row in rows:
        step, r = row["step"], row["row"]
        if step not in batches:
            spec = stream.batch_at(step).spec
            batches[step] = {
                field: np.asarray(value) for field, value in vars(spec).items() if field != "bucket"
            }
        spec = {field: value[r] for field, value in batches[step].items()}
        k, n_events = len(row["covariates"]), len(row["event_starts"])
        assert "/".join(stream.systems.targets[spec["target"]]) == row["target"]
        assert (spec["covariate_mask"].sum(), spec["n_events"]) == (k, n_events)
        for field in ("window_start", "event_length", "future"):
            assert spec[field] == row[field], (field, step, r)
        for field in ("covariates", "shapes"):
            assert spec[field][:k].tolist() == row[field]
        assert spec["event_starts"][:n_events].tolist() == row["event_starts"]
        np.testing.assert_allclose(spec["factors"][:n_events, :k], row["factors"], rtol=1e-6)
        np.testing.assert_allclose(spec["future_factors"][:k], row["future_factors"], rtol=1e-6)
    assert len(rows) == 3 * STREAMS[name]["batch_size"]


@pytest.mark.parametrize("model", ["naive", "linear", "ridge"])
def test_the_committed_scores_come_out_again(few, suite, model):
    """1e-5 of each score: the last bits of a forecast depend on the platform."""
    folder = ROOT / "eval" / "leaderboard"
    if not folder.is_dir():
        pytest.skip("not in a checkout")
    from eval.forecasters import make_forecaster

    (path,) = folder.glob(f"whatif-v1-{suite.fingerprint[:12]}/*/{model}-1-*/scores.parquet")
    committed = {row["task_id"]: row for row in parquet.read_table(path).to_pylist()}
    for row in evaluate(make_forecaster(model), few, batch_size=16).scores.to_pylist():
        for name, value in row.items():
            expected = committed[row["task_id"]][name]
            assert value == pytest.approx(expected, rel=1e-5), (row["task_id"], name)
