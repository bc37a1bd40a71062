"""What the pretrained models share: loading by name, rows in small batches, long horizons.

Every model is called through its own package, with the whole history and with the covariates of
history and horizon as covariates known ahead. Nothing is retrained, scaled or filled in here.

A pitfall of the models, not of their adapters (measured on random weights): where a covariate was
constant in the history and then steps by a, t0 and TiRex-2 scale it over history and horizon
together, so that the forecast does not depend on a at all; Chronos-2 squashes a large a by arcsinh.
On such tasks a forecast cannot tell one dose from another.
"""

import contextlib
import importlib.metadata
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np

from whatif_jax import BatchInfo

from .base import require, select_levels

__all__ = [
    "DECILES",
    "FoundationForecaster",
    "ModelError",
    "choose_device",
    "in_blocks",
    "loading",
    "named_series",
]

DECILES = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
# A row as Chronos-2 and TS-ICL take it: its target, and its covariates by name.
Series = dict[str, np.ndarray | dict[str, np.ndarray]]


class ModelError(ValueError):
    """A model that cannot be loaded; names it."""


class FoundationForecaster:
    """A package's model as a forecaster of `whatif_jax.evaluation.evaluate.evaluate`.

    Rows go to the model `batch_size` at a time, in order. The batch size and the device are no
    settings: they must not change a forecast.

    Args:
        name: name of the forecaster.
        predict: (history [b, T], covariates [b, T + H, K], horizon, levels) -> [b, H, Q], or b
            objects [H, Q] or None; with `wants_info` also the seconds of a step [b].
        model: hub id or local folder, recorded in `settings`.
        distribution: name of the package, whose version becomes the forecaster's.
        batch_size: rows of one call of the model.
        settings: further settings that change forecasts.
        max_context: most steps of a history that the model reads; None if it has no limit.
        wants_info: whether `predict` takes the seconds of a step.

    Raises:
        ValueError: `batch_size` is not a positive integer.
    """

    # Sums of float32 come out in another order for another number of rows, and many layers and a
    # sinh make that larger than 1e-4; a row that saw its companions is off by far more.
    row_tolerance = 1e-3

    def __init__(
        self,
        name: str,
        predict: Callable[..., np.ndarray | list[np.ndarray | None]],
        *,
        model: str,
        distribution: str,
        batch_size: int,
        settings: Mapping[str, object] | None = None,
        max_context: int | None = None,
        wants_info: bool = False,
    ):
        if isinstance(batch_size, bool) or not isinstance(batch_size, int) or batch_size < 1:
            raise ValueError(f"batch_size: {batch_size!r}; expected an integer >= 1")
        self.name = name
        self.version = importlib.metadata.version(distribution)
        self.settings = {"model": str(model), **(settings or {})}
        # weights in a folder may be anyone's, tuned on the catalog too
        self.trained_on = "unknown" if Path(str(model)).expanduser().exists() else "published"
        self.batch_size = batch_size
        self.max_context = max_context
        self.wants_info = wants_info
        self._predict = predict
        self._warned = False

    def __call__(
        self,
        history: np.ndarray,
        covariates: np.ndarray,
        horizon: int,
        levels: Sequence[float],
        info: BatchInfo | None = None,
    ) -> list[np.ndarray | None]:
        """Quantiles [H, Q] of every row, or None where the model gave no forecast.

        Args:
            history: [B, T].
            covariates: [B, T + H, K], in their own units, primary first.
            horizon: H.
            levels: Q wanted quantile levels.
            info: of the rows; given where `wants_info`, and only there.
        """
        # Copies of our own: torch takes no read-only memory, and a package may write into it.
        history, covariates = np.array(history, np.float32), np.array(covariates, np.float32)
        self._warn_of_truncation(history.shape[1])
        rows: list[np.ndarray | None] = []
        for start in range(0, len(history), self.batch_size):
            part = slice(start, start + self.batch_size)
            more = () if info is None else (info.step_seconds[part],)
            rows.extend(self._predict(history[part], covariates[part], horizon, levels, *more))
        return rows

    def _warn_of_truncation(self, steps: int) -> None:
        if self._warned or self.max_context is None or steps <= self.max_context:
            return
        self._warned = True
        warnings.warn(
            f"{self.name}: histories of {steps} steps; the model reads the last "
            f"{self.max_context} of them",
            stacklevel=3,
        )

    def __repr__(self) -> str:
        return f"FoundationForecaster({self.name!r}, model={self.settings['model']!r})"


def choose_device(device: str | None, extra: str) -> str:
    """`device`, or the accelerator if torch sees one, else the CPU."""
    if device is not None:
        return str(device)
    return "cuda" if require("torch", extra).cuda.is_available() else "cpu"


@contextlib.contextmanager
def loading(model: str) -> Iterator[str]:
    """Names the model in whatever its package says when it cannot be loaded.

    Yields:
        the hub id, or the path of the local folder.

    Raises:
        ModelError: a local path that does not exist, or any error inside the block.
    """
    path = Path(str(model)).expanduser()
    # A hub id is "owner/name". Packages would ask the hub for a path that is not there.
    if (str(model).startswith(("/", ".", "~")) or str(model).count("/") != 1) and not path.exists():
        raise ModelError(f"model: {str(model)!r} does not exist; expected {_MODELS}")
    try:
        yield str(path) if path.exists() else str(model)
    except Exception as error:
        said = str(error).strip().partition("\n")[0][:300]
        raise ModelError(
            f"model: {str(model)!r} cannot be loaded ({type(error).__name__}: {said}); "
            f"expected {_MODELS}"
        ) from error


_MODELS = "a local folder, or an id of the Hugging Face hub that is cached or can be reached"


def named_series(history: np.ndarray, covariates: np.ndarray) -> list[Series]:
    """Rows as Chronos-2 and TS-ICL take them.

    Args:
        history: [b, T].
        covariates: [b, T + H, K].

    Returns:
        for every row its target [T], and by name its covariates over history [T] and horizon [H].
    """
    steps = history.shape[1]
    names = [f"covariate_{number:03d}" for number in range(covariates.shape[2])]
    return [
        {
            "target": target,
            "past_covariates": dict(zip(names, known[:steps].T.copy(), strict=True)),
            "future_covariates": dict(zip(names, known[steps:].T.copy(), strict=True)),
        }
        for target, known in zip(history, covariates, strict=True)
    ]


def in_blocks(
    predict: Callable[[np.ndarray, np.ndarray, int], np.ndarray],
    history: np.ndarray,
    covariates: np.ndarray,
    horizon: int,
    longest: int,
    model_levels: Sequence[float],
) -> np.ndarray:
    """Quantiles over a horizon longer than a model forecasts at once.

    Block by block; the median of a block is the history of the next one, whose covariates are
    still the known ones. Spread does not grow from block to block as it should.

    Args:
        predict: (history [b, t], covariates [b, t + h, K], h) -> [b, h, levels of the model].
        history: [b, T].
        covariates: [b, T + H, K].
        horizon: H.
        longest: most steps of one block.
        model_levels: levels of the model, in its order.

    Returns:
        [b, H, levels of the model].
    """
    steps, blocks = history.shape[1], []
    for start in range(0, horizon, longest):
        block = min(longest, horizon - start)
        forecast = predict(history, covariates[:, : steps + start + block], block)
        blocks.append(forecast)
        median = select_levels(forecast, model_levels, (0.5,))[..., 0]
        history = np.concatenate([history, median.astype(history.dtype)], axis=1)
    return np.concatenate(blocks, axis=1)
