"""Quantiles at wanted levels, from those at a model's own."""

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

__all__ = ["select_levels"]

SAME_LEVEL = 1e-6  # a model's float32 0.1 is the level 0.1


def select_levels(quantiles: Any, model_levels: Sequence[float], levels: Sequence[float]) -> Any:
    """Quantiles at wanted levels, from those at a model's own levels. Never by position.

    A level that the model has is taken as it is; one between two of its levels is interpolated
    linearly between them; one beyond its ends gets the end's quantile.

    Args:
        quantiles: [..., levels of the model], in the order of `model_levels`; an array of JAX,
            traced or not, or what NumPy takes.
        model_levels: levels of the last axis, in (0, 1), in any order, each once.
        levels: wanted levels, Q of them.

    Returns:
        [..., Q], in the order of `levels`, of the same kind. Not sorted: a crossing of the model
        stays one.

    Raises:
        ValueError: the last axis is not as long as `model_levels`, or levels are not distinct
            numbers in (0, 1).
    """
    known, wanted = np.asarray(model_levels, float), np.asarray(levels, float)
    for name, values in (("model_levels", known), ("levels", wanted)):
        inside = values.ndim == 1 and values.size and np.all((values > 0) & (values < 1))
        if not inside or np.any(np.diff(np.sort(values)) <= SAME_LEVEL):
            raise ValueError(f"{name}: {values.tolist()}; expected distinct numbers in (0, 1)")
    traced = isinstance(quantiles, jax.Array)
    quantiles = quantiles if traced else np.asarray(quantiles)
    if quantiles.ndim < 1 or quantiles.shape[-1] != len(known):
        raise ValueError(
            f"quantiles: shape {quantiles.shape}; expected [..., {len(known)}], one for each of "
            f"model_levels {known.tolist()}"
        )
    order = np.argsort(known)
    known, quantiles = known[order], quantiles[..., order]
    columns: list[Any] = []
    for level in wanted.tolist():
        nearest = int(np.argmin(np.abs(known - level)))
        above = int(np.searchsorted(known, level))
        if abs(known[nearest] - level) <= SAME_LEVEL or above in (0, len(known)):
            columns.append(quantiles[..., nearest])  # without its neighbours, which may be NaN
            continue
        share = (level - known[above - 1]) / (known[above] - known[above - 1])
        share = float(share) if traced else share  # NumPy interpolates in float64
        columns.append((1 - share) * quantiles[..., above - 1] + share * quantiles[..., above])
    if traced:
        return jnp.stack(columns, axis=-1)
    return np.stack(columns, axis=-1).astype(quantiles.dtype, copy=False)
