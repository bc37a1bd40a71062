"""Statistics that are functions of a mean over tasks, which makes their bootstrap a matrix product.

References:
    SPEC §7. Axes: N tasks, M models, F contributions of a task.
"""

import abc

import numpy as np

from .table import ErrorTable

__all__ = ["MeanStatistic"]


class MeanStatistic(abc.ABC):
    """A statistic of the errors that depends on the tasks through means alone.

    Called with an `ErrorTable` it gives its value. `bootstrap` weighs the contributions of the
    tasks by how often each was drawn, and never copies the table.
    """

    @abc.abstractmethod
    def contributions(self, table: ErrorTable) -> np.ndarray:
        """What each task contributes, float64 [N, F]."""

    @abc.abstractmethod
    def finish(self, means: np.ndarray) -> np.ndarray:
        """The statistic from mean contributions [..., F], leading axes kept."""

    def __call__(self, table: ErrorTable) -> np.ndarray:
        """The statistic on all tasks of a table."""
        return self.finish(self.contributions(table).mean(axis=0))
