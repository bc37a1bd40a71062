"""The randomised stream: tasks without end whose responses are drawn, not looked up.

References:
    prior.toml, beside this file.
"""

import dataclasses
import functools
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import numpy as np
from jax.sharding import NamedSharding

from ..._types import Array, Bool, PRNGKeyArray
from ..forked import refuse_forked
from ..stream import failed_rows, refuse_failed
from ..stream_fields import (
    as_key,
    check_batch,
    check_step,
    checked_buckets,
    checked_probability,
    halves_of,
    iterate_ahead,
    rows_by_device,
    whole_numbers,
)
from ..stream_weights import bucket_turns, checked_bucket_weights
from ..task import Task
from .baseline import SeriesPool
from .maker import Choices, Drawn, HardCases, make_task
from .names import HARD_CASES
from .prior import MOST_COVARIATES, Prior, contents_of, load_prior
from .training_series import TrainingSeries

__all__ = ["RandomisedBatch", "RandomisedStream"]

FAILED = "are not finite in float32; expected a prior of smaller ranges"


class RandomisedBatch(eqx.Module):
    """Tasks of one step; every array has a leading axis B."""

    task: Task
    drawn: Drawn  # response, events, bases: what the tasks were made from
    hard_cases: HardCases  # bool [B] each: which apply to a row
    verified: Bool[Array, " B"]  # all values are finite


