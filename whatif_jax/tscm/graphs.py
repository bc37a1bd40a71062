"""Drawing graphs: random, chain, named structure; all [regime, lag, child, parent]."""

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np

from .._types import Array, Bool, IntScalar
from .numbers import Numbers
from .prior import Prior, structures
from .scm import descendants

__all__ = ["Graph", "draw_graph", "graph_shapes", "sizes_of"]

_ROUNDS = 4  # draws of hidden nodes; the chance that all leave fewer than two visible is below 0.2%


class Graph(NamedTuple):
    """The graph of a world."""

    edges: Bool[Array, "R K+1 N N"]
    node: Bool[Array, " N"]
    latent: Bool[Array, " N"]
    size: IntScalar


def sizes_of(prior: Prior) -> tuple[int, int, int]:
    """Nodes, lags and regimes of a prior's bucket."""
    nodes, lags = prior.nodes[1], prior.lags[1]
    if prior.graph == "structure":
        nodes = len(structures()[prior.structure].names())
    return nodes, 0 if prior.time.continuous else lags, max(prior.regimes.number)


def graph_shapes(prior: Prior) -> dict[str, tuple[int, ...]]:
    """Numbers that a graph takes."""
    nodes, lags, regimes = sizes_of(prior)
    if prior.graph == "structure":
        return {}
    if prior.graph == "chain":
        return {"nodes": (), "lagged": (regimes, lags, nodes)}
    return {
        "nodes": (), "lags": (), "edge": (regimes, sum(prior.edges.beta) - 1),
        "hidden": (), "hide": (_ROUNDS, nodes), "rank": (nodes,),
        "outcome": (regimes,), "first_parent": (regimes,), "first_child": (regimes,),
        "now": (regimes, nodes, nodes), "lagged": (regimes, lags, nodes, nodes),
    }  # fmt: skip


def draw_graph(numbers: Numbers, prior: Prior) -> Graph:
    """A graph from its numbers."""
    if prior.graph == "structure":
        return _structure(prior)
    nodes, _, regimes = sizes_of(prior)
    low, high = prior.nodes
    size = low + _whole(numbers["nodes"], high - low + 1)
    place = jnp.asarray(np.arange(nodes, dtype=np.int32))
    node = place < size
    if prior.graph == "chain":
        now = (place[:, None] == place[None, :] + 1) & node[:, None]
        alone = (numbers["lagged"] < prior.edges.self_) & (node & (place > 0))[None, None]
        own = alone[..., None] & jnp.asarray(np.eye(nodes, dtype=bool))[None, None]
        edges = jnp.concatenate([jnp.broadcast_to(now, (regimes, 1, nodes, nodes)), own], axis=1)
        return Graph(edges, node, jnp.zeros(nodes, bool), size)
    return _random(numbers, prior, size, node, place)


def _whole(share: Array, count: int | Array) -> Array:
    """A whole number below a count."""
    most = jnp.asarray(count, jnp.int32)
    found = jnp.floor(share * most.astype(jnp.float32)).astype(jnp.int32)
    return jnp.minimum(found, most - 1)


def _random(numbers: Numbers, prior: Prior, size: Array, node: Array, place: Array) -> Graph:
    nodes, lags, _ = sizes_of(prior)
    probability = _of_rank(numbers["edge"], prior.edges.beta[0])  # a beta number: [R]
    count = size.astype(jnp.float32)
    least = prior.edges.floor * jnp.exp(-prior.edges.power * jnp.log(count))
    at_once = jnp.clip(jnp.maximum(probability, least), 1e-6, 1.0 - 1e-6)
    outcome = _outcome(numbers["outcome"], at_once, size, place)  # [R]
    now = numbers["now"] < at_once[:, None, None]
    now = _with_parent(now, numbers["first_parent"], at_once, outcome, place)
    now = _with_child(now, numbers["first_child"], at_once, outcome, size, place)
    real = node[:, None] & node[None, :]
    now = now & ((place[:, None] > place[None, :]) & real)[None]
    decays = np.float32(prior.edges.decay) ** np.arange(1, lags + 1, dtype=np.float32)
    most = prior.lags[0] + _whole(numbers["lags"], prior.lags[1] - prior.lags[0] + 1)
    has = jnp.asarray(np.arange(1, lags + 1, dtype=np.int32)) <= most
    chance = probability[:, None] * jnp.asarray(decays, jnp.float32)[None, :]
    lagged = numbers["lagged"] < jnp.where(has, chance, 0.0)[:, :, None, None]
    edges = jnp.concatenate([now[:, None], lagged & real[None, None]], axis=1)
    latent = _latent(numbers, prior, node, outcome[0], size)
    # ours: where no visible node acts on another visible one, all are visible
    acts = descendants(jnp.any(edges, axis=(0, 1))) & ~jnp.asarray(np.eye(nodes, dtype=bool))
    seen = node & ~latent
    some = jnp.any(acts & seen[:, None] & seen[None, :])
    return Graph(edges, node, latent & some, size)


