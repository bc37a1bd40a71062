"""Temporal causal worlds: what a method may see of an episode, and baselines that estimate it.

Order of the modules: question, baseline, then one module a family of methods, then methods.
"""

from .baseline import RUNGS, Baseline, ClosedForm, Estimate
from .methods import baselines
from .question import EVIDENCE, Question, question_of

__all__ = [
    "EVIDENCE",
    "RUNGS",
    "Baseline",
    "ClosedForm",
    "Estimate",
    "Question",
    "baselines",
    "question_of",
]