@dataclasses.dataclass(frozen=True, eq=False)
class RandomisedStream:
    """Randomised tasks without end, made on the accelerator; the face of `TaskStream`.

    Responses, events, factors, series and hard cases are drawn from a prior; no series, constant
    or target of the benchmark enters. Row r of step s is drawn from
    fold_in(fold_in(fold_in(key, s // 2**32), s % 2**32), r), as in `TaskStream`: the stream's
    whole state is the key and a step. The same key gives the same tasks for the same prior,
    configuration and pool.

    Args:
        key: a seed in [0, 2**32) or a JAX key of any implementation.
        batch_size: rows of a batch.
        buckets: (context, horizon) pairs; step s uses bucket s modulo their number, or takes turns
            by `bucket_weights`, so that each batch has one shape and each pair compiles once.
        k: numbers of covariates to draw from; None: the prior's, 1 to 8.
        novel: share of futures beyond every past factor, the rest are replays; None: the prior's.
        hard_cases: share of tasks by the name of a hard case (`HARD_CASES`); those left out do not
            occur, so that {} has none and {"regime": 1.0} that one alone. None: the prior's.
        prior: a `Prior`, the path of a TOML file, or None for the library's.
        pool: real series to draw windows from, none of the benchmark's: `load_training_series()`,
            or one's own by `pool_of`; None: synthetic series alone.
        sharding: a `NamedSharding` over one mesh axis; each device makes its own rows.
        bucket_weights: how often a bucket is used relative to others, as in `TaskStream`.

    Raises:
        ValueError: a field's value is not usable; names field, value and expectation.

    References:
        Ours; responses are made of the terms of whatif-v1.md §3.
    """

    key: int | PRNGKeyArray
    batch_size: int
    buckets: Sequence[tuple[int, int]] = ((1024, 128),)
    k: Sequence[int] | None = None
    novel: float | None = None
    hard_cases: Mapping[str, float] | None = None
    prior: Any = None
    pool: Any = None
    sharding: NamedSharding | None = None
    bucket_weights: Sequence[float] | None = None
    root: PRNGKeyArray = dataclasses.field(init=False, repr=False)
    choices: Choices = dataclasses.field(init=False, repr=False)
    pools: tuple[SeriesPool | None, ...] = dataclasses.field(init=False, repr=False)
    turns: tuple[int, ...] = dataclasses.field(init=False, repr=False)  # buckets of a period

    def __post_init__(self) -> None:
        refuse_forked()
        self._set("root", as_key(self.key))
        check_batch(self.batch_size, self.sharding)
        self._set("buckets", checked_buckets(self.buckets))
        if self.bucket_weights is not None:
            given = checked_bucket_weights(self.bucket_weights, len(self.buckets))
            self._set("bucket_weights", given)
        self._set("turns", bucket_turns(self.bucket_weights, len(self.buckets)))
        if not isinstance(self.prior, str | Path | Prior | None):
            raise ValueError(f"prior: {self.prior!r}; expected a Prior, a path, or None")
        prior = load_prior(self.prior)
        self._set("prior", prior)
        low, high = prior.covariates.number
        k = range(low, high + 1) if self.k is None else whole_numbers("k", self.k)
        if max(k) > MOST_COVARIATES:
            raise ValueError(f"k: {max(k)}; expected at most {MOST_COVARIATES}")
        held = sorted(set(k))
        self._set("k", tuple(held))
        novel = prior.future.novel if self.novel is None else self.novel
        self._set("novel", checked_probability("novel", novel))
        shares = dict(prior.hard_cases) if self.hard_cases is None else self.hard_cases
        cases = _checked_cases(shares)
        self._set("hard_cases", cases)
        pools = tuple(self._pool(sum(bucket)) for bucket in self.buckets)
        self._set("pools", pools)
        put = jax.device_put
        self._set(
            "choices",
            Choices(
                k=put(np.resize(np.array(held, np.int32), max(held))),
                n_k=put(np.int32(len(held))),
                novel=put(np.float32(self.novel)),
                shares=put(np.array([cases[name] for name in HARD_CASES], np.float32)),
                true=put(np.bool_(True)),
            ),
        )

    def _set(self, name: str, value: object) -> None:
        object.__setattr__(self, name, value)

    def _pool(self, steps: int) -> SeriesPool | None:
        """The series of the pool that a window of so many steps fits."""
        pool = self.pool
        if pool is None:
            return None
        if not isinstance(pool, SeriesPool | TrainingSeries):
            raise ValueError(
                f"pool: {type(pool).__name__}; expected load_training_series(), or pool_of(...)"
            )
        length = np.asarray(pool.length)
        rows = np.flatnonzero(length >= steps)
        if not len(rows):
            raise ValueError(
                f"pool: series of at most {length.max(initial=0)} steps; expected some of "
                f"{steps}, what the buckets need"
            )
        if len(rows) == len(length):
            return SeriesPool(pool.values, pool.length)
        return SeriesPool(
            jax.device_put(np.asarray(pool.values)[rows]), jax.device_put(length[rows])
        )

    def __repr__(self) -> str:
        buckets = ", ".join(f"{context} + {horizon}" for context, horizon in self.buckets)
        return (
            f"RandomisedStream({self.batch_size} tasks a batch of {buckets} steps: "
            f"prior {self.prior.version}, {self._series()})"
        )

    def _series(self) -> str:
        if self.pool is None:
            return "synthetic series"
        return f"synthetic and {len(self.pool.length)} real series"

    def describe(self) -> dict[str, object]:
        """What is in the stream: split, series, prior, buckets, hard cases, as plain values.

        Of a pool of one's own nobody here knows what it holds, it may be the suite's series; nor of
        a prior of one's own, which may have the catalog's constants.
        """
        own_pool, own_prior = isinstance(self.pool, SeriesPool), self.prior != load_prior()
        own = own_pool or own_prior
        owners = ["the pool"] * own_pool + ["the prior"] * own_prior
        known = "series, response constant or target of the benchmark"
        return {
            "split": "randomised",
            "trained_on": "unknown" if own else "randomised",
            "trains_on_the_suite": None if own else False,
            "holds": (
                f"responses drawn from a prior, imposed on {self._series()}; "
                + (f"what its owner put into {' and '.join(owners)}" if own else f"no {known}")
            ),
            "systems": [],
            "targets": [],
            "series": 0 if self.pool is None else len(self.pool.length),
            "prior": self.prior.version,
            "prior_sha256": contents_of(self.prior),
            "buckets": [list(bucket) for bucket in self.buckets],
            "bucket_weights": None if self.bucket_weights is None else list(self.bucket_weights),
            "k": list(self.k or ()),
            "novel": self.novel,
            "hard_cases": dict(self.hard_cases or {}),
            "batch_size": self.batch_size,
        }

    def batch_at(self, step: int) -> RandomisedBatch:
        """The batch of one step, a pure function of (key, step). Does not wait for the device.

        Raises:
            ForkedError: in a process that was forked after JAX was used.
            ValueError: the step is negative or 2**63 or above.
        """
        refuse_forked()
        step = check_step(step)
        index = self.turns[step % len(self.turns)]
        rows = jax.device_put(np.arange(self.batch_size, dtype=np.uint32), self.sharding)
        return _make_batch(
            self.root, halves_of(step), rows, self.choices, self.pools[index],
            self.buckets[index], max(self.k or ()), self.prior, self.sharding,
        )  # fmt: skip

    def check(self, batch: RandomisedBatch) -> RandomisedBatch:
        """Return the batch, or raise StreamError if a row is not finite. Waits for the device."""
        refuse_forked()
        return refuse_failed(batch, failed_rows(batch), FAILED)

    def iterate(self, start: int = 0, stop: int | None = None) -> Iterator[RandomisedBatch]:
        """Batches from step `start` on; keeps one step in flight on the device.

        Raises:
            StreamError: a row is not finite.
            ValueError: a step that is none.
        """
        return iterate_ahead(
            self.batch_at, failed_rows, functools.partial(refuse_failed, why=FAILED), start, stop
        )

    def __iter__(self) -> Iterator[RandomisedBatch]:
        return self.iterate()


def _checked_cases(shares: object) -> dict[str, float]:
    """A share for every hard case; ValueError for other names and for what is no probability."""
    if not isinstance(shares, Mapping):
        raise ValueError(f"hard_cases: {shares!r}; expected a share by name")
    for name in shares:
        if name not in HARD_CASES:
            raise ValueError(f"hard_cases: {name!r}; expected some of {', '.join(HARD_CASES)}")
    return {
        name: checked_probability(f"hard_cases: {name}", shares.get(name, 0.0))
        for name in HARD_CASES
    }


@functools.partial(jax.jit, static_argnames=("bucket", "covariates", "prior", "sharding"))
def _make_batch(
    root: PRNGKeyArray,
    halves: Array,
    rows: Array,
    choices: Choices,
    pool: SeriesPool | None,
    bucket: tuple[int, int],
    covariates: int,
    prior: Prior,
    sharding: NamedSharding | None,
) -> RandomisedBatch:
    def made(keys: PRNGKeyArray, choices: Choices, pool: SeriesPool | None) -> RandomisedBatch:
        each = jax.vmap(lambda key: make_task(key, choices, pool, *bucket, covariates, prior))(keys)
        return RandomisedBatch(each.task, each.drawn, each.hard_cases, each.finite)

    return rows_by_device(made, root, halves, rows, sharding, choices, pool)
