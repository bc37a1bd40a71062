"""Episodes as forecasting tasks, so that every forecaster and metric of tasks runs on them.

The target is the queried node. Its history ends before the onset; its future is the run under the
intervention, and what would have happened without it the factual run. The covariates are the nodes
intervened on, which a forecaster knows ahead. A task has no covariates known in the past alone, so
that other visible nodes are left out, and latent nodes never appear.
"""

import dataclasses
import functools
from collections.abc import Iterator
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from .._types import Array, Bool, Float
from ..tasks.spec import is_whole
from ..tasks.task import Task
from .episode import Episode, Query
from .intervention import Intervention
from .names import SLOTS
from .stream import EpisodeBatch, EpisodeStream

__all__ = [
    "ENDS",
    "RUNS",
    "EpisodeTaskBatch",
    "EpisodeTasks",
    "KnownAhead",
    "known_ahead",
    "task_of_episode",
]

RUNS = ("counterfactual", "interventional")
"""Runs that can be the future: with the factual run's noise, and with noise of its own."""
ENDS = ("series", "query")
"""Where a future ends: with the series, or with the last step asked for."""


class KnownAhead(NamedTuple):
    """What a forecaster knows at the onset; histories are right-aligned, padding is 0."""

    history: Float[Array, " C"]  # the queried node
    history_mask: Bool[Array, " C"]
    history_covariates: Float[Array, "2 C"]  # the nodes intervened on
    future_covariates: Float[Array, "2 H"]  # under the intervention
    natural_covariates: Float[Array, "2 H"]  # without it
    covariate_mask: Bool[Array, " 2"]


def known_ahead(
    series: Float[Array, "T N"],
    visible: Bool[Array, " N"],
    intervention: Intervention,
    query: Query,
    *,
    context: int,
    horizon: int,
) -> KnownAhead:
    """What a forecaster knows at the onset of an intervention. Pure and unbatched.

    Ahead, a node that is held has the intervention's values while they hold. Otherwise, after the
    window and under soft interventions, its course is not known: it is put at its mean over the
    history, and a soft intervention's values are added to that.

    Args:
        series: the factual run; steps from the onset on are not read.
        visible: nodes that may be shown; what regards others is masked.
        intervention: its onset divides past and future.
        query: its node is the target.
        context: steps of the history, C; the first are padding where the onset comes earlier.
        horizon: steps from the onset on, H.
    """
    onset, place = intervention.onset, jnp.asarray(np.arange(series.shape[1], dtype=np.int32))
    back = jnp.asarray(np.arange(context, dtype=np.int32))
    mask = back >= context - onset

    def past(node: Array) -> Array:
        own = jnp.sum(jnp.where((place == node) & visible, series, 0.0), axis=1)
        found = jax.lax.dynamic_slice_in_dim(jnp.pad(own, (context, 0)), onset, context)
        return jnp.where(mask, found, 0.0)

    def ahead(values: Array) -> Array:
        widths = ((0, horizon), *[(0, 0)] * (values.ndim - 1))
        return jax.lax.dynamic_slice_in_dim(jnp.pad(values, widths), onset, horizon)

    def shown(node: Array) -> Array:
        return jnp.any((place == node) & visible)

    treated = jnp.stack([past(intervention.targets[slot]) for slot in range(SLOTS)])
    count = jnp.maximum(jnp.sum(mask, dtype=series.dtype), 1.0)
    mean = jnp.sum(treated, axis=1, keepdims=True) / count
    values, active = ahead(intervention.values).T, ahead(intervention.active)
    there = jnp.stack([shown(intervention.targets[slot]) for slot in range(SLOTS)])
    natural = jnp.where(there[:, None], jnp.broadcast_to(mean, values.shape), 0.0)
    held = jnp.where(intervention.hard, values, natural + values)
    future = jnp.where(active[None] & there[:, None], held, natural)
    return KnownAhead(past(query.node), mask & shown(query.node), treated, future, natural, there)


