"""Drawing tasks: the random part of a task, from a key into a `TaskSpec`.

References:
    whatif-v1.md §4 (factors), §5 (layout).
"""

import dataclasses
import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

from .._types import Array, PRNGKeyArray
from .._xla import apart
from .events import SHAPES, LayoutRules, layout, place
from .forked import refuse_forked
from .keys import as_threefry, check_key, uniform_shares
from .spec import FUTURES, Bucket, Sizes, TaskSpec, bucket_for, positions_for
from .systems import Systems
from .task import Task, realize
from .verification import verify

__all__ = [
    "KINDS",
    "OF_TASK",
    "SHAPE",
    "below",
    "sample_spec",
    "sample_task",
    "share_counters",
    "spec_from",
    "uniform_shares_apart",
]

# Novel factors [P]
NOVEL_RAISE = (5.0, 12.0)  # direct: max(1, largest seen) + U
NOVEL_SHRINK = (0.1, 0.5)  # inverse: min(1, smallest seen) * U

ATTEMPTS = 64  # draws of one task before it is given up


class Shares(NamedTuple):
    """All random numbers of one task, uniform in [0, 1)."""

    window: Array  # []
    replay: Array  # []
    novel: Array  # [K]
    direction: Array  # [E]
    factor: Array  # [E, K]


# Counters of a task's random numbers: (kind, index). A number depends on what it decides alone, so
# that padding, or one more event or covariate, changes none of the others.
OF_TASK, NOVEL, DIRECTION, SHAPE, FACTOR = range(5)  # FACTOR + k for covariate k
KINDS = 256  # a stream's draw n of a row counts kinds from n * KINDS


def share_counters(bucket: Bucket) -> tuple[np.ndarray, np.ndarray]:
    """Kind and index of every number of `Shares`, uint32 [n]."""
    e, k = bucket.events, bucket.covariates
    kind = [np.full(2, OF_TASK), np.full(k, NOVEL), np.full(e, DIRECTION)]
    index = [np.arange(2), np.arange(k), np.arange(e), np.repeat(np.arange(e), k)]
    kind.append(FACTOR + np.tile(np.arange(k), e))
    return np.concatenate(kind).astype(np.uint32), np.concatenate(index).astype(np.uint32)


def as_shares(flat: Array, bucket: Bucket) -> Shares:
    """Numbers in the order of `share_counters`, by what they decide."""
    e, k = bucket.events, bucket.covariates
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
    count = jnp.asarray(count, jnp.int32)
    return jnp.minimum((share * count.astype(share.dtype)).astype(jnp.int32), count - 1)


class Factors(NamedTuple):
    """Factors of one task."""

    history: Array  # [E, K]
    replay: Array  # [K]
    novel: Array  # [K]


def factors_from(
    shares: Shares,
    systems: Systems,
    target: Array,
    columns: Array,
    n_events: Array,
    factor_range: tuple[float, float] | None = None,
) -> Factors:
    """Directions, history factors and both futures' factors. Source: whatif-v1.md §4."""
    dtype = systems.base.dtype
    direct = systems.direct[target, columns]
    up = (shares.direction < 0.5) | systems.up_only[target]
    raised = up[:, None] == direct[None, :]  # [E, K]: the factor is above 1
    if factor_range is None:
        n_below, n_pool = systems.n_below[target], systems.n_pool[target]
        index = below(shares.factor, jnp.where(raised, n_pool - n_below, n_below))
        history = systems.pool[target, jnp.where(raised, n_below, 0) + index]
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


def sample_spec(sizes: Sizes, systems: Systems, bucket: Bucket, *, key: PRNGKeyArray) -> TaskSpec:
    """Draw one task. Pure; vmap over any numbers of `sizes` and over keys.

    A key gives one history whatever the future is, so that Replay and Novel share it. The numbers
    that a key gives an event or a covariate depend neither on the bucket nor on the others.

    Args:
        sizes: what the task is asked to be.
        systems: series and catalog.
        bucket: static sizes; holds the task (`bucket_for`).
        key: used once.

    Returns:
        the spec. It is not verified: see `verify`.

    Raises:
        ValueError: sizes that are concrete do not fit each other, the bucket or the target.

    References:
        whatif-v1.md §4, §5.
    """
    check_key(key)
    if sizes.shapes is not None and sizes.shapes.shape[-1:] != (bucket.covariates,):
        raise ValueError(
            f"shapes: {sizes.shapes.shape}; expected one for each of the bucket's "
            f"{bucket.covariates} covariates"
        )
    _check_sizes(_within(sizes, bucket), systems, bucket)
    flat = uniform_shares_apart(as_threefry(key), *share_counters(bucket), systems)
    return spec_from(flat, sizes, systems, bucket)


def uniform_shares_apart(
    key: PRNGKeyArray, high: ArrayLike, low: ArrayLike, systems: Systems
) -> Array:
    """`uniform_shares`, compiled once: XLA would fuse the generator into each of its readers."""
    high, low = jnp.asarray(high, jnp.uint32), jnp.asarray(low, jnp.uint32)
    return apart(systems.length[0] > 0, lambda: uniform_shares(key, high, low))


