"""Running worlds forward: one scan over time, nodes in topological order.

Worlds lie along the last axis, "lanes", so that every operation is elementwise over contiguous
numbers: no gathers, and one multiply-add a slot of a parent. Runs of the same world, its arms, are
simulated side by side and share its weights.

On a CPU the order of nodes is a loop and not unrolled: XLA would fuse the unrolled mechanisms into
one another and compute them many times over (10 nodes, 3 lags: 557 us an episode for 113, and 62 s
of compilation for 2; JAX 0.10.2).
"""

from collections.abc import Sequence
from typing import TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from .._types import Array, Float
from ..tasks.spec import is_whole
from .intervention import Intervention, known, no_intervention
from .mechanisms import mechanism
from .names import SLOTS
from .noise import Noise
from .scm import SCM

__all__ = ["LIMIT", "check_run", "laned", "simulate", "single", "trajectories"]

LIMIT = 1000.0
"""Values of nodes that are not cut are clipped to it."""
Tree = TypeVar("Tree")
_UNROLLED = 48  # parents' slots summed in one expression; more are summed lag by lag


def laned(tree: Tree) -> Tree:
    """Every array of a tree with one lane."""
    found: Tree = jax.tree.map(lambda leaf: leaf[..., None], tree)
    return found


def simulate(
    scm: SCM, noise: Noise, intervention: Intervention | None = None, *, burn_in: int = 0
) -> Float[Array, "T N"]:
    """One run of a world in discrete time, under an intervention or none.

    Differentiable in weights, noise and intervention values. In float32.

    Args:
        scm: the world.
        noise: of the steps before the first one and of the series, [burn_in + T, N].
        intervention: of the series' T steps; None: the factual run.
        burn_in: steps before the first one; they are left out.

    Raises:
        ValueError: shapes that do not fit one another, targets that the world does not have, or a
            world of continuous time.
    """
    if not is_whole(burn_in) or not 0 <= burn_in < noise.values.shape[0]:
        raise ValueError(f"burn_in: {burn_in!r}; expected 0 to {noise.values.shape[0] - 1}")
    steps = noise.values.shape[0] - burn_in
    given = no_intervention(steps) if intervention is None else intervention
    scm, noise, given = single(scm), single(noise), single(given)
    check_run(scm, noise, given, burn_in)
    if known(scm.decay) and np.any(np.asarray(scm.decay) != 0.0):
        raise ValueError("scm: of continuous time; expected one of discrete time, without a decay")
    values, regime = noise.values[:, :, None, None], noise.regime[:, None, None]
    found = trajectories(laned(scm), values, regime, laned(given), (0,), (True,))
    return found[burn_in:, :, 0, 0]


def check_run(scm: SCM, noise: Noise, intervention: Intervention, burn_in: int) -> None:
    """ValueError for shapes that do not fit one another."""
    steps, nodes = noise.values.shape[0] - burn_in, scm.scale.shape[0]
    if noise.values.shape[1:] != (nodes,):
        raise ValueError(f"noise: shape {noise.values.shape}; expected {nodes} nodes")
    if noise.regime.shape != noise.values.shape[:1]:
        raise ValueError(f"noise: regimes of shape {noise.regime.shape}; expected one a step")
    if intervention.values.shape != (steps, SLOTS) or intervention.active.shape != (steps,):
        raise ValueError(
            f"intervention: values of shape {intervention.values.shape}; "
            f"expected ({steps}, {SLOTS}): {steps} steps are left behind {burn_in} of burn-in"
        )
    targets = intervention.targets
    if known(targets) and np.max(np.asarray(targets)) >= nodes:
        raise ValueError(f"intervention: targets {targets}; expected some of {nodes} nodes")
    if known(targets, scm.node):
        there = np.asarray(scm.node)
        padded = [int(one) for one in np.asarray(targets) if one >= 0 and not there[one]]
        if padded:
            raise ValueError(
                f"intervention: target {padded[0]} is padding; expected one of the world's "
                f"{int(there.sum())} nodes"
            )


