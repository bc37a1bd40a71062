"""Least squares over the steps that may be read, with masks in place of shorter arrays."""

import jax
import jax.numpy as jnp
import numpy as np

from whatif_jax._types import Array, Bool, BoolScalar, Float, IntScalar

__all__ = ["column", "earlier", "enough", "least_squares", "rows_of"]

TIE = 1e-4  # size of the equations that shrink coefficients, relative to a column's own norm
SPARE = 2  # rows that there must be for every coefficient


def column(series: Float[Array, "T N"], node: int) -> Float[Array, " T"]:
    """The series of one node."""
    return series[:, node]


def earlier(values: Float[Array, "T ..."], lag: int) -> Float[Array, "T ..."]:
    """Values `lag` steps before each step; 0 before the first."""
    widths = ((lag, 0), *[(0, 0)] * (values.ndim - 1))
    return jnp.pad(values, widths)[: values.shape[0]]


def rows_of(seen: Bool[Array, " T"], lag: int) -> Bool[Array, " T"]:
    """Steps that may be read, and so may those up to `lag` before them."""
    found = seen
    for back in range(1, lag + 1):
        found = found & jnp.pad(seen, (back, 0))[: seen.shape[0]]
    return found


def enough(rows: Bool[Array, " T"], coefficients: int | IntScalar) -> BoolScalar:
    """Whether there are two rows for every coefficient; with fewer a fit is mostly noise."""
    return jnp.sum(rows, dtype=jnp.int32) >= SPARE * coefficients


def least_squares(
    columns: Float[Array, "T F"],
    target: Float[Array, "T M"],
    rows: Bool[Array, " T"],
    penalty: float = 0.0,
) -> tuple[Float[Array, "F M"], Float[Array, " M"]]:
    """Coefficients of each target on the columns, and the squares left, summed over the rows.

    By orthogonal columns, targets among them, so that the condition is not squared: all is float32.
    Columns are scaled to norm 1 and each coefficient is shrunk by an equation 1e-4 of
    that, so that columns that are zero or that tell no more than others give finite coefficients;
    what the data tell moves by about 1e-8.

    Args:
        columns: regressors, the constant among them where there is one.
        target: what they explain.
        rows: steps to fit on.
        penalty: added to the Gram matrix of the columns as they come: ridge regression.
    """
    count = columns.shape[1]
    used = jnp.where(rows[:, None], columns, 0.0)
    norm = jnp.sqrt(jnp.sum(used * used, axis=0))
    norm = jnp.where(norm > 0.0, norm, 1.0)
    size = jnp.sqrt(np.float32(penalty) / norm**2 + np.float32(TIE**2))
    shrink = jnp.pad(jnp.diag(size), ((0, 0), (0, target.shape[1])))
    both = jnp.concatenate([used / norm, jnp.where(rows[:, None], target, 0.0)], axis=1)
    triangle = _triangle(jnp.concatenate([both, shrink]), count)
    scaled = _solved(triangle[:, :count], triangle[:, count:])
    found = scaled / norm[:, None]
    left = jnp.where(rows[:, None], target - columns @ found, 0.0)
    return found, jnp.sum(left * left, axis=0)


def _triangle(matrix: Float[Array, "S W"], count: int) -> Float[Array, "F W"]:
    """The first rows of R of a QR decomposition, by the modified method of Gram and Schmidt.

    Written out: LAPACK's waits for threads of the very pool it runs in, so that two at once, of one
    program, wait for ever where the pool has two threads (jaxlib 0.10.2).

    References:
        A. Bjorck, Solving linear least squares problems by Gram-Schmidt orthogonalization (1967).
    """
    place = jnp.asarray(np.arange(matrix.shape[1], dtype=np.int32))

    def step(number: Array, state: tuple[Array, Array]) -> tuple[Array, Array]:
        left, triangle = state
        own = jax.lax.dynamic_index_in_dim(left, number, 1, keepdims=False)
        square = jnp.sum(own * own)
        size = jnp.sqrt(jnp.where(square > 0.0, square, 1.0))
        own = own / size
        across = jnp.sum(own[:, None] * left, axis=0)
        across = jnp.where(place > number, across, 0.0)
        left = left - own[:, None] * across[None, :]
        row = jnp.where(place == number, size, across)
        return left, jax.lax.dynamic_update_index_in_dim(triangle, row, number, 0)

    start = jnp.zeros((count, matrix.shape[1]), matrix.dtype)
    return jax.lax.fori_loop(0, count, step, (matrix, start))[1]


def _solved(triangle: Float[Array, "F F"], right: Float[Array, "F M"]) -> Float[Array, "F M"]:
    """Coefficients by back substitution; the diagonal is not 0."""
    count = triangle.shape[0]

    def step(turn: Array, found: Array) -> Array:
        number = count - 1 - turn
        row = jax.lax.dynamic_index_in_dim(triangle, number, 0, keepdims=False)
        own = jax.lax.dynamic_index_in_dim(row, number, 0, keepdims=False)
        known = jax.lax.dynamic_index_in_dim(right, number, 0, keepdims=False)
        rest = jnp.sum(row[:, None] * found, axis=0)  # those behind it; the others are still 0
        return jax.lax.dynamic_update_index_in_dim(found, (known - rest) / own, number, 0)

    return jax.lax.fori_loop(0, count, step, jnp.zeros_like(right))
