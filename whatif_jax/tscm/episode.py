"""Episodes: a world, an intervention, and its three runs.

Factual and counterfactual runs have the same noise and are equal to the bit before the onset; the
interventional run has noise of its own. An episode whose values leave the prior's limit in any run
is drawn again, its key folded with the number of the attempt; how often is kept.
"""

import functools
from collections.abc import Callable
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from .._types import Array, Bool, BoolScalar, Float, Int, IntScalar, PRNGKeyArray
from ..tasks.keys import PRNG, as_threefry, check_key, is_key, random_words
from ..tasks.spec import is_whole
from .continuous import observation_times, paths
from .graphs import sizes_of
from .intervention import (
    Intervention,
    draw_intervention,
    guarded,
    intervention_shapes,
    known,
    no_intervention,
)
from .names import SINCE
from .noise import MOST_STEPS, free_normals, noise_of, noise_words, normals_of_words, regime_shares
from .numbers import draw_numbers, normal_of
from .prior import Prior, load_prior, structures
from .sample import scm_of, scm_shapes
from .scm import SCM, descendants, summary_graph
from .simulate import trajectories

__all__ = ["Episode", "Query", "sample_episode", "sample_episodes"]

_RUNS, _ACTS = (0, 1, 0), (False, True, True)  # noise of the arms, and whether they are acted on
_LANES, _LANES_OF_LARGE = 128, 64  # episodes drawn side by side on a CPU: they fit its caches
_LARGE = 8  # nodes of a large world, at least
_FEWEST = (
    32  # fewer lanes are rounded otherwise, which worlds that are chaotic magnify (JAX 0.10.2)
)
_GAPS = 3  # kind of counters
_SCREEN = 50  # steps of the short run that finds most of the worlds that leave the limit


class Query(eqx.Module):
    """What is asked: one node, at some steps."""

    node: IntScalar
    steps: Int[Array, " Q"]


class Episode(eqx.Module):
    """A world and its three runs; values of latent nodes are there and not to be shown."""

    scm: SCM
    intervention: Intervention
    times: Float[Array, " T"]  # of the steps; 0, 1, 2, ... in discrete time
    factual: Float[Array, "T N"]
    interventional: Float[Array, "T N"]  # fresh noise
    counterfactual: Float[Array, "T N"]  # the factual run's noise
    query: Query
    redraws: IntScalar  # attempts before this one that left the limit
    finite: BoolScalar  # false only where every attempt left the limit

    @property
    def observed(self) -> Bool[Array, " N"]:
        """Nodes that may be shown."""
        return self.scm.node & ~self.scm.latent

    @property
    def effect(self) -> Float[Array, "T N"]:
        """What the intervention changed in this very run."""
        return self.counterfactual - self.factual


def sample_episode(
    *, key: PRNGKeyArray, prior: Prior | str = "diverse", steps: int = 200
) -> Episode:
    """One episode of a prior, a function of key, prior and steps alone.

    The row that `sample_episodes` makes of its key. Under jit or vmap it is rounded otherwise,
    which worlds that are chaotic magnify.

    Args:
        key: a JAX key of any implementation.
        prior: a `Prior`, the name of one, or the path of its file.
        steps: of the series.

    Raises:
        ValueError: what is no key, no prior, or steps that leave no room for its interventions.
    """
    check_key(key)
    lanes = 0 if known(key) else 1  # the spare lanes of one that is mapped over would cost most
    found = sample_episodes(keys=as_threefry(key)[None], prior=prior, steps=steps, lanes=lanes)
    return jax.tree.map(lambda leaf: leaf[0], found)


