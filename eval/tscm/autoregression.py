"""Vector autoregression, rolled forward from the onset under the intervention."""

import jax
import jax.numpy as jnp
import numpy as np

from whatif_jax._types import Array, Float
from whatif_jax.tscm import Episode

from .baseline import Estimate
from .effects import estimate_of, wanted
from .least_squares import earlier, least_squares, rows_of
from .question import Question

__all__ = ["LAG", "PENALTY", "coefficients", "var"]

LAG = 3
PENALTY = 1e-3
FAR = 10.0  # times the largest deviation seen or asked for: a forecast that gets there runs away


def coefficients(
    centred: Float[Array, "T N"], rows: Array, lag: int = LAG, penalty: float = PENALTY
) -> Float[Array, "lag N N"]:
    """Ridge regression of all nodes on their past, [lag - 1, from, to].

    Args:
        centred: values minus their means.
        rows: steps to fit on.
        lag: steps of the past.
        penalty: added to the Gram matrix.
    """
    nodes = centred.shape[1]
    columns = [earlier(centred, back) for back in range(1, lag + 1)]
    found, _ = least_squares(jnp.concatenate(columns, axis=1), centred, rows, penalty)
    return found.reshape(lag, nodes, nodes)


def var(question: Question, structure: str, episode: Episode | None = None) -> Estimate:
    """Vector autoregression of lag 3, ridge 1e-3, on all visible nodes around their means.

    It is fitted on the steps seen and rolled forward from the last step before the onset. A hard or
    varying intervention replaces the forecast of its node by the values of its steps, a soft one
    adds to the forecast; both act on later forecasts. The effect is this forecast less the one
    without: an autoregression knows no effect at the step itself, so that a query at the onset has
    none. A forecast that runs away, ten times farther from the mean than anything seen or asked
    for, gives the mean.

    The package's fits on the whole factual run and forecasts one step behind its end, whatever the
    query's step; the steps after the onset leak. Its intervention is not used at all.
    """
    series, given = question.series, question.intervention
    steps, nodes = series.shape
    count = jnp.maximum(jnp.sum(question.seen, dtype=jnp.float32), 1.0)
    mean = jnp.sum(series, axis=0) / count
    shown = question.seen[:, None] & question.visible[None, :]
    centred = jnp.where(shown, series - mean, 0.0)
    rows = rows_of(question.seen, LAG)
    weights = coefficients(centred, rows)

    place = jnp.asarray(np.arange(nodes, dtype=np.int32))
    hit, value = wanted(question, place)
    asked = jnp.where(given.hard, value - mean, value)
    hit = hit & question.visible[None, :]
    largest = jnp.max(jnp.abs(jnp.where(hit, asked, 0.0)), initial=0.0)
    far = FAR * jnp.maximum(jnp.max(jnp.abs(centred)), largest)
    before = jnp.asarray(np.arange(steps, dtype=np.int32)) < given.onset

    def step(past: Array, now: tuple[Array, ...]) -> tuple[Array, Array]:
        """`past` is [lag, arm, N], newest first; the first arm is acted on."""
        known, own, on, wish = now
        ahead = jnp.sum(jnp.einsum("lan,lnm->lam", past, weights), axis=0)
        held = jnp.where(given.hard, wish, ahead[0] + wish)
        ahead = jnp.stack([jnp.where(on, held, ahead[0]), ahead[1]])
        found = jnp.where(known, own[None], jnp.clip(ahead, -far, far))
        return jnp.concatenate([found[None], past[:-1]]), found

    first = jnp.zeros((LAG, 2, nodes), series.dtype)
    rolled = jax.lax.scan(step, first, (before, centred, hit, asked))[1]  # [T, arm, N]
    own = place == question.query.node
    at = jnp.sum(jnp.where(own, rolled, 0.0), axis=2)
    level = jnp.sum(jnp.where(own, mean, 0.0))
    runs_away = jnp.any(jnp.abs(at[question.query.steps]) >= far)
    fits = (jnp.sum(rows, dtype=jnp.int32) >= LAG) & ~runs_away
    return estimate_of(question, at[:, 0] - at[:, 1], fits, level + at[:, 1])
