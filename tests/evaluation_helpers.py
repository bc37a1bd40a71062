"""Forecasters from functions, and the batches that the tests of forecasters work with."""

import numpy as np

from whatif_jax import Suite
from whatif_jax.evaluation.evaluate import BATCH_AXES

BATCH = 16


def named(function, **attributes):
    """A forecaster from a function, with attributes."""
    for name, value in attributes.items():
        setattr(function, name, value)
    return function


def batches_of(suite: Suite) -> list[np.ndarray]:
    """Task ids of every batch of at most `BATCH` tasks."""
    return suite.batch_ids(BATCH, by=BATCH_AXES)
