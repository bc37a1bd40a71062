"""The episode stream: temporal causal worlds without end, with the face of `TaskStream`.

References:
    prior.toml, beside this file.
"""

import dataclasses
import functools
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import numpy as np
from jax.sharding import NamedSharding

from .._types import Array, Bool, PRNGKeyArray
from ..tasks.forked import refuse_forked
from ..tasks.spec import is_whole
from ..tasks.stream import failed_rows, refuse_failed
from ..tasks.stream_fields import (
    as_key,
    check_batch,
    check_step,
    halves_of,
    iterate_ahead,
    rows_by_device,
)
from ..tasks.stream_weights import bucket_turns, checked_bucket_weights
from .episode import Episode, sample_episodes
from .graphs import sizes_of
from .prior import Prior, contents_of, load_prior, mixture_of

__all__ = ["EpisodeBatch", "EpisodeStream"]

FAILED = (
    "left the limit at every attempt; expected a prior of smaller weights, or a spectral radius "
    "below 1"
)


class EpisodeBatch(eqx.Module):
    """Episodes of one step; every array has a leading axis B."""

    episode: Episode
    verified: Bool[Array, " B"]  # all runs stay within the prior's limit


@dataclasses.dataclass(frozen=True, eq=False)
class EpisodeStream:
    """Episodes without end, made on the accelerator.

    Row r of step s is drawn from fold_in(fold_in(fold_in(key, s // 2**32), s % 2**32), r), as in
    `TaskStream`: the stream's whole state is the key and a step.

    Args:
        key: a seed in [0, 2**32) or a JAX key of any implementation.
        batch_size: rows of a batch.
        prior: the name of a world, a structure or a mixture, a `Prior`, the path of a TOML file, or
            a list of names and priors, each a bucket: step s uses one of them, so that each batch
            has one shape and each bucket compiles once. A mixture is a list with weights.
        steps: of each series.
        sharding: a `NamedSharding` over one mesh axis; each device makes its own rows.
        bucket_weights: how often a bucket is used relative to others; None: the mixture's, or
            each in turn.

    Raises:
        ValueError: a field's value is not usable; names field, value and expectation.

    References:
        DoTime (arXiv:2607.27263).
    """

    key: int | PRNGKeyArray
    batch_size: int
    prior: Any = "generic"
    steps: int = 200
    sharding: NamedSharding | None = None
    bucket_weights: Sequence[float] | None = None
    root: PRNGKeyArray = dataclasses.field(init=False, repr=False)
    buckets: tuple[Prior, ...] = dataclasses.field(init=False, repr=False)
    turns: tuple[int, ...] = dataclasses.field(init=False, repr=False)  # buckets of a period

    def __post_init__(self) -> None:
        refuse_forked()
        self._set("root", as_key(self.key))
        check_batch(self.batch_size, self.sharding)
        weights: Sequence[float] | None = None
        if isinstance(self.prior, str):
            shares = mixture_of(self.prior)
            names: list = list(shares)
            weights = tuple(shares.values()) if len(shares) > 1 else None
        elif isinstance(self.prior, Prior | Path) or not np.iterable(self.prior):
            names = [self.prior]
        else:
            names = list(self.prior)
        if not names:
            raise ValueError(f"prior: {self.prior!r}; expected at least one")
        buckets = tuple(load_prior(name) for name in names)
        self._set("buckets", buckets)
        least = 2 * max(prior.intervention.shortest for prior in buckets) + 1
        if not is_whole(self.steps) or not least <= self.steps <= 2**16:
            raise ValueError(f"steps: {self.steps!r}; expected {least} to {2**16}")
        if self.bucket_weights is not None:
            weights = checked_bucket_weights(self.bucket_weights, len(buckets))
            self._set("bucket_weights", weights)
        self._set("turns", bucket_turns(weights, len(buckets)))

    def _set(self, name: str, value: object) -> None:
        object.__setattr__(self, name, value)

    def describe(self) -> dict[str, object]:
        """What is in the stream: priors, sizes, seeds' rule, as plain values."""
        return {
            "split": "tscm",
            "trained_on": "temporal causal worlds",
            "trains_on_the_suite": False,
            "holds": "episodes of temporal causal worlds drawn from a prior",
            "prior": [prior.version for prior in self.buckets],
            "prior_sha256": [contents_of(prior) for prior in self.buckets],
            "buckets": [[*sizes_of(prior), self.steps] for prior in self.buckets],
            "bucket_weights": None if self.bucket_weights is None else list(self.bucket_weights),
            "turns": list(self.turns),
            "batch_size": self.batch_size,
        }

    def batch_at(self, step: int) -> EpisodeBatch:
        """The batch of one step, a pure function of (key, step). Does not wait for the device.

        Raises:
            ForkedError: in a process that was forked after JAX was used.
            ValueError: the step is negative or 2**63 or above.
        """
        refuse_forked()
        step = check_step(step)
        prior = self.buckets[self.turns[step % len(self.turns)]]
        rows = jax.device_put(np.arange(self.batch_size, dtype=np.uint32), self.sharding)
        return _make_batch(self.root, halves_of(step), rows, prior, int(self.steps), self.sharding)

    def check(self, batch: EpisodeBatch) -> EpisodeBatch:
        """Return the batch, or raise StreamError if a row left the limit. Waits for the device."""
        refuse_forked()
        return refuse_failed(batch, failed_rows(batch), FAILED)

    def iterate(self, start: int = 0, stop: int | None = None) -> Iterator[EpisodeBatch]:
        """Batches from step `start` on; keeps one step in flight on the device.

        Raises:
            StreamError: a row left the limit at every attempt.
            ValueError: a step that is none.
        """
        return iterate_ahead(
            self.batch_at, failed_rows, functools.partial(refuse_failed, why=FAILED), start, stop
        )

    def __iter__(self) -> Iterator[EpisodeBatch]:
        return self.iterate()


@functools.partial(jax.jit, static_argnames=("prior", "steps", "sharding"))
def _make_batch(
    root: PRNGKeyArray,
    halves: Array,
    rows: Array,
    prior: Prior,
    steps: int,
    sharding: NamedSharding | None,
) -> EpisodeBatch:
    def made(keys: PRNGKeyArray) -> EpisodeBatch:
        episode = sample_episodes(keys=keys, prior=prior, steps=steps)
        return EpisodeBatch(episode, episode.finite)

    return rows_by_device(made, root, halves, rows, sharding)
