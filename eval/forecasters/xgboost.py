"""XGBoost on the covariates of a step, or with paired training. One fit a task, on the CPU.

References:
    evaluation/scores.md; the paper's Appendix D.3 and J.
"""

from typing import TYPE_CHECKING

import numpy as np

from .base import require
from .pairs import draw_pairs, feature_rows, features_of
from .settings import Seed, checked_settings

if TYPE_CHECKING:  # processes that only fit trees start without JAX
    from whatif_jax import BatchInfo

__all__ = ["PARAMETERS", "TREES", "XGBoost", "make"]

TREES = 150  # [P]
PARAMETERS: dict[str, str | float] = {
    "max_depth": 6,  # [P]
    "eta": 0.05,  # [P]
    "subsample": 0.9,  # [P]
    "colsample_bytree": 0.9,  # [P]
    "tree_method": "hist",
    "objective": "reg:squarederror",
    "nthread": 1,  # rows run side by side instead
    "verbosity": 0,
}


class XGBoost:
    """Boosted trees fitted to each history; a point forecast of every step from its covariates.

    Args:
        features: suffix of a variant with paired training, a key of `PAIRED_FEATURES`; None: one
            training row a step, with the covariates of that step alone.
        seed: of row and column subsampling, the same for every task.

    Raises:
        ImportError: xgboost is not installed; names the extra.
        ValueError: unknown features.
    """

    version = "1"
    parallel = True
    point = True
    wants_info = True
    trained_on = "nothing"

    def __init__(self, features: str | None = None, seed: int = 0):
        require("xgboost", "xgboost")
        self.name = "xgboost" if features is None else f"xgboost-paired-{features}"
        self.features = None if features is None else features_of(features)
        self.seed = seed
        paired = {} if self.features is None else {"features": list(self.features)}
        self.settings = {"seed": self.seed, **paired}

    def __call__(
        self,
        history: np.ndarray,
        covariates: np.ndarray,
        horizon: int,
        levels: tuple[float, ...],
        *,
        info: "BatchInfo",
    ) -> np.ndarray:
        """Point forecast [B, H, 1] in the target's unit.

        Raises:
            ValueError: paired training of a context below horizon + 32 steps.
        """
        rows = [
            self._one(past.astype(np.float64), known.T.astype(np.float64), int(task_id))
            for past, known, task_id in zip(history, covariates, info.task_ids, strict=True)
        ]
        return np.stack(rows)[:, :, None]

    def _one(self, past: np.ndarray, known: np.ndarray, task_id: int) -> np.ndarray:
        """Forecast [H] of one series [T] from its covariates [K, T + H]."""
        context, horizon = len(past), known.shape[1] - len(past)
        if self.features is None:
            return self._fit(known[:, :context], past, known[:, context:])
        origin, ahead = draw_pairs(task_id, context, horizon)
        steps = np.arange(1, horizon + 1)
        now = np.full(horizon, context - 1)
        return self._fit(
            feature_rows(past, known, origin, ahead, self.features, np),
            past[origin + ahead],
            feature_rows(past, known, now, steps, self.features, np),
        )

    def _fit(self, features: np.ndarray, target: np.ndarray, ahead: np.ndarray) -> np.ndarray:
        """Fit on [F, N] and [N], predict [H] from [F, H]."""
        xgboost = require("xgboost", "xgboost")
        booster = xgboost.train(
            PARAMETERS | {"seed": self.seed},
            xgboost.QuantileDMatrix(np.ascontiguousarray(features.T), target, nthread=1),
            num_boost_round=TREES,
        )
        return booster.inplace_predict(np.ascontiguousarray(ahead.T))


@checked_settings
def make(seed: Seed = 0) -> XGBoost:
    """XGBoost with one training row a step.

    Raises:
        ImportError: xgboost is not installed; names the extra.
        ValueError: a seed that XGBoost cannot hold.
    """
    return XGBoost(seed=seed)
