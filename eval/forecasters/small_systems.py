"""Small positive definite systems of equations, by elimination written out.

A batch of LAPACK's calls inside a loop never came back on two CPU cores (JAX 0.10.2: its threads
wait for one another), and for a handful of unknowns elementwise steps are as fast.
"""

import jax.numpy as jnp

from whatif_jax._types import Array, Float

__all__ = ["solve_positive"]


def solve_positive(
    matrix: Float[Array, "*batch K K"], right: Float[Array, "*batch K R"]
) -> Float[Array, "*batch K R"]:
    """The solution of matrix @ x = right, by Gauss and Jordan's elimination without pivoting.

    Args:
        matrix: symmetric, positive definite, of few rows: each is a step of the program.
        right: one column a right side.
    """
    k = matrix.shape[-1]
    rows = jnp.concatenate([matrix, right], axis=-1)
    for step in range(k):
        pivot = rows[..., step : step + 1, :] / rows[..., step : step + 1, step : step + 1]
        cleared = rows - rows[..., :, step : step + 1] * pivot
        rows = jnp.where((jnp.arange(k) == step)[:, None], pivot, cleared)
    return rows[..., k:]
