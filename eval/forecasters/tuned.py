"""The paper's tuned variants: the regressions with paired training (`pairs` says how).

The paper chose its best variants on the test tasks, so they are no fair baselines; all of its rows
are here.

References:
    The paper's Appendix J, Table 19; evaluation/scores.md.
"""

import functools

import jax
import jax.numpy as jnp

from whatif_jax import BatchInfo, root_key
from whatif_jax._types import Array, IntScalar

from .linear import ALPHA, covariates_first, is_on_cpu, regress
from .pairs import WINDOW, feature_rows, features_of, pair_count
from .settings import Flag, Penalty, Seed, Text, checked_settings
from .xgboost import XGBoost

__all__ = ["PairedRegression", "make_linear", "make_ridge", "make_xgboost", "sample_pairs"]

SEED = 0  # of the pairs, the same for every variant


def sample_pairs(task_id: IntScalar, context: int, horizon: int) -> tuple[Array, Array]:
    """Origins and steps ahead of a task's training rows, int32 [N] each.

    Depend on the task alone: the key is that of `SEED` with the task's id folded in.
    """
    count = pair_count(context, horizon)
    for_step, for_origin = jax.random.split(jax.random.fold_in(root_key(SEED), task_id))
    ahead = jax.random.randint(for_step, (count,), 1, horizon + 1, jnp.int32)
    last = context - ahead  # excluded
    return jax.random.randint(for_origin, (count,), WINDOW - 1, last, jnp.int32), ahead


@functools.partial(jax.jit, static_argnames=("features", "alpha", "standardise", "together"))
def _forecast(
    history: Array,
    covariates: Array,
    task_ids: Array,
    features: tuple[str, ...],
    alpha: float | None,
    standardise: bool,
    together: int,
) -> Array:
    """Point forecasts [B, H, 1] from [B, T], [B, K, T + H] and [B]."""

    def one(row: tuple[Array, Array, Array]) -> Array:
        past, known, task_id = row
        past, known = past.astype(float), known.astype(float)
        context, horizon = past.shape[0], known.shape[1] - past.shape[0]
        origin, ahead = sample_pairs(task_id, context, horizon)
        steps = jnp.arange(1, horizon + 1, dtype=jnp.int32)
        now = jnp.full_like(steps, context - 1)
        return regress(
            feature_rows(past, known, origin, ahead, features, jnp),
            past[origin + ahead],
            feature_rows(past, known, now, steps, features, jnp),
            alpha,
            standardise,
        )

    rows = jax.lax.map(one, (history, covariates, task_ids), batch_size=together)
    return rows.astype(jnp.float32)[:, :, None]


class PairedRegression:
    """Linear or ridge regression on pairs of an origin and a step ahead.

    Args:
        name: of the regression.
        features: suffix of the variant's name, a key of `PAIRED_FEATURES`.
        alpha: of ridge regression on standardised features; None: ordinary least squares.
        standardise: whether least squares, too, are of features standardised on the pairs.

    Raises:
        ValueError: unknown features.
    """

    version = "1"
    on_device = True
    fixed_batch = True
    wants_info = True
    point = True
    trained_on = "nothing"

    def __init__(
        self, name: str, features: str, alpha: float | None = None, standardise: bool = True
    ):
        self.name = f"{name}-paired-{features}"
        self.alpha = alpha
        self.standardise = standardise
        self.features = features_of(features)
        fit = {"standardise": standardise} if alpha is None else {"alpha": alpha}
        self.settings = {"features": list(self.features), "seed": SEED, **fit}

    def __call__(
        self,
        history: Array,
        covariates: Array,
        horizon: int,
        levels: tuple[float, ...],
        *,
        info: BatchInfo,
    ) -> Array:
        """Point forecast [B, H, 1] in the target's unit.

        Raises:
            ValueError: a context below horizon + 32 steps.
        """
        pair_count(history.shape[1], horizon)
        # pinned, as the pairs are drawn by jax.random
        with jax.enable_x64(True), jax.threefry_partitionable(True):
            history, known = covariates_first(history, covariates, 0, rows=len(history))
            return _forecast(
                history,
                known,
                jnp.asarray(info.task_ids, jnp.uint32),
                self.features,
                self.alpha,
                self.standardise,
                1 if is_on_cpu(history) else 32,
            )


@checked_settings
def make_linear(features: Text, standardise: Flag = True) -> PairedRegression:
    """Linear regression with paired training.

    Args:
        features: a key of `PAIRED_FEATURES`.
        standardise: on features standardised on the pairs; else in their own units.

    Raises:
        ValueError: unknown features, or `standardise` is neither true nor false.
    """
    return PairedRegression("linear", features, standardise=standardise)


@checked_settings
def make_ridge(features: Text, alpha: Penalty = ALPHA) -> PairedRegression:
    """Ridge regression with paired training, features standardised on the pairs.

    Raises:
        ValueError: an `alpha` that is no finite number above 0.
    """
    return PairedRegression("ridge", features, alpha)


@checked_settings
def make_xgboost(features: Text, seed: Seed = 0) -> XGBoost:
    """XGBoost with paired training.

    Raises:
        ImportError: xgboost is not installed; names the extra.
        ValueError: unknown features, or a seed that XGBoost cannot hold.
    """
    return XGBoost(features=features, seed=seed)
