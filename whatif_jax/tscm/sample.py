"""Drawing worlds: graph, weights, mechanisms, noise and regimes from a prior."""

import jax.numpy as jnp
import numpy as np

from .._types import Array, Bool, Float, PRNGKeyArray
from ..tasks.keys import as_threefry, check_key
from ..tasks.randomised.numbers import chosen
from .graphs import draw_graph, graph_shapes, sizes_of
from .names import MECHANISMS, NOISES
from .numbers import Numbers, draw_numbers, many_normals, normal_of
from .prior import Prior, Spread, load_prior
from .scm import SCM, companion, spectral_radius

__all__ = ["sample_scm", "scaled", "scm_of", "scm_shapes", "unit_rows"]


def sample_scm(*, key: PRNGKeyArray, prior: Prior | str = "diverse") -> SCM:
    """A world of a prior; vmap over keys.

    Args:
        key: a JAX key of any implementation; other implementations draw other worlds.
        prior: a `Prior`, the name of one, or the path of its file; static under jit.

    Raises:
        ValueError: what is no key or no prior.
    """
    check_key(key)
    prior = load_prior(prior)
    return scm_of(draw_numbers(as_threefry(key), scm_shapes(prior)), prior)


def scm_shapes(prior: Prior) -> dict[str, tuple[int, ...]]:
    """Numbers that a world takes."""
    nodes, lags, regimes = sizes_of(prior)
    shapes: dict[str, tuple[int, ...]] = {
        **graph_shapes(prior),
        "weight": (regimes, lags + 1, nodes, nodes), "bias": (regimes, nodes),
        "mechanism": (regimes, nodes), "sd": (nodes,), "noise": (nodes,),
    }  # fmt: skip
    if regimes > 1:
        said = prior.regimes
        shapes |= {
            "number": (),
            "stay": (regimes, said.stay),
            "move": (regimes, regimes, said.move),
        }
    if prior.time.continuous:
        shapes |= {"decay": (nodes,), "diffusion": (nodes,)}
    return shapes


def scm_of(numbers: Numbers, prior: Prior) -> SCM:
    """A world from its numbers."""
    graph = draw_graph(numbers, prior)
    regimes, nodes = graph.edges.shape[0], graph.node.shape[0]
    weights = _weights(numbers, graph.edges, prior)
    node = graph.node
    root = ~jnp.any(graph.edges[0, 0], axis=1)
    said = prior.noise
    sd = jnp.where(root, _spread(numbers["sd"], said.root), _spread(numbers["sd"], said.other))
    kinds = [chosen(numbers["noise"], one, NOISES) for one in (said.root_kinds, said.kinds)]
    decay = jnp.zeros(nodes, jnp.float32)
    if prior.time.continuous:
        low, high = prior.time.decay
        decay = low + (high - low) * numbers["decay"]
        low, high = prior.time.diffusion
        sd = low + (high - low) * numbers["diffusion"]
    bias = normal_of(numbers["bias"]) * prior.weights.bias
    none = jnp.zeros_like(bias)
    return SCM(
        edges=graph.edges,
        weights=weights,
        bias=jnp.where(node, none if prior.time.continuous else bias, 0.0),
        mechanism=chosen(numbers["mechanism"], prior.mechanisms, MECHANISMS),
        noise=jnp.where(root, kinds[0], kinds[1]),
        scale=jnp.where(node, sd, 0.0),
        decay=decay,
        node=node,
        latent=graph.latent,
        **_regimes(numbers, prior, regimes),
    )


def _spread(share: Array, said: Spread) -> Array:
    found = said.least + said.uniform * share
    return found - said.exponential * jnp.log1p(-share) if said.exponential else found


def _weights(numbers: Numbers, edges: Bool[Array, "R K N N"], prior: Prior) -> Array:
    weights = many_normals(numbers["weight"]) * prior.weights.scale
    own = jnp.asarray(np.eye(edges.shape[-1], dtype=bool))
    if prior.self_weights == "persistent":
        weights = jnp.where(own[None, None], jnp.abs(weights), weights)
    if prior.self_weights == "oscillating":
        lag = np.arange(edges.shape[1])
        second = jnp.asarray(((lag > 0) & (lag % 2 == 0))[:, None, None])
        weights = jnp.where(own[None, None] & second[None], -jnp.abs(weights), weights)
    weights = jnp.where(edges, weights, 0.0)
    if prior.stability.unit_rows:
        weights = unit_rows(weights)
    if prior.stability.radius and weights.shape[1] > 1:
        scale = [scaled(weights[r], prior.stability.radius) for r in range(weights.shape[0])]
        weights = jnp.stack(scale)
    return weights


def unit_rows(weights: Float[Array, "R K+1 N N"]) -> Float[Array, "R K+1 N N"]:
    """Incoming weights of each node, those of all lags together, of norm 1; 0 stays 0.

    References:
        `hardening` of dotime 0.2.0.
    """
    size = jnp.sum(weights * weights, axis=(1, 3), keepdims=True)
    return weights / jnp.sqrt(jnp.where(size > 0.0, size, 1.0))


def scaled(weights: Float[Array, "K+1 N N"], radius: float) -> Float[Array, "K+1 N N"]:
    """The weights of one regime, lagged ones made smaller until the spectral radius fits.

    Lag k is multiplied by s ** k, which multiplies every eigenvalue of the companion matrix by s,
    so that s = radius / (the radius there is). The package bisects for one factor of all lags; ours
    leaves short lags larger and needs one look at the matrix.
    """
    lags = weights.shape[0] - 1
    found = spectral_radius(companion(weights))
    shrink = jnp.minimum(radius / jnp.maximum(found, 1e-6), 1.0)
    powers = [shrink**lag for lag in range(lags + 1)]
    return weights * jnp.stack(powers)[:, None, None]


def _regimes(numbers: Numbers, prior: Prior, most: int) -> dict[str, Array]:
    if most == 1:
        return {
            "transition": jnp.ones((1, 1), jnp.float32),
            "regimes": jnp.ones((), jnp.int32),
        }
    counts = np.array(prior.regimes.number, np.int32)
    at = jnp.floor(numbers["number"] * np.float32(len(counts))).astype(jnp.int32)
    count = jnp.asarray(counts)[jnp.minimum(at, len(counts) - 1)]
    # gamma numbers: sums of exponentials, and of halved squares of normals
    stay = -jnp.sum(jnp.log1p(-numbers["stay"]), axis=-1)
    move = jnp.sum(normal_of(numbers["move"]) ** 2, axis=-1) * 0.5
    own = jnp.asarray(np.eye(most, dtype=bool))
    mass = jnp.where(own, stay[:, None], move)
    mass = jnp.where(jnp.arange(most, dtype=jnp.int32)[None, :] < count, mass, 0.0)
    total = jnp.maximum(jnp.sum(mass, axis=1, keepdims=True), np.float32(1e-30))
    some = jnp.sum(mass, axis=1, keepdims=True) > 0.0
    transition = jnp.where(some, mass / total, own.astype(jnp.float32))
    return {"transition": transition, "regimes": count}
