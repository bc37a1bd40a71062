"""A trained model as a forecaster: what a stream trained is asked what a suite asks.

References:
    ours.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp

from .._types import Array, Float
from ..tasks.inputs import ForecastInputs, inputs_from
from .levels import select_levels
from .scoring import LEVELS

__all__ = ["TrainedForecaster"]

TOGETHER = 8  # rows at once on a CPU: what is computed of more leaves its caches
WIDTH = 8  # covariates are padded to as many, so that a program is compiled for (T, H) alone


class TrainedForecaster:
    """A `Forecaster` from a model of one series, compiled once for each (T, H).

    Args:
        model: a pytree that is called with `ForecastInputs` of one series, covariates padded to 8,
            and returns quantiles [H, Q] in the target's unit.
        name: of the forecaster.
        trained_on: what it declares that it was trained on, see `Forecaster`.
        version: raised when its numbers change.
        settings: what else changes its numbers, as JSON values.
        training: what it declares of its training, as JSON values; it changes no number.
        levels: the model's own, one a column of its answer; other levels asked for are
            interpolated between them.
        informed: whether it was made knowing what the suite's responses are like, or one line that
            says what it knows.
    """

    on_device = True
    fixed_batch = True
    takes_missing = True

    def __init__(
        self,
        model: Callable[[ForecastInputs], Float[Array, "H Q"]],
        name: str,
        *,
        trained_on: str = "unknown",
        version: str = "1",
        settings: Mapping[str, Any] | None = None,
        training: Mapping[str, Any] | None = None,
        levels: Sequence[float] = LEVELS,
        informed: bool | str = False,
    ):
        self.informed = informed
        self.name, self.version, self.trained_on = name, version, trained_on
        self.settings, self.training = dict(settings or {}), dict(training or {})
        self.levels = tuple(float(level) for level in levels)
        # what is no array (functions, sizes) is part of the program
        self._arrays, self._rest = eqx.partition(model, eqx.is_array)

    def __call__(
        self,
        history: Float[Array, "B T"],
        covariates: Float[Array, "B T+H K"],
        horizon: int,
        levels: Sequence[float],
    ) -> Float[Array, "B H Q"]:
        """Quantiles in the target's unit; history that is not finite counts as missing.

        Raises:
            ValueError: more than 8 covariates, or not as many steps as history and horizon.
        """
        history, covariates = jnp.asarray(history), jnp.asarray(covariates)
        inputs = inputs_from(history, covariates, int(horizon), width=WIDTH)
        wanted = tuple(float(level) for level in levels)
        devices = list(history.devices())
        alone = len(devices) == 1 and devices[0].platform == "cpu"
        together = min(TOGETHER, len(history)) if alone else None
        return _forecast(self._arrays, self._rest, inputs, self.levels, wanted, together)


@eqx.filter_jit
def _forecast(
    arrays: Any,
    rest: Any,
    inputs: ForecastInputs,
    own: tuple[float, ...],
    wanted: tuple[float, ...],
    together: int | None,
) -> Array:
    model = eqx.combine(arrays, rest)

    def one(inputs: ForecastInputs) -> Array:
        return model(inputs).astype(inputs.history.dtype)  # it may compute in another

    if together is None:
        quantiles = jax.vmap(one)(inputs)
    else:
        quantiles = jax.lax.map(one, inputs, batch_size=together)
    return select_levels(quantiles, own, wanted)
