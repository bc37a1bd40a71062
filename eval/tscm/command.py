"""What `python -m eval tscm` does."""

import importlib
import re
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from whatif_jax import root_key
from whatif_jax.catalog.errors import one_of
from whatif_jax.files import HeldFolder, explained
from whatif_jax.tscm import EpisodeSuite, episode_suites, load_episode_suite
from whatif_jax.tscm.names import VALUES

from ..run_files import ResultsError
from .baseline import Baseline, ClosedForm
from .board import Board, board_of
from .cases import CASES, METHODS, case_suites
from .methods import baselines
from .question import EVIDENCE
from .report import write_page
from .results import load_estimates
from .run import score_suite

__all__ = ["ALL_SUITES", "chosen_baselines", "chosen_suites", "run_and_report"]

ALL_SUITES = "all"
CHRONOS = "chronos-2"
WITH_VALUES = "identifiability"  # the suite whose variants by value are run if none are asked for


class _Held(HeldFolder):
    """The results, held: of two processes that add to them the later one would drop the other's."""

    error = ResultsError
    what = "out"
    holder = "another `python -m eval tscm`"

    def open(self) -> None:
        """A place that cannot be written is refused before hours of work, not behind them."""
        with explained(self.error, self.what, self.path):
            tempfile.TemporaryFile(dir=self.path).close()


def chosen_suites(name: str, values: Sequence[str] = ()) -> list[EpisodeSuite]:
    """Suites of a name, "all" for every one, in variants by where values come from.

    Episodes that checks need, `case_suites()`, come with the suite of structures.

    Args:
        name: of `episode_suites()`, or "all".
        values: of `names.VALUES`; empty for all of them with the suite of structures, and the
            prior's alone with others.

    Raises:
        ValueError: an unknown suite or mode.
    """
    names = episode_suites()
    if name not in (*names, ALL_SUITES):
        raise ValueError(f"suite: {name!r}; expected {one_of((*names, ALL_SUITES), name)}")
    found: dict[str, EpisodeSuite] = {}
    for one in names if name == ALL_SUITES else (name,):
        modes = values or (VALUES if one == WITH_VALUES else VALUES[:1])
        for mode in modes:
            suite = load_episode_suite(one, values=mode)
            found[suite.version] = suite
        if one == WITH_VALUES:
            found |= {suite.version: suite for suite in case_suites()}
    return list(found.values())


def chosen_baselines(
    names: Sequence[str] = (), settings: Mapping[str, Any] | None = None
) -> list[Baseline]:
    """Baselines by name; all that are closed forms where none is named.

    Args:
        names: of `baselines()`, or MODULE:FACTORY of one's own: a function of nothing that returns
            a `Baseline`, such as a `ClosedForm`.
        settings: of Chronos-2's forecaster, such as `model` and `device`.

    Raises:
        ValueError: an unknown name, a factory that makes no baseline or one whose name is taken,
            or settings that no baseline takes.
    """
    known = baselines(settings)
    own = {name: _own(name, tuple(known)) for name in names if ":" in name}
    known |= own
    for name in names:
        if name not in known:
            raise ValueError(f"baselines: {name!r}; expected {one_of(tuple(known), name)}")
    if settings and CHRONOS not in names:
        raise ValueError(f"--set: {dict(settings)}; expected {CHRONOS} among --baselines")
    if names:
        return [known[name] for name in dict.fromkeys(names)]
    return [one for one in known.values() if isinstance(one, ClosedForm)]


def _own(name: str, taken: Sequence[str]) -> Baseline:
    """A baseline of one's own, by MODULE:FACTORY."""
    module, _, attribute = name.partition(":")
    try:
        made = getattr(importlib.import_module(module), attribute)()
    except (ImportError, AttributeError, TypeError, ValueError) as error:
        raise ValueError(f"baselines: {name!r}; expected MODULE:FACTORY ({error})") from error
    faces = ("name", "label", "applies", "estimate_many")
    if not all(hasattr(made, face) for face in faces):
        raise ValueError(
            f"baselines: {name!r} returned {type(made).__name__}; expected a baseline with "
            f"{', '.join(faces)}, such as eval.tscm.ClosedForm"
        )
    if made.name in taken or not re.fullmatch(r"[\w.-]+", made.name):
        raise ValueError(
            f"baselines: the name {made.name!r} of {name!r}; expected letters, digits, '-', '_' "
            f"and '.', and none of {', '.join(taken)}"
        )
    found: Baseline = made
    return found


def run_and_report(
    suites: Sequence[EpisodeSuite],
    methods: Sequence[Baseline],
    out: Path,
    *,
    evidence: str = "before",
    sample: int | None = None,
    resamples: int = 1000,
    progress: bool = False,
    say: Callable[[str], object] = lambda _: None,
) -> tuple[Board, Path]:
    """Estimate, score, and write the page of all that the folder holds on these suites.

    Args:
        suites: of `chosen_suites`.
        methods: of `chosen_baselines`.
        out: folder: results in `results/`, the page beside it.
        evidence: what the baselines may read.
        sample: episodes of each suite, at most; None for all.
        resamples: of the bootstrap.
        progress: whether to show it on standard error.
        say: called with what is being done.

    Returns:
        scores, and the path of the page.

    Raises:
        ValueError: an unknown evidence, or a sample that a suite does not have.
        ResultsError: as `score_suite`, or the folder is in use by another process.
    """
    if evidence not in EVIDENCE:
        raise ValueError(f"evidence: {evidence!r}; expected {one_of(EVIDENCE, evidence)}")
    folder = out / "results"
    numbers = [
        None if sample is None or sample >= suite.episodes else suite.sample(sample)
        for suite in suites
    ]
    with _Held(folder) as held:
        for suite, some in zip(suites, numbers, strict=True):
            chosen = methods
            if suite.name in CASES:
                chosen = [one for one in methods if one.name in METHODS]
            score_suite(suite, chosen, folder, evidence=evidence, numbers=some, progress=progress)
        held.complete = True
    say("scores")
    found = load_estimates(
        folder, suites, lambda path: say(f"left out, as other code made it: {path}")
    )
    board = board_of(found, suites, key=root_key(0), resamples=resamples)
    say("page")
    return board, write_page(board, out)