def single(tree: Tree) -> Tree:
    """A tree whose numbers that are not whole are float32, as runs are, whatever came."""

    def cast(leaf: Array) -> Array:
        return leaf.astype(np.float32) if jnp.issubdtype(leaf.dtype, jnp.floating) else leaf

    found: Tree = jax.tree.map(cast, tree)
    return found


class _Rules(eqx.Module):
    """What a world's nodes follow, in the order the loop reads it; lanes last."""

    lagged: Array  # [R, K, parent, child, 1, B]
    now: Array  # [R, parent, child, 1, B]
    bias: Array  # [R, N, 1, B]
    mechanism: Array  # [R, N, 1, B], float32
    start: Array  # [R, N, 1, B]: first step at which a node has a parent to read


class _World(eqx.Module):
    """Rules of each regime and how regimes follow one another; lanes last."""

    rules: _Rules
    ends: Array  # [R from, R to, B]: cumulative chances
    initial: Array  # [R to, B]


def _arranged(scm: SCM) -> _World:
    weights = jnp.where(scm.edges, scm.weights, 0.0)  # [R, K+1, child, parent, B]
    lags = weights.shape[1] - 1
    regimes = weights.shape[0]
    has = jnp.any(scm.edges, axis=3)  # [R, K+1, N, B]
    never = np.float32(2.0**30)
    start = jnp.full(has[:, 0].shape, never)
    for lag in range(lags, -1, -1):
        start = jnp.where(has[:, lag], np.float32(lag), start)
    place = jnp.asarray(np.arange(regimes, dtype=np.int32))[:, None]
    last = place >= scm.regimes[None] - 1
    rules = _Rules(
        lagged=jnp.moveaxis(weights[:, 1:], 3, 2),
        now=jnp.moveaxis(weights[:, 0], 2, 1),
        bias=scm.bias,
        mechanism=scm.mechanism.astype(jnp.float32),
        start=start,
    )
    return _World(
        rules=jax.tree.map(lambda leaf: leaf[..., None, :], rules),
        ends=jnp.where(last[None], 1.0, jnp.cumsum(scm.transition, axis=1)),
        initial=jnp.where(
            last, 1.0, (place + 1).astype(jnp.float32) / scm.regimes.astype(jnp.float32)[None]
        ),
    )


def trajectories(
    scm: SCM,
    noise: Float[Array, "T U N B"] | Array,
    regime: Float[Array, "T U B"],
    intervention: Intervention,
    runs: Sequence[int],
    acts: Sequence[bool],
) -> Float[Array, "T N A B"]:
    """Runs of B worlds in A arms each, burn-in included.

    Args:
        scm: worlds, lanes last.
        noise: [T, N, U, B]: U runs of it.
        regime: uniform numbers that decide regimes, of each run of noise.
        intervention: of the last steps, lanes last; the steps before them have none.
        runs: the run of noise of each arm.
        acts: whether the intervention acts in each arm.
    """
    world = _arranged(scm)
    regimes, lags, nodes = world.rules.lagged.shape[:3]
    lanes, arms = noise.shape[-1], len(runs)
    total = noise.shape[0]
    burn_in = total - intervention.active.shape[0]
    active = jnp.pad(intervention.active, ((burn_in, 0), (0, 0)))
    values = jnp.pad(intervention.values, ((burn_in, 0), (0, 0), (0, 0)))
    arm_acts = jnp.asarray(np.array(acts, bool))[:, None]
    hard = intervention.hard[None]

    def of_arms(array: Array, axis: int) -> Array:
        """Runs of noise as arms; slices, since a gather would not be vectorised."""
        parts = [jax.lax.slice_in_dim(array, run, run + 1, axis=axis) for run in runs]
        return jnp.concatenate(parts, axis=axis)

    def step(state: tuple[Array, Array], given: tuple[Array, ...]) -> tuple[tuple, Array]:
        past, regime_now = state
        at, eps, share, on, value = given
        eps = of_arms(eps, 1)
        if regimes > 1:
            regime_now = _next_regime(world, regime_now, of_arms(share, 0), at)
        rules = _rules_of(world.rules, regime_now)
        total = _from_past(rules, past)

        def node(place: Array, carry: tuple[Array, Array]) -> tuple[Array, Array]:
            total, now = carry
            # the node before this one acts on all behind it; done here and not where its value is
            # made, which XLA would compute once more for every one of them
            total = total + _row(rules.now, place - 1) * _row(now, place - 1)[None]
            made = mechanism(_row(rules.mechanism, place), _row(total, place))
            own = jnp.where(at >= _row(rules.start, place), made, 0.0) + _row(eps, place)
            hits = [intervention.targets[slot] == place for slot in range(SLOTS)]
            wanted = jnp.where(hits[1], value[1], value[0])[None]
            hit = (hits[0] | hits[1])[None] & on[None] & arm_acts
            own = jnp.clip(own + jnp.where(hit & ~hard, wanted, 0.0), -LIMIT, LIMIT)
            own = jnp.where(hit & hard, wanted, own)
            return total, jax.lax.dynamic_update_index_in_dim(now, own, place, 0)

        zero = jnp.zeros((nodes, arms, lanes), jnp.float32)
        now = jax.lax.fori_loop(0, nodes, node, (total, zero))[1]
        past = jnp.concatenate([now[None], past[:-1]]) if lags else past
        return (past, regime_now), now

    first = (
        jnp.zeros((max(lags, 1), nodes, arms, lanes), jnp.float32),
        jnp.zeros((regimes, arms, lanes), jnp.float32),
    )
    at = jnp.asarray(np.arange(total, dtype=np.float32))
    return jax.lax.scan(step, first, (at, noise, regime, active, values))[1]


