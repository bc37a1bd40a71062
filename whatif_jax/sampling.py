"""Sampling: the random part of a task, drawn into a `TaskSpec`.

References:
    SPEC §4 (factors), §5 (layout); paper, appendix B.4.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

from ._types import Array, PRNGKeyArray
from .baselines import Baselines
from .events import SHAPES, LayoutRules, layout, place
from .tasks import FUTURES, Bucket, TaskSpec, positions_for

__all__ = ["bucket_for", "root_key", "sample_spec"]

PRNG = "threefry2x32"

# Novel factors [P]
NOVEL_RAISE = (5.0, 12.0)  # direct: max(1, largest seen) + U
NOVEL_SHRINK = (0.1, 0.5)  # inverse: min(1, smallest seen) * U


def root_key(seed: int) -> PRNGKeyArray:
    """The key of a seed, threefry2x32 whatever JAX's default is.

    Raises:
        ValueError: the seed is negative or 2**32 or above, where distinct seeds would collide.
    """
    whole = isinstance(seed, int | np.integer) and not isinstance(seed, bool)
    if not whole or not 0 <= seed < 2**32:
        raise ValueError(f"seed: {seed!r}; expected an integer in [0, 2**32)")
    return jax.random.key(int(seed), impl=PRNG)


def bucket_for(context: int, horizon: int, event_length: int, n_events: int) -> Bucket:
    """The smallest bucket that holds tasks of these sizes.

    Raises:
        ValueError: a size is not a whole number of at least 1, or the events do not fit.
    """
    for name, value in (("context", context), ("horizon", horizon)):
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise ValueError(f"{name}: {value!r}; expected a whole number of at least 1")
    layout(context, event_length, n_events)
    return Bucket(context, horizon, positions_for(event_length, n_events))


class Shares(NamedTuple):
    """All random numbers of one task, uniform in [0, 1)."""

    window: Array  # []
    replay: Array  # []
    novel: Array  # [K]
    direction: Array  # [E]
    factor: Array  # [E, K]


def draw_shares(max_events: int, max_covariates: int, dtype, *, key: PRNGKeyArray) -> Shares:
    """Draw them at once: one call of the generator, where many would cost most of the compile."""
    e, k = max_events, max_covariates
    flat = jax.random.uniform(key, (2 + k + e + e * k,), dtype)
    return Shares(
        window=flat[0],
        replay=flat[1],
        novel=flat[2 : 2 + k],
        direction=flat[2 + k : 2 + k + e],
        factor=flat[2 + k + e :].reshape(e, k),
    )


def below(share: Array, count: Array | int) -> Array:
    """A whole number in [0, count) from a uniform share in [0, 1)."""
    # share < 1, but share * count may round up to count
    return jnp.minimum((share * count).astype(jnp.int32), count - 1)


class Factors(NamedTuple):
    """Factors of one task."""

    history: Array  # [E, K]
    replay: Array  # [K]
    novel: Array  # [K]


def factors_from(
    shares: Shares,
    baselines: Baselines,
    target: Array,
    columns: Array,
    n_events: Array,
    factor_range: tuple[float, float] | None = None,
) -> Factors:
    """Directions, history factors and both futures' factors. Source: SPEC §4."""
    dtype = baselines.base.dtype
    direct = baselines.direct[target, columns]
    up = (shares.direction < 0.5) | baselines.up_only[target]
    raised = up[:, None] == direct[None, :]  # [E, K]: the factor is above 1
    if factor_range is None:
        n_below, n_pool = baselines.n_below[target], baselines.n_pool[target]
        index = below(shares.factor, jnp.where(raised, n_pool - n_below, n_below))
        history = baselines.pool[target, jnp.where(raised, n_below, 0) + index]
    else:
        low, high = (jnp.log(jnp.asarray(end, dtype)) for end in factor_range)
        history = jnp.exp(shares.factor * jnp.where(raised, high, low))
    real = jnp.arange(history.shape[0]) < n_events
    history = jnp.where(real[:, None], history, 1.0)  # 1: the base counts as seen
    raise_by = NOVEL_RAISE[0] + (NOVEL_RAISE[1] - NOVEL_RAISE[0]) * shares.novel
    shrink_by = NOVEL_SHRINK[0] + (NOVEL_SHRINK[1] - NOVEL_SHRINK[0]) * shares.novel
    beyond = jnp.max(history, axis=0, initial=1.0) + raise_by
    under = jnp.min(history, axis=0, initial=1.0) * shrink_by
    return Factors(
        history, history[below(shares.replay, n_events)], jnp.where(direct, beyond, under)
    )


