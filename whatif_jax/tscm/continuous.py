"""Worlds in continuous time: linear stochastic differential equations, Euler and Maruyama's steps.

The step between two observations is divided into sub-steps; with one the series is no integration
but an autoregression, which diverges where a gap is longer than 2 / decay.
"""

from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np

from .._types import Array, Float
from ..tasks.randomised.numbers import chosen
from .intervention import Intervention, no_intervention
from .names import OBSERVATIONS, SLOTS
from .noise import Noise
from .numbers import Numbers
from .prior import Prior
from .scm import SCM
from .simulate import LIMIT, check_run, laned

__all__ = ["observation_times", "paths", "simulate_continuous"]


def observation_times(numbers: Numbers, gaps: Float[Array, " T"], prior: Prior) -> Array:
    """Times of T observations, the first 0: regular, jittered, or of a Poisson process.

    Args:
        numbers: `observations` decides the kind.
        gaps: uniform numbers in [0, 1); the first is not read.
        prior: its `time` has the mean gap and the share by which gaps are jittered.
    """
    said = prior.time
    kind = chosen(numbers["observations"], said.observations, OBSERVATIONS)
    jittered = 1.0 + said.jitter * (2.0 * gaps - 1.0)
    # no gap of 0: times rise
    poisson = jnp.maximum(-jnp.log1p(-gaps), np.float32(1e-6))
    gap = jnp.where(kind == OBSERVATIONS.index("jittered"), jittered, 1.0)
    gap = jnp.where(kind == OBSERVATIONS.index("poisson"), poisson, gap)
    first = jnp.asarray(np.arange(gaps.shape[0]) > 0)
    return jnp.cumsum(jnp.where(first, gap * said.spacing, 0.0))


def simulate_continuous(
    scm: SCM,
    noise: Noise,
    times: Float[Array, " T"],
    intervention: Intervention | None = None,
    *,
    substeps: int = 8,
) -> Float[Array, "T N"]:
    """One run of a world in continuous time from 0 at the first observation.

    Differentiable in weights, noise and intervention values.

    Args:
        scm: the world; its `decay` is per unit of time.
        noise: standard normal numbers of each sub-step, [T * substeps, N]; those of the first
            observation are not read.
        times: of the observations, rising.
        intervention: hard ones hold the node, soft ones are added to its drift.
        substeps: between two observations.

    Raises:
        ValueError: shapes that do not fit one another.
    """
    if substeps < 1:
        raise ValueError(f"substeps: {substeps}; expected at least 1")
    steps = times.shape[0]
    given = no_intervention(steps) if intervention is None else intervention
    if noise.values.shape[0] != steps * substeps:
        raise ValueError(
            f"noise: {noise.values.shape[0]} steps; expected {steps} times {substeps} sub-steps"
        )
    check_run(scm, noise, given, steps * substeps - steps)
    values = noise.values[:, :, None, None]
    return paths(laned(scm), values, times[:, None], laned(given), (0,), (True,))[:, :, 0, 0]


def paths(
    scm: SCM,
    noise: Float[Array, "S N U B"],
    times: Float[Array, "T B"],
    intervention: Intervention,
    runs: Sequence[int],
    acts: Sequence[bool],
) -> Float[Array, "T N A B"]:
    """Runs of B worlds in A arms each at the observation times; arguments as `trajectories`.

    An intervention holds from its step's observation until just before the next one, so that the
    sub-steps of a gap follow the observation that opens the gap, and its last the one that ends it.
    """
    weights = jnp.where(scm.edges, scm.weights, 0.0)[0, 0]  # [child, parent, B]
    nodes, lanes, arms = weights.shape[0], noise.shape[-1], len(runs)
    steps = times.shape[0]
    substeps = noise.shape[0] // steps
    place = jnp.asarray(np.arange(nodes, dtype=np.int32))[:, None]
    hits = [intervention.targets[slot][None] == place for slot in range(SLOTS)]
    arm_acts = jnp.asarray(np.array(acts, bool))[:, None]
    hard = intervention.hard[None, None]
    gaps = jnp.diff(times, axis=0, prepend=times[:1]) * np.float32(1.0 / substeps)

    def of_arms(array: Array, axis: int) -> Array:
        parts = [jax.lax.slice_in_dim(array, run, run + 1, axis=axis) for run in runs]
        return jnp.concatenate(parts, axis=axis)

    def acting(on: Array, value: Array) -> tuple[Array, Array, Array]:
        """Where a node is cut, what it is held at, what its drift is shifted by: [N, A, B]."""
        wanted = jnp.where(hits[1], value[1], value[0])[:, None]
        hit = ((hits[0] | hits[1]) & on[None])[:, None] & arm_acts[None]
        return hit & hard, wanted, jnp.where(hit & ~hard, wanted, 0.0)

    def observe(state: tuple[Array, ...], given: tuple[Array, ...]) -> tuple[tuple, Array]:
        now, *before = state
        gap, eps, on, value = given
        root = jnp.sqrt(jnp.where(gap > 0.0, gap, 1.0)) * (gap > 0.0).astype(jnp.float32)
        opens, ends = acting(*before), acting(on, value)

        def substep(now: Array, given: tuple[Array, Array]) -> tuple[Array, None]:
            eps, last = given
            cut, wanted, shift = jax.tree.map(
                lambda open_, end: jnp.where(last, end, open_), opens, ends
            )
            drift = shift - scm.decay[:, None] * now
            for parent in range(nodes):
                drift = drift + weights[:, parent][:, None] * now[parent][None]
            spread = (scm.scale * root[None])[:, None]
            moved = now + drift * gap[None, None] + spread * of_arms(eps, 1)
            return jnp.where(cut, wanted, jnp.clip(moved, -LIMIT, LIMIT)), None

        now = jax.lax.scan(substep, now, (eps, jnp.asarray(np.arange(substeps) == substeps - 1)))[0]
        return (now, on, value), now

    first = (
        jnp.zeros((nodes, arms, lanes), jnp.float32),
        intervention.active[0] & False,
        intervention.values[0],
    )
    eps = noise.reshape(steps, substeps, *noise.shape[1:])
    given = (gaps, eps, intervention.active, intervention.values)
    return jax.lax.scan(observe, first, given)[1]
