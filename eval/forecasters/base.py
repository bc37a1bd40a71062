"""What the forecasters share: missing packages, quantiles by level, what a run costs."""

import importlib
from collections.abc import Sequence
from types import ModuleType
from typing import NamedTuple

import numpy as np

__all__ = ["Estimate", "require", "select_levels"]

SAME_LEVEL = 1e-6  # a model's float32 0.1 is the level 0.1


class Estimate(NamedTuple):
    """What forecasts not yet made will take.

    A forecaster that costs has a method `estimate` with the arguments of a forecast, which returns
    this and makes no forecast; a dry run adds it up over the batches.

    Attributes:
        prompt_tokens: sent.
        completion_tokens: written by the model, reasoning included.
        cost: in US dollars, None where the model's price is unknown.
        requests: calls, if each is answered at the first attempt.
        cached: forecasts that need no call.
        note: what the numbers rest on.
    """

    prompt_tokens: int
    completion_tokens: int
    cost: float | None
    requests: int = 0
    cached: int = 0
    note: str = ""


def require(module: str, extra: str) -> ModuleType:
    """Import what an optional part needs.

    Args:
        module: name of the module, `package.part` allowed.
        extra: the extra of this package that installs it.

    Returns:
        the module.

    Raises:
        ImportError: it is not installed, or a module that it needs is not; names the extra.
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        install = f"pip install -e '.[{extra}]'"
        if getattr(error, "name", None) in (module, module.partition(".")[0]):
            raise ImportError(f"{module} is not installed; {install}", name=error.name) from error
        raise ImportError(
            f"{module} cannot be imported ({error}); {install}", name=error.name
        ) from error


def select_levels(
    quantiles: np.ndarray, model_levels: Sequence[float], levels: Sequence[float]
) -> np.ndarray:
    """Quantiles at wanted levels, from those at a model's own levels. Never by position.

    A level that the model has is taken as it is; one between two of its levels is interpolated
    linearly between them; one beyond its ends gets the end's quantile.

    Args:
        quantiles: [..., levels of the model], in the order of `model_levels`.
        model_levels: levels of the last axis, in (0, 1), in any order, each once.
        levels: wanted levels, Q of them.

    Returns:
        [..., Q], in the order of `levels`. Not sorted: a crossing of the model stays one.

    Raises:
        ValueError: the last axis is not as long as `model_levels`, or levels are not distinct
            numbers in (0, 1).
    """
    quantiles = np.asarray(quantiles)
    known, wanted = np.asarray(model_levels, float), np.asarray(levels, float)
    for name, values in (("model_levels", known), ("levels", wanted)):
        inside = values.ndim == 1 and values.size and np.all((values > 0) & (values < 1))
        if not inside or np.any(np.diff(np.sort(values)) <= SAME_LEVEL):
            raise ValueError(f"{name}: {values.tolist()}; expected distinct numbers in (0, 1)")
    if quantiles.ndim < 1 or quantiles.shape[-1] != len(known):
        raise ValueError(
            f"quantiles: shape {quantiles.shape}; expected [..., {len(known)}], one for each of "
            f"model_levels {known.tolist()}"
        )
    order = np.argsort(known)
    known, quantiles = known[order], quantiles[..., order]
    columns = []
    for level in wanted.tolist():
        nearest = int(np.argmin(np.abs(known - level)))
        above = int(np.searchsorted(known, level))
        if abs(known[nearest] - level) <= SAME_LEVEL or above in (0, len(known)):
            columns.append(quantiles[..., nearest])  # without its neighbours, which may be NaN
            continue
        share = (level - known[above - 1]) / (known[above] - known[above - 1])
        columns.append((1 - share) * quantiles[..., above - 1] + share * quantiles[..., above])
    return np.stack(columns, axis=-1).astype(quantiles.dtype, copy=False)
