"""A stream as PyTorch's dataset: whose memory it is, whose share, and where it goes on."""

import itertools
import os
import subprocess
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from whatif_jax import StreamError, TaskStream, inputs_of
from whatif_jax.tasks import torch_source
from whatif_jax.tasks.stream_arrays import batch_arrays
from whatif_jax.tasks.torch_source import StreamDataset, tensors_of

ROOT = Path(__file__).parents[2]
NAMES = {"history", "history_mask", "covariates", "covariate_mask", "future", "future_mask"}
SMALL = dict(batch_size=4, systems=["epanet"], event_lengths=[32])


@pytest.fixture(scope="module")
def torch():
    return pytest.importorskip("torch")


@pytest.fixture(scope="module")
def stream():
    return TaskStream(5, buckets=[(256, 32), (512, 32)], **SMALL)


def expected(stream, step: int) -> dict[str, np.ndarray]:
    task = stream.batch_at(step).task
    return {name: np.asarray(one) for name, one in vars(inputs_of(task)).items()} | {
        "future": np.asarray(task.future)
    }


def steps_of(stream, batches, below: int = 24) -> list[int]:
    """Which steps of the stream batches are."""
    known = {expected(stream, step)["future"].tobytes(): step for step in range(below)}
    return [known[batch["future"].numpy().tobytes()] for batch in batches]


def first(dataset, count: int) -> list:
    return list(itertools.islice(dataset, count))


# ---- memory ----


def test_a_batch_has_the_layout_of_a_forecasters_inputs(torch, stream):
    for step, batch in enumerate(first(StreamDataset(stream), 2)):
        assert set(batch) == NAMES
        for name, value in expected(stream, step).items():
            assert batch[name].dtype == (torch.bool if name.endswith("mask") else torch.float32)
            np.testing.assert_array_equal(batch[name].numpy(), value)
    assert batch["covariates"].shape == (4, 512 + 32, 5)


def test_tensors_are_the_memory_of_jaxs_arrays_and_keep_it(torch, stream):
    arrays = batch_arrays(stream, stream.batch_at(0))
    where = {name: value.unsafe_buffer_pointer() for name, value in arrays.items()}
    tensors = tensors_of(arrays)
    assert {name: tensor.data_ptr() for name, tensor in tensors.items()} == where  # masks too
    del arrays
    for _ in range(3):  # would be made in memory that was given back
        batch_arrays(stream, stream.batch_at(2))
    for name, value in expected(stream, 0).items():
        np.testing.assert_array_equal(tensors[name].numpy(), value)


def test_a_tensor_outlives_a_deleted_and_a_donated_array(torch):
    deleted, donated = jnp.arange(1024.0), jnp.arange(1024.0)
    tensors = tensors_of({"deleted": deleted, "donated": donated})
    deleted.delete()
    jax.jit(lambda value: 0 * value, donate_argnums=0)(donated).block_until_ready()
    for tensor in tensors.values():
        np.testing.assert_array_equal(tensor.numpy(), np.arange(1024.0))


def test_a_write_reaches_nothing_that_jax_can_read(torch, stream):
    class Kept:
        """A stream that hands the same batch out again."""

        batch_size, batch = 4, stream.batch_at(0)

        def batch_at(self, step):
            return self.batch

        def check(self, batch):
            return batch

    before = jax.tree.map(np.array, Kept.batch.task)
    for tensors in first(StreamDataset(Kept()), 2):
        np.testing.assert_array_equal(tensors["history"].numpy(), before.history)
        for tensor in tensors.values():
            tensor.zero_()
    assert jax.tree.all(jax.tree.map(np.array_equal, before, Kept.batch.task))


def test_what_lies_on_several_devices_is_copied(torch):
    mesh = Mesh(np.array(jax.devices()[:2]), ("rows",))
    sharding = NamedSharding(mesh, PartitionSpec("rows"))
    spread = TaskStream(5, buckets=[(256, 32)], sharding=sharding, **SMALL)
    alone = TaskStream(5, buckets=[(256, 32)], **SMALL)
    (batch,) = first(StreamDataset(spread), 1)
    for name, value in expected(alone, 0).items():
        np.testing.assert_array_equal(batch[name].numpy(), value)


# ---- shares and positions ----


def test_ranks_share_the_steps_out(torch, stream):
    ranks = [StreamDataset(stream, 3, 20, rank=rank, world_size=3) for rank in range(3)]
    shares = [steps_of(stream, dataset) for dataset in ranks]
    assert shares == [[*range(3 + rank, 20, 3)] for rank in range(3)]


@pytest.mark.parametrize("workers, ranks", [(1, 1), (2, 1), (3, 2)])
def test_workers_share_the_steps_of_their_rank_out(torch, stream, monkeypatch, workers, ranks):
    """In the order in which a loader asks its workers: one batch of each in turn."""
    from torch.utils.data._utils.worker import WorkerInfo

    for rank in range(ranks):
        parts = []
        for worker in range(workers):
            info = WorkerInfo(id=worker, num_workers=workers, seed=0, dataset=None)
            monkeypatch.setattr(torch_source, "get_worker_info", lambda info=info: info)
            dataset = StreamDataset(stream, rank=rank, world_size=ranks)
            before = first(dataset, 1)
            resumed = StreamDataset(stream, rank=rank, world_size=ranks)
            resumed.load_state_dict(dataset.state_dict())
            parts.append(steps_of(stream, [*before, *first(resumed, 2)]))
        together = [part[turn] for turn in range(3) for part in parts]
        assert together == [*range(rank, 3 * workers * ranks, ranks)]


