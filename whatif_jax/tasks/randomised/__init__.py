"""Randomised tasks: responses drawn from a prior, imposed on series that are not the benchmark's.

Nothing of the benchmark's own series, constants or targets enters them.

Order of the modules, each needing only those before it: names, prior, numbers; series_family,
components, synthetic, augment, training_series, baseline; events, response, maker, stream.
"""

from .baseline import SeriesPool, baseline_series, pool_of
from .maker import Drawn, HardCases, make_task
from .names import HARD_CASES
from .prior import Prior, load_prior
from .stream import RandomisedBatch, RandomisedStream
from .synthetic import synthetic_series
from .training_series import TrainingSeries, load_training_series

__all__ = [
    "HARD_CASES",
    "Drawn",
    "HardCases",
    "Prior",
    "RandomisedBatch",
    "RandomisedStream",
    "SeriesPool",
    "TrainingSeries",
    "baseline_series",
    "load_prior",
    "load_training_series",
    "make_task",
    "pool_of",
    "synthetic_series",
]
