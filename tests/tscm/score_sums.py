"""Sums and scores of forecasts, added up in float64."""

import jax
import jax.numpy as jnp
import numpy as np

from whatif_jax.tscm.scores import ScoreTerms, score_terms, scores_of

FIELDS = list(ScoreTerms.__dataclass_fields__)
_terms = jax.jit(score_terms)


def sums(forecast, target, axis=None):
    """Sums in float64 of terms in float32."""
    terms = _terms(jnp.asarray(forecast, jnp.float32), jnp.asarray(target, jnp.float32))
    return ScoreTerms(
        **{field: np.asarray(getattr(terms, field), np.float64).sum(axis) for field in FIELDS}
    )


def scored(forecast, target):
    """RMSE, normalised MSE, direction accuracy."""
    found = scores_of(sums(forecast, target))
    return np.array([found.rmse, found.nmse, found.direction])
