"""Random numbers that are named by what they decide, all drawn in one call of the generator.

A number's counter is its name and its own place, so that larger arrays change none of the others.
"""

from collections.abc import Mapping

import numpy as np

from .._types import Array

__all__ = ["by_name", "counters_of"]


def counters_of(
    shapes: Mapping[str, tuple[int, ...]], kinds: Mapping[str, int], width: int
) -> tuple[np.ndarray, np.ndarray]:
    """High and low words of the counters of all numbers, for `uniform_shares`.

    Args:
        shapes: of the numbers, by name.
        kinds: the high word of each name.
        width: how far apart places along an axis lie, whatever the arrays' own sizes.
    """
    high, low = [], []
    for name, shape in shapes.items():
        index = np.zeros(shape, np.uint32)
        for axis, size in enumerate(shape):
            along = np.arange(size, dtype=np.uint32).reshape(
                [-1 if other == axis else 1 for other in range(len(shape))]
            )
            index = index * np.uint32(width) + along
        low.append(index.ravel())
        high.append(np.full(index.size, kinds[name], np.uint32))
    return np.concatenate(high), np.concatenate(low)


def by_name(flat: Array, shapes: Mapping[str, tuple[int, ...]]) -> dict[str, Array]:
    """Numbers in a row, in the order of `shapes`, as arrays by name."""
    found, at = {}, 0
    for name, shape in shapes.items():
        size = int(np.prod(shape))
        found[name] = flat[at : at + size].reshape(shape)
        at += size
    return found
