"""What a method may see of an episode."""

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from whatif_jax._types import Array, Bool, Float
from whatif_jax.tscm import Episode, Intervention, Query

__all__ = ["EVIDENCE", "Question", "question_of"]

EVIDENCE = ("before", "whole")
"""Steps that may be read: those before the onset, or all of the factual run."""


class Question(eqx.Module):
    """The evidence, the intervention and what is asked; nothing that follows from the answer.

    Latent nodes, and steps that may not be read, are 0 in `series`, so that no method reads them
    by mistake. The intervention's values and window are known ahead.
    """

    series: Float[Array, "T N"]  # the factual run
    seen: Bool[Array, " T"]  # steps that may be read
    visible: Bool[Array, " N"]  # nodes that may be shown
    times: Float[Array, " T"]  # of the steps
    intervention: Intervention
    query: Query


def question_of(episode: Episode, evidence: str = "before") -> Question:
    """The question that an episode puts. Pure and unbatched; vmap over episodes.

    Args:
        episode: one episode.
        evidence: "before": steps before the intervention's onset may be read. "whole": the whole
            factual run may, later than the onset too, as the package's vector autoregression does;
            its run is another one than the one that is asked for, yet shares its noise.

    Raises:
        ValueError: evidence that is not in `EVIDENCE`.
    """
    if evidence not in EVIDENCE:
        raise ValueError(f"evidence: {evidence!r}; expected one of {', '.join(EVIDENCE)}")
    step = jnp.asarray(np.arange(episode.factual.shape[0], dtype=np.int32))
    seen = step < episode.intervention.onset
    if evidence == "whole":
        seen = jnp.ones_like(seen)
    visible = episode.observed
    shown = seen[:, None] & visible[None, :]
    return Question(
        series=jnp.where(shown, episode.factual, 0.0),
        seen=seen,
        visible=visible,
        times=episode.times,
        intervention=episode.intervention,
        query=episode.query,
    )