def sample_spec(
    baselines: Baselines,
    target: ArrayLike,
    *,
    bucket: Bucket,
    k: ArrayLike,
    event_length: ArrayLike,
    n_events: ArrayLike,
    future: Any,
    context: ArrayLike | None = None,
    horizon: ArrayLike | None = None,
    max_covariates: int | None = None,
    max_events: int = 64,
    shapes: Array | None = None,
    factor_range: tuple[float, float] | None = None,
    key: Any,
) -> TaskSpec:
    """Draw one task. All sizes but the bucket and the maxima may be traced; vmap over any of them.

    A key gives one history whatever `future` is, so that Replay and Novel share it.

    Args:
        baselines: series and catalog.
        target: row of the target (`Baselines.row`).
        bucket: static sizes; must hold `n_events * ceil(event_length / 2)` positions.
        k: covariates of every event, the primary among them; at most `max_covariates`.
        event_length: steps of every event.
        n_events: events in the history; they must fit the context (`events.layout`).
        future: number in `FUTURES`.
        context: steps of the history, the bucket's when omitted.
        horizon: steps of the future, the bucket's when omitted.
        max_covariates: K axis of the spec; what the baselines were loaded for when omitted.
        max_events: E axis of the spec.
        shapes: event shape of each covariate ([K], numbers in `events.SHAPES`) in place of the
            catalog's.
        factor_range: (low, high) to draw history factors log-uniformly between low and 1 or 1 and
            high, in place of the catalog's pool.
        key: a JAX key, used once.

    Returns:
        the spec. It is not verified: see `verify`.

    Raises:
        ValueError: sizes that are concrete do not fit each other.

    References:
        SPEC §4-5.
    """
    context = bucket.context if context is None else context
    horizon = bucket.horizon if horizon is None else horizon
    max_covariates = baselines.max_covariates if max_covariates is None else max_covariates
    target, k, event_length, n_events, future, context, horizon = (
        int(value) if isinstance(value, np.integer) else value
        for value in (target, k, event_length, n_events, future, context, horizon)
    )
    if isinstance(future, str) or (isinstance(future, int) and not 0 <= future < len(FUTURES)):
        raise ValueError(
            f"future: {future!r}; expected the number of one of {', '.join(FUTURES)} in FUTURES"
        )
    if not isinstance(key, jax.Array):
        raise ValueError(f"key: {key!r}; expected a JAX key, such as root_key(0)")
    _check_sizes(
        baselines,
        bucket,
        target,
        k,
        event_length,
        n_events,
        context,
        horizon,
        max_covariates,
        max_events,
        shapes is not None,
    )
    target, k, event_length, n_events, context, horizon, future = (
        jnp.asarray(value, jnp.int32)
        for value in (target, k, event_length, n_events, context, horizon, future)
    )
    width = baselines.order.shape[1]
    columns = baselines.order[target, :max_covariates]
    if width < max_covariates:
        columns = jnp.pad(columns, (0, max_covariates - width))
    mask = jnp.arange(max_covariates) < jnp.minimum(k, baselines.n_covariates[target])
    shares = draw_shares(max_events, max_covariates, baselines.base.dtype, key=key)
    drawn = factors_from(shares, baselines, target, columns, n_events, factor_range)
    rules = LayoutRules(
        baselines.gap[target], baselines.prefix[target], baselines.end_buffer[target]
    )
    slot_start, slot_stride = place(context, event_length, n_events, rules)
    future_factors = jnp.where(future == FUTURES.index("novel"), drawn.novel, drawn.replay)
    last = baselines.length[target] - (context + horizon)
    event = jnp.arange(max_events, dtype=jnp.int32)
    return TaskSpec(
        target=target,
        covariates=jnp.where(mask, columns, 0),
        covariate_mask=mask,
        shapes=baselines.shape[target, columns] if shapes is None else shapes,
        window_start=below(shares.window, last + 1),
        context=context,
        horizon=horizon,
        event_length=event_length,
        n_events=n_events,
        event_starts=jnp.where(event < n_events, slot_start + event * slot_stride, 0),
        slot_start=slot_start,
        slot_stride=slot_stride,
        factors=jnp.where(mask[None, :], drawn.history, 1.0),
        future_factors=jnp.where(mask, future_factors, 1.0),
        future=future,
        bucket=bucket,
    )


