"""Estimating what interventions lead to, over a suite of episodes.

Baselines in JAX are one program a part of the suite: the questions of a batch and every baseline's
answers. What was estimated before is not estimated again.
"""

import functools
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pyarrow as pa
from tqdm import tqdm

from whatif_jax.tscm import Episode, EpisodePart, EpisodeSuite
from whatif_jax.tscm.scores import Truths, truths_of

from ..forecasters import FORECASTERS, declared_of
from ..run_files import ResultsError
from .baseline import RUNGS, Baseline, ClosedForm, Estimate, everywhere
from .question import EVIDENCE, Question, question_of
from .results import COLUMNS, Estimates, before, joined, stored, write

__all__ = ["about_of", "score_suite"]

_SAVE_SECONDS = 120.0  # of work that an interruption may lose


def score_suite(
    suite: EpisodeSuite,
    baselines: Sequence[Baseline],
    folder: Path,
    *,
    evidence: str = "before",
    numbers: np.ndarray | None = None,
    batch_size: int = 400,
    progress: bool = False,
) -> list[Estimates]:
    """Estimates of some baselines on a suite, written into a folder.

    Args:
        suite: the episodes.
        baselines: of `baselines()`.
        folder: of the results; what is there of the same suite is kept and not made again.
        evidence: of `EVIDENCE`: what the baselines may read of the factual run.
        numbers: of episodes; None for all.
        batch_size: episodes at once.
        progress: show episodes per second and time left on standard error.

    Raises:
        ValueError: an unknown evidence.
        ResultsError: results of another version or suite are in the way, or no room.
    """
    if evidence not in EVIDENCE:
        raise ValueError(f"evidence: {evidence!r}; expected one of {', '.join(EVIDENCE)}")
    wanted = np.arange(suite.episodes) if numbers is None else np.unique(numbers)
    earlier = {one.name: _earlier(folder, suite, evidence, one) for one in baselines}
    left: dict[bytes, tuple[np.ndarray, list[Baseline]]] = {}
    for one in baselines:
        known = earlier[one.name]
        missing = wanted if known is None else np.setdiff1d(wanted, known.episodes)
        left.setdefault(missing.tobytes(), (missing, []))[1].append(one)
    keeper = _Keeper(suite, folder, evidence, earlier)
    total = sum(len(missing) for missing, _ in left.values())
    with tqdm(total=total, unit="episode", desc=suite.version, disable=not progress) as bar:
        for missing, some in left.values():
            if not len(missing):
                continue
            for part, found, truths, answers in _answers(
                suite, tuple(some), evidence, missing, batch_size
            ):
                keeper.add(part, found, truths, answers)
                bar.update(len(found["episode"]))
            keeper.save()
    return [keeper.kept(one) for one in baselines]


def _earlier(
    folder: Path, suite: EpisodeSuite, evidence: str, baseline: Baseline
) -> Estimates | None:
    found = before(folder, suite, evidence, baseline.name)
    if found is not None and found.about != about_of(baseline, suite):
        raise ResultsError(
            f"results: {stored(folder, suite.version, evidence, baseline.name)}: made with "
            f"{found.about}; expected {about_of(baseline, suite)}: remove it, or choose another "
            f"folder"
        )
    return found


def _answers(
    suite: EpisodeSuite,
    baselines: tuple[Baseline, ...],
    evidence: str,
    numbers: np.ndarray,
    batch_size: int,
) -> Iterator[tuple[EpisodePart, dict[str, np.ndarray], Truths, dict[str, tuple[Baseline, Any]]]]:
    """Of every batch: its part, numbers of its episodes, truths, and what baselines answer."""
    inside = tuple(one for one in baselines if isinstance(one, ClosedForm))
    for part, some, episodes in suite.batches(batch_size=batch_size, numbers=numbers):
        count, rows = len(some), min(batch_size, part.episodes)
        if count < rows:  # so that each part has one program
            place = np.resize(np.arange(count), rows)
            episodes = jax.tree.map(lambda leaf, place=place: leaf[place], episodes)
        truths, questions = _questions(episodes, evidence)
        found: dict[str, Estimate] = {}
        for asks, structure in ((False, ""), (True, part.structure)):
            some_of = tuple(one for one in inside if (one.fits is not everywhere) == asks)
            found |= _program(questions, episodes, some_of, structure)
        cut = functools.partial(jax.tree.map, lambda leaf, count=count: np.asarray(leaf)[:count])
        answers: dict[str, tuple[Baseline, Any]] = {
            one.name: (one, cut(found[one.name])) for one in inside
        }
        for one in baselines:
            if one not in inside:
                answers[one.name] = one, one.estimate_many(cut(questions), part.structure)
        episodes = cut(episodes)
        about = {
            "episode": np.asarray(some),
            "tier": part.tiers(episodes),
            "regimes": np.asarray(episodes.scm.regimes),
        }
        yield part, about, cut(truths), answers