def test_a_position_goes_on_with_the_very_next_batch(torch, stream):
    dataset = StreamDataset(stream, start=2)
    assert dataset.state_dict() == {"start": 2, "workers": 1}
    batches = iter(dataset)
    seen = [next(batches) for _ in range(3)]
    state = dataset.state_dict()
    other = StreamDataset(stream)
    other.load_state_dict(state)
    assert other.state_dict() == state
    assert steps_of(stream, [*seen, *first(other, 3)]) == [2, 3, 4, 5, 6, 7]
    assert steps_of(stream, first(StreamDataset(stream, start=2), 2)) == [2, 3]
    assert steps_of(stream, first(dataset, 1)) == [2]  # an iteration begins at the start again


def test_the_end_is_a_position_too(torch, stream):
    dataset = StreamDataset(stream, 0, 3)
    assert len(list(dataset)) == 3
    again = StreamDataset(stream, 0, 3)
    again.load_state_dict(dataset.state_dict())
    assert list(again) == []
    assert list(StreamDataset(stream, 3, 1)) == []


SHARED = """
import sys

import numpy as np
from torch.utils.data import DataLoader

from whatif_jax import ForkedError, TaskStream
from whatif_jax.tasks.torch_source import StreamDataset

SPAWN = dict(batch_size=None, multiprocessing_context="spawn")


def steps(batches):
    return [known[batch["future"].numpy().tobytes()] for batch in batches]


def some(batches, count):
    return [batch for _, batch in zip(range(count), batches)]


if __name__ == "__main__":
    stream = TaskStream(5, 4, buckets=[(256, 32)], systems=["epanet"], event_lengths=[32])
    known = {np.asarray(stream.batch_at(step).task.future).tobytes(): step for step in range(16)}
"""

WORKERS = """
    if sys.platform == "linux":
        try:
            forked = dict(batch_size=None, num_workers=1, multiprocessing_context="fork")
            next(iter(DataLoader(StreamDataset(stream), **forked)))
        except ForkedError as error:
            print("ForkedError", "started by 'spawn'" in str(error))
    two = DataLoader(StreamDataset(stream), num_workers=2, **SPAWN)
    print(steps(some(two, 5)))
    try:
        two.dataset.state_dict()
    except RuntimeError as error:
        print(error)
    print(steps(DataLoader(StreamDataset(stream, 5, 9), num_workers=1, **SPAWN)))
"""

STATEFUL = """
    from torchdata.stateful_dataloader import StatefulDataLoader

    for options in (dict(batch_size=None), dict(num_workers=2, **SPAWN)):
        batches = iter(loader := StatefulDataLoader(StreamDataset(stream), **options))
        seen = some(batches, 3)
        state = loader.state_dict()
        del batches, loader
        resumed = StatefulDataLoader(StreamDataset(stream), **options)
        resumed.load_state_dict(state)
        print(steps([*seen, *some(resumed, 4)]))
"""


def run(code: str, folder: Path) -> list[str]:
    """What a script prints whose workers import it."""
    (folder / "script.py").write_text(SHARED + code)
    path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "PYTHONPATH": path}
    environment.pop("XLA_FLAGS", None)
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "script.py"],
        cwd=folder, env=environment, capture_output=True, text=True, timeout=600,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_workers_are_spawned_and_their_loader_goes_on_by_count(torch, tmp_path):
    lines = run(WORKERS, tmp_path)
    if sys.platform == "linux":
        assert lines.pop(0) == "ForkedError True"
    assert lines[0] == "[0, 1, 2, 3, 4]" and lines[2] == "[5, 6, 7, 8]"
    assert lines[1].startswith("state_dict: ") and "expected torchdata's" in lines[1]


@pytest.mark.slow
def test_torchdatas_loader_keeps_the_positions_of_workers(torch, tmp_path):
    pytest.importorskip("torchdata")
    assert run(STATEFUL, tmp_path) == 2 * ["[0, 1, 2, 3, 4, 5, 6]"]


# ---- what is refused ----


def test_a_row_that_is_no_task_stops_the_iteration(torch, stream, monkeypatch):
    def refuse(self, batch):
        raise StreamError("1 of 4 rows failed")

    monkeypatch.setattr(TaskStream, "check", refuse)
    with pytest.raises(StreamError, match="1 of 4"):
        next(iter(StreamDataset(stream)))


@pytest.mark.parametrize(
    "wrong, said",
    [
        (dict(start=-1), r"start: -1; expected an integer in \[0, 2\*\*63\)"),
        (dict(start=True), "start: True"),
        (dict(stop=2.5), "stop: 2.5"),
        (dict(world_size=0), "world_size: 0"),
        (dict(rank=2, world_size=2), "rank: 2; expected an integer in 0 .. 1"),
    ],
)
def test_numbers_that_cannot_be_are_refused_by_name(torch, stream, wrong, said):
    with pytest.raises(ValueError, match=f"^{said}"):
        StreamDataset(stream, **wrong)


@pytest.mark.parametrize("state", [{}, None, {"start": -1, "workers": 1}, {"start": 0}])
def test_what_is_no_state_is_refused(torch, stream, state):
    with pytest.raises(ValueError, match="^state"):
        StreamDataset(stream).load_state_dict(state)


def test_the_state_of_one_of_two_workers_is_not_the_whole(torch, stream):
    with pytest.raises(ValueError, match="^state: of 2 workers; expected 1"):
        StreamDataset(stream).load_state_dict({"start": 4, "workers": 2})


def test_a_missing_torch_names_the_extra(stream, monkeypatch):
    monkeypatch.setattr(torch_source, "torch", None)
    for call in (lambda: StreamDataset(stream), lambda: tensors_of({})):
        with pytest.raises(ImportError, match=r"torch is not installed; .*whatif-jax\[torch\]"):
            call()
