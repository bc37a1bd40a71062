"""Systems on a device: the catalog's numbers and its intervention-free series as arrays.

References:
    whatif-v1.md §2 (series), §8 (files).
"""

from collections.abc import Sequence
from pathlib import Path

import equinox as eqx
import jax
import numpy as np
from jax.typing import DTypeLike

from .._types import Array, Bool, Float, Int
from ..catalog import System, builtin_systems, load_system
from ..catalog.errors import one_of
from ..catalog.series import read_series
from .events import SHAPES, LayoutRules, layout_rules
from .response_table import ResponseTable, build_response_table, on_device

__all__ = ["LEFT_PADDING", "RIGHT_PADDING", "Systems", "check_window", "load_systems"]

# A history shorter than its bucket is aligned to the right; the padding lets one slice of fixed
# size serve every window without reaching outside the array.
LEFT_PADDING = 8192
RIGHT_PADDING = 1024


def check_window(field: str, context: int, horizon: int) -> None:
    """Refuse windows that the padding does not hold; ValueError names the field."""
    if not (1 <= context <= LEFT_PADDING and 1 <= horizon <= RIGHT_PADDING):
        raise ValueError(
            f"{field}: ({context}, {horizon}); expected a context of 1 .. {LEFT_PADDING} and a "
            f"horizon of 1 .. {RIGHT_PADDING}"
        )


class Systems(eqx.Module):
    """Everything `realize` needs besides a spec. Rows are targets, columns covariates.

    Made by `load_systems`; passed as an argument, never closed over, so that compiled programs
    hold no copy of it.
    """

    values: Float[Array, "targets padded"]  # series between LEFT_PADDING and padding zeros
    length: Int[Array, " targets"]  # steps of the series
    mean_magnitude: Float[Array, " targets"]  # mean |y|
    peak_magnitude: Float[Array, " targets"]  # max |y|
    constant: Bool[Array, " targets"]  # the whole series is one value
    requires_flow: Bool[Array, " targets"]  # dead steps count as no effect
    responses: ResponseTable
    base: Float[Array, "targets covariates"]  # base value of each covariate, its own unit
    shape: Int[Array, "targets covariates"]  # event shape, number in `events.SHAPES`
    order: Int[Array, "targets covariates"]  # columns in task order, primary first
    n_covariates: Int[Array, " targets"]  # columns that `order` really holds
    direct: Bool[Array, "targets covariates"]  # False: the target falls as the factor grows
    gap: Int[Array, " targets"]  # layout, as in `events.LayoutRules`
    prefix: Int[Array, " targets"]
    end_buffer: Int[Array, " targets"]
    up_only: Bool[Array, " targets"]  # every event raises the target
    pool: Float[Array, "targets pool"]  # history factors, sorted
    n_below: Int[Array, " targets"]  # pool values below 1 come first
    n_pool: Int[Array, " targets"]
    max_covariates: int = eqx.field(static=True)  # of a task: responses hold the terms up to it
    systems: tuple[str, ...] = eqx.field(static=True)
    targets: tuple[tuple[str, str], ...] = eqx.field(static=True)  # (system, target) of each row
    covariates: tuple[tuple[str, ...], ...] = eqx.field(static=True)  # names, per system

    def check_width(self, k: int) -> None:
        """Refuse tasks of more covariates than the loaded responses hold terms for."""
        if k > self.max_covariates:
            raise ValueError(
                f"max_covariates: {k} covariates a task; expected at most "
                f"{self.max_covariates}, what these systems were loaded for: "
                f"load_systems(..., max_covariates={k})"
            )

    def row(self, system: str, target: str) -> int:
        """Row number of a target. Raises KeyError naming what is there."""
        try:
            return self.targets.index((system, target))
        except ValueError:
            known = [name for owner, name in self.targets if owner == system]
            if not known:
                text = f"system: {system!r}; expected {one_of(self.systems, system)}, as loaded"
            else:
                text = f"target: {target!r}; expected {one_of(known, target)}, of {system}"
            raise KeyError(text) from None

    def layout_rules(self, rows: np.ndarray) -> set[LayoutRules]:
        """The ways in which the systems of some rows space events."""
        columns = [np.asarray(one)[rows] for one in (self.gap, self.prefix, self.end_buffer)]
        return {LayoutRules(*map(int, values)) for values in zip(*columns, strict=True)}

    def covariate_names(self, row: int) -> tuple[str, ...]:
        """Covariate names of the system that row `row` belongs to, in column order."""
        return self.covariates[self.systems.index(self.targets[row][0])]

    def series(self, row: int) -> np.ndarray:
        """The intervention-free series of one target, float32 [length], a copy."""
        return np.array(self.values[row, LEFT_PADDING : LEFT_PADDING + int(self.length[row])])


