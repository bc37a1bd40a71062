"""Linear and ridge regression on the covariates of a step, batched, in closed form.

What scikit-learn's `LinearRegression` and `Ridge(10)` compute on covariates standardised on the
history (`StandardScaler`), for all rows of a batch at once. How it stays equal to them:

* Sums, solutions and predictions are float64. A future whose covariates lie far outside the seen
  range multiplies the error of a coefficient; float32 sums would leave errors of 1e-4 and more. The
  data are read once and only K x K systems are solved, so 64 bits cost little. `jax.enable_x64`
  holds for these calls alone; what comes in and goes out is float32.
* One or two events do not tell K covariates apart. Then the coefficients of least squares are not
  unique, and scikit-learn takes those of least norm. Norm depends on units: the paper standardises
  for both regressions, and finds them within a point of each other, as they are so. With
  `standardise=False` the norm is that of the covariates' own units.
* Covariates that move together exactly (one event, one shape) do not quite do so once rounded to
  float32: their difference is rounding, 1e-7 of them, and fitting it as a signal would wreck a
  novel future. Directions below 1e-6 of the largest singular value of the standardised covariates
  count as not told by the data, as in scikit-learn 1.9 and newer; older ones cut at float64's own
  precision. In 1,500 tasks of whatif-v1 nothing lay between 1e-7 and 1e-4.

References:
    evaluation/scores.md; the paper's Appendix D.3.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np

from whatif_jax._types import Array, Float

from .settings import Flag, Penalty, checked_settings

__all__ = [
    "ALPHA",
    "WIDTH",
    "Regression",
    "covariates_first",
    "is_on_cpu",
    "make_linear",
    "make_ridge",
    "regress",
]

WIDTH = 5  # covariates are padded to as many, the suite's most: one program for all of (T, H)
ROUNDING = float(np.finfo(np.float32).eps)
SMALLEST_SINGULAR = 1e-6  # of the largest one, of standardised features: less is rounding
SMALLEST_UNIT = 1e-13  # of the largest one, of features in their own units: less is zero
ALPHA = 10.0


def solve(
    gram: Float[Array, "F F"],
    cross: Float[Array, " F"],
    deviation: Float[Array, " F"],
    penalty: float | None,
    standardise: bool,
) -> Float[Array, " F"]:
    """Coefficients in the features' own units.

    Args:
        gram: covariances of the standardised features; zero rows for those that do not vary.
        cross: covariances of the standardised features with the target.
        deviation: standard deviation of each feature, 1 where it does not vary.
        penalty: of ridge on standardised coefficients, over the number of rows; None: least
            squares, the solution of least norm.
        standardise: whether that norm is of standardised coefficients, or of those in the
            features' own units.
    """
    values, vectors = jnp.linalg.eigh(gram)
    along = vectors.T @ cross
    if penalty is not None:
        return vectors @ (along / (jnp.maximum(values, 0.0) + penalty)) / deviation
    told = values > SMALLEST_SINGULAR**2 * jnp.maximum(values[-1], 1.0)
    standard = jnp.where(told, along / jnp.where(told, values, 1.0), 0.0)
    if standardise:
        return vectors @ standard / deviation
    # What the data tell of coefficients w is (vectors.T * deviation) @ w = standard, where told.
    largest = jnp.max(deviation)
    equations = jnp.where(told, vectors, 0.0).T * (deviation / largest)
    return jnp.linalg.pinv(equations, rtol=SMALLEST_UNIT) @ standard / largest


def regress(
    features: Float[Array, "F N"],
    target: Float[Array, " N"],
    ahead: Float[Array, "F H"],
    alpha: float | None,
    standardise: bool,
) -> Float[Array, " H"]:
    """Fit on N rows, predict H others. float64 where 64 bits are enabled; unbatched.

    Args:
        features: one row a feature, in any units. Features that do not vary, or by no more than
            float32 rounding, get no weight.
        target: in any unit.
        ahead: the same features where a prediction is wanted.
        alpha: of ridge regression on standardised features; None: ordinary least squares.
        standardise: see `solve`; ridge always does.

    Returns:
        predictions in the target's unit.
    """
    count = target.shape[0]
    features, target, ahead = (
        values.astype(jnp.result_type(float)) for values in (features, target, ahead)
    )
    # Distances from the first row: exactly zero where nothing varies, and one pass over the rows.
    start, origin = features[:, 0], target[0]
    rows = jnp.concatenate([features - start[:, None], (target - origin)[None]])
    average = jnp.sum(rows, axis=-1) / count
    moments = rows @ rows.T / count - average[:, None] * average
    gram, cross = moments[:-1, :-1], moments[:-1, -1]
    mean, level = start + average[:-1], origin + average[-1]
    deviation = jnp.sqrt(jnp.maximum(jnp.diagonal(gram), 0.0))
    varies = deviation > ROUNDING * jnp.abs(mean)
    deviation = jnp.where(varies, deviation, 1.0)
    standard = jnp.where(varies[:, None] & varies, gram / deviation[:, None] / deviation[None], 0.0)
    weights = solve(
        standard,
        jnp.where(varies, cross / deviation, 0.0),
        deviation,
        None if alpha is None else alpha / count,
        standardise,
    )
    return level + jnp.where(varies, weights, 0.0) @ (ahead - mean[:, None])


@functools.partial(jax.jit, static_argnames=("alpha", "standardise", "together"))
def _forecast(
    history: Array, features: Array, alpha: float | None, standardise: bool, together: int
) -> Array:
    """Point forecasts [B, H, 1] from [B, T] and [B, WIDTH, T + H]."""

    def one(row: tuple[Array, Array]) -> Array:
        past, known = row
        steps = past.shape[0]
        return regress(known[:, :steps], past, known[:, steps:], alpha, standardise)

    rows = jax.lax.map(one, (history, features), batch_size=together)
    return rows.astype(jnp.float32)[:, :, None]


@functools.partial(jax.jit, static_argnames="rows")
def covariates_first(
    history: Array, covariates: Array, start: Array | int, rows: int
) -> tuple[Array, Array]:
    """Some rows of a batch: [rows, T], and [rows, WIDTH or K, T + H] from [B, T + H, K].

    The covariates added are zeros, which get no weight.
    """
    k = covariates.shape[-1]
    width = max(WIDTH, k)
    history = jax.lax.dynamic_slice_in_dim(history, start, rows)
    covariates = jax.lax.dynamic_slice_in_dim(covariates, start, rows)
    return history, jnp.pad(covariates.swapaxes(1, 2), ((0, 0), (0, width - k), (0, 0)))


def is_on_cpu(array: Array) -> bool:
    """Whether an array lies in a CPU's memory."""
    return all(device.platform == "cpu" for device in array.devices())