def task_of_episode(
    episode: Episode,
    *,
    context: int,
    horizon: int,
    run: str = "counterfactual",
    until: str = "series",
) -> Task:
    """An episode as a task: history before the onset, future from the onset on. Pure, for vmap.

    Covariates, K = 2 and masked where there is no second target, are as `known_ahead` says.

    Args:
        episode: one episode.
        context: steps of the history; the first ones are masked where the onset comes earlier.
        horizon: steps of the future; the last ones are masked where the future ends earlier.
        run: the future, one of `RUNS`. `future_baseline` is the factual run: only beside the
            counterfactual one is their difference the intervention's effect alone.
        until: where the future ends, one of `ENDS`.

    Raises:
        ValueError: a field's value is not usable; names field, value and expectation.
    """
    _check(context, horizon, run, until)
    known = known_ahead(
        episode.factual,
        episode.observed,
        episode.intervention,
        episode.query,
        context=context,
        horizon=horizon,
    )
    steps, nodes = episode.factual.shape
    onset = episode.intervention.onset
    end = steps if until == "series" else jnp.max(episode.query.steps) + 1
    ahead = onset + jnp.asarray(np.arange(horizon, dtype=np.int32)) < end
    place = jnp.asarray(np.arange(nodes, dtype=np.int32))
    own = (place == episode.query.node) & episode.observed

    def future(values: Array) -> Array:
        found = jnp.pad(jnp.sum(jnp.where(own, values, 0.0), axis=1), (0, horizon))
        return jnp.where(ahead, jax.lax.dynamic_slice_in_dim(found, onset, horizon), 0.0)

    return Task(
        history=known.history,
        future=future(getattr(episode, run)),
        future_baseline=future(episode.factual),
        history_covariates=known.history_covariates,
        future_covariates=jnp.where(ahead[None], known.future_covariates, 0.0),
        history_mask=known.history_mask,
        future_mask=ahead,
        covariate_mask=known.covariate_mask,
    )


def _check(context: int, horizon: int, run: str, until: str) -> None:
    for name, value in (("context", context), ("horizon", horizon)):
        if not is_whole(value) or value < 1:
            raise ValueError(f"{name}: {value!r}; expected a whole number of at least 1")
    for name, kind, known in (("run", run, RUNS), ("until", until, ENDS)):
        if kind not in known:
            raise ValueError(f"{name}: {kind!r}; expected one of {', '.join(known)}")


class EpisodeTaskBatch(eqx.Module):
    """Tasks of one step; every array has a leading axis B."""

    task: Task
    verified: Bool[Array, " B"]


@dataclasses.dataclass(frozen=True, eq=False)
class EpisodeTasks:
    """The tasks of a stream of episodes, with the face of a stream of tasks.

    Onsets differ, so that histories are masked at their beginning and futures at their end.
    Covariates are the treated nodes alone, of both signs: `scale_inputs`, which reads covariates as
    ratios to a level above 0, does not fit them.

    Args:
        stream: the episodes.
        context: steps of the histories.
        horizon: steps of the futures.
        run: as for `task_of_episode`.
        until: as for `task_of_episode`.

    Raises:
        ValueError: as `task_of_episode`.
    """

    stream: EpisodeStream
    context: int
    horizon: int
    run: str = "counterfactual"
    until: str = "series"

    def __post_init__(self) -> None:
        _check(self.context, self.horizon, self.run, self.until)

    def describe(self) -> dict[str, object]:
        """What is in the stream, and how episodes become tasks, as plain values."""
        of_tasks = {
            "context": int(self.context),
            "horizon": int(self.horizon),
            "run": self.run,
            "until": self.until,
        }
        return self.stream.describe() | of_tasks

    def batch_at(self, step: int) -> EpisodeTaskBatch:
        """The tasks of one step; raises as the stream's `batch_at`."""
        return self._tasks(self.stream.batch_at(step))

    def iterate(self, start: int = 0, stop: int | None = None) -> Iterator[EpisodeTaskBatch]:
        """Tasks from step `start` on; raises as the stream's `iterate`."""
        return (self._tasks(batch) for batch in self.stream.iterate(start, stop))

    def __iter__(self) -> Iterator[EpisodeTaskBatch]:
        return self.iterate()

    def _tasks(self, batch: EpisodeBatch) -> EpisodeTaskBatch:
        task = _batch_of(batch.episode, self.context, self.horizon, self.run, self.until)
        return EpisodeTaskBatch(task, batch.verified)


@functools.partial(jax.jit, static_argnames=("context", "horizon", "run", "until"))
def _batch_of(episode: Episode, context: int, horizon: int, run: str, until: str) -> Task:
    return jax.vmap(
        lambda one: task_of_episode(one, context=context, horizon=horizon, run=run, until=until)
    )(episode)
