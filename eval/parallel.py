"""Forecasters whose rows are independent CPU work, spread over processes or a Dask cluster."""

import contextlib
import itertools
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from whatif_jax.evaluation.forecaster import forecaster_identity

from .forecasters.base import require
from .run_files import ResultsError

__all__ = ["Spread", "cluster"]

# Pieces of a batch for each worker: more even the load, each costs a hand-over.
PIECES = 4


class Spread:
    """A forecaster that splits the rows of every batch over the workers of joblib.

    The numbers are those of the forecaster itself, since its rows are independent; everything else
    about it, such as its name and settings, is taken over. Works within `joblib.parallel_config`,
    so that a Dask cluster serves too (`cluster`).

    Args:
        forecaster: one with `parallel` set, which workers receive by pickle.
        jobs: processes, as joblib counts them: -1 is one for each CPU. None leaves it to
            `joblib.parallel_config`.
        workers: how many there are, where `jobs` does not say.

    Raises:
        ImportError: joblib is not installed.
    """

    def __init__(self, forecaster: Callable, *, jobs: int | None = -1, workers: int | None = None):
        self._forecaster = forecaster
        self.name = forecaster_identity(forecaster)[0]
        self._joblib = require("joblib", "eval")
        self._jobs = jobs
        self.workers = workers or self._joblib.effective_n_jobs(jobs)
        self.row_seconds: np.ndarray | None = None  # of the last call, as its worker spent them

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):  # also while copied, when there is no forecaster yet
            raise AttributeError(name)
        return getattr(self._forecaster, name)

    def __call__(
        self,
        history: np.ndarray,
        covariates: np.ndarray,
        horizon: int,
        levels: Sequence[float],
        **keywords: Any,
    ) -> Any:
        """Forecast a batch; arguments and result are those of the forecaster."""
        rows = len(history)
        pieces = min(rows, self.workers * PIECES)
        if self.workers == 1 or pieces < 2:
            answer, self.row_seconds = _timed(
                self._forecaster, history, covariates, horizon, levels, **keywords
            )
            return answer
        bounds = np.linspace(0, rows, pieces + 1).astype(int)
        spans = [slice(start, end) for start, end in itertools.pairwise(bounds)]
        one = self._joblib.delayed(_timed)
        # no memory map: an array that joblib shares through the disk is read-only and stays there
        run = self._joblib.Parallel(n_jobs=self._jobs, max_nbytes=None)
        found = run(
            one(
                self._forecaster,
                history[span],
                covariates[span],
                horizon,
                levels,
                **_part(keywords, span),
            )
            for span in spans
        )
        self.row_seconds = np.concatenate([seconds for _, seconds in found])
        return _joined([answer for answer, _ in found])


def _timed(
    forecaster: Callable, history: np.ndarray, *arguments: Any, **keywords: Any
) -> tuple[Any, np.ndarray]:
    """A piece of a batch, and the seconds of each of its rows."""
    start = time.perf_counter()
    answer = forecaster(history, *arguments, **keywords)
    rows = len(history)
    return answer, np.full(rows, (time.perf_counter() - start) / rows)


def _part(keywords: dict[str, Any], span: slice) -> dict[str, Any]:
    """Rows of `info`, a `BatchInfo`."""
    return {name: value.take(span) for name, value in keywords.items()}


def _joined(answers: list[Any]) -> Any:
    if all(isinstance(answer, np.ndarray) for answer in answers):
        return np.concatenate(answers)
    return [row for answer in answers for row in answer]


@contextlib.contextmanager
def cluster(address: str) -> Iterator[int]:
    """Send the work of joblib to a Dask cluster.

    The workers must be able to import this package and `whatif_jax`, in the same version.

    Args:
        address: of the scheduler, such as tcp://host:8786.

    Yields:
        threads of all workers together.

    Raises:
        ResultsError: nobody answers at the address, or the cluster has no workers.
        ImportError: joblib or distributed is not installed.
    """
    joblib = require("joblib", "eval")
    distributed = require("distributed", "dask")
    try:
        client = distributed.Client(address, timeout="10s", set_as_default=False)
    except (OSError, ValueError) as error:
        raise ResultsError(
            f"dask: {address!r}: {error}; expected the address of a scheduler, such as "
            f"tcp://host:8786"
        ) from None
    with client:
        threads = sum(client.nthreads().values())
        if not threads:
            raise ResultsError(f"dask: the cluster at {address} has no workers; expected some")
        with joblib.parallel_config("dask", client=client):
            yield threads
