"""A task stream as a PyTorch dataset: tensors in the memory that JAX made them in.

References:
    DLPack: https://dmlc.github.io/dlpack/latest/
    torchdata's StatefulDataLoader, whose protocol `StreamDataset` has.
"""

import multiprocessing.context
from collections.abc import Iterator, Mapping
from typing import Any

import jax
import numpy as np

from .._types import Array
from .forked import refuse_forked
from .spec import is_whole
from .stream_arrays import Stream, batch_arrays

try:
    import torch
    from torch.utils.data import IterableDataset, get_worker_info
except ImportError:  # said when a dataset is made
    torch = None
    IterableDataset = object

__all__ = ["StreamDataset", "tensors_of"]

INSTALL = "pip install 'whatif-jax[torch]'"


def _require_torch() -> None:
    if torch is None:
        raise ImportError(f"torch is not installed; {INSTALL}", name="torch")


def tensors_of(arrays: Mapping[str, Array], *, host: bool = False) -> dict[str, Any]:
    """Arrays of JAX as tensors, through DLPack.

    Nothing is copied on a CPU, nor on a GPU that torch was built for: the tensor is the array's
    memory, masks included (DLPack has booleans since 0.8), and stays whole when the array is gone,
    deleted or donated. Torch knows no read-only tensors: a write to one is a write to the array, so
    that what JAX will read again is to be copied first. `StreamDataset` hands over arrays that
    nothing else refers to. What torch has no device for (a TPU), and what lies on several devices,
    is copied to the CPU.

    Args:
        arrays: by name.
        host: whether tensors of a GPU are copied to the CPU too.

    Raises:
        ImportError: torch is not installed; names the extra.
    """
    _require_torch()
    return {name: _tensor(value, host) for name, value in arrays.items()}


def _tensor(value: Array, host: bool) -> Any:
    platforms = [device.platform for device in value.devices()]
    shared = platforms == ["cpu"] or (
        platforms == ["gpu"] and not host and torch.cuda.is_available()
    )
    if shared:
        return torch.from_dlpack(jax.block_until_ready(value))
    return torch.from_numpy(np.array(value))


class StreamDataset(IterableDataset):
    """Batches of a stream as dicts of tensors, without end unless told.

    For a `DataLoader` with `batch_size=None`, since each item is a batch. The names are those of
    `whatif_jax.tasks.inputs`: history [B, T], history_mask, covariates [B, T + H, K],
    covariate_mask [B, K], future_mask [B, H], and future [B, H], what is to be forecast. Tensors
    are the caller's own to write to; see `tensors_of` for when they are copies.

    Without workers the next batch is made while one is in use. Worker processes are to be started
    by `multiprocessing_context="spawn"` or "forkserver"; each compiles its own programs and has
    its tensors on the CPU, so where JAX runs on a GPU no workers, or JAX_PLATFORMS=cpu, is better.

    Steps are shared out: rank r of R makes steps start + r, start + r + R, ..., and of these worker
    w of n each n-th from the w-th on, so that a loader gives the same batches in the same order for
    any number of workers. A stream of several shapes gives them in turns: where the length of
    a turn (their number, or that of `bucket_weights`) has a factor in common with R, a rank may
    never see some of them.

    Every iteration begins at `start`, or where `load_state_dict` put it. Without workers
    `state_dict` is the position; with workers each has its own, which torchdata's
    `StatefulDataLoader` keeps. With PyTorch's own loader, count: after n batches of it,
    `start + n * world_size` is where to begin again.

    Args:
        stream: a `TaskStream`, or what has its `batch_at`, `check` and `batch_size`.
        start: step of the stream to begin at.
        stop: first step that is not given; None for no end.
        rank: of this process among those that train together.
        world_size: number of them.

    Raises:
        ImportError: torch is not installed; names the extra.
        ValueError: a number that cannot be; names it.
    """

    def __init__(
        self,
        stream: Stream,
        start: int = 0,
        stop: int | None = None,
        *,
        rank: int = 0,
        world_size: int = 1,
    ):
        _require_torch()
        super().__init__()
        _check_whole("start", start, 0)
        _check_whole("stop", 0 if stop is None else stop, 0)
        _check_whole("world_size", world_size, 1)
        if not is_whole(rank) or not 0 <= rank < world_size:
            raise ValueError(f"rank: {rank!r}; expected an integer in 0 .. {world_size - 1}")
        self.stream, self.stop = stream, stop
        self.rank, self.world_size = int(rank), int(world_size)
        self._start = int(start)
        self._next = self._start  # without the share of this process
        self._copied = False

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """Batches of this process's share.

        Raises:
            ForkedError: in a process that was forked after JAX was used.
            StreamError: a row failed verification.
        """
        refuse_forked()
        self._next = self._start
        return self._batches(self._start)

    def _batches(self, begin: int) -> Iterator[dict[str, Any]]:
        worker, workers = _worker()
        share, stride = self.rank + worker * self.world_size, workers * self.world_size
        end = 2**63 if self.stop is None else self.stop
        host = get_worker_info() is not None
        ahead: Any = None
        made = begin + share
        for step in range(made, end, stride):
            batch, ahead = ahead, self.stream.batch_at(step)
            if batch is not None:
                yield self._given(batch, made + stride - share, host)
                made = step
        if ahead is not None:
            yield self._given(ahead, made + stride - share, host)

    def _given(self, batch: Any, following: int, host: bool) -> dict[str, Any]:
        """Tensors of a batch that is given now, and the position after it."""
        tensors = tensors_of(batch_arrays(self.stream, batch), host=host)
        self._next = following
        return tensors

    def state_dict(self) -> dict[str, int]:
        """Where the last iteration stands, after the last batch that it gave.

        Raises:
            RuntimeError: copies of this dataset were sent to workers, which stand elsewhere.
        """
        if self._copied:
            raise RuntimeError(
                "state_dict: the positions are those of a loader's workers; expected "
                "torchdata's StatefulDataLoader, or `start` counted from the batches it gave"
            )
        return {"start": self._next, "workers": _worker()[1]}

    def load_state_dict(self, state: Mapping[str, int]) -> None:
        """Let iterations begin where a state was taken.

        The state of a process without workers is good for any number of them.

        Raises:
            ValueError: no state of a dataset, or one of another number of workers.
        """
        workers = _worker()[1]
        try:
            start, of = state["start"], state["workers"]
        except (KeyError, TypeError):
            raise ValueError(f"state: {state!r}; expected what state_dict gave") from None
        _check_whole("state['start']", start, 0)
        if of not in (1, workers):
            raise ValueError(f"state: of {of!r} workers; expected {workers}")
        self._start = self._next = int(start)

    def __getstate__(self) -> dict[str, Any]:
        if multiprocessing.context.get_spawning_popen() is not None:
            self._copied = True
        return {**vars(self), "_copied": False}

    def __repr__(self) -> str:
        return f"StreamDataset({self.stream!r}, start={self._start})"


def _worker() -> tuple[int, int]:
    """This process's number among a loader's workers, and how many they are."""
    info = get_worker_info()
    return (0, 1) if info is None else (info.id, info.num_workers)


def _check_whole(name: str, value: Any, low: int) -> None:
    if not is_whole(value) or not low <= value < 2**63:
        raise ValueError(f"{name}: {value!r}; expected an integer in [{low}, 2**63)")