def spec_from(flat: Array, sizes: Sizes, systems: Systems, bucket: Bucket) -> TaskSpec:
    """The spec that numbers in the order of `share_counters` make; sizes are known to fit."""
    sizes = _within(sizes, bucket)
    target, k, event_length, n_events, future, context, horizon = (
        jnp.asarray(getattr(sizes, name), jnp.int32)
        for name in ("target", "k", "event_length", "n_events", "future", "context", "horizon")
    )
    width = systems.order.shape[1]
    columns = systems.order[target, : bucket.covariates]
    if width < bucket.covariates:
        columns = jnp.pad(columns, (0, bucket.covariates - width))
    mask = jnp.arange(bucket.covariates) < jnp.minimum(k, systems.n_covariates[target])
    shares = as_shares(flat.astype(systems.base.dtype), bucket)
    drawn = factors_from(shares, systems, target, columns, n_events, sizes.factor_range)
    rules = LayoutRules(systems.gap[target], systems.prefix[target], systems.end_buffer[target])
    slot_start, slot_stride = place(context, event_length, n_events, rules)
    future_factors = jnp.where(future == FUTURES.index("novel"), drawn.novel, drawn.replay)
    last = systems.length[target] - (context + horizon)
    event = jnp.arange(bucket.events, dtype=jnp.int32)
    return TaskSpec(
        target=target,
        covariates=jnp.where(mask, columns, 0),
        covariate_mask=mask,
        shapes=systems.shape[target, columns] if sizes.shapes is None else sizes.shapes,
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


def _within(sizes: Sizes, bucket: Bucket) -> Sizes:
    """The sizes with the bucket's in place of those left out."""
    context = bucket.context if sizes.context is None else sizes.context
    horizon = bucket.horizon if sizes.horizon is None else sizes.horizon
    return dataclasses.replace(sizes, context=context, horizon=horizon)


def _check_sizes(sizes: Sizes, systems: Systems, bucket: Bucket) -> None:
    """Check what is concrete; traced sizes are the caller's to vouch for."""
    systems.check_width(bucket.covariates)
    for name, most in (
        ("k", bucket.covariates),
        ("n_events", bucket.events),
        ("context", bucket.context),
        ("horizon", bucket.horizon),
    ):
        value = getattr(sizes, name)
        if isinstance(value, int) and not 1 <= value <= most:
            raise ValueError(f"{name}: {value}; expected 1 .. {most}, what the bucket holds")
    target, k, context, horizon = sizes.target, sizes.k, sizes.context, sizes.horizon
    events = (sizes.event_length, sizes.n_events)
    if all(isinstance(value, int) for value in events):
        needed = positions_for(*events, bucket.shaped)
        if needed > bucket.positions:
            raise ValueError(
                f"bucket: {bucket.positions} positions; expected at least {needed} for "
                f"{sizes.n_events} events of {sizes.event_length} steps"
            )
    if not isinstance(target, int) or isinstance(systems.length, jax.core.Tracer):
        return
    if not 0 <= target < len(systems.targets):
        raise ValueError(f"target: row {target}; expected 0 .. {len(systems.targets) - 1}")
    name = "/".join(systems.targets[target])
    # NumPy's, as indexing a JAX array gives a tracer inside the caller's own jit
    has = int(np.asarray(systems.n_covariates)[target])
    if isinstance(k, int) and k > has:
        raise ValueError(f"k: {k}; expected at most {has}, the covariates of {name}")
    if all(isinstance(value, int) for value in (context, *events)):
        for rules in systems.layout_rules(np.array([target])):
            layout(context, *events, rules)  # raises where they do not fit
    if isinstance(context, int) and isinstance(horizon, int):
        steps = int(np.asarray(systems.length)[target])
        if context + horizon > steps:
            raise ValueError(
                f"context: {context} + horizon {horizon} do not fit the {steps} steps of {name}"
            )
    if sizes.shapes is None and isinstance(k, int):
        columns = np.asarray(systems.order)[target, :k]
        wanted = {SHAPES[number] for number in np.asarray(systems.shape)[target, columns]}
        if not wanted <= set(bucket.shapes):
            raise ValueError(
                f"bucket: shapes {bucket.shapes}; expected {sorted(wanted)} among them, the shapes "
                f"of the covariates of {name}"
            )


def sample_task(
    systems: Systems,
    system: str,
    target: str,
    *,
    k: int = 1,
    future: str = "novel",
    context: int = 1024,
    horizon: int = 128,
    event_length: int = 64,
    n_events: int = 2,
    key: PRNGKeyArray,
) -> Task:
    """One verified task of a target, in one line.

    Draws anew, from the key's own, until a draw passes verification. `sample_spec` and `realize`
    are its parts; `TaskStream` makes many at once.

    Args:
        systems: of `load_systems`.
        system: name of a system among them.
        target: name of one of its targets.
        k: covariates that every event acts on, the primary among them.
        future: "replay" or "novel".
        context: steps of the history.
        horizon: steps of the future.
        event_length: steps of every past event.
        n_events: events in the history.
        key: such as `root_key(0)`.

    Returns:
        arrays of just these sizes, nothing padded.

    Raises:
        KeyError: no such system or target.
        ValueError: sizes that do not fit each other or the target; or no draw passed verification.
    """
    refuse_forked()
    check_key(key)
    row = systems.row(system, target)
    if bool(systems.constant[row]):
        raise ValueError(
            f"target: {system}/{target} is constant in its baseline; expected one that varies"
        )
    sizes = Sizes(row, k, event_length, n_events, future, context, horizon)
    bucket = bucket_for(sizes)
    _check_sizes(sizes, systems, bucket)
    for number in range(ATTEMPTS):
        task, verified = _attempt(sizes, systems, bucket, jax.random.fold_in(key, number))
        if verified:
            return task
    raise ValueError(
        f"target: none of {ATTEMPTS} draws of {system}/{target} passed verification; expected a "
        f"target that {n_events} events of {event_length} steps move"
    )


@functools.partial(jax.jit, static_argnames="bucket")
def _attempt(
    sizes: Sizes, systems: Systems, bucket: Bucket, key: PRNGKeyArray
) -> tuple[Task, Array]:
    spec = sample_spec(sizes, systems, bucket, key=key)
    return realize(spec, systems), verify(spec, systems).ok
