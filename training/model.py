"""The models that `fit` trains, by name.

Sizes: "tiny" trains on two CPU cores, "base" wants a GPU. `events` is the reference forecaster, the
others are what it is compared with.
"""

from collections.abc import Callable
from typing import NamedTuple

import equinox as eqx

from whatif_jax._types import PRNGKeyArray
from whatif_jax.catalog.errors import one_of

from .models.events import EventModel
from .models.patches import PatchModel

__all__ = [
    "SIZES",
    "make_events",
    "make_events_alone",
    "make_model",
    "make_patches",
    "make_recurrence",
]


class Size(NamedTuple):
    """Of a model."""

    width: int
    heads: int
    depth: int


SIZES = {"tiny": Size(64, 4, 2), "base": Size(256, 8, 6)}


def _size(name: str) -> Size:
    if name not in SIZES:
        raise ValueError(f"size: {name!r}; expected {one_of(SIZES, name)}")
    return SIZES[name]


def make_events(size: str, *, key: PRNGKeyArray) -> eqx.Module:
    """A regressor over events on top of the closed form, which learns what it gets wrong."""
    return EventModel(*_size(size), key=key)


def make_events_alone(size: str, *, key: PRNGKeyArray) -> eqx.Module:
    """The same that begins at the event-free course; of the fits it sees what they would say."""
    return EventModel(*_size(size), with_gain=False, key=key)


def make_patches(size: str, *, key: PRNGKeyArray) -> eqx.Module:
    """A transformer over patches of time and over variates."""
    return PatchModel("attention", *_size(size), key=key)


def make_recurrence(size: str, *, key: PRNGKeyArray) -> eqx.Module:
    """Patches again, with linear recurrences over time."""
    return PatchModel("recurrence", *_size(size), key=key)


make_model: Callable[..., eqx.Module] = make_events
