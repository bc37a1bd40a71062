"""Parts that the architectures share: masked attention, linear recurrence, monotone quantiles."""

import equinox as eqx
import jax
import jax.numpy as jnp

from whatif_jax import LEVELS
from whatif_jax._types import Array, Bool, Float, PRNGKeyArray

__all__ = ["LEVELS", "Block", "Recurrence", "enter", "offsets", "stack_blocks"]

MIDDLE = LEVELS.index(0.5)
DISTANCES = (0.44, 0.317, 0.271, 0.253, 0.0, 0.253, 0.271, 0.317, 0.44)  # of a normal's quantiles


class Block(eqx.Module):
    """Pre-norm attention and perceptron over a set of tokens; tokens that are masked are unread."""

    attention: eqx.nn.MultiheadAttention
    first_norm: eqx.nn.LayerNorm
    second_norm: eqx.nn.LayerNorm
    widen: eqx.nn.Linear
    narrow: eqx.nn.Linear

    def __init__(self, width: int, heads: int, *, key: PRNGKeyArray):
        first, second, third = jax.random.split(key, 3)
        self.attention = eqx.nn.MultiheadAttention(heads, width, key=first)
        self.first_norm = eqx.nn.LayerNorm(width)
        self.second_norm = eqx.nn.LayerNorm(width)
        self.widen = eqx.nn.Linear(width, 2 * width, key=second)
        self.narrow = eqx.nn.Linear(2 * width, width, key=third)

    def __call__(
        self, tokens: Float[Array, "N D"], mask: Bool[Array, " N"], wanted: int | None = None
    ) -> Float[Array, "W D"]:
        """Tokens after one block; each attends to all that are there, and always to itself.

        Args:
            tokens: of one series.
            mask: True where there is one.
            wanted: how many, from the first on, are computed; None: all.
        """
        count = tokens.shape[0] if wanted is None else wanted
        seen = mask[None, :] | jnp.eye(count, tokens.shape[0], dtype=bool)
        normed = jax.vmap(self.first_norm)(tokens)
        tokens = tokens[:count] + self.attention(normed[:count], normed, normed, mask=seen)
        normed = jax.vmap(self.second_norm)(tokens)
        hidden = jax.nn.gelu(jax.vmap(self.widen)(normed))
        return tokens + jax.vmap(self.narrow)(hidden)


class Recurrence(eqx.Module):
    """A gated diagonal linear recurrence in both directions over tokens in order of time.

    References:
        Orvieto et al., Resurrecting recurrent neural networks for long sequences (2023).
    """

    norm: eqx.nn.LayerNorm
    enter: eqx.nn.Linear
    gate: eqx.nn.Linear
    leave: eqx.nn.Linear
    decay: Float[Array, " D"]  # logit of what a step keeps

    def __init__(self, width: int, *, key: PRNGKeyArray):
        first, second, third = jax.random.split(key, 3)
        self.norm = eqx.nn.LayerNorm(width)
        self.enter = eqx.nn.Linear(width, width, key=first)
        self.gate = eqx.nn.Linear(width, 2 * width, key=second)
        self.leave = eqx.nn.Linear(2 * width, width, key=third)
        self.decay = jnp.linspace(0.0, 5.0, width)

    def __call__(self, tokens: Float[Array, "N D"], mask: Bool[Array, " N"]) -> Float[Array, "N D"]:
        """Tokens after one block; a masked token passes the state on and adds nothing."""
        normed = jax.vmap(self.norm)(tokens)
        keep = jax.nn.sigmoid(self.decay)
        entered = jax.vmap(self.enter)(normed) * (1.0 - keep)[None, :]
        entered = jnp.where(mask[:, None], entered, 0.0)
        kept = jnp.where(mask[:, None], keep[None, :], 1.0)

        def join(left: tuple[Array, Array], right: tuple[Array, Array]) -> tuple[Array, Array]:
            return left[0] * right[0], left[1] * right[0] + right[1]

        ahead = jax.lax.associative_scan(join, (kept, entered))[1]
        back = jax.lax.associative_scan(join, (kept, entered), reverse=True)[1]
        state = jnp.concatenate([ahead, back], axis=-1) * jax.nn.silu(jax.vmap(self.gate)(normed))
        return tokens + jax.vmap(self.leave)(state)


def enter(linear: eqx.nn.Linear, features: Float[Array, "N F"]) -> Float[Array, "N D"]:
    """Tokens of rows of features, in the type of the parameters: all that follows is in it."""
    assert linear.weight is not None
    return jax.vmap(linear)(features.astype(linear.weight.dtype))


def stack_blocks(
    kind: str, width: int, heads: int, depth: int, *, key: PRNGKeyArray
) -> tuple[Block | Recurrence, ...]:
    """`depth` blocks: "attention", or "recurrence"."""
    keys = jax.random.split(key, depth)
    if kind == "recurrence":
        return tuple(Recurrence(width, key=each) for each in keys)
    return tuple(Block(width, heads, key=each) for each in keys)


def offsets(raw: Float[Array, "*batch Q"]) -> Float[Array, "*batch Q"]:
    """Ascending offsets of quantiles from the median; a standard normal's where `raw` is 0."""
    normal = jnp.broadcast_to(jnp.asarray(DISTANCES, raw.dtype), raw.shape)
    distance = normal * jax.nn.softplus(raw) / jnp.log(2.0)
    below = jnp.cumsum(distance[..., MIDDLE - 1 :: -1], axis=-1)[..., ::-1]
    above = jnp.cumsum(distance[..., MIDDLE + 1 :], axis=-1)
    return jnp.concatenate([-below, jnp.zeros_like(raw[..., :1]), above], axis=-1)
