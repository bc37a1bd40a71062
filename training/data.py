"""The streams that a run trains on and is validated on.

Both are pure functions of a key and a step: the position in a stream is the number of steps taken.
"""

from typing import Any

import jax
from jax.sharding import NamedSharding

from whatif_jax import TaskStream, builtin_systems, root_key

from .config import FitConfig

__all__ = ["TRAINING", "VALIDATION", "check_split", "open_stream", "prior_version", "stream_key"]

TRAINING, VALIDATION = 0, 1  # what a key is folded with: they never meet
VALIDATION_SEED = 0  # one for all runs, so that their losses compare


def stream_key(config: FitConfig, part: int) -> jax.Array:
    """The key of a stream, threefry2x32 whatever JAX's default is."""
    return jax.random.fold_in(root_key(VALIDATION_SEED if part else config.seed), part)


def check_split(config: FitConfig) -> None:
    """Refuse a left-out system that is none.

    Raises:
        ValueError: names it.
    """
    systems = builtin_systems()
    if config.left_out is not None and config.left_out not in systems:
        raise ValueError(f"left_out: {config.left_out!r}; expected one of {', '.join(systems)}")


def open_stream(
    config: FitConfig, part: int = TRAINING, *, sharding: NamedSharding | None = None
) -> Any:
    """The stream of a run's split.

    Args:
        config: of the run.
        part: TRAINING or VALIDATION.
        sharding: of the rows of a batch over devices.

    Returns:
        A `TaskStream`, or a stream with its face.

    Raises:
        ValueError: a field that the stream refuses.
    """
    check_split(config)
    arguments = {
        "buckets": config.buckets,
        "batch_size": config.batch_size,
        "sharding": sharding,
        **config.stream,
    }
    key = stream_key(config, part)
    if config.split == "randomised":
        from whatif_jax import RandomisedStream

        return RandomisedStream(key, **arguments)
    systems = config.systems
    if config.left_out is not None:
        systems = tuple(name for name in builtin_systems() if name != config.left_out)
    return TaskStream(key, systems=systems, **arguments)


def prior_version(config: FitConfig) -> str:
    """Version of what tasks are drawn from: the prior's, or that of the catalog's definition."""
    if config.split == "randomised":
        from whatif_jax.tasks.randomised import PRIOR_VERSION

        return PRIOR_VERSION
    return "whatif-v1"
