"""What whatif-v1.md §8 asks of a manifest's rows, before any task is made from them."""

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as compute

from ..catalog import System
from .manifest import ManifestError, flat_values

__all__ = ["check_manifest"]


def check_manifest(table: pa.Table, catalog: Sequence[System]) -> None:
    """Check every row against the catalog: lists, factors, window and covariates.

    Raises:
        ManifestError: names the task, the column, the value and what was expected.
    """
    k, n_events = (table.column(name).to_numpy() for name in ("k", "n_events"))

    def refuse(bad: np.ndarray, column: str, expected: str) -> None:
        if bad.any():
            row = int(np.flatnonzero(bad)[0])
            raise ManifestError(
                f"task {table.column('task_id')[row].as_py()}: {column} is "
                f"{str(table.column(column)[row].as_py())[:200]}; expected {expected}"
            )

    def lengths(column: pa.ChunkedArray) -> np.ndarray:
        return compute.list_value_length(column).to_numpy(zero_copy_only=False)

    for name in ("k", "n_events", "event_length", "context", "horizon"):
        refuse(table.column(name).to_numpy() < 1, name, "at least 1")
    for name, wanted in (("event_starts", n_events), ("covariates", k), ("future_factors", k)):
        refuse(lengths(table.column(name)) != wanted, name, "one value an event or covariate")
    refuse(lengths(table.column("factors")) != n_events, "factors", "one list an event")
    owner = np.repeat(np.arange(len(table)), n_events)
    inner = lengths(compute.list_flatten(table.column("factors")))
    ragged = np.zeros(len(table), bool)
    ragged[owner[inner != k[owner]]] = True
    refuse(ragged, "factors", "one value a covariate in every event")
    for name, rows in (
        ("factors", np.repeat(owner, k[owner])),
        ("future_factors", np.repeat(np.arange(len(table)), k)),
    ):
        values = flat_values(table, name)
        wrong = np.zeros(len(table), bool)
        wrong[rows[~(np.isfinite(values) & (values > 0))]] = True
        refuse(wrong, name, "finite factors above 0")

    by_name: Mapping[str, System] = {system.name: system for system in catalog}
    owners = np.array(table.column("system").to_pylist(), object)
    steps = np.array([by_name[name].steps for name in owners])
    start = table.column("window_start").to_numpy().astype(np.int64)
    ends = start + table.column("context").to_numpy() + table.column("horizon").to_numpy()
    refuse((start < 0) | (ends > steps), "window_start", "a window inside the baseline")

    columns = (table.column(name).to_pylist() for name in ("system", "target", "covariates"))
    verdicts: dict[tuple, bool] = {}
    wrong = np.zeros(len(table), bool)
    for row, (system, target, covariates) in enumerate(zip(*columns, strict=True)):
        key = (system, target, tuple(covariates))
        if key not in verdicts:
            known = by_name[system].target(target).covariates
            verdicts[key] = (
                covariates[0] != known[0]
                or len(set(covariates)) != len(covariates)
                or not set(covariates) <= set(known)
            )
        wrong[row] = verdicts[key]
    refuse(wrong, "covariates", "distinct covariates of the target's system, its primary first")
