"""Episodes beside the suites, for what must come out."""

from whatif_jax.tscm import EpisodePart, EpisodeSuite, load_prior

__all__ = ["linear_instrument"]


def linear_instrument(episodes: int = 1200, steps: int = 200) -> EpisodeSuite:
    """The instrumental variable with linear mechanisms alone: what two-stage least squares assumes.

    Seeds of the frozen suites begin at 910001; this one's is none of theirs.
    """
    prior = load_prior("instrumental_variable", {"mechanisms": {"linear": 1.0}})
    part = EpisodePart("instrumental_variable", prior.structure, 3, prior, 0, episodes)
    return EpisodeSuite("linear_instrument", "linear-instrument-v1", 910_101, steps, (part,))
