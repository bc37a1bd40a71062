"""Interventions as data: hard, soft and varying ones, at a step or over a window.

Arrays may have a trailing axis of lanes where a docstring says `*lanes`.
"""

import math
import operator
from collections.abc import Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from .._types import Array, Bool, BoolScalar, Float, Int, IntScalar
from ..tasks.randomised.numbers import chosen
from .names import KINDS, SHAPES, SLOTS, VALUES
from .numbers import Numbers, normal_of
from .prior import Prior, structures
from .scm import SCM, descendants, summary_graph

__all__ = [
    "Intervention",
    "draw_intervention",
    "guarded",
    "intervene",
    "intervention_shapes",
    "known",
    "no_intervention",
]

_ROOM = 3.0  # standard deviations of the positivity guard


class Intervention(eqx.Module):
    """do(X = c(t)), or X + c(t), for up to two nodes at some steps."""

    kind: IntScalar  # place in KINDS
    shape: IntScalar  # place in SHAPES; of varying ones
    mode: IntScalar  # place in VALUES
    targets: Int[Array, "2"]  # nodes; -1 for none
    onset: IntScalar  # the first step
    length: IntScalar  # steps of the window
    active: Bool[Array, " T"]
    values: Float[Array, "T 2"]  # of each target, in its unit; read where active

    @property
    def hard(self) -> BoolScalar:
        """Whether the node's own mechanism is cut."""
        return self.kind != KINDS.index("soft")


def no_intervention(steps: int) -> Intervention:
    """One that is never active."""
    none = jnp.zeros((), jnp.int32)
    return Intervention(
        none, none, none, jnp.full(SLOTS, -1, jnp.int32), none, none,
        jnp.zeros(steps, bool), jnp.zeros((steps, SLOTS), jnp.float32),
    )  # fmt: skip


def intervene(
    target: int | IntScalar | Sequence[int | IntScalar],
    value: Float[Array, " *T"],
    *,
    onset: int | IntScalar,
    length: int | IntScalar,
    steps: int,
    kind: str = "hard",
) -> Intervention:
    """An intervention of one's own; differentiable in `value`.

    Target, onset, length and value may be traced, so that they can be mapped over; what is traced
    is not checked.

    Args:
        target: one node or two, their places in the world.
        value: one number, or one a step of the series; the same for both targets.
        onset: first step.
        length: steps of the window; 1 is a single step.
        steps: of the series.
        kind: one of `KINDS`; "varying" is "hard" with values of each step.

    Raises:
        ValueError: a field's value is not usable; names field, value and expectation.
    """
    given: Any = target
    targets = [_whole("target", one) for one in (given if np.ndim(given) == 1 else (given,))]
    onset, length, steps = (
        _whole(name, one) for name, one in (("onset", onset), ("length", length), ("steps", steps))
    )
    if kind not in KINDS:
        raise ValueError(f"kind: {kind!r}; expected one of {', '.join(KINDS)}")
    plain = [one for one in targets if isinstance(one, int)]
    if not 1 <= len(targets) <= SLOTS or min(plain, default=0) < 0 or len({*plain}) < len(plain):
        raise ValueError(f"target: {target!r}; expected one node, or two different ones")
    inside = onset >= 0 and length >= 1 and onset + length <= steps if known(onset, length) else 1
    if not inside:
        raise ValueError(
            f"onset: {onset}, length: {length}; expected a window inside {steps} steps"
        )
    value = jnp.asarray(value, jnp.float32)
    if value.shape not in ((), (steps,)):
        raise ValueError(f"value: shape {value.shape}; expected one number, or one a step")
    if known(value) and not np.isfinite(value).all():
        first = np.asarray(value)[~np.isfinite(value)][0]
        raise ValueError(f"value: {first}; expected finite numbers of float32")
    step = np.arange(steps, dtype=np.int32)
    number, none = jnp.asarray(KINDS.index(kind), jnp.int32), jnp.asarray(0, jnp.int32)
    padded = (*targets, *[-1] * (SLOTS - len(targets)))
    return Intervention(
        number,
        none,
        none,
        jnp.stack([jnp.asarray(one, jnp.int32) for one in padded]),
        jnp.asarray(onset, jnp.int32),
        jnp.asarray(length, jnp.int32),
        jnp.asarray((step >= onset) & (step < onset + length)),
        jnp.broadcast_to(jnp.broadcast_to(value, (steps,))[:, None], (steps, SLOTS)),
    )


