"""What a baseline gives, and its face."""

import dataclasses
import functools
from collections.abc import Callable
from typing import Protocol

import equinox as eqx
import jax

from whatif_jax._types import Array, Float
from whatif_jax.tscm import Episode

from .question import Question

__all__ = ["RUNGS", "Baseline", "ClosedForm", "Estimate", "everywhere"]

RUNGS = ("interventional", "counterfactual")
"""Runs that a value can be compared with: with noise of its own, and with the factual run's."""


class Estimate(eqx.Module):
    """What a method says of the queried node at the query's steps, in the node's unit."""

    value: Float[Array, " Q"]  # under the intervention
    effect: Float[Array, " Q"]  # value minus what it would be without; 0 if it knows of none
    counterfactual: Float[Array, " Q"] | None = None  # in this very run; None: `value`

    def value_of(self, rung: str) -> Float[Array, " Q"]:
        """The value to compare with the run of a rung in `RUNGS`.

        Raises:
            ValueError: no such rung.
        """
        if rung not in RUNGS:
            raise ValueError(f"rung: {rung!r}; expected one of {', '.join(RUNGS)}")
        if rung == "counterfactual" and self.counterfactual is not None:
            return self.counterfactual
        return self.value


class Baseline(Protocol):
    """A method that estimates what an intervention does."""

    @property
    def name(self) -> str:
        """Its name in `baselines()`."""

    @property
    def label(self) -> str:
        """Of its row in a table."""

    def applies(self, structure: str) -> bool:
        """Whether it fits a structure, "" for none; where it does not it gives the mean."""

    def estimate_many(
        self, questions: Question, structure: str = "", *, episode: Episode | None = None
    ) -> Estimate:
        """Estimates of questions with a leading axis B, all of one structure.

        Args:
            questions: what may be seen.
            structure: name of a structure, "" for worlds without one.
            episode: the truth, which the oracle alone reads.
        """


Method = Callable[[Question, str, Episode | None], Estimate]


def everywhere(_: str) -> bool:
    """A method that asks for no structure."""
    return True


@dataclasses.dataclass(frozen=True)
class ClosedForm:
    """A baseline in JAX.

    Args:
        name: in `baselines()`.
        label: of its row in a table.
        method: of one question; pure.
        fits: of a structure's name.
    """

    name: str
    label: str
    method: Method
    fits: Callable[[str], bool] = everywhere

    def applies(self, structure: str) -> bool:
        """Whether it fits a structure, "" for none; where it does not it gives the mean."""
        return self.fits(structure)

    def estimate(
        self, question: Question, structure: str = "", *, episode: Episode | None = None
    ) -> Estimate:
        """The estimate of one question. Pure; vmap over questions, `structure` is static."""
        return self.method(question, structure, episode)

    def estimate_many(
        self, questions: Question, structure: str = "", *, episode: Episode | None = None
    ) -> Estimate:
        """`estimate` of questions with a leading axis B, compiled once a shape and structure."""
        return _many(questions, episode, method=self.method, structure=structure)


@functools.partial(jax.jit, static_argnames=("method", "structure"))
def _many(
    questions: Question, episode: Episode | None, *, method: Method, structure: str
) -> Estimate:
    return jax.vmap(lambda question, truth: method(question, structure, truth))(questions, episode)
