"""Baselines: intervention-free series and the catalog's numbers as arrays on a device.

References:
    SPEC §2 (series), §8 (files).
"""

import json
from collections.abc import Sequence
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pyarrow as pa
import pyarrow.parquet as parquet

from ._types import Array, Bool, Float, Int
from .catalog import System, builtin_systems, load_system, system
from .events import SHAPES, WHOLE, LayoutRules
from .response_table import ResponseTable, build_response_table, on_device

__all__ = ["BaselineError", "Baselines", "layout_rules", "load_baselines", "read_series"]

# A history shorter than its bucket is aligned to the right; the padding lets one slice of fixed
# size serve every window without reaching outside the array.
LEFT_PADDING = 8192
RIGHT_PADDING = 1024


class BaselineError(ValueError):
    """A baseline file does not hold what its catalog file says, or systems cannot be loaded."""


class Baselines(eqx.Module):
    """Everything `realize` needs besides a spec. Rows are targets, columns covariates.

    Made by `load_baselines`; passed as an argument, never closed over, so that compiled programs
    hold no copy of it.
    """

    values: Float[Array, "targets padded"]  # series between LEFT_PADDING and padding zeros
    length: Int[Array, " targets"]  # steps of the series
    mean_magnitude: Float[Array, " targets"]  # mean |y|
    peak_magnitude: Float[Array, " targets"]  # max |y|
    constant: Bool[Array, " targets"]  # the whole series is one value
    requires_flow: Bool[Array, " targets"]  # dead steps count as no effect (SPEC §6)
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
                f"{self.max_covariates}, what these baselines were loaded for: "
                f"load_baselines(..., max_covariates={k})"
            )

    def row(self, system: str, target: str) -> int:
        """Row number of a target. Raises KeyError naming what is there."""
        try:
            return self.targets.index((system, target))
        except ValueError:
            known = [name for owner, name in self.targets if owner == system]
            raise KeyError(
                f"target: {system}/{target} is not loaded; expected one of "
                f"{known or list(self.systems)}"
            ) from None

    def covariate_names(self, row: int) -> tuple[str, ...]:
        """Covariate names of the system that row `row` belongs to, in column order."""
        return self.covariates[self.systems.index(self.targets[row][0])]

    def series(self, row: int) -> np.ndarray:
        """The intervention-free series of one target, float32 [length]."""
        return np.asarray(self.values[row, LEFT_PADDING : LEFT_PADDING + int(self.length[row])])


def layout_rules(source: System) -> LayoutRules:
    """A system's layout constants in the integers that layouts are computed with."""
    axes = source.axes
    return LayoutRules(axes.gap, round(axes.prefix * WHOLE), round(axes.end_buffer * WHOLE))


def read_series(source: System) -> tuple[dict[str, np.ndarray], dict]:
    """Read a system's baseline parquet: series by target, and the file's metadata.

    Raises:
        BaselineError: a target has no column, a column has the wrong length or a value that is
            not finite, or the file is missing.
    """
    path = Path(source.baseline)
    if not path.is_file():
        raise BaselineError(f"{source.source}: baseline: {path} does not exist; expected a parquet")
    table = parquet.read_table(path)
    series = {}
    for target in source.targets:
        if target.name not in table.column_names:
            raise BaselineError(
                f"{path}: target {target.name}: column missing; expected one float32 column a "
                f"target, found {table.column_names}"
            )
        if not pa.types.is_floating(table.schema.field(target.name).type):
            raise BaselineError(
                f"{path}: target {target.name}: column of "
                f"{table.schema.field(target.name).type}; expected float32"
            )
        values = table.column(target.name).to_numpy().astype(np.float32)
        if len(values) != source.steps:
            raise BaselineError(
                f"{path}: target {target.name}: {len(values)} rows; expected steps = {source.steps}"
            )
        bad = np.flatnonzero(~np.isfinite(values))
        if len(bad):
            raise BaselineError(
                f"{path}: target {target.name}: row {bad[0]} is {values[bad[0]]}; "
                f"expected finite values ({len(bad)} are not)"
            )
        series[target.name] = values
    metadata = {
        key.decode(): value.decode() for key, value in (table.schema.metadata or {}).items()
    }
    if "units" in metadata:
        metadata["units"] = json.loads(metadata["units"])
    return series, metadata


def _resolve(systems: Sequence[str | Path | System] | None) -> tuple[System, ...]:
    if systems is None:
        systems = builtin_systems()
    elif isinstance(systems, str | Path | System):
        systems = [systems]
    found = []
    for item in systems:
        if isinstance(item, System):
            found.append(item)
        elif isinstance(item, str) and item in builtin_systems():
            found.append(system(item))
        elif Path(item).is_file():
            found.append(load_system(item))
        else:
            raise BaselineError(
                f"systems: {str(item)!r}; expected one of {', '.join(builtin_systems())} or the "
                f"path of a catalog file"
            )
    names = [item.name for item in found]
    if len(set(names)) != len(names) or not names:
        raise BaselineError(f"systems: {names}; expected at least one, and distinct names")
    return tuple(found)


def load_baselines(
    systems: Sequence[str | Path | System] | None = None,
    *,
    max_covariates: int | None = None,
    dtype=None,
) -> Baselines:
    """Load series and catalog onto the default device.

    Args:
        systems: names of built-in systems, paths of catalog files, or `System` objects; all four
            built-in systems when omitted.
        max_covariates: the most covariates any task will hold, which decides which response terms
            are compiled. Default: the largest K on any system's axis.
        dtype: float type of every real array, float32 unless JAX runs with 64-bit types.

    Raises:
        CatalogError: a catalog file does not hold what it must.
        BaselineError: a baseline file does not.
    """
    loaded = _resolve(systems)
    dtype = np.dtype(dtype or jnp.result_type(float))
    most = max(max(item.axes.k) for item in loaded) if max_covariates is None else max_covariates
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
    series_of = {item.name: read_series(item)[0] for item in loaded}
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
        names = [target.primary.covariate, *(other.covariate for other in target.secondaries)]
        columns = [item.covariate_index(name) for name in names]
        order[row, : len(columns)] = columns
        reachable[row, columns[:most]] = True
        for column, direction in zip(
            columns,
            [target.primary.direction, *(other.direction for other in target.secondaries)],
            strict=True,
        ):
            direct[row, column] = direction == "direct"
        sorted_pool = sorted(target.pool)
        pool[row, : len(sorted_pool)] = sorted_pool
        facts["n_covariates"].append(len(columns))
        facts["n_below"].append(sum(value < 1.0 for value in sorted_pool))
        facts["n_pool"].append(len(sorted_pool))

    return Baselines(
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
