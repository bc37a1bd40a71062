"""A temporal structural causal model as a pytree, and what its graph says.

Nodes are numbered in a topological order of the instantaneous graph. Sizes are buckets: N nodes, K
lags, R regimes, with masks for those that a world does not have.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from .._types import Array, Bool, Float, Int, IntScalar

__all__ = ["SCM", "companion", "descendants", "reached", "spectral_radius", "summary_graph"]

_SQUARINGS = 12


class SCM(eqx.Module):
    """x_i(t) = f_i(b_i + sum over k, j of w_kij x_j(t - k)) + noise_i(t), k = 0 instantaneous.

    A node whose parents all lie before the first step has no f there: it is its noise. In
    continuous time, dx_i = (sum of w_0ij x_j - decay_i x_i) dt + scale_i dW_i.
    """

    edges: Bool[Array, "R K+1 N N"]  # [regime, lag, child, parent]; lag 0 only where parent < child
    weights: Float[Array, "R K+1 N N"]  # 0 where there is no edge
    bias: Float[Array, "R N"]
    mechanism: Int[Array, "R N"]  # place in MECHANISMS
    noise: Int[Array, " N"]  # place in NOISES
    scale: Float[Array, " N"]  # standard deviation of the noise; 0 for padding
    decay: Float[Array, " N"]  # per unit of time; 0 in discrete time
    node: Bool[Array, " N"]  # not padding
    latent: Bool[Array, " N"]
    transition: Float[Array, "R R"]  # [from, to]; rows sum to 1
    regimes: IntScalar  # how many there are


def summary_graph(scm: SCM) -> Bool[Array, "N N"]:
    """[child, parent]: an edge at some lag in some regime."""
    return jnp.any(scm.edges, axis=(0, 1))


def descendants(graph: Bool[Array, "N N"]) -> Bool[Array, "N N"]:
    """[descendant, ancestor] of a graph [child, parent]; a node is its own only on a cycle.

    Rows are words of 32 bits, so that a step of Warshall's method is N operations.
    """
    nodes = graph.shape[0]
    place = np.arange(nodes)
    bit = jnp.asarray((1 << (place % 32)).astype(np.uint32))
    parts = []
    for word in range(0, nodes, 32):
        inside = jnp.asarray(place // 32 == word // 32)
        parts.append(
            jnp.sum(
                jnp.where(graph & inside[None], bit[None], jnp.uint32(0)), axis=1, dtype=jnp.uint32
            )
        )
    rows = jnp.stack(parts)  # [words, N]

    def through(node: Array, rows: Array) -> Array:
        own = jax.lax.dynamic_index_in_dim(rows, node, 1, keepdims=True)
        word = jax.lax.dynamic_index_in_dim(rows, node // 32, 0, keepdims=True)
        has = (word >> (node % 32).astype(jnp.uint32)) & jnp.uint32(1)
        return rows | (own * has)

    rows = jax.lax.fori_loop(0, nodes, through, rows)
    found = (rows[0][:, None] & bit[None, :]) != 0
    for word in range(1, rows.shape[0]):
        inside = jnp.asarray(place // 32 == word)
        found = jnp.where(inside, (rows[word][:, None] & bit[None, :]) != 0, found)
    return found


def reached(scm: SCM, hit: Bool[Array, " N"], active: Bool[Array, " T"]) -> Bool[Array, "T N"]:
    """Which nodes an intervention can move at each step, by the edges of any regime.

    Args:
        scm: the world.
        hit: nodes intervened on.
        active: steps at which they are.
    """
    edges = jnp.any(scm.edges, axis=0)
    lags = edges.shape[0] - 1
    nodes = hit.shape[0]
    # what an instantaneous path leads to, itself included
    at_once = descendants(edges[0]) | jnp.asarray(np.eye(nodes, dtype=bool))

    def step(before: Array, on: Array) -> tuple[Array, Array]:
        start = hit & on
        for lag in range(lags):
            start = start | jnp.any(edges[lag + 1] & before[lag][None, :], axis=1)
        now = jnp.any(at_once & start[None, :], axis=1)
        return jnp.concatenate([now[None], before[:-1]]), now

    first = jnp.zeros((max(lags, 1), nodes), bool)
    return jax.lax.scan(step, first, active)[1]


def companion(weights: Float[Array, "K+1 N N"]) -> Float[Array, "K*N K*N"]:
    """Companion matrix of the linear system of one regime, instantaneous edges solved for.

    A_k = (I - W_0)^-1 W_k stand in its first block row. W_0 is nilpotent, so that the inverse is a
    product of I + W_0^(2^n).
    """
    lags, nodes = weights.shape[0] - 1, weights.shape[1]
    eye = jnp.eye(nodes, dtype=weights.dtype)
    inverse, power, size = eye + weights[0], weights[0], 2
    while size < nodes:
        power = _product(power, power)
        inverse, size = _product(inverse, eye + power), size * 2
    rows = [jnp.concatenate([_product(inverse, weights[lag + 1]) for lag in range(lags)], axis=1)]
    if lags > 1:
        rest = np.eye((lags - 1) * nodes, lags * nodes, dtype=np.float32)
        rows.append(jnp.asarray(rest, weights.dtype))
    return jnp.concatenate(rows)


def _product(left: Array, right: Array) -> Array:
    return jnp.matmul(left, right, precision=jax.lax.Precision.HIGHEST)


def spectral_radius(matrix: Float[Array, "n n"]) -> Float[Array, ""]:
    """The largest absolute eigenvalue, from above, usually within 1%.

    The norm of the matrix to the power 4,096, by repeated squaring, to the power 1 / 4,096
    (Gelfand). No eigenvalues of general matrices are computed on accelerators.
    """

    def square(_: Array, state: tuple[Array, Array]) -> tuple[Array, Array]:
        power, log = state
        size = jnp.maximum(jnp.sqrt(jnp.sum(power * power)), np.float32(1e-30))
        power = power / size
        return _product(power, power), 2.0 * (log + jnp.log(size))

    zero = jnp.zeros((), matrix.dtype)
    power, log = jax.lax.fori_loop(0, _SQUARINGS, square, (matrix, zero))
    size = jnp.sqrt(jnp.sum(power * power))
    found = jnp.exp((log + jnp.log(jnp.maximum(size, np.float32(1e-30)))) / 2.0**_SQUARINGS)
    return jnp.where(size > 0.0, found, zero)
