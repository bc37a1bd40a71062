"""Baselines that know nothing of causes, and the oracle, which knows all."""

import jax.numpy as jnp
import numpy as np

from whatif_jax._types import Array, Float
from whatif_jax.tscm import Episode

from .baseline import Estimate
from .question import Question

__all__ = ["last", "mean", "mean_value", "oracle", "queried", "without_effect", "zero"]


def queried(question: Question) -> Float[Array, " T"]:
    """The series of the queried node; 0 at steps that may not be read."""
    place = jnp.asarray(np.arange(question.series.shape[1], dtype=np.int32))
    own = (place == question.query.node) & question.visible
    return jnp.sum(jnp.where(own[None, :], question.series, 0.0), axis=1)


def mean_value(question: Question) -> Float[Array, ""]:
    """The queried node's mean over the steps seen; 0 where none is."""
    count = jnp.sum(question.seen, dtype=jnp.float32)
    return jnp.sum(queried(question)) / jnp.maximum(count, 1.0)


def without_effect(value: Float[Array, ""], question: Question) -> Estimate:
    """One value at all steps asked for, and no effect."""
    shape = question.query.steps.shape
    return Estimate(jnp.broadcast_to(value, shape), jnp.zeros(shape, value.dtype))


def zero(question: Question, structure: str, episode: Episode | None = None) -> Estimate:
    """0."""
    return without_effect(jnp.zeros((), question.series.dtype), question)


def mean(question: Question, structure: str, episode: Episode | None = None) -> Estimate:
    """The queried node's mean over the steps seen."""
    return without_effect(mean_value(question), question)


def last(question: Question, structure: str, episode: Episode | None = None) -> Estimate:
    """The queried node's last value seen before the onset; the package calls it AR1."""
    step = jnp.asarray(np.arange(question.seen.shape[0], dtype=np.int32))
    before = question.seen & (step < question.intervention.onset)
    at = jnp.max(jnp.where(before, step, -1))
    value = jnp.sum(jnp.where(step == at, queried(question), 0.0))
    return without_effect(value, question)


def oracle(question: Question, structure: str, episode: Episode | None = None) -> Estimate:
    """The truth: of the interventional run, of the counterfactual one, and the effect.

    Raises:
        ValueError: no episode is given.
    """
    if episode is None:
        raise ValueError("episode: None; expected the episode, whose truth the oracle gives")
    node, steps = question.query.node, question.query.steps
    return Estimate(
        value=episode.interventional[steps, node],
        effect=episode.effect[steps, node],
        counterfactual=episode.counterfactual[steps, node],
    )