def sample_episodes(
    *, keys: PRNGKeyArray, prior: Prior | str = "diverse", steps: int = 200, lanes: int = 0
) -> Episode:
    """Episodes of many keys; every array has a leading axis B. Faster than vmap of one.

    Args:
        keys: JAX keys of any implementation, one an episode.
        prior: as for `sample_episode`.
        steps: of the series.
        lanes: episodes simulated side by side; 0: 32 to 128 on a CPU, 64 of large worlds, by how
            many there are; all of them elsewhere.

    Raises:
        ValueError: as for `sample_episode`, or lanes that are no number.
    """
    if not is_key(keys) or keys.ndim != 1 or not keys.shape[0]:
        said = f"keys of shape {keys.shape}" if is_key(keys) else type(keys).__name__
        raise ValueError(f"keys: {said}; expected an array of JAX keys, one an episode")
    if not is_whole(lanes) or lanes < 0:
        raise ValueError(f"lanes: {lanes!r}; expected an integer >= 0")
    keys = keys if jax.random.key_impl(keys) == PRNG else jax.vmap(as_threefry)(keys)
    prior = load_prior(prior)
    least = 2 * prior.intervention.shortest
    if not is_whole(steps) or not least < steps <= 2**16:
        raise ValueError(f"steps: {steps!r}; expected {least + 1} to {2**16}")
    total = steps * prior.time.substeps if prior.time.continuous else steps + prior.time.burn_in
    if total > MOST_STEPS:
        raise ValueError(
            f"steps: {steps} and burn-in or sub-steps, {total}; expected at most {MOST_STEPS}"
        )
    return _episodes(keys, prior, int(steps), int(lanes) or _lanes(prior, keys.shape[0]))


def _lanes(prior: Prior, batch: int) -> int:
    """On a CPU a power of two of 32 at least, so that a row is the same to the bit in any batch."""
    if jax.default_backend() != "cpu":
        return max(batch, 1)
    most = _LANES_OF_LARGE if sizes_of(prior)[0] >= _LARGE else _LANES
    return max(_FEWEST, min(most, 1 << (batch - 1).bit_length()))


class _Queue(NamedTuple):
    """Where each of B episodes stands."""

    done: Array  # [B]: found, for good
    tries: Array  # [B]: the attempt that comes next
    passed: Array  # [B]: an attempt that held for the first steps; -1: none
    found: Episode  # [B, ...]


@functools.partial(jax.jit, static_argnames=("prior", "steps", "lanes"))
def _episodes(keys: PRNGKeyArray, prior: Prior, steps: int, lanes: int) -> Episode:
    """A queue: each turn draws the first `lanes` episodes that are still to be drawn.

    An episode that leaves the limit stays in the queue, so that redraws cost lanes and not turns,
    and one program serves batches of every size. Where worlds leave the limit often, a short
    factual run is drawn first, and whole episodes only of those that hold in it; an attempt that
    fails in it would fail in the whole run too, so that the first attempt that holds is taken, as
    ever.
    """
    batch, most = keys.shape[0], prior.stability.attempts
    screened = _screen_steps(prior, steps)
    lane = np.arange(lanes, dtype=np.int32)
    earlier = jnp.asarray(lane[None, :] < lane[:, None])

    def first_of(wanted: Array) -> tuple[Array, Array]:
        """Rows of the queue in turn, over and over, and how often each was taken before."""
        count = jnp.minimum(jnp.sum(wanted, dtype=jnp.int32), lanes)
        order = jnp.argsort(~wanted, stable=True)[:lanes].astype(jnp.int32)
        return order[jnp.asarray(lane) % count], jnp.asarray(lane) // count

    def keys_of(rows: Array, attempt: Array) -> PRNGKeyArray:
        return jax.vmap(jax.random.fold_in)(keys[rows], attempt.astype(jnp.uint32))

    def places(rows: Array, ends: Array) -> Array:
        """The row of each lane whose attempt is its row's first that ends; B for others."""
        beaten = jnp.any((rows[:, None] == rows[None, :]) & earlier & ends[None, :], axis=1)
        return jnp.where(ends & ~beaten, rows, batch)

    def screen(queue: _Queue) -> _Queue:
        # spare lanes try the attempts that would come next
        rows, ahead = first_of(~queue.done & (queue.passed < 0))
        attempt = queue.tries[rows] + ahead
        holds = _holds(keys_of(rows, attempt), prior, screened)
        # the last attempt stands whatever it is, those behind it do not count
        place = places(rows, (holds & (attempt < most)) | (attempt == most - 1))
        passed = queue.passed.at[place].set(attempt, mode="drop")
        tried = queue.tries.at[rows].max(attempt + 1)
        tries = jnp.where(passed >= 0, passed + 1, tried)
        return queue._replace(tries=tries, passed=passed)

    def draw(queue: _Queue) -> _Queue:
        if screened:
            rows, ahead = first_of(~queue.done & (queue.passed >= 0))
            attempt = queue.passed[rows]
        else:
            rows, ahead = first_of(~queue.done)
            attempt = queue.tries[rows] + ahead
        drawn = _lanes_of(keys_of(rows, attempt), attempt, prior, steps)
        place = places(rows, (drawn.finite & (attempt < most)) | (attempt == most - 1))
        found = jax.tree.map(
            lambda all_rows, some: all_rows.at[place].set(some, mode="drop"), queue.found, drawn
        )
        return _Queue(
            done=queue.done.at[place].set(True, mode="drop"),
            tries=queue.tries.at[rows].max(attempt + 1),
            passed=queue.passed.at[rows].set(-1),
            found=found,
        )

    def turn(queue: _Queue) -> _Queue:
        if not screened:
            return draw(queue)
        waiting = jnp.sum(~queue.done & (queue.passed >= 0), dtype=jnp.int32)
        left = jnp.sum(~queue.done, dtype=jnp.int32) - waiting
        return jax.lax.cond((waiting >= lanes) | (left == 0), draw, screen, queue)

    shapes = jax.eval_shape(
        lambda: _lanes_of(keys[lane % batch], jnp.zeros(lanes, jnp.int32), prior, steps)
    )
    empty = jax.tree.map(lambda leaf: jnp.zeros((batch, *leaf.shape[1:]), leaf.dtype), shapes)
    none = jnp.zeros(batch, jnp.int32)
    start = _Queue(jnp.zeros(batch, bool), none, none - 1, empty)
    return jax.lax.while_loop(lambda queue: ~jnp.all(queue.done), turn, start).found