def known(*values: object) -> bool:
    """Whether none of some values is traced, so that they can be looked at."""
    return not any(isinstance(value, jax.core.Tracer) for value in values)


def _whole(name: str, value: Any) -> Any:
    """A Python integer, or what is traced as it is; ValueError for what is no whole number."""
    if not known(value):
        return value
    try:
        if isinstance(value, bool | np.bool_):
            raise TypeError
        return operator.index(value)
    except TypeError:
        raise ValueError(f"{name}: {value!r}; expected a whole number") from None


def intervention_shapes(prior: Prior, nodes: int) -> dict[str, tuple[int, ...]]:
    """Numbers that an intervention takes."""
    return {
        "kind": (), "shape": (), "target": (nodes,), "second": (nodes,), "two": (), "onset": (),
        "length": (), "value": (), "mode": (), "pick": (SLOTS,), "query": (nodes,),
    }  # fmt: skip


def draw_intervention(
    numbers: Numbers, free: Float[Array, " T"], scm: SCM, prior: Prior, times: Float[Array, " T"]
) -> Intervention:
    """An intervention from its numbers; `free` are standard normal numbers of a free profile."""
    said = prior.intervention
    kind = chosen(numbers["kind"], said.kinds, KINDS)
    shape = chosen(numbers["shape"], said.shapes, SHAPES)
    mode = chosen(numbers["mode"], said.values, VALUES)
    targets = _targets(numbers, scm, prior)
    step = jnp.asarray(np.arange(free.shape[0], dtype=np.int32))
    if prior.time.continuous:
        active = _window_of_time(numbers, times, prior)
        onset = jnp.argmax(active).astype(jnp.int32)
        length = jnp.sum(active, dtype=jnp.int32)
    else:
        onset, length = _window(numbers, prior, free.shape[0])
        active = (step >= onset) & (step < onset + length)
    constant = normal_of(numbers["value"])
    profile = _profile(shape, step - onset, length, free, said.value)
    value = jnp.where(kind == KINDS.index("varying"), profile, constant * said.value)
    value = jnp.where(kind == KINDS.index("soft"), constant * said.shift, value)
    values = jnp.broadcast_to(value[:, None], (value.shape[0], SLOTS))
    return Intervention(kind, shape, mode, targets, onset, length, active, values)


def _targets(numbers: Numbers, scm: SCM, prior: Prior) -> Int[Array, "2"]:
    if prior.graph == "structure":
        treatment = structures()[prior.structure].names().index("A")
        return jnp.asarray([treatment, *[-1] * (SLOTS - 1)], jnp.int32)
    nodes = scm.node.shape[0]
    seen = scm.node & ~scm.latent
    acts = descendants(summary_graph(scm)) & ~jnp.asarray(np.eye(nodes, dtype=bool))
    moves = jnp.any(acts & seen[:, None], axis=0) & seen
    first = jnp.argmin(jnp.where(moves, numbers["target"], 2.0)).astype(jnp.int32)
    place = jnp.arange(nodes, dtype=jnp.int32)
    others = seen & (place != first)
    # a second target leaves a visible node that the first can move
    left = acts & seen[:, None] & (place[:, None] != place[None, :])
    of_first = jnp.any(left & (place == first)[None, :], axis=1)  # visible descendants
    spares = jnp.sum(of_first, dtype=jnp.int32) - of_first.astype(jnp.int32) > 0
    second = jnp.argmin(jnp.where(others & spares, numbers["second"], 2.0)).astype(jnp.int32)
    two = (numbers["two"] < prior.intervention.two_targets) & jnp.any(others & spares)
    return jnp.stack([first, jnp.where(two, second, -1)])


def _window(numbers: Numbers, prior: Prior, steps: int) -> tuple[Array, Array]:
    """First step and length: at least `shortest` steps before it and, for one step, behind it."""
    least = prior.intervention.shortest
    if prior.intervention.single_step:
        onset = least + jnp.floor(numbers["onset"] * (steps - 2 * least)).astype(jnp.int32)
        return onset, jnp.ones((), jnp.int32)
    length = least + jnp.floor(numbers["length"] * (steps - 2 * least + 1)).astype(jnp.int32)
    room = (steps - least - length + 1).astype(jnp.float32)
    return least + jnp.floor(numbers["onset"] * room).astype(jnp.int32), length