@functools.partial(jax.jit, static_argnames=("evidence",))
def _questions(episodes: Episode, evidence: str) -> tuple[Truths, Question]:
    return jax.vmap(lambda one: (truths_of(one), question_of(one, evidence)))(episodes)


@functools.partial(jax.jit, static_argnames=("baselines", "structure"))
def _program(
    questions: Question, episodes: Episode, baselines: tuple[ClosedForm, ...], structure: str
) -> dict[str, Estimate]:
    """Estimates of several baselines, compiled once a shape and structure.

    Those that ask for no structure are called without one, so that structures of one size share
    their program.
    """

    def one(question: Question, episode: Episode) -> dict[str, Estimate]:
        return {
            baseline.name: baseline.estimate(question, structure, episode=episode)
            for baseline in baselines
        }

    return jax.vmap(one)(questions, episodes)


class _Keeper:
    """Collects what was estimated, and writes it now and then."""

    def __init__(
        self,
        suite: EpisodeSuite,
        folder: Path,
        evidence: str,
        earlier: Mapping[str, Estimates | None],
    ):
        self._suite, self._folder, self._evidence = suite, folder, evidence
        self._kept = {name: one for name, one in earlier.items() if one is not None}
        self._new: dict[str, list[pa.Table]] = {}
        self._about: dict[str, dict[str, Any]] = {}
        self._saved = time.monotonic()

    def add(
        self,
        part: EpisodePart,
        about: Mapping[str, np.ndarray],
        truths: Truths,
        answers: Mapping[str, tuple[Baseline, Estimate]],
    ) -> None:
        """A batch of them."""
        offsets = np.asarray(part.prior.query.offsets)
        count, queries = len(about["episode"]), len(offsets)
        columns: dict[str, Any] = {
            name: np.repeat(values, queries).astype(COLUMNS.field(name).type.to_pandas_dtype())
            for name, values in about.items()
        }
        columns["part"] = pa.array([part.name]).take(np.zeros(count * queries, np.int32))
        columns["structure"] = pa.array([part.structure]).take(np.zeros(count * queries, np.int32))
        columns["offset"] = np.tile(offsets, count).astype(np.int32)
        for name in ("factual", "counterfactual", "interventional"):
            columns[name] = np.asarray(getattr(truths, name), np.float32).ravel()
        for name, (baseline, found) in answers.items():
            for rung in RUNGS:
                columns[f"estimated_{rung}"] = np.asarray(found.value_of(rung), np.float32).ravel()
            columns["estimated_effect"] = np.asarray(found.effect, np.float32).ravel()
            table = pa.table({field: columns[field] for field in COLUMNS.names}, schema=COLUMNS)
            self._new.setdefault(name, []).append(table)
            self._about[name] = about_of(baseline, self._suite)
        if time.monotonic() - self._saved > _SAVE_SECONDS:
            self.save()

    def save(self) -> None:
        """Write what is new."""
        for name, tables in self._new.items():
            known = self._kept.get(name)
            table = joined([*([] if known is None else [known.table]), *tables])
            one = Estimates(self._suite.version, self._evidence, name, self._about[name], table)
            write(self._folder, one, self._suite)
            self._kept[name] = one
        self._new = {}
        self._saved = time.monotonic()

    def kept(self, baseline: Baseline) -> Estimates:
        """All there is of a baseline."""
        return self._kept[baseline.name]


def about_of(baseline: Baseline, suite: EpisodeSuite) -> dict[str, Any]:
    """What is said of a baseline beside its numbers: JSON values."""
    structures = list(dict.fromkeys(part.structure for part in suite.parts))
    trained = declared_of(baseline.name) if baseline.name in FORECASTERS else "nothing"
    return {
        "label": baseline.label,
        "trained_on": getattr(baseline, "trained_on", trained),
        "settings": dict(getattr(baseline, "settings", {})),
        "fits": [name for name in structures if baseline.applies(name)],
    }