def _row(array: Array, place: Array | int) -> Array:
    return jax.lax.dynamic_index_in_dim(array, place, 0, keepdims=False)


def _rules_of(rules: _Rules, regime: Array) -> _Rules:
    """The rules that each arm is under, without the axis of regimes; one lane of arms where R = 1.

    Sums over regimes once a step, held apart from what reads them, which XLA would have compute
    them many times (three regimes of 10 nodes, 3 arms: 841 us an episode for 119; JAX 0.10.2).
    """
    if rules.bias.shape[0] == 1:
        return jax.tree.map(lambda leaf: leaf[0], rules)

    regime = jax.lax.optimization_barrier(regime)
    found = jax.tree.map(lambda leaf: _of_regime(leaf, regime), rules)
    held: _Rules = jax.lax.optimization_barrier(found)
    return held


def _of_regime(values: Array, regime: Array) -> Array:
    """The value of the regime that each arm is in; both begin with the axis of regimes."""
    between = (1,) * (values.ndim - regime.ndim)
    held = regime.reshape(regime.shape[0], *between, *regime.shape[1:])
    found = values[0] * held[0]
    for number in range(1, values.shape[0]):
        found = found + values[number] * held[number]
    return found


def _next_regime(world: _World, before: Array, share: Array, at: Array) -> Array:
    """The regime of each arm, as ones and zeros [R, A, B]."""
    regimes = before.shape[0]
    found = jnp.zeros(share.shape, jnp.float32)
    for to in range(regimes - 1):
        end = _of_regime(world.ends[:, to][:, None], before)
        end = jnp.where(at == 0.0, world.initial[to][None], end)
        found = found + (share >= end).astype(jnp.float32)
    return jnp.stack([(found == number).astype(jnp.float32) for number in range(regimes)])


def _from_past(rules: _Rules, past: Array) -> Array:
    """Bias and lagged parents of every node, [N, A, B]."""
    lags, nodes = rules.lagged.shape[:2]
    total = jnp.broadcast_to(rules.bias, past.shape[1:])
    if lags * nodes <= _UNROLLED:
        for lag in range(lags):
            total = _plus_parents(total, rules.lagged[lag], past[lag])
        return total
    return jax.lax.fori_loop(
        0,
        lags,
        lambda lag, total: _plus_parents(total, _row(rules.lagged, lag), _row(past, lag)),
        total,
    )


def _plus_parents(total: Array, weights: Array, values: Array) -> Array:
    for parent in range(weights.shape[0]):
        total = total + weights[parent] * values[parent][None]
    return total
