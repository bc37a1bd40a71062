"""Drawing the rows of a batch until they pass verification: what a stream compiles.

References:
    whatif-v1.md §4-6.
"""

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from .._types import Array, Int, PRNGKeyArray
from .draw import (
    ATTEMPTS,
    KINDS,
    OF_TASK,
    SHAPE,
    below,
    share_counters,
    spec_from,
    uniform_shares_apart,
)
from .spec import FUTURES, Bucket, Sizes, TaskSpec
from .stream_config import Choices
from .stream_weights import weighted
from .systems import Systems
from .verification import verify

__all__ = ["DrawnRows", "count_draws", "draw_rows"]

DRAWN_TOGETHER = 64  # by `count_draws`
OWN = 5  # numbers that a stream needs for a draw besides a task's and the shapes


class DrawnRows(NamedTuple):
    """Rows of a batch while they are drawn."""

    drawn: Array  # uint32 [B], draws so far
    overflows: Array  # int32 [B], draws that were not finite
    ok: Array  # bool [B]
    specs: TaskSpec  # of the last draw


def attempt(
    root: PRNGKeyArray,
    number: Array,
    choices: Choices,
    systems: Systems,
    bucket: Bucket,
    factor_range: tuple[float, float] | None,
) -> tuple[TaskSpec, Array, Array]:
    """Draw number `number` of one row, whether it passes verification, whether it is finite."""
    k = bucket.covariates
    kind, index = share_counters(bucket)
    # the stream's own choices behind those of a task, and a shape for each covariate
    kind = np.concatenate([np.repeat([OF_TASK, SHAPE], [OWN, k]), kind]).astype(np.uint32)
    index = np.concatenate([2 + np.arange(OWN), np.arange(k), index]).astype(np.uint32)
    flat = uniform_shares_apart(root, number * np.uint32(KINDS) + kind, index, systems)
    share = flat[: OWN + k]

    def pick(share: Array, values: Array, count: Array | int | None = None) -> Array:
        return values[below(share, values.shape[0] if count is None else count)]

    length = below(share[0], choices.event_lengths.shape[0])
    novel = share[1] < choices.novel_share
    if choices.target_shares is None:
        target = pick(share[2], choices.targets)
    else:
        target = choices.targets[weighted(share[2], choices.target_shares)]
    k_values = choices.k if choices.k.ndim == 1 else choices.k[target]
    sizes = Sizes(
        target=target,
        k=pick(share[3], k_values, choices.n_k[target]),
        event_length=choices.event_lengths[length],
        n_events=pick(share[4], choices.counts[length], choices.n_counts[length]),
        future=jnp.where(novel, FUTURES.index("novel"), FUTURES.index("replay")),
        shapes=None if choices.shapes is None else pick(share[OWN:], choices.shapes),
        context=bucket.context,
        horizon=bucket.horizon,
        factor_range=factor_range,
    )
    spec = spec_from(flat[OWN + k :], sizes, systems, bucket)
    verification = verify(spec, systems)
    return spec, verification.ok, verification.finite


def draw_rows(
    keys: PRNGKeyArray,
    choices: Choices,
    systems: Systems,
    bucket: Bucket,
    factor_range: tuple[float, float] | None,
) -> DrawnRows:
    """Draw every row until it passes verification; keys [B], one a row.

    All rows at first, then only those that failed, a few at a time: a loop over all rows would
    draw the whole batch again for the unluckiest one, a loop over a few rows alone costs a CPU two
    fifths more. Which rows are drawn together changes nothing, since a row's n-th draw depends on
    its key and n alone.
    """
    batch = keys.shape[0]
    few = -(-batch // 16)
    attempts = jax.vmap(
        lambda key, number: attempt(key, number, choices, systems, bucket, factor_range)
    )

    def waiting(rows: DrawnRows) -> Array:
        return ~rows.ok & (rows.drawn < ATTEMPTS)

    def again(rows: DrawnRows) -> DrawnRows:
        index = jnp.nonzero(waiting(rows), size=few, fill_value=batch)[0]  # batch: no row
        at = jnp.minimum(index, batch - 1)
        specs, ok, finite = attempts(keys[at], rows.drawn[at])
        new = DrawnRows(
            rows.drawn[at] + 1, rows.overflows[at] + (~finite).astype(jnp.int32), ok, specs
        )
        return jax.tree.map(lambda old, new: old.at[index].set(new, mode="drop"), rows, new)

    specs, ok, finite = attempts(keys, jnp.zeros(batch, jnp.uint32))
    start = DrawnRows(jnp.ones(batch, jnp.uint32), (~finite).astype(jnp.int32), ok, specs)
    return jax.lax.while_loop(lambda rows: jnp.any(waiting(rows)), again, start)


@functools.partial(jax.jit, static_argnames=("bucket", "factor_range", "draws"))
def count_draws(
    root: PRNGKeyArray,
    choices: Choices,
    systems: Systems,
    bucket: Bucket,
    factor_range: tuple[float, float] | None,
    draws: int,
) -> Int[Array, "targets 3"]:
    """Of some draws of each target: how many, how many pass, how many are not finite."""

    def one(number: Array) -> Array:
        key = jax.random.fold_in(root, number)
        spec, ok, finite = attempt(key, jnp.uint32(0), choices, systems, bucket, factor_range)
        counted = jnp.stack([jnp.ones_like(ok), ok, ~finite]).astype(jnp.int32)
        return jnp.zeros((len(systems.targets), 3), jnp.int32).at[spec.target].set(counted)

    numbers = jnp.arange(draws, dtype=jnp.uint32).reshape(-1, DRAWN_TOGETHER)
    return jnp.sum(jax.lax.map(lambda part: jnp.sum(jax.vmap(one)(part), axis=0), numbers), axis=0)
