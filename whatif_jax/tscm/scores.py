"""Scores of forecasts of what an intervention leads to.

Every score is a function of sums over queries: the `ScoreTerms` of the forecasts are added up,
over a suite or over some of its episodes, and `scores_of` the sums are the scores. So any split of
a suite, and every resample of a bootstrap by episode, costs one matrix product.

One pair of functions serves all truths. An episode has three, at its query's node and steps: the
interventional run (fresh noise), the counterfactual run (the factual run's noise), and the effect,
counterfactual less factual, which a forecast of the effect is scored against.

References:
    DoTime (arXiv:2607.27263), section 6.1: pooled RMSE, normalised MSE and direction accuracy.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from .._types import Array, Float
from .episode import Episode

__all__ = ["DEAD_ZONE", "ScoreTerms", "Scores", "Truths", "score_terms", "scores_of", "truths_of"]

DEAD_ZONE = 0.1  # a target closer to zero has no direction
_LEAST_VARIANCE = 1e-8  # of targets that differ; the package's


class Truths(eqx.Module):
    """What is asked for, at the query's node and steps."""

    interventional: Float[Array, " Q"]
    counterfactual: Float[Array, " Q"]
    factual: Float[Array, " Q"]

    @property
    def effect(self) -> Float[Array, " Q"]:
        """What the intervention changed in this very run."""
        return self.counterfactual - self.factual


class ScoreTerms(eqx.Module):
    """What one forecast adds to the sums that scores are made of; all of one shape."""

    count: Float[Array, "*batch"]
    """1: queries."""
    squared_error: Float[Array, "*batch"]
    """0 where the forecast failed."""
    target: Float[Array, "*batch"]
    squared_target: Float[Array, "*batch"]
    directed: Float[Array, "*batch"]
    """1 where the target has a direction; the others are in the dead zone."""
    right: Float[Array, "*batch"]
    """1 where the target has a direction and the forecast has the same."""
    failed: Float[Array, "*batch"]
    """1 where the forecast, or the square of its error, is not finite."""


class Scores(eqx.Module):
    """Scores of some queries; NaN where there is nothing to score."""

    rmse: Float[Array, "*batch"]
    nmse: Float[Array, "*batch"]
    """Mean squared error by the variance of the targets: 1 for a forecast of their mean."""
    direction: Float[Array, "*batch"]
    """Share of right signs among targets outside the dead zone; a forecast of 0 has no sign."""


def truths_of(episode: Episode) -> Truths:
    """The truths of one episode; callers vmap."""
    node, steps = episode.query.node, episode.query.steps
    interventional, counterfactual, factual = (
        run[steps, node]
        for run in (episode.interventional, episode.counterfactual, episode.factual)
    )
    return Truths(interventional, counterfactual, factual)


def score_terms(
    forecast: Float[Array, "*batch"],
    target: Float[Array, "*batch"],
    *,
    dead_zone: float = DEAD_ZONE,
) -> ScoreTerms:
    """What each forecast adds to the sums. Traceable, of any shape.

    Args:
        forecast: of a value, or of an effect.
        target: what it was to be.
        dead_zone: targets below it in size have no direction.
    """
    error = forecast - target
    square = error * error
    failed = ~jnp.isfinite(square)
    directed = jnp.abs(target) >= jnp.asarray(dead_zone, target.dtype)
    # a comparison with what is not a number is false, hence wrong; infinity has failed too
    right = directed & ~failed & (jnp.sign(forecast) == jnp.sign(target))
    number = target.dtype
    return ScoreTerms(
        count=jnp.ones_like(target),
        squared_error=jnp.where(failed, jnp.zeros_like(square), square),
        target=target,
        squared_target=target * target,
        directed=directed.astype(number),
        right=right.astype(number),
        failed=failed.astype(number),
    )


def scores_of(sums: ScoreTerms) -> Scores:
    """Scores from sums (or means) of terms over queries, NumPy's or JAX's, of any shape.

    A failed forecast makes RMSE and normalised MSE infinite and its direction wrong: whatever a
    forecaster leaves out, it does not gain by it. Means serve as well as sums.
    """
    here = jnp if isinstance(sums.count, jax.Array) else np
    with np.errstate(divide="ignore", invalid="ignore"):
        error = here.where(sums.failed > 0, here.inf, sums.squared_error / sums.count)
        mean = sums.target / sums.count
        variance = sums.squared_target / sums.count - mean * mean
        known = variance >= _LEAST_VARIANCE
        ratio = error / here.where(known, variance, 1.0)
        return Scores(
            rmse=here.sqrt(error),
            nmse=here.where(known, ratio, here.nan),
            direction=sums.right / sums.directed,
        )
