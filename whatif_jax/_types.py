"""Shape aliases, one legend for the whole package.

Axes (one letter or word each, used in every annotation):

* ``K``  covariates of a task, primary first (padded with a mask)
* ``E``  events of a task's history (padded with a mask)
* ``C``  context: steps of the history
* ``H``  horizon: steps of the future
* ``P``  positions at which responses are evaluated (half of every event window)
* ``B``  batch; streams, suites and `*_batch` have it; for all else callers vmap
* ``Q``  quantile levels of a forecast, ascending
* ``N``  tasks of a table of errors, by task id
* ``M``  models of a table of errors
* ``R``  bootstrap resamples
* ``targets``, ``covariates``  rows of the loaded catalog
"""

from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray, UInt32

FloatScalar = Float[Array, ""]
IntScalar = Int[Array, ""]
BoolScalar = Bool[Array, ""]

__all__ = [
    "Array",
    "Bool",
    "BoolScalar",
    "Float",
    "FloatScalar",
    "Int",
    "IntScalar",
    "PRNGKeyArray",
    "UInt32",
]
