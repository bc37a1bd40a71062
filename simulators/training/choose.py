"""Which series of a run are kept: those that vary, none a copy of another, all quantities alike."""

from collections.abc import Mapping

import numpy as np

__all__ = ["LARGEST_CORRELATION", "LONGEST_REST", "choose_series", "varies"]

LARGEST_CORRELATION = 0.99  # of two kept series of a run, in magnitude: beyond, one says the other
LONGEST_REST = (
    0.3  # of the run: a series that rests longer in one stretch is a constant to a window
)
_FEWEST_CHANGES = 0.02  # of the steps


def varies(values: np.ndarray) -> bool:
    """Whether a series [steps] moves in float32, often enough and without a long rest."""
    stored = np.asarray(values, dtype=np.float32)
    if not np.isfinite(stored).all() or len(stored) < 2:
        return False
    largest = float(np.abs(stored).max())
    # float32 holds seven digits: a swing in the last three is rounding, not data
    if float(np.ptp(stored)) <= 1e-4 * largest:
        return False
    moves = np.flatnonzero(np.diff(stored) != 0)
    if len(moves) < _FEWEST_CHANGES * len(stored):
        return False
    rests = np.diff(np.concatenate([[-1], moves, [len(stored) - 1]]))
    return int(rests.max()) <= LONGEST_REST * len(stored)


def choose_series(
    series: Mapping[str, np.ndarray], quantities: Mapping[str, str], most: int, seed: int
) -> list[str]:
    """Names of at most `most` series, taken from each quantity in turn in an order drawn by seed.

    Args:
        series: values [steps] by name.
        quantities: what each series is of, such as "pressure", by name.
        most: how many to keep.
        seed: of the order in which the series of a quantity are tried.
    """
    order = np.random.default_rng(seed).permutation(len(series))
    names = list(series)
    queues: dict[str, list[str]] = {}
    for index in order:
        if varies(series[names[index]]):
            queues.setdefault(quantities[names[index]], []).append(names[index])
    chosen: list[str] = []
    standard: list[np.ndarray] = []
    turns = [queues[quantity] for quantity in sorted(queues)]
    while turns and len(chosen) < most:
        for queue in turns:
            while queue and len(chosen) < most:
                name = queue.pop(0)
                values = np.asarray(series[name], dtype=np.float64)
                values = (values - values.mean()) / values.std()
                alike = (abs(float(other @ values)) / len(values) for other in standard)
                if all(correlation < LARGEST_CORRELATION for correlation in alike):
                    chosen.append(name)
                    standard.append(values)
                    break
        turns = [queue for queue in turns if queue]
    return [name for name in names if name in set(chosen)]
