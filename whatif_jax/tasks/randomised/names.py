"""The kinds of things that a prior names, in the order that gives each its number."""

__all__ = ["FORMS", "HARD_CASES", "REGIONS", "SHAPES", "SOURCES"]

SOURCES = ("synthetic", "real")
SHAPES = ("step", "ramp", "hump", "bell", "rise", "fall")
REGIONS = ("always", "above", "below")
FORMS = (
    "power",  # f^p
    "two_powers",  # with another exponent below 1
    "part_power",  # a constant and a power
    "power_linear",
    "linear",
    "cubic",
    "exponential",
    "cosine",
    "signed",  # a power of the distance from 1, with its sign
)
HARD_CASES = (
    "irrelevant",  # covariates that move and do nothing
    "correlated",  # one that follows the target's baseline in the history and does nothing
    "saturation",  # a limit that the target does not pass
    "overlapping",  # covariates' events start apart
    "delayed",  # effects begin late, build up and decay
    "regime",  # constants change at some event of the history
    "noise",  # of the measured target
    "missing",  # steps of the history that are not known
    "wandering",  # covariates move between events, and the target with them
)
