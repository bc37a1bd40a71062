"""The streams that a run trains on and is validated on.

Both are pure functions of a key and a step: the position in a stream is the number of steps taken.
"""

import dataclasses
import json
from typing import Any

import jax
from jax.sharding import NamedSharding

from whatif_jax import (
    RandomisedStream,
    TaskStream,
    builtin_systems,
    root_key,
    training_stream,
)
from whatif_jax.catalog.errors import one_of

from .config import FitConfig

__all__ = [
    "TRAINING",
    "VALIDATION",
    "described",
    "open_stream",
    "stream_key",
    "trained_on",
]

TRAINING, VALIDATION = 0, 1  # what a key is folded with: they never meet
VALIDATION_SEED = 0  # one for all runs, so that their losses compare
# fields of a stream that a run says by its own
OF_RUN = ("key", "batch_size", "buckets", "systems", "sharding")


def stream_key(config: FitConfig, part: int) -> jax.Array:
    """The key of a stream, threefry2x32 whatever JAX's default is."""
    return jax.random.fold_in(root_key(VALIDATION_SEED if part else config.seed), part)


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
    kind = RandomisedStream if config.split == "randomised" else TaskStream
    taken = sorted({each.name for each in dataclasses.fields(kind) if each.init} - {*OF_RUN})
    for name in config.stream:
        if name not in taken:
            raise ValueError(f"stream: {name!r}; expected {one_of(taken, name)}")
    arguments = {
        "buckets": config.buckets,
        "batch_size": config.batch_size,
        "sharding": sharding,
        **config.stream,
    }
    key = stream_key(config, part)
    if config.split == "randomised":
        return training_stream("randomised", key, **arguments)
    if config.left_out is not None:
        return training_stream(config.split, key, left_out=config.left_out, **arguments)
    return TaskStream(key, systems=config.systems, **arguments)


def described(stream: Any) -> dict[str, Any]:
    """What a stream draws from, as JSON values: a run goes on with the same alone."""
    prior = getattr(stream, "prior", None)
    about: dict[str, Any] = dict(getattr(stream, "describe", dict)())
    about["prior"] = "catalog" if prior is None else str(prior.version)
    return json.loads(json.dumps(about))


def trained_on(config: FitConfig, stream: dict[str, Any]) -> dict[str, Any]:
    """What a forecaster of a run declares: `trained_on`, and the systems that it is about.

    Args:
        config: of the run.
        stream: what its stream drew from, see `described`. A prior's file is not read again: it may
            be another one by now, or none.
    """
    systems = list(config.systems or builtin_systems())
    if config.left_out is not None:
        seen = [name for name in systems if name != config.left_out]
        return {"trained_on": "left-out-system", "systems": seen, "left_out": [config.left_out]}
    if config.split == "in-distribution":
        return {"trained_on": "in-distribution", "systems": systems}
    return {"trained_on": str(stream.get("trained_on", "unknown"))}
