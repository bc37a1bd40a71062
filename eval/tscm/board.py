"""What a report is of: suites, estimates on them, and their scores."""

import dataclasses
from collections.abc import Mapping, Sequence

import numpy as np
from jaxtyping import PRNGKeyArray

from whatif_jax.tscm import EpisodeSuite

from ..report.models import ReportError
from .cases import CASES
from .methods import baselines
from .results import Estimates
from .statistics import ALL, Group, Scored, statistics

__all__ = ["PRIOR", "Board", "board_of", "mode_of"]

PRIOR = "prior"  # the mode of intervention values that suites have unless asked otherwise


def mode_of(suite: EpisodeSuite) -> str:
    """Where the values of a suite's interventions come from."""
    return suite.version.partition("+")[2] or PRIOR


@dataclasses.dataclass(frozen=True)
class Board:
    """Scores by suite.

    Attributes:
        suites: by label.
        estimates: by label, then by name of the baseline.
        scored: the same, then by group.
        order: names of all baselines, as tables have them.
        resamples: of the bootstrap.
    """

    suites: Mapping[str, EpisodeSuite]
    estimates: Mapping[str, Mapping[str, Estimates]]
    scored: Mapping[str, Mapping[str, Mapping[Group, Scored]]]
    order: Sequence[str]
    resamples: int

    @property
    def plain(self) -> list[str]:
        """Labels of the suites as they are, without variants."""
        return [label for label, suite in self.suites.items() if mode_of(suite) == PRIOR]

    @property
    def columns(self) -> list[str]:
        """Labels of the suites of the reference table: those that are no cases of checks."""
        return [label for label in self.plain if self.suites[label].name not in CASES]

    def variants(self, name: str) -> dict[str, str]:
        """Labels of a suite and of its variants, by mode of values."""
        same = {label: suite for label, suite in self.suites.items() if suite.name == name}
        return {mode_of(suite): label for label, suite in same.items()}

    def label(self, name: str) -> str:
        """The label of a suite by its name; "" where there are no results of it."""
        return self.variants(name).get(PRIOR, "")

    def get(self, label: str, model: str, group: Group = ALL) -> Scored | None:
        """Scores of a baseline on part of a suite; None where there are none."""
        return self.scored.get(label, {}).get(model, {}).get(group)

    def array(self, label: str, model: str, metric: str, group: Group = ALL) -> np.ndarray | None:
        """One score [1 + R], as `get`."""
        found = self.get(label, model, group)
        return None if found is None else found.scores[metric]

    def of(self, label: str) -> list[str]:
        """Names of the baselines with results on a suite, in order."""
        return [name for name in self.order if name in self.scored.get(label, {})]

    def groups(self, label: str, axis: str) -> list[Group]:
        """Groups of a suite along an axis, numbers ascending, names in the suite's order."""
        groups = {group: None for name in self.of(label) for group in self.scored[label][name]}
        named = {part.name: place for place, part in enumerate(self.suites[label].parts)}
        found = [group for group in groups if group[0] == axis]
        return sorted(found, key=lambda group: (named.get(str(group[1]), 0), group[1]))


def board_of(
    estimates: Sequence[Estimates],
    suites: Sequence[EpisodeSuite],
    *,
    key: PRNGKeyArray,
    resamples: int = 1000,
) -> Board:
    """Scores of estimates.

    Args:
        estimates: on some of the suites.
        suites: in the order of the report.
        key: of the bootstrap; each suite has the same.
        resamples: of the bootstrap.

    Raises:
        ReportError: there are none.
    """
    if not estimates:
        raise ReportError("results: none on these suites; expected some of `python -m eval tscm`")
    by_suite = {
        suite.version: {one.name: one for one in estimates if one.suite == suite.version}
        for suite in suites
    }
    by_suite = {label: some for label, some in by_suite.items() if some}
    places = {name: place for place, name in enumerate(baselines())}
    known = {one.name: one for one in estimates}
    order = sorted(
        known,
        key=lambda name: (
            known[name].evidence != "before",
            places.get(known[name].baseline, len(places)),
            name,
        ),
    )
    return Board(
        {suite.version: suite for suite in suites if suite.version in by_suite},
        by_suite,
        {
            label: statistics(some.values(), key=key, resamples=resamples)
            for label, some in by_suite.items()
        },
        order,
        resamples,
    )
