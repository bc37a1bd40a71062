"""Streams to train on, by the split that the trained forecaster's scores are reported under."""

from typing import Any

from .._types import PRNGKeyArray
from ..catalog import builtin_systems
from ..catalog.errors import one_of
from .randomised import RandomisedStream, load_training_series
from .stream import TaskStream

__all__ = ["SPLITS", "training_stream"]

SPLITS = ("randomised", "leave-one-system-out", "in-distribution")


def training_stream(
    split: str,
    key: int | PRNGKeyArray,
    batch_size: int,
    *,
    left_out: str | None = None,
    **options: Any,
) -> TaskStream | RandomisedStream:
    """The stream of a split; scores of different splits are never mixed in a report.

    Args:
        split: "randomised", nothing of the benchmark (the suite is then zero-shot);
            "leave-one-system-out", the catalog without one system; or "in-distribution", the
            catalog, whose series and responses are the suite's own.
        key: a seed in [0, 2**32) or a JAX key of any implementation.
        batch_size: rows of a batch.
        left_out: the system to leave out, for "leave-one-system-out" and for it alone.
        options: further fields of `RandomisedStream`, or of `TaskStream`. The pool of "randomised"
            is the training-only series of the simulators unless another is given, or None.

    Raises:
        ValueError: no such split or system, or a field of the stream that is not usable.
    """
    if split not in SPLITS:
        raise ValueError(f"split: {split!r}; expected {one_of(SPLITS, split)}")
    if (split == "leave-one-system-out") != (left_out is not None):
        expected = one_of(builtin_systems(), left_out) if left_out is None else "None"
        raise ValueError(f"left_out: {left_out!r}; expected {expected} for the split {split!r}")
    if split == "randomised":
        if "pool" not in options:
            options["pool"] = load_training_series()
        return RandomisedStream(key, batch_size, **options)
    if "systems" in options:
        raise ValueError(f"systems: given; expected none, as the split {split!r} names them")
    names = builtin_systems()
    if left_out is not None and left_out not in names:
        raise ValueError(f"left_out: {left_out!r}; expected {one_of(names, left_out)}")
    systems = [name for name in names if name != left_out]
    return TaskStream(key, batch_size, systems=systems, **options)
