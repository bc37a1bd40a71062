"""Randomised tasks: responses drawn from a prior, imposed on series that are not the benchmark's.

Order of the modules, each needing only those before it: names, prior, numbers, events, response,
series, maker, stream.
"""

from .maker import Drawn, HardCases, make_task
from .names import HARD_CASES
from .prior import Prior, load_prior
from .baseline import SeriesPool, baseline_series, pool_of
from .stream import RandomisedBatch, RandomisedStream

__all__ = [
    "HARD_CASES",
    "Drawn",
    "HardCases",
    "Prior",
    "RandomisedBatch",
    "RandomisedStream",
    "SeriesPool",
    "baseline_series",
    "load_prior",
    "make_task",
    "pool_of",
]