class Regression:
    """Regression of the target on the covariates of the same step, fitted to each history.

    Args:
        name: of the forecaster.
        alpha: of ridge regression on covariates standardised on the history; None: ordinary least
            squares.
        standardise: whether least squares, too, are of standardised covariates.
    """

    version = "1"
    on_device = True
    fixed_batch = True
    point = True
    trained_on = "nothing"

    def __init__(self, name: str, alpha: float | None = None, standardise: bool = True):
        self.name = name
        self.alpha = alpha
        self.standardise = standardise
        self.settings = {"standardise": standardise} if alpha is None else {"alpha": alpha}

    def __call__(
        self, history: Array, covariates: Array, horizon: int, levels: tuple[float, ...]
    ) -> Array:
        """Point forecast [B, H, 1] in the target's unit."""
        size = len(history)
        # a CPU works on as much as its caches hold and writes no copy of a whole batch
        rows, together = (min(64, size), 4) if is_on_cpu(history) else (size, 64)
        parts = []
        with jax.enable_x64(True):
            for start in range(0, size, rows):
                first = min(start, size - rows)  # the last part is whole: it repeats some rows
                part = covariates_first(history, covariates, first, rows=rows)
                parts.append(
                    _forecast(*part, self.alpha, self.standardise, together)[start - first :]
                )
        return parts[0] if len(parts) == 1 else jnp.concatenate(parts)


@checked_settings
def make_linear(standardise: Flag = True) -> Regression:
    """Linear regression.

    Args:
        standardise: on covariates standardised on the history, as in the paper; else in their own
            units. It matters where the history does not tell the covariates apart.

    Raises:
        ValueError: `standardise` is neither true nor false.
    """
    return Regression("linear", standardise=standardise)


@checked_settings
def make_ridge(alpha: Penalty = ALPHA) -> Regression:
    """Ridge regression.

    Raises:
        ValueError: an `alpha` that is no finite number above 0.
    """
    return Regression("ridge", alpha)
