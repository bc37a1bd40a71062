"""Episodes beside the suites, for what must come out."""

from whatif_jax.tscm import EpisodePart, EpisodeSuite, Prior, load_prior

__all__ = ["CASES", "METHODS", "case_suites"]

CASES = ("linear_instrument", "long")
METHODS = ("zero", "mean", "regression", "back_door", "instrument", "oracle")
"""Baselines that are run on them."""
_CONFOUNDER, _INSTRUMENT = "observed_confounder", "instrumental_variable"


def case_suites(episodes: int = 1200, long_steps: int = 2000) -> list[EpisodeSuite]:
    """The linear instrumental variable, and long series of it and of the observed confounder.

    Linear mechanisms are what two-stage least squares assumes. A bias stays in long series while
    the error of an unbiased estimate goes. Seeds are none of the frozen suites'.

    Args:
        episodes: of each part; twice as many of long series, as errors have heavy tails.
        long_steps: of the long series.
    """
    linear = load_prior(_INSTRUMENT, {"mechanisms": {"linear": 1.0}})
    twice = 2 * episodes
    return [
        EpisodeSuite(
            CASES[0], "linear-instrument-v1", 910_101, 200, (_part(linear, 3, 0, episodes),)
        ),
        EpisodeSuite(
            CASES[1],
            "long-v1",
            910_102,
            long_steps,
            (_part(load_prior(_CONFOUNDER), 1, 0, twice), _part(linear, 3, twice, twice)),
        ),
    ]


def _part(prior: Prior, tier: int, first: int, episodes: int) -> EpisodePart:
    return EpisodePart(prior.structure, prior.structure, tier, prior, first, episodes)
