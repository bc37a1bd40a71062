"""Rows of a manifest as the leaves of a `TaskSpec`.

References:
    whatif-v1.md §5, §8.
"""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from ..tasks import FUTURES, Bucket, Systems
from .manifest import ManifestError, flat_values

__all__ = ["spec_leaves"]


def spec_leaves(table: pa.Table, systems: Systems, bucket: Bucket) -> dict[str, np.ndarray]:
    """The fields of `TaskSpec`, [rows, ...] each.

    Args:
        table: rows of a checked manifest that fit the bucket.
        systems: hold the systems that the rows name.
        bucket: gives the sizes of the padded axes.

    Raises:
        ManifestError: covariates that a system has not, an unknown future, or events that do not
            lie at even steps inside the context.
    """
    columns = {
        name: table.column(name).to_numpy()
        for name in ("context", "horizon", "event_length", "n_events", "k", "window_start")
    }
    count = table.num_rows
    target, covariates, mask = _columns_of(table, systems, bucket.covariates)
    starts = np.zeros((count, bucket.events), np.int32)
    event_mask = np.arange(bucket.events)[None] < columns["n_events"][:, None]
    starts[event_mask] = flat_values(table, "event_starts")
    factors = np.ones((count, bucket.events, bucket.covariates), systems.base.dtype)
    factors[event_mask[:, :, None] & mask[:, None, :]] = flat_values(table, "factors")
    future_factors = np.ones((count, bucket.covariates), systems.base.dtype)
    future_factors[mask] = flat_values(table, "future_factors")
    return {
        "target": target,
        "covariates": covariates,
        "covariate_mask": mask,
        "shapes": np.asarray(systems.shape)[target[:, None], covariates],
        "window_start": columns["window_start"],
        "context": columns["context"],
        "horizon": columns["horizon"],
        "event_length": columns["event_length"],
        "n_events": columns["n_events"],
        "event_starts": starts,
        "slot_start": starts[:, 0].copy(),
        "slot_stride": _strides(starts, columns, table.column("task_id")),
        "factors": factors,
        "future_factors": future_factors,
        "future": _numbers(table.column("future"), FUTURES),
    }


def _columns_of(table: pa.Table, systems: Systems, width: int) -> tuple[np.ndarray, ...]:
    """Target rows, covariate columns and covariate mask."""
    keys = list(
        zip(table.column("system").to_pylist(), table.column("target").to_pylist(), strict=True)
    )
    rows = {key: systems.row(*key) for key in set(keys)}
    target = np.array([rows[key] for key in keys], np.int32)
    mask = np.arange(width)[None] < table.column("k").to_numpy()[:, None]
    names = np.array(flat_values(table, "covariates"), object)
    owner = np.repeat(np.array([key[0] for key in keys], object), mask.sum(axis=1))
    covariates = np.zeros((len(keys), width), np.int32)
    numbers = np.zeros(len(names), np.int32)
    for position, system in enumerate(systems.systems):
        of_system = owner == system
        known = {name: column for column, name in enumerate(systems.covariates[position])}
        unknown = set(names[of_system]) - set(known)
        if unknown:
            raise ManifestError(
                f"covariates: {sorted(unknown)} not in system {system}; expected one of "
                f"{list(known)}"
            )
        numbers[of_system] = [known[name] for name in names[of_system]]
    covariates[mask] = numbers
    return target, covariates, mask


def _numbers(column: pa.ChunkedArray, names: Sequence[str]) -> np.ndarray:
    known = {name: number for number, name in enumerate(names)}
    try:
        return np.array([known[value] for value in column.to_pylist()], np.int32)
    except KeyError as error:
        raise ManifestError(f"future: {error}; expected one of {list(names)}") from None


def _strides(
    starts: np.ndarray, columns: dict[str, np.ndarray], task_ids: pa.ChunkedArray
) -> np.ndarray:
    """Stride of the slots: equal steps between starts, as whatif-v1.md §5 lays events out."""
    n_events, length = columns["n_events"], columns["event_length"]
    second = starts[:, min(1, starts.shape[1] - 1)]
    stride = np.where(n_events > 1, second - starts[:, 0], columns["context"] - starts[:, 0])
    expected = starts[:, :1] + np.arange(starts.shape[1])[None] * stride[:, None]
    real = np.arange(starts.shape[1])[None] < n_events[:, None]
    end = starts[:, 0] + (n_events - 1) * stride + length
    bad = np.any(real & (starts != expected), axis=1) | (stride < length)
    bad |= (end > columns["context"]) | (starts[:, 0] < 0)
    if bad.any():
        row = int(np.flatnonzero(bad)[0])
        raise ManifestError(
            f"event_starts: task {task_ids[row].as_py()} has {starts[row][real[row]].tolist()}; "
            f"expected equal steps of at least event_length = {length[row]} inside the context"
        )
    return stride.astype(np.int32)