def _screen_steps(prior: Prior, steps: int) -> int:
    """Steps of the series in the short run; 0: none, where few attempts fail or it saves little."""
    if prior.graph == "structure" or prior.time.continuous or steps < 3 * _SCREEN:
        return 0
    return _SCREEN


def _holds(keys: PRNGKeyArray, prior: Prior, steps: int) -> Bool[Array, " B"]:
    """Whether the factual run of some keys stays within the limit for some steps."""
    shapes = scm_shapes(prior)
    scm = jax.vmap(lambda key: scm_of(draw_numbers(key, shapes), prior))(keys)
    scm = jax.tree.map(lambda leaf: jnp.moveaxis(leaf, 0, -1), scm)
    noise, regime = _noise_of_worlds(keys, scm, prior, steps, 1)
    none = jax.vmap(lambda _: no_intervention(steps), out_axes=-1)(jnp.arange(keys.shape[0]))
    found = trajectories(scm, noise, regime, none, (0,), (False,))[prior.time.burn_in :]
    return jnp.all(jnp.abs(found) <= prior.stability.limit, axis=(0, 1, 2))


def _lanes_of(keys: PRNGKeyArray, tries: Array, prior: Prior, steps: int) -> Episode:
    """Episodes of some keys, simulated side by side."""
    nodes = sizes_of(prior)[0]
    said = prior.time
    shapes = scm_shapes(prior) | intervention_shapes(prior, nodes)
    if said.continuous:
        shapes |= {"observations": ()}

    def plan(key: PRNGKeyArray) -> tuple:
        numbers = draw_numbers(key, shapes)
        scm = scm_of(numbers, prior)
        times = jnp.arange(steps, dtype=jnp.float32)
        if said.continuous:
            times = observation_times(numbers, _gap_shares(key, steps), prior)
        free = jnp.zeros(steps, jnp.float32)
        if prior.intervention.kinds.get("varying") and prior.intervention.shapes.get("free"):
            free = free_normals(key, steps)
        intervention = draw_intervention(numbers, free, scm, prior, times)
        value, pick, query = (numbers[name] for name in ("value", "pick", "query"))
        return scm, intervention, times, value, pick, query, _below(scm, intervention)

    planned = jax.vmap(plan)(keys)
    scm, intervention, times, value, pick, query, below = jax.tree.map(
        lambda leaf: jnp.moveaxis(leaf, 0, -1), planned
    )
    run = _runner(keys, scm, times, prior, steps)
    if set(prior.intervention.values) != {"prior"}:
        # values depend on the factual run; all arms are run again, so that they are one program
        factual = run(intervention)[:, :, 0]
        intervention = guarded(intervention, factual, normal_of(value), pick)
    found = run(intervention)
    limit = prior.stability.limit
    finite = jnp.all(jnp.abs(found) <= limit, axis=(0, 1, 2))  # false for what is not a number
    asked = _query(found, intervention, scm, query, below, prior)
    found = jnp.moveaxis(found, -1, 0)
    leading = functools.partial(jax.tree.map, lambda leaf: jnp.moveaxis(leaf, -1, 0))
    return Episode(
        planned[0], leading(intervention), planned[2],
        found[:, :, :, 0], found[:, :, :, 1], found[:, :, :, 2],
        leading(asked), tries, finite,
    )  # fmt: skip