def _check_sizes(
    baselines: Baselines,
    bucket: Bucket,
    target: ArrayLike,
    k: ArrayLike,
    event_length: ArrayLike,
    n_events: ArrayLike,
    context: ArrayLike,
    horizon: ArrayLike,
    max_covariates: int,
    max_events: int,
    own_shapes: bool,
) -> None:
    """Check what is concrete; traced sizes are the caller's to vouch for."""
    baselines.check_width(max_covariates)
    if bucket.shapes[:1] != SHAPES[:1] or not set(bucket.shapes) <= set(SHAPES):
        raise ValueError(
            f"bucket: shapes {bucket.shapes}; expected {SHAPES[0]!r} first, then some of {SHAPES}"
        )
    if isinstance(k, int) and not 1 <= k <= max_covariates:
        raise ValueError(f"k: {k}; expected 1 .. max_covariates = {max_covariates}")
    if isinstance(n_events, int) and not 1 <= n_events <= max_events:
        raise ValueError(f"n_events: {n_events}; expected 1 .. max_events = {max_events}")
    if isinstance(context, int) and not 1 <= context <= bucket.context:
        raise ValueError(f"context: {context}; expected 1 .. {bucket.context}, the bucket's")
    if isinstance(horizon, int) and not 1 <= horizon <= bucket.horizon:
        raise ValueError(f"horizon: {horizon}; expected 1 .. {bucket.horizon}, the bucket's")
    if isinstance(event_length, int) and isinstance(n_events, int):
        needed = positions_for(event_length, n_events, bucket.shaped)
        if needed > bucket.positions:
            raise ValueError(
                f"bucket: {bucket.positions} positions; expected at least {needed} for {n_events} "
                f"events of {event_length} steps"
            )
    if not isinstance(target, int) or isinstance(baselines.length, jax.core.Tracer):
        return
    if not 0 <= target < len(baselines.targets):
        raise ValueError(f"target: row {target}; expected 0 .. {len(baselines.targets) - 1}")
    name = "/".join(baselines.targets[target])
    if isinstance(k, int) and k > int(baselines.n_covariates[target]):
        raise ValueError(
            f"k: {k}; expected at most {int(baselines.n_covariates[target])}, the covariates of "
            f"{name}"
        )
    if isinstance(event_length, int) and isinstance(n_events, int) and isinstance(context, int):
        rules = LayoutRules(
            int(baselines.gap[target]),
            int(baselines.prefix[target]),
            int(baselines.end_buffer[target]),
        )
        layout(context, event_length, n_events, rules)  # raises where the events do not fit
    if isinstance(context, int) and isinstance(horizon, int):
        steps = int(baselines.length[target])
        if context + horizon > steps:
            raise ValueError(
                f"context: {context} + horizon {horizon} do not fit the {steps} steps of {name}"
            )
    if not own_shapes and isinstance(k, int):
        columns = np.asarray(baselines.order[target, :k])
        wanted = {SHAPES[number] for number in np.asarray(baselines.shape[target])[columns]}
        if not wanted <= set(bucket.shapes):
            raise ValueError(
                f"bucket: shapes {bucket.shapes}; expected {sorted(wanted)} among them, the shapes "
                f"of the covariates of {name}"
            )
