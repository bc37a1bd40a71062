"""The closed form's response around any forecaster: events hidden from it, its answer moved.

The forecaster is given a history in which the steps of events hold what the closed form takes for
the event-free course, and covariates that stay at base. Its quantiles are then of an event-free
future, and the response to the future's factors, fitted to the true history, is put on them.

References:
    eval/forecasters/scaling_gain.py.
"""

import functools
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from whatif_jax import BatchInfo, Forecaster
from whatif_jax._types import Array
from whatif_jax.evaluation.forecaster import forecaster_identity
from whatif_jax.tasks.inputs import ForecastInputs, inputs_from

from .scaling import WIDTH, Scaling, ScalingFit, fit_scaling, respond

__all__ = ["WithGain", "gained", "with_gain"]

SUFFIX = "-gain"  # of a name of the registry
MEDIAN = 0.5
ROWS = 32  # of a program, so that batches of any size compile one for a context and a horizon


@jax.jit
def _fit(inputs: ForecastInputs) -> tuple[ScalingFit, Array]:
    """Fits of the rows of a batch, and their histories without events [B, T]."""

    def one(row: ForecastInputs) -> tuple[ScalingFit, Array]:
        fit = fit_scaling(row)
        return fit, jnp.where(fit.free, row.history, fit.baseline.past * fit.unit)

    return jax.lax.map(one, inputs, batch_size=4)


@jax.jit
def _respond(fit: ScalingFit, quantiles: Array, median: Array, levels: Array) -> Array:
    return jax.vmap(respond, in_axes=(0, 0, 0, None))(fit, quantiles, median, levels)


def _parts(count: int) -> list[np.ndarray]:
    """Rows of a batch in parts of one size, the last one padded with copies of the last row."""
    size = min(ROWS, 1 << (count - 1).bit_length())
    return [np.minimum(np.arange(at, at + size), count - 1) for at in range(0, count, size)]


class WithGain:
    """A forecaster that sees no event, with the closed form's response on its answer.

    Args:
        forecaster: on NumPy or JAX arrays; what it does with covariates does not matter, as they
            stay at base.
    """

    informed = True
    takes_missing = True  # the forecaster is given the event-free course in their place

    def __init__(self, forecaster: Forecaster):
        name, version, _ = forecaster_identity(forecaster)
        self.forecaster = forecaster
        self.name = f"{name}{SUFFIX}"
        self.version = f"{version}+{Scaling.version}"  # another closed form is another response
        self.settings: Mapping[str, object] = dict(getattr(forecaster, "settings", {}))
        self.wants_info = bool(getattr(forecaster, "wants_info", False))
        self.trained_on = getattr(forecaster, "trained_on", "unknown")
        # a word such as "left-out-system" is nothing without the systems that this names
        self.training = getattr(forecaster, "training", None) or {}
        self.row_tolerance = max(1e-3, getattr(forecaster, "row_tolerance", 0.0))
        self.fixed_batch = bool(getattr(forecaster, "fixed_batch", False))
        self.row_seconds = np.zeros(0)  # of the last call
        self._compiled: set[tuple[int, ...]] = set()

    def __call__(
        self,
        history: np.ndarray,
        covariates: np.ndarray,
        horizon: int,
        levels: Sequence[float],
        info: BatchInfo | None = None,
    ) -> list[np.ndarray | None]:
        """Quantiles [H, Q] of every row, or None where the forecaster has no forecast.

        Args:
            history: [B, T].
            covariates: [B, T + H, K], in their own units.
            horizon: H.
            levels: Q wanted quantile levels.
            info: of the rows; given where `wants_info`, and only there.
        """
        parts = _parts(len(history))
        self._compile(history, covariates, parts[0], horizon, len(levels))
        start = time.perf_counter()
        fits, frees = zip(
            *(
                _fit(
                    inputs_from(
                        jnp.asarray(history[part]), jnp.asarray(covariates[part]), horizon,
                        width=WIDTH,
                    )
                )
                for part in parts
            ),
            strict=True,
        )  # fmt: skip
        without = jnp.concatenate(frees)[: len(history)]
        base = np.repeat(np.asarray(covariates)[:, :1], covariates.shape[1], axis=1)
        asked = tuple(sorted({*map(float, levels), MEDIAN}))
        on_device = getattr(self.forecaster, "on_device", False)
        given: list[Any] = (
            [without, jnp.asarray(base)] if on_device else [np.array(without), np.array(base)]
        )
        more = {"info": info} if self.wants_info else {}
        asking = time.perf_counter()
        answers = list(self.forecaster(*given, horizon, asked, **more))
        theirs = time.perf_counter() - asking
        result = self._answer(answers, fits, parts, horizon, levels, asked)
        ours = (time.perf_counter() - start - theirs) / len(history)
        told = getattr(self.forecaster, "row_seconds", None)
        self.row_seconds = ours + (
            np.full(len(history), theirs / len(history)) if told is None else np.array(told, float)
        )
        return result

    def _compile(
        self,
        history: np.ndarray,
        covariates: np.ndarray,
        part: np.ndarray,
        horizon: int,
        quantiles: int,
    ) -> None:
        """Compile what a batch needs, before its seconds are counted."""
        shape = (len(part), history.shape[1], horizon, quantiles)
        if shape in self._compiled:
            return
        self._compiled.add(shape)
        known = jnp.asarray(history[part]), jnp.asarray(covariates[part])
        fit, _ = _fit(inputs_from(*known, horizon, width=WIDTH))
        values = np.zeros((len(part), horizon, quantiles), np.float32)
        levels = np.full(quantiles, MEDIAN, np.float32)
        jax.block_until_ready(_respond(fit, values, values[..., 0], levels))

    def _answer(
        self,
        answers: Sequence[Any],
        fits: Sequence[ScalingFit],
        parts: Sequence[np.ndarray],
        horizon: int,
        levels: Sequence[float],
        asked: Sequence[float],
    ) -> list[np.ndarray | None]:
        """The forecaster's answers with the response on them."""
        there = [row for row, answer in enumerate(answers) if answer is not None]
        result: list[np.ndarray | None] = [None] * len(answers)
        if not there:
            return result
        free = np.full((len(answers), horizon, len(asked)), 0.0, np.float32)
        for row in there:
            free[row] = np.asarray(answers[row])  # a point forecast stands at every level
        at = [int(np.argmin(np.abs(np.array(asked) - level))) for level in levels]
        median = free[..., list(asked).index(MEDIAN)]
        wanted = np.array(levels, np.float32)
        moved = np.concatenate(
            [
                _respond(fit, free[part][..., at], median[part], wanted)
                for fit, part in zip(fits, parts, strict=True)
            ]
        )
        for row in there:
            result[row] = moved[row]
        return result

    def __repr__(self) -> str:
        return f"WithGain({self.forecaster!r})"


def with_gain(forecaster: Forecaster) -> WithGain:
    """A forecaster with events hidden from it and the closed form's response on its quantiles."""
    return WithGain(forecaster)


def gained(factory: Callable[..., Forecaster]) -> Callable[..., Forecaster]:
    """A factory of the same settings, whose forecasters are `with_gain`."""

    @functools.wraps(factory)
    def make(**settings: object) -> Forecaster:
        return with_gain(factory(**settings))

    return make
