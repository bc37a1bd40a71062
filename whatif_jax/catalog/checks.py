"""Checks across entries: pools against directions, axes against targets (whatif-v1.md §4-§5)."""

import math

from .reader import Faults
from .schema import System, Target

__all__ = ["check_axes", "check_pool"]


def check_pool(faults: Faults, label: str, target: Target, field: str) -> None:
    """Every event of the target must find a value to draw for every covariate.

    A direct covariate draws above 1 when the target is to rise and below 1 when it is to fall, an
    inverse one the reverse (whatif-v1.md §4).
    """
    pool = list(target.pool)
    if not pool or any(value <= 0 or value == 1 for value in pool) or len(set(pool)) < len(pool):
        faults.add(label, field, pool, "different factors above 0, none of them 1", once=True)
        return
    directions = set(target.directions())
    if target.up_only:
        above, below = "direct" in directions, "inverse" in directions
        reason = "an up-only target with " + " and ".join(sorted(directions)) + " covariates"
    else:
        above = below = True
        reason = "a target that events move both ways (or set up_only = true)"
    lacking = []
    if above and not any(value > 1 for value in pool):
        lacking.append("above 1")
    if below and not any(value < 1 for value in pool):
        lacking.append("below 1")
    if lacking:
        expected = f"at least one value {' and one '.join(lacking)}, for {reason}"
        faults.add(label, field, pool, expected, once=True)


def check_axes(faults: Faults, system: System) -> None:
    """K must not pass the covariates a target has, and every history must fit the baseline."""
    axes = system.axes
    for target in system.targets:
        most = len(target.covariates)
        if max(axes.k) > most:
            expected = f"at most {most}, the covariates of target {target.name!r} with a response"
            faults.add("axes", "k", list(axes.k), expected)
            break
    free = 1.0 - axes.prefix - axes.end_buffer
    if free <= 0:
        parts = [axes.prefix, axes.end_buffer]
        faults.add("axes", "prefix and end_buffer", parts, "two shares that leave room for events")
        return
    length = max(axes.event_lengths)
    for pair in axes.contexts:
        events = max(pair.fewest_events, pair.most_events_longest or 0)
        context = max(pair.context, math.ceil(events * (length + axes.gap) / free))
        if context + pair.horizon > system.steps:
            expected = (
                f"context + horizon within the {system.steps} steps of the baseline (here "
                f"{context} + {pair.horizon}, with {events} events of length {length})"
            )
            faults.add(f"context {pair.name!r}", "context", pair.context, expected)
