"""Forecasters: what they are given, what they give back, and the check that it is that.

References:
    scores.md.
"""

import dataclasses
import functools
import json
import time
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import jax
import jax.numpy as jnp
import numpy as np

from .._types import Array
from ..suites import TaskBatch

__all__ = ["BatchInfo", "Forecaster", "ForecasterError", "forecaster_identity", "per_row"]


class ForecasterError(ValueError):
    """A forecaster's answer is not what its batch asks for; names the forecaster."""


@dataclasses.dataclass(frozen=True)
class BatchInfo:
    """What else is known of the rows of a batch, for forecasters with `wants_info`."""

    task_ids: np.ndarray  # int64 [B]; a padding row carries the id of the row it repeats
    step_seconds: np.ndarray  # float64 [B], seconds between two steps

    def take(self, rows: slice | np.ndarray) -> "BatchInfo":
        """The same of some rows."""
        return BatchInfo(self.task_ids[rows], self.step_seconds[rows])


class Forecaster(Protocol):
    """A callable on batches. Every attribute is optional; a plain function will do.

    Called with `(history, covariates, horizon, levels)`:

    * history: float32 [B, T], the target's past values in its unit.
    * covariates: float32 [B, T + H, K], history and future, each in its own unit, primary first.
    * horizon: H. levels: the quantile levels, a tuple of Q floats.

    Returns quantiles [B, H, Q] at `levels`, or [B, H, 1], a point forecast that is scored at level
    0.5 alone, or a list with one object a row: an array [H, Q] or [H, 1], or None for no forecast.

    Attributes (all optional):
        name: default the callable's own name.
        version: raised when its numbers change; default "0".
        settings: what else changes its numbers, as JSON values; default {}.
        on_device: it takes JAX arrays; default False, NumPy arrays that it may write to.
        fixed_batch: it wants batches of `batch_size` rows always, the last ones padded with copies
            of a row, so that it compiles once a shape; default False, real rows alone.
        wants_info: it takes the keyword `info`, a `BatchInfo`; default False.
        parallel: its rows are independent work for a CPU, which a runner may split; default False.
        point: it gives point forecasts, for a batch of which none is there; default False.
        row_seconds: set by each call: the seconds that each of its rows took, float [B]. For one
            that works on several rows at a time, by processes or requests. Default: the time of
            the call over its rows.
        row_tolerance: how much of a row's scale its answers may differ by in different company;
            default 1e-4.
        trained_on: one of "nothing" (it fits each history by itself), "randomised",
            "left-out-system", "in-distribution", "published" (weights or a service made public by
            others) and "unknown", the default; see `declaration`. Scores of different kinds are
            never ranked together.
        training: JSON values by name, shown beside its scores: what it was trained on, such as
            `budget` and `prior`. With "left-out-system" `left_out` names the systems that it has
            not seen, with "in-distribution" `systems` those that it has. Default {}.
        informed: it was made with knowledge of how the suite's responses look: True, or what it
            knows in one line; default False.
        takes_missing: NaN in a history is a value that is missing; default False: what is missing
            is filled in before, with the last value seen. No task of a suite lacks any.
    """

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Forecast a batch, as above."""


def forecaster_identity(forecaster: Forecaster) -> tuple[str, str, str]:
    """Name, version and settings (canonical JSON) of a forecaster.

    Raises:
        ForecasterError: it cannot be called, or has settings that JSON cannot hold.
    """
    if not callable(forecaster):
        raise ForecasterError(f"forecaster: {str(forecaster)[:80]}; expected a callable")
    own = getattr(forecaster, "__name__", type(forecaster).__name__)
    name, version = getattr(forecaster, "name", own), getattr(forecaster, "version", "0")
    settings = getattr(forecaster, "settings", {})
    try:
        text = json.dumps(dict(settings), sort_keys=True, separators=(",", ":"), allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise ForecasterError(
            f"settings of forecaster {name}: {str(settings)[:200]} ({error}); expected JSON values "
            f"by name"
        ) from None
    return str(name), str(version), text


def per_row(
    function: Callable[[np.ndarray, np.ndarray, int, tuple[float, ...]], Any], **attributes: Any
) -> Forecaster:
    """A forecaster from a function of one series.

    Args:
        function: takes history [T], covariates [T + H, K], horizon and levels; returns quantiles
            [H, Q], a point forecast [H, 1], or None for no forecast.
        **attributes: of the forecaster, such as `name` or `parallel`.
    """

    @functools.wraps(function)
    def forecast(
        history: np.ndarray, covariates: np.ndarray, horizon: int, levels: tuple[float, ...]
    ) -> list[Any]:
        return [
            function(past, known, horizon, levels)
            for past, known in zip(history, covariates, strict=True)
        ]

    for name, value in attributes.items():
        setattr(forecast, name, value)
    return forecast


@functools.partial(jax.jit, static_argnames="k")
def _known(past: Array, ahead: Array, k: int) -> Array:
    """Covariates [B, T + H, K] from [B, padded K, T] and [B, padded K, H]."""
    return jnp.concatenate([past[:, :k], ahead[:, :k]], axis=-1).swapaxes(1, 2)


def forecast_batch(
    forecaster: Forecaster,
    batch: TaskBatch,
    levels: tuple[float, ...],
    *,
    warmed: set[tuple[int, ...]] | None = None,
) -> tuple[Array | np.ndarray, np.ndarray]:
    """The forecaster's answer for the real rows, float32 [rows, H, Q or 1], and seconds [rows].

    A missing forecast comes as NaN. Time is that of the forecaster alone, for one row: a padding
    row of a `fixed_batch` forecaster takes as long as a real one.

    Args:
        forecaster: see `Forecaster`.
        batch: tasks of one K.
        levels: quantile levels.
        warmed: shapes that the forecaster was called with before. For another one a `fixed_batch`
            forecaster is called once more, before the call that is timed, so that the time holds
            no compilation; the shape is added. None: every call is timed as it is.

    Raises:
        ForecasterError: an answer of another shape, or of no numbers; seconds not one a row.
        ValueError: tasks of several K.
    """
    name, *_ = forecaster_identity(forecaster)
    task, rows = batch.task, batch.rows
    size, horizon = task.future.shape
    numbers = np.unique(np.asarray(task.covariate_mask).sum(axis=1))
    if len(numbers) > 1:
        raise ValueError(f"task_ids: k {numbers.tolist()}; expected tasks of one k")
    k = int(numbers[0])
    history: Any = task.history
    covariates: Any = _known(task.history_covariates, task.future_covariates, k=k)
    fixed = getattr(forecaster, "fixed_batch", False)
    given = size if fixed else rows
    if getattr(forecaster, "on_device", False):
        history, covariates = history[:given], covariates[:given]
    else:  # copies, so that a forecaster may write to them
        history, covariates = np.array(history)[:given], np.array(covariates)[:given]
    extra = {}
    if getattr(forecaster, "wants_info", False):
        ids = np.pad(batch.task_ids[:rows], (0, given - rows), mode="edge")
        extra["info"] = BatchInfo(ids, batch.step_seconds[:given])
    jax.block_until_ready((history, covariates))
    try:
        shape = (*history.shape, horizon, k)
        if fixed and warmed is not None and shape not in warmed:
            jax.block_until_ready(forecaster(history, covariates, horizon, levels, **extra))
            warmed.add(shape)
        start = time.perf_counter()
        raw = forecaster(history, covariates, horizon, levels, **extra)
        if isinstance(raw, jax.Array):
            raw.block_until_ready()
    except Exception as error:
        error.add_note(f"forecaster {name}, tasks {batch.task_ids[:rows][:10].tolist()} ...")
        raise
    seconds = np.full(given, (time.perf_counter() - start) / given)
    own = getattr(forecaster, "row_seconds", None)
    if own is not None:
        seconds = real_numbers(own, f"forecaster {name}: row_seconds").astype(float)
        if seconds.shape != (given,) or not np.all((seconds >= 0) & np.isfinite(seconds)):
            raise ForecasterError(
                f"forecaster {name}: row_seconds {str(own)[:80]}; expected {given} numbers >= 0"
            )
    if isinstance(raw, list | tuple):
        raw = _stacked(raw, name, batch, given, horizon, levels, forecaster)
    found = np.shape(raw)
    widths = sorted({1, len(levels)})
    if len(found) != 3 or found[:2] != (given, horizon) or found[2] not in widths:
        raise ForecasterError(
            f"forecaster {name}: answer of shape {found}; expected ({given}, {horizon}, "
            f"{' or '.join(map(str, widths))}): rows, horizon, quantile levels"
        )
    return _numbers(raw, f"forecaster {name}")[:rows], seconds[:rows]


def real_numbers(values: object, whose: str, error: type[ValueError] = ForecasterError) -> Any:
    """A NumPy array of floating or whole numbers.

    Raises:
        ValueError: of the class `error`: texts, times, complex numbers, truth values, whole numbers
            beyond 64 bits, masked arrays and other objects, which NumPy would take for numbers.
    """
    try:
        found = np.asarray(values)
    except Exception as problem:  # of ragged lists, and whatever another package's array raises
        said = f"{type(problem).__name__}: {' '.join(str(problem).split())[:200]}"
        raise error(f"{whose}: {said}; expected an array of numbers") from problem
    real = found.dtype.kind in "fiu" or jnp.issubdtype(found.dtype, jnp.floating)
    if not real or isinstance(values, np.ma.MaskedArray):
        kind = "a masked array" if real else f"values of type {found.dtype}"
        raise error(f"{whose}: {kind}; expected an array of numbers")
    return found


def _numbers(values: object, whose: str) -> Array | np.ndarray:
    """As float32; values beyond its range become infinite, which counts as missing."""
    if isinstance(values, jax.Array) and jnp.issubdtype(values.dtype, jnp.floating):
        return values.astype(jnp.float32)
    with np.errstate(over="ignore"):
        return real_numbers(values, whose).astype(np.float32)


def _stacked(
    answers: Sequence[Any],
    name: str,
    batch: TaskBatch,
    given: int,
    horizon: int,
    levels: tuple[float, ...],
    forecaster: Forecaster,
) -> np.ndarray:
    """One answer a row as one array; NaN where there is none."""
    if len(answers) != given:
        raise ForecasterError(
            f"forecaster {name}: a list of {len(answers)} forecasts; expected {given}, one a row"
        )
    found: dict[int, np.ndarray] = {}
    for row, answer in enumerate(answers):
        if answer is None:
            continue
        task_id = batch.task_ids[min(row, batch.rows - 1)]
        found[row] = np.asarray(_numbers(answer, f"forecaster {name}, task {task_id}"))
        shape, widths = found[row].shape, {each.shape[-1:] for each in found.values()}
        columns = sorted({1, len(levels)})
        if len(shape) != 2 or shape[0] != horizon or shape[1] not in columns or len(widths) > 1:
            raise ForecasterError(
                f"forecaster {name}, task {task_id}: forecast of shape {shape}; expected "
                f"({horizon}, {' or '.join(map(str, columns))}), the same for every row, or None"
            )
    none_width = 1 if getattr(forecaster, "point", False) else len(levels)
    width = next(iter(found.values())).shape[1] if found else none_width
    missing = np.full((horizon, width), np.nan, np.float32)
    return np.stack([found.get(row, missing) for row in range(given)])
