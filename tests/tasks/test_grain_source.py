"""A stream as grain's data source: its loaders, their workers, and where they go on."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from whatif_jax import TaskStream, inputs_of
from whatif_jax.tasks.grain_source import TaskSource

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def grain():
    return pytest.importorskip("grain")


@pytest.fixture(scope="module")
def stream():
    return TaskStream(5, 4, buckets=[(256, 32)], systems=["epanet"], event_lengths=[32])


def test_a_record_is_a_batch_in_the_layout_of_a_forecasters_inputs(grain, stream):
    task = stream.batch_at(2).task
    expected = {**vars(inputs_of(task)), "future": task.future}
    record = TaskSource(stream, 6)[2]
    assert set(record) == set(expected)
    for name, value in expected.items():
        np.testing.assert_array_equal(record[name], value)
        assert record[name].flags.owndata and record[name].flags.writeable


def test_grains_loader_gives_every_step_once(grain, stream):
    source = TaskSource(stream, 6)
    assert len(source) == 6 and repr(source) == "TaskSource(steps=6, batch_size=4)"
    sampler = (
        grain.samplers.IndexSampler(
            6, shuffle=True, seed=1, num_epochs=1, shard_options=grain.sharding.NoSharding()
        )
        if hasattr(grain, "samplers")
        else grain.IndexSampler(6, shuffle=True, seed=1, num_epochs=1)
    )
    records = list(grain.DataLoader(data_source=source, sampler=sampler, worker_count=0))
    found = {record["history"].tobytes() for record in records}
    expected = {np.asarray(stream.batch_at(step).task.history).tobytes() for step in range(6)}
    assert len(records) == 6 and found == expected
    mapped = grain.MapDataset.source(source).map(lambda record: record["future"].shape)
    assert mapped[2] == (4, 32)


def test_what_is_no_step_is_refused(grain, stream):
    with pytest.raises(IndexError, match="expected 0 .. 5"):
        TaskSource(stream, 6)[6]
    for steps in (0, True, 2.0):
        with pytest.raises(ValueError, match="^steps"):
            TaskSource(stream, steps)


def test_a_missing_grain_names_the_extra(stream, monkeypatch):
    monkeypatch.setitem(sys.modules, "grain", None)
    with pytest.raises(ImportError, match=r"grain is not installed; .*whatif-jax\[grain\]"):
        TaskSource(stream, 6)


# The README's example
WORKERS = """
import grain
from absl import flags

from whatif_jax import TaskStream
from whatif_jax.tasks.grain_source import TaskSource

flags.FLAGS.mark_as_parsed()  # grain's workers ask for absl's flags

if __name__ == "__main__":  # workers import this file
    stream = TaskStream(5, 4, buckets=[(256, 32)], systems=["epanet"], event_lengths=[32])
    data = grain.MapDataset.source(TaskSource(stream, steps=12)).to_iter_dataset()
    data = data.mp_prefetch(grain.MultiprocessingOptions(num_workers=2))
    batches = iter(data)
    seen = [next(batches) for _ in range(3)]
    state = batches.get_state()
    resumed = iter(data)
    resumed.set_state(state)
    seen += [next(resumed) for _ in range(3)]
"""
CHECK = """
    known = {bytes(stream.batch_at(step).task.future.__array__()): step for step in range(12)}
    print([known[batch["future"].tobytes()] for batch in seen])
"""


@pytest.mark.slow
def test_workers_of_grain_go_on_where_they_were(grain, tmp_path):
    (tmp_path / "script.py").write_text(WORKERS + CHECK)
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    environment.pop("XLA_FLAGS", None)
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "script.py"],
        cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=600,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout == "[0, 1, 2, 3, 4, 5]\n"
