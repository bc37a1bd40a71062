"""Temporal structural causal models: worlds, interventions and their counterfactuals.

DoTime's generator (arXiv:2607.27263), in JAX: worlds drawn from a prior, three runs of each
(factual, interventional, counterfactual), streams without end.

Order of the modules, each needing only those before it: names, prior, numbers, mechanisms, scm,
graphs, sample, noise, intervention, simulate, continuous, episode, stream, workers, frozen, suite.
"""

from .continuous import simulate_continuous
from .episode import Episode, Query, sample_episode, sample_episodes
from .intervention import Intervention, intervene, no_intervention
from .mechanisms import mechanism
from .noise import Noise
from .prior import Prior, load_prior, prior_names, structures
from .sample import sample_scm
from .scm import SCM, companion, descendants, reached, spectral_radius, summary_graph
from .simulate import simulate
from .stream import EpisodeBatch, EpisodeStream
from .suite import EpisodePart, EpisodeSuite, episode_suites, load_episode_suite

__all__ = [
    "SCM",
    "Episode",
    "EpisodeBatch",
    "EpisodePart",
    "EpisodeStream",
    "EpisodeSuite",
    "Intervention",
    "Noise",
    "Prior",
    "Query",
    "companion",
    "descendants",
    "episode_suites",
    "intervene",
    "load_episode_suite",
    "load_prior",
    "mechanism",
    "no_intervention",
    "prior_names",
    "reached",
    "sample_episode",
    "sample_episodes",
    "sample_scm",
    "simulate",
    "simulate_continuous",
    "spectral_radius",
    "structures",
    "summary_graph",
]
