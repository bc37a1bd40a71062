"""Events: shapes over a window, and where windows lie in a history.

References:
    whatif-v1.md §4 and §5; paper, appendix B.3 and B.4.
"""

from typing import Any, NamedTuple

import jax.numpy as jnp
from jax.typing import ArrayLike

from .._types import Array
from ..catalog import System

__all__ = [
    "SHAPES",
    "Layout",
    "LayoutRules",
    "Whole",
    "context_for",
    "fits",
    "layout",
    "layout_rules",
    "most_events",
    "place",
    "profiles",
]

# The order gives each shape its number in `TaskSpec.shapes`.
SHAPES = ("step", "bell", "ramp", "half_sine")


# A whole number: an int, or an integer scalar of JAX, traced or not.
Whole = Any


class LayoutRules(NamedTuple):
    """How a system spaces events; defaults are the benchmark's [P]. Any of them may be traced.

    Shares are in ten-thousandths of the context, so that traced and plain layouts, both in
    integers, agree to the step.
    """

    gap: Whole = 32  # steps kept free behind every event
    prefix: Whole = 4_000  # share of the context before the first event
    end_buffer: Whole = 200  # share of the context behind the last slot


BENCHMARK = LayoutRules()
WHOLE = 10_000  # the unit of the shares


def layout_rules(system: System) -> LayoutRules:
    """A system's layout constants in the integers that layouts are computed with."""
    axes = system.axes
    return LayoutRules(axes.gap, round(axes.prefix * WHOLE), round(axes.end_buffer * WHOLE))


def profiles(offset: ArrayLike, length: ArrayLike, shapes: tuple[str, ...] = SHAPES) -> Array:
    """How much of an event's full deviation applies at steps of its window, for some shapes.

    All shapes are symmetric, so offsets may count from either end of the window.

    Args:
        offset: steps within the window, 0 .. length - 1; any shape.
        length: steps of the window.
        shapes: names of the shapes to evaluate (static).

    Returns:
        shares in [0, 1], an axis of `shapes` before those of `offset`: 1 for a step; for a bell
        exp(-0.5 ((offset - (length-1)/2) / (length/6))^2) [P]; a ramp rises over the first
        quarter, holds, and falls over the last; a half-sine is sin(pi (offset + 1/2) / length).
        The last two are ours, for training streams.
    """
    offset = jnp.asarray(offset)
    if not jnp.issubdtype(offset.dtype, jnp.floating):
        offset = offset.astype(jnp.float32)
    length = jnp.asarray(length, offset.dtype)

    def share(shape: str) -> Array:
        if shape == "bell":
            return jnp.exp(-0.5 * ((offset - (length - 1.0) / 2.0) * (6.0 / length)) ** 2)
        if shape == "ramp":
            from_edge = jnp.minimum(offset, length - 1.0 - offset)
            rise = jnp.maximum(jnp.floor(length / 4.0), 1.0)
            return jnp.minimum(1.0, (from_edge + 1.0) / rise)
        if shape == "half_sine":
            return jnp.sin(jnp.pi * (offset + 0.5) / length)
        return jnp.ones_like(offset)

    return jnp.stack([share(shape) for shape in shapes])


class Layout(NamedTuple):
    """Slots of one history: equal strides, one event at the start of each."""

    slot_start: Whole  # step of the first slot = step of the first event
    slot_stride: Whole  # event length + gap + an even share of the spare steps


def _span(context: Whole, rules: LayoutRules) -> tuple[Whole, Whole]:
    """First step after the prefix, and first step of the end buffer."""
    return context * rules.prefix // WHOLE, context - -(-context * rules.end_buffer // WHOLE)


def fits(context: int, event_length: int, n_events: int, rules: LayoutRules = BENCHMARK) -> bool:
    """Whether `n_events` slots fit between prefix and end buffer. Source: whatif-v1.md §5."""
    first, last = _span(context, rules)
    needed = n_events * (event_length + rules.gap)
    room = context * (WHOLE - rules.prefix - rules.end_buffer)
    return needed * WHOLE <= room and needed <= last - first


def place(context: Whole, event_length: Whole, n_events: Whole, rules: LayoutRules) -> Layout:
    """`layout` without its check: for sizes that are known to fit, traced ones among them."""
    first, last = _span(context, rules)
    spare = last - first - n_events * (event_length + rules.gap)
    return Layout(first, event_length + rules.gap + spare // n_events)


def layout(
    context: int, event_length: int, n_events: int, rules: LayoutRules = BENCHMARK
) -> Layout:
    """Spread `n_events` slots evenly between the prefix and the end buffer.

    Raises:
        ValueError: the events do not fit `context`.

    References:
        whatif-v1.md §5 (even spread in whole steps is [R]).
    """
    if n_events < 1 or event_length < 1:
        raise ValueError(
            f"n_events, event_length: {n_events}, {event_length}; expected both to be 1 or more"
        )
    if not fits(context, event_length, n_events, rules):
        raise ValueError(
            f"n_events: {n_events} events of {event_length} steps do not fit a context of "
            f"{context}; expected a context of at least "
            f"{context_for(context, event_length, n_events, rules)}"
        )
    return place(context, event_length, n_events, rules)


def most_events(context: int, event_length: int, rules: LayoutRules = BENCHMARK) -> int:
    """Largest power of two of events that fits, 0 if none does. Source: whatif-v1.md §5."""
    count = 0
    while fits(context, event_length, max(1, 2 * count), rules):
        count = max(1, 2 * count)
    return count


def context_for(
    context: int, event_length: int, n_events: int, rules: LayoutRules = BENCHMARK
) -> int:
    """`context`, or the shortest longer one that the events fit. Source: whatif-v1.md §5 [P]."""
    needed = n_events * (event_length + rules.gap) * WHOLE
    shortest = needed // (WHOLE - rules.prefix - rules.end_buffer)
    if not fits(context, event_length, n_events, rules):
        context = max(context, shortest)
        while not fits(context, event_length, n_events, rules):
            context += 1
    return context