def _gap_shares(key: PRNGKeyArray, steps: int) -> Array:
    low = jnp.asarray(np.arange(steps, dtype=np.uint32))
    words = random_words(key, jnp.full(steps, _GAPS, jnp.uint32), low)
    return (words >> jnp.uint32(8)).astype(jnp.float32) * np.float32(2.0**-24)


def _runner(
    keys: PRNGKeyArray, scm: SCM, times: Array, prior: Prior, steps: int
) -> Callable[[Intervention], Array]:
    """A function from interventions, lanes last, to the values of all arms [T, N, A, B]."""
    nodes, said = scm.scale.shape[0], prior.time
    if said.continuous:
        total = steps * said.substeps
        words = jax.vmap(lambda key: noise_words(key, total, nodes), out_axes=-1)(keys)
        noise = jnp.stack(normals_of_words(words), axis=2)
        return lambda given: paths(scm, noise, times, given, _RUNS, _ACTS)
    noise, regime = _noise_of_worlds(keys, scm, prior, steps, 2)
    return lambda given: trajectories(scm, noise, regime, given, _RUNS, _ACTS)[said.burn_in :]


def _noise_of_worlds(
    keys: PRNGKeyArray, scm: SCM, prior: Prior, steps: int, runs: int
) -> tuple[Array, Array]:
    """Noise [T, N, U, B] of U runs in discrete time and its regimes' numbers, burn-in included."""
    total, nodes = steps + prior.time.burn_in, scm.scale.shape[0]
    words = jax.vmap(lambda key: noise_words(key, total, nodes), out_axes=-1)(keys)
    made = noise_of(words, scm.noise[None], scm.scale[None])
    regime = jnp.zeros((total, runs, 1), jnp.float32)
    if scm.transition.shape[0] > 1:
        shares = jax.vmap(lambda key: regime_shares(key, total), out_axes=-1)(keys)
        regime = jnp.moveaxis(shares, 0, 1)[:, :runs]
    return jnp.stack(made[:runs], axis=2), regime


def _below(scm: SCM, intervention: Intervention) -> Bool[Array, " N"]:
    """Descendants of the targets."""
    graph = descendants(summary_graph(scm))
    place = jnp.asarray(np.arange(graph.shape[0], dtype=np.int32))
    hit = (place[:, None] == intervention.targets[None, :]).any(axis=1)
    return jnp.any(graph & hit[None, :], axis=1)


def _query(
    found: Array, intervention: Intervention, scm: SCM, rank: Array, below: Array, prior: Prior
) -> Query:
    """Steps by the prior's offsets; a visible node that moved at one of them, if any did.

    Where none did, since an effect may end before the last step, one that could have.

    A structure asks for its outcome, which the intervention may not reach: that is the structure's
    point. Lanes last.
    """
    steps, nodes = found.shape[:2]
    since = {
        "onset": intervention.onset,
        "window": intervention.onset + intervention.length - 1,
        "end": jnp.full_like(intervention.onset, steps - 1),
    }
    assert set(since) == set(SINCE)
    extra = structures()[prior.structure].offset if prior.graph == "structure" else 0
    sign = -1 if prior.query.since == "end" else 1
    asked = jnp.stack(
        [
            jnp.clip(since[prior.query.since] + sign * (offset + extra), 0, steps - 1)
            for offset in prior.query.offsets
        ]
    )  # [Q, B]
    if prior.graph == "structure":
        outcome = structures()[prior.structure].names().index("Y")
        return Query(jnp.full_like(intervention.onset, outcome), asked)
    step = jnp.asarray(np.arange(steps, dtype=np.int32))[:, None]
    at = jnp.any(step[None] == asked[:, None], axis=0)  # [T, B]
    moved = jnp.any((found[:, :, 2] != found[:, :, 0]) & at[:, None], axis=0)  # [N, B]
    place = jnp.asarray(np.arange(nodes, dtype=np.int32))[:, None]
    free = (place != intervention.targets[:1]) & (place != intervention.targets[1:])
    seen = scm.node & ~scm.latent & free
    # the lowest number wins: first nodes that moved, then those below a target
    order = jnp.where(seen & moved, rank, jnp.where(seen & below, rank + 1.0, rank + 2.0))
    return Query(jnp.argmin(order, axis=0).astype(jnp.int32), asked)
