"""The names of kinds, in the order of their numbers."""

__all__ = [
    "GRAPHS",
    "KINDS",
    "MECHANISMS",
    "NOISES",
    "OBSERVATIONS",
    "SELF_WEIGHTS",
    "SHAPES",
    "SINCE",
    "SLOTS",
    "VALUES",
]

MECHANISMS = (
    "linear", "tanh", "sin", "cos", "abs", "square", "relu", "tanh_square", "tanh_relu",
)  # fmt: skip
"""What a node makes of the weighted sum of its parents."""
NOISES = ("gaussian", "uniform", "laplace")
"""Distributions of a node's noise, all of mean 0 and standard deviation 1."""
KINDS = ("hard", "soft", "varying")
"""Interventions: do(X = c), X + shift, do(X = c(t))."""
SHAPES = ("step", "ramp", "sine", "free")
"""Profiles of varying interventions."""
VALUES = (
    "prior", "positivity_aware", "observed_discrete", "observed_normal", "observed_uniform",
)  # fmt: skip
"""Where a hard intervention's value comes from."""
GRAPHS = ("random", "chain", "structure")
"""How a graph is drawn."""
OBSERVATIONS = ("regular", "jittered", "poisson")
"""Gaps between observation times of continuous worlds."""
SELF_WEIGHTS = ("free", "persistent", "oscillating")
"""Signs of self-edges' weights: as drawn; all positive; negative at every second lag."""
SINCE = ("onset", "window", "end")
"""What a query's offset counts from: the intervention's first step, its last, or the series'."""
SLOTS = 2
"""Most targets of an intervention."""
