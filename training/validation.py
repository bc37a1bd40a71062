"""How good a run is so far: on a stream of its own, and on a part of the frozen suite."""

import functools
import math
from typing import Any

import equinox as eqx
import jax
import numpy as np

from whatif_jax import (
    Evaluation,
    Suite,
    TrainedForecaster,
    error_table,
    evaluate,
    load_suite,
    skill_scores,
)
from whatif_jax.evaluation.forecaster import per_row

from .config import FitConfig
from .step import make_losses

__all__ = ["SuitePart", "Validation"]

SUITE = "whatif-v1"
SHAPE = dict(context=1024, horizon=128)  # of its tasks: one program
TOGETHER = 16  # tasks of a batch


class Validation:
    """The mean log loss of a moving average on the first batches of a stream of its own."""

    def __init__(self, stream: Any, static: Any, config: FitConfig):
        self._stream, self._batches = stream, config.validation_batches
        losses = make_losses(static, config, relative=True)

        def mean(average: Any, tasks: Any) -> jax.Array:
            return jax.numpy.mean(losses(average, tasks))

        self._mean = jax.jit(mean)

    def loss(self, average: Any) -> float:
        """Their mean relative loss, a logarithm."""
        batches = self._stream.iterate(0, self._batches)
        return math.fsum(float(self._mean(average, batch.task)) for batch in batches) / (
            self._batches
        )


class SuitePart:
    """The skill of a model on a stratified sample of the suite's shortest tasks, by future.

    It is logged and never chosen by: a run that is to be zero-shot on the suite must not see it.
    """

    def __init__(self, tasks: int):
        self._tasks = tasks

    @functools.cached_property
    def _part(self) -> Suite:
        return load_suite(SUITE).where(**SHAPE).sample(self._tasks)

    @functools.cached_property
    def _naive(self) -> Evaluation:
        last = per_row(
            lambda history, covariates, horizon, levels: np.repeat(history[-1:, None], horizon, 0),
            name="naive",
            point=True,
        )
        return evaluate(last, self._part, batch_size=TOGETHER, check=False)

    def skill(self, average: Any, static: Any) -> dict[str, float]:
        """Skill in percent on the whole part, and on its replay and novel futures."""
        if not self._tasks:
            return {}
        model = eqx.combine(jax.device_put(jax.device_get(average)), static)
        found = evaluate(
            TrainedForecaster(model, "ours"), self._part, batch_size=TOGETHER, check=False
        )
        skills = {}
        for name in ("suite", "replay", "novel"):
            part = self._part if name == "suite" else self._part.where(future=name)
            table = error_table({"naive": self._naive, "ours": found}, part, tasks="common")
            skills[name] = 100 * float(skill_scores(table)[1])
        return skills
