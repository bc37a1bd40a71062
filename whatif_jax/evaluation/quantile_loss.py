"""The loss that trains quantiles: of one forecast, pure and differentiable.

What the metric `weighted_quantile_loss` sums, without its normalisation by the truth's size: a
training loop divides by a scale of its own.

References:
    Koenker and Bassett, Regression quantiles (1978); scores.md.
"""

from collections.abc import Sequence

import jax.numpy as jnp
import numpy as np

from .._types import Array, Bool, Float, FloatScalar

__all__ = ["quantile_loss"]


def quantile_loss(
    forecast: Float[Array, "H Q"],
    truth: Float[Array, " H"],
    mask: Bool[Array, " H"],
    levels: Sequence[float],
) -> FloatScalar:
    """Mean over counted steps and levels of 2 |(x - q) (1{x <= q} - level)|.

    Times the number of counted steps over sum |x| it is `weighted_quantile_loss`. A forecast that
    is not finite at a counted step makes it infinite or NaN, never smaller; what stands at other
    steps, NaN among it, gets a gradient of 0.

    Args:
        forecast: q at each step and level, in the target's unit; they may cross.
        truth: x, same unit; NaN steps do not count.
        mask: False at padding.
        levels: Q numbers within (0, 1). Not traced: 1 - level is taken in float64.

    Returns:
        In the target's unit, in the forecast's type; 0 where no step counts.
    """
    level = np.asarray(levels, np.float64)
    kind = forecast.dtype
    counted = mask & ~jnp.isnan(truth)
    # before the difference: a gradient of 0 times NaN is NaN
    q = jnp.where(counted[:, None], forecast, 0)
    x = jnp.where(counted, truth, 0).astype(kind)[:, None]
    above, below = (jnp.asarray(2 * share, kind)[None, :] for share in (1 - level, level))
    each = jnp.where(x <= q, above, below) * jnp.abs(x - q)
    count = jnp.maximum(jnp.sum(counted, dtype=kind), 1)
    return jnp.sum(jnp.where(counted[:, None], each, 0)) / (count * len(level))
