"""Forecasters of tasks as baselines: the treatment is a covariate known ahead."""

import dataclasses
import functools
from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from whatif_jax._types import Array
from whatif_jax.tscm import Episode
from whatif_jax.tscm.task import KnownAhead, known_ahead

from .baseline import Estimate
from .question import Question
from .trivial import mean_value

__all__ = ["SHORTEST", "Forecasting"]

SHORTEST = 8  # steps of a history; with fewer the method gives the mean, as the package does
ROWS = 256  # forecast at once
MEDIAN = (0.5,)


@dataclasses.dataclass(frozen=True)
class Forecasting:
    """A baseline by a forecaster of the library's kind, on the host.

    The forecast runs from the onset to the last step asked for; the covariates are the nodes
    intervened on (`whatif_jax.tscm.task.known_ahead`). The value is the median under the
    intervention, the effect that median less the one with the covariates where they would be. The
    package holds one treatment at one value up to the query, behind its window too, and has no
    second forecast.

    Histories of different lengths are aligned at the onset; what is missing before them is NaN,
    which the forecaster must take.

    Args:
        name: in `baselines()`.
        label: of its row in a table.
        make: makes the forecaster, at the first estimate.
    """

    name: str
    label: str
    make: Callable[[], Any]

    def applies(self, structure: str) -> bool:
        """It asks for no structure."""
        return True

    @functools.cached_property
    def forecaster(self) -> Any:
        """The forecaster, made once."""
        return self.make()

    def estimate_many(
        self, questions: Question, structure: str = "", *, episode: Episode | None = None
    ) -> Estimate:
        """Estimates of questions with a leading axis B; the mean where the history is too short.

        A forecast that is missing or not finite stays NaN, which every score counts as failed.
        """
        asked = (
            np.asarray(questions.query.steps) - np.asarray(questions.intervention.onset)[:, None]
        )
        onset = np.asarray(questions.intervention.onset)
        means: Any = np.asarray(_means(questions))
        value = np.repeat(means[:, None], asked.shape[1], axis=1)
        effect = np.zeros_like(value)
        known: Any = jax.device_get(_known(questions, int(asked.max(initial=0)) + 1))
        usable = known.history_mask.sum(axis=1) >= SHORTEST
        for rows, k in _groups(known.covariate_mask, onset, usable):
            steps, horizon = int(onset[rows].max()), int(asked[rows].max()) + 1
            acted, natural = (
                self._medians(known, rows, steps, horizon, k, name)
                for name in ("future_covariates", "natural_covariates")
            )
            at = np.maximum(asked[rows], 0)
            found = np.take_along_axis(acted, at, axis=1)
            moved = found - np.take_along_axis(natural, at, axis=1)
            ahead = asked[rows] >= 0
            value[rows] = np.where(ahead, found, value[rows])
            effect[rows] = np.where(ahead, moved, 0.0)
        return Estimate(jnp.asarray(value), jnp.asarray(effect))

    def _medians(
        self,
        known: KnownAhead,
        rows: np.ndarray,
        steps: int,
        horizon: int,
        k: np.ndarray,
        name: str,
    ) -> np.ndarray:
        """Medians [rows, H]; NaN for a row without a forecast."""
        mask = known.history_mask[rows, -steps:]
        history = np.where(mask, known.history[rows, -steps:], np.nan)
        past = known.history_covariates[rows][:, k, -steps:]
        seen = np.where(mask[:, None], past, np.nan)
        ahead = getattr(known, name)[rows][:, k, :horizon]
        covariates = np.concatenate([seen, ahead], axis=2).swapaxes(1, 2)
        answer = self.forecaster(history, covariates.copy(), horizon, MEDIAN)
        missing = np.full((horizon, 1), np.nan, np.float32)
        return np.stack([missing if row is None else np.asarray(row) for row in answer])[:, :, 0]


def _groups(
    covariates: np.ndarray, onset: np.ndarray, usable: np.ndarray
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Rows of the same covariates and of like onsets, with the places of those covariates."""
    for kind in np.unique(covariates, axis=0):
        alike = np.flatnonzero((covariates == kind).all(axis=1) & usable)
        alike = alike[np.argsort(onset[alike], kind="stable")]
        for start in range(0, len(alike), ROWS):
            yield alike[start : start + ROWS], np.flatnonzero(kind)


@functools.partial(jax.jit, static_argnames="horizon")
def _known(questions: Question, horizon: int) -> KnownAhead:
    def one(question: Question) -> KnownAhead:
        series = question.series
        return known_ahead(
            series,
            question.visible,
            question.intervention,
            question.query,
            context=series.shape[0],
            horizon=horizon,
        )

    return jax.vmap(one)(questions)


@jax.jit
def _means(questions: Question) -> Array:
    return jax.vmap(mean_value)(questions)