def _distinct(systems: Sequence[str | Path | System] | str | Path | System | None) -> list[System]:
    if systems is None:
        systems = builtin_systems()
    elif isinstance(systems, str | Path | System):
        systems = [systems]
    found = [load_system(item) for item in systems]
    names = [item.name for item in found]
    if len(set(names)) != len(names) or not names:
        raise ValueError(f"systems: {names}; expected at least one, and distinct names")
    return found


def load_systems(
    systems: Sequence[str | Path | System] | str | Path | System | None = None,
    *,
    max_covariates: int | None = None,
    dtype: DTypeLike = np.float32,
) -> Systems:
    """Load catalog and series onto the default device.

    Args:
        systems: names of built-in systems, paths of catalog files, or `System` objects; all four
            built-in systems when omitted.
        max_covariates: the most covariates any task will hold, which decides which response terms
            are compiled. Default: the largest K on any system's axis.
        dtype: float type of every real array, float32 whatever JAX's own default is.

    Raises:
        CatalogError: a name or path that is no system; or a catalog file, or the series beside it,
            does not hold what it must.
        ValueError: no system, or two of one name.
    """
    loaded = _distinct(systems)
    dtype = np.dtype(dtype)
    most = max(max(item.axes.k) for item in loaded) if max_covariates is None else max_covariates
    series_of = {item.name: read_series(item) for item in loaded}  # are as long as `steps` says
    rows = [(item, target) for item in loaded for target in item.targets]
    count, width = len(rows), max(len(item.covariates) for item in loaded)
    steps = max(item.steps for item in loaded)
    pool_width = max(len(target.pool) for _, target in rows)

    values = np.zeros((count, LEFT_PADDING + steps + RIGHT_PADDING), dtype)
    base = np.ones((count, width), dtype)
    shape = np.zeros((count, width), np.int32)
    order = np.zeros((count, width), np.int32)
    direct = np.ones((count, width), bool)
    pool = np.ones((count, pool_width), dtype)
    reachable = np.zeros((count, width), bool)
    facts: dict[str, list] = {
        name: []
        for name in ("length", "mean", "peak", "constant", "n_covariates", "n_below", "n_pool")
    }
    for row, (item, target) in enumerate(rows):
        y = series_of[item.name][target.name]
        values[row, LEFT_PADDING : LEFT_PADDING + item.steps] = y
        facts["length"].append(item.steps)
        facts["mean"].append(np.mean(np.abs(y), dtype=np.float64))
        facts["peak"].append(np.max(np.abs(y)))
        facts["constant"].append(bool(np.all(y == y[0])))
        for column, covariate in enumerate(item.covariates):
            base[row, column] = covariate.base
            shape[row, column] = SHAPES.index(covariate.shape)
        columns = [item.covariate_index(name) for name in target.covariates]
        order[row, : len(columns)] = columns
        reachable[row, columns[:most]] = True
        direct[row, columns] = [direction == "direct" for direction in target.directions()]
        sorted_pool = sorted(target.pool)
        pool[row, : len(sorted_pool)] = sorted_pool
        facts["n_covariates"].append(len(columns))
        facts["n_below"].append(sum(value < 1.0 for value in sorted_pool))
        facts["n_pool"].append(len(sorted_pool))

    return Systems(
        values=jax.device_put(values),
        length=on_device(facts["length"], np.int32),
        mean_magnitude=on_device(facts["mean"], dtype),
        peak_magnitude=on_device(facts["peak"], dtype),
        constant=on_device(facts["constant"], bool),
        requires_flow=on_device([item.requires_flow for item, _ in rows], bool),
        responses=build_response_table(loaded, reachable=reachable, dtype=dtype),
        base=jax.device_put(base),
        shape=jax.device_put(shape),
        order=jax.device_put(order),
        n_covariates=on_device(facts["n_covariates"], np.int32),
        direct=jax.device_put(direct),
        gap=on_device([layout_rules(item).gap for item, _ in rows], np.int32),
        prefix=on_device([layout_rules(item).prefix for item, _ in rows], np.int32),
        end_buffer=on_device([layout_rules(item).end_buffer for item, _ in rows], np.int32),
        up_only=on_device([target.up_only for _, target in rows], bool),
        pool=jax.device_put(pool),
        n_below=on_device(facts["n_below"], np.int32),
        n_pool=on_device(facts["n_pool"], np.int32),
        max_covariates=most,
        systems=tuple(item.name for item in loaded),
        targets=tuple((item.name, target.name) for item, target in rows),
        covariates=tuple(tuple(c.name for c in item.covariates) for item in loaded),
    )
