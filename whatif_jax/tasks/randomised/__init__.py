"""Randomised tasks: nothing of the benchmark's own series, responses or targets enters them."""

from .training_series import TrainingSeries, load_training_series

__all__ = ["TrainingSeries", "load_training_series"]