def _window_of_time(numbers: Numbers, times: Array, prior: Prior) -> Bool[Array, " T"]:
    """Steps whose time lies inside a window, a share of the span; always one at least.

    Queries that count from the window's end have their steps behind it, while the window can leave
    so many.
    """
    low, high = prior.time.window
    first, span = times[0], times[-1] - times[0]
    length = (low + (high - low) * numbers["length"]) * span
    earliest = prior.time.earliest * span
    behind = max(prior.query.offsets) if prior.query.since == "window" else 0
    last = times[max(times.shape[0] - 1 - behind, 0)] - first
    begins = first + earliest + numbers["onset"] * jnp.maximum(last - length - earliest, 0.0)
    after = times >= begins
    opening = after & ~jnp.concatenate([jnp.zeros(1, bool), after[:-1]])
    return (after & (times < begins + length)) | opening


def _profile(shape: Array, since: Array, length: Array, free: Array, size: float) -> Array:
    """A varying profile at each step, `since` the onset."""
    share = since.astype(jnp.float32) / length.astype(jnp.float32)
    step = jnp.where(since >= length // 2, size, -size)
    ramp = (2.0 * share - 1.0) * size
    sine = jnp.sin(np.float32(2.0 * math.pi) * jnp.clip(share, 0.0, 1.0)) * size
    found = jnp.where(shape == SHAPES.index("ramp"), ramp, free * size)
    found = jnp.where(shape == SHAPES.index("sine"), sine, found)
    return jnp.where(shape == SHAPES.index("step"), step, found)


def guarded(
    intervention: Intervention, factual: Float[Array, "T N *lanes"], normal: Array, pick: Array
) -> Intervention:
    """The intervention with values that its mode takes from the steps before the onset.

    Positivity-aware values of hard and varying ones are held within 3 standard deviations of the
    mean; observed ones replace a hard constant by a value seen before (discrete), or one drawn from
    their normal or uniform distribution. Shifts and profiles of the observed modes stay as drawn.
    A node that has not moved keeps its value. Standard deviations are of a sample (n - 1).

    Args:
        intervention: as drawn; its fields may have lanes behind their own axes.
        factual: the factual run.
        normal: a standard normal number, [*lanes].
        pick: uniform numbers, one a target, [2, *lanes].
    """
    steps, nodes = factual.shape[:2]
    lanes = (1,) * (factual.ndim - 2)
    step = jnp.asarray(np.arange(steps, dtype=np.int32)).reshape(steps, *lanes)
    place = jnp.asarray(np.arange(nodes, dtype=np.int32)).reshape(1, nodes, *lanes)
    before = step < intervention.onset[None]
    count = jnp.maximum(intervention.onset, 2).astype(jnp.float32)
    columns = []
    for slot in range(SLOTS):
        own = place == intervention.targets[slot][None, None]
        seen = jnp.sum(jnp.where(own, factual, 0.0), axis=1)  # [T, *lanes]
        mean = jnp.sum(jnp.where(before, seen, 0.0), axis=0) / count
        square = jnp.sum(jnp.where(before, (seen - mean[None]) ** 2, 0.0), axis=0)
        sd = jnp.sqrt(square / (count - 1.0))
        low = jnp.min(jnp.where(before, seen, jnp.inf), axis=0)
        high = jnp.max(jnp.where(before, seen, -jnp.inf), axis=0)
        at = jnp.floor(pick[slot] * intervention.onset.astype(jnp.float32)).astype(jnp.int32)
        past = jnp.sum(jnp.where(step == at[None], seen, 0.0), axis=0)
        even = low + (high - low) * pick[slot]
        given = intervention.values[:, slot]
        hard = intervention.kind == KINDS.index("hard")
        held = jnp.clip(given, (mean - _ROOM * sd)[None], (mean + _ROOM * sd)[None])
        mode = intervention.mode
        found = jnp.where(((mode == 1) & intervention.hard)[None], held, given)
        observed = jnp.where(mode == 2, past, jnp.where(mode == 3, mean + sd * normal, even))
        found = jnp.where(((mode >= 2) & hard)[None], observed[None], found)
        moved = (sd > 1e-4) & (intervention.onset > 1)
        columns.append(jnp.where(moved[None], found, given))
    return eqx.tree_at(lambda it: it.values, intervention, jnp.stack(columns, axis=1))


assert VALUES[1:3] == ("positivity_aware", "observed_discrete")