def _of_rank(shares: Array, rank: int) -> Array:
    """The rank-th smallest number along the last axis: Beta(rank, count + 1 - rank)."""
    below = jnp.sum(shares[..., None, :] < shares[..., :, None], axis=-1, dtype=jnp.int32)
    return jnp.sum(jnp.where(below == rank - 1, shares, 0.0), axis=-1)


def _outcome(share: Array, probability: Array, size: Array, place: Array) -> Array:
    """Place of the node that has a parent and a child, by how likely it has both: [R].

    The package draws graphs until its outcome has both; this draws the same distribution at once.
    """
    stays = jnp.log1p(-probability)[:, None]
    before = place.astype(jnp.float32)[None, :]
    behind = (size - 1 - place).astype(jnp.float32)[None, :]
    chance = (1.0 - jnp.exp(stays * before)) * (1.0 - jnp.exp(stays * jnp.maximum(behind, 0.0)))
    total = jnp.cumsum(chance, axis=1)
    found = jnp.sum(total <= (share * total[:, -1])[:, None], axis=1, dtype=jnp.int32)
    return jnp.clip(found, 1, size - 2)


def _first(share: Array, probability: Array, count: Array) -> Array:
    """Place of the first edge among some, at least one of which there is."""
    stays = jnp.log1p(-probability)
    some = 1.0 - jnp.exp(stays * count.astype(jnp.float32))
    found = jnp.floor(jnp.log1p(-share * some) / stays).astype(jnp.int32)
    return jnp.clip(found, 0, count - 1)


def _with_parent(
    now: Array, share: Array, probability: Array, outcome: Array, place: Array
) -> Array:
    first = _first(share, probability, outcome)[:, None, None]
    row = place[None, :, None] == outcome[:, None, None]
    parent = place[None, None, :]
    return jnp.where(row, (parent == first) | ((parent > first) & now), now)


def _with_child(
    now: Array, share: Array, probability: Array, outcome: Array, size: Array, place: Array
) -> Array:
    first = (outcome + 1 + _first(share, probability, size - 1 - outcome))[:, None, None]
    column = place[None, None, :] == outcome[:, None, None]
    child = place[None, :, None]
    return jnp.where(column, (child == first) | ((child > first) & now), now)


def _latent(
    numbers: Numbers, prior: Prior, node: Array, outcome: Array, size: Array
) -> Bool[Array, " N"]:
    """Hidden nodes: how many from chances of their own, at least two visible; which at random."""
    hidden = (numbers["hide"] < prior.hidden * numbers["hidden"]) & node[None, :]
    visible = jnp.sum(~hidden & node[None, :], axis=1, dtype=jnp.int32)
    count = size
    for tried in range(_ROUNDS - 1, -1, -1):
        count = jnp.where(visible[tried] >= 2, visible[tried], count)
    place = jnp.arange(node.shape[0], dtype=jnp.int32)
    order = jnp.where(place == outcome, -1.0, numbers["rank"])
    order = jnp.where(node, order, jnp.inf)
    rank = jnp.sum(order[None, :] < order[:, None], axis=1, dtype=jnp.int32)
    return node & (rank >= count)


def _structure(prior: Prior) -> Graph:
    found = structures()[prior.structure]
    nodes, lags, regimes = sizes_of(prior)
    edges = np.zeros((lags + 1, nodes, nodes), bool)
    later = found.pairs(found.lagged)
    if prior.lagged_edges:
        later = (*later, *found.pairs(found.also_lagged))
    for parent, child in found.pairs(found.now):
        edges[0, child, parent] = True
    for parent, child in later:
        edges[min(1, lags), child, parent] = True  # continuous time knows one kind of edge
    for lag in range(1, lags + 1):
        if lag == 1 or prior.self_lags:
            np.fill_diagonal(edges[lag], True)
    latent = np.array([name == "U" for name in found.names()])
    return Graph(
        jnp.broadcast_to(jnp.asarray(edges), (regimes, *edges.shape)),
        jnp.ones(nodes, bool),
        jnp.asarray(latent),
        jnp.asarray(nodes, jnp.int32),
    )
