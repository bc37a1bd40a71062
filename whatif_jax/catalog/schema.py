"""The catalog's objects: a system, its targets, covariates and responses (whatif-v1.md §1-§5).

All are frozen, and provenance is data: every constant's origin is found under the constant's own
name in the ``provenance`` of the object that holds it. The values are keys of the system's
``legend`` ("P" is printed in the paper, "R" is reconstructed).
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

from .errors import CatalogError, Problem, one_of

__all__ = [
    "Axes",
    "ContextPair",
    "Covariate",
    "FrozenMapping",
    "Primary",
    "Response",
    "Rule",
    "Secondary",
    "Setting",
    "System",
    "Target",
    "TargetClass",
]

Value = TypeVar("Value")


class FrozenMapping(Mapping[str, Value]):
    """A mapping that cannot change, so that what holds it can be hashed and pickled."""

    __slots__ = ("_items",)

    def __init__(self, items: Mapping[str, Value] | None = None) -> None:
        self._items: dict[str, Value] = dict(items or {})

    def __getitem__(self, key: str) -> Value:
        return self._items[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._items)

    def __len__(self) -> int:
        return len(self._items)

    def __hash__(self) -> int:
        return hash(frozenset(self._items.items()))

    def __repr__(self) -> str:
        return repr(self._items)

    def __reduce__(self) -> tuple[Any, ...]:
        return FrozenMapping, (self._items,)


@dataclass(frozen=True)
class Response:
    """A form of ``whatif_jax.catalog.forms`` with all its constants (defaults filled in).

    ``acts`` is "always", "below" (only where f < 1) or "above" (only where f > 1). ``provenance``
    has the key "form", "acts" where it is not "always", and one key a constant.
    """

    form: str
    constants: Mapping[str, float]
    acts: str
    provenance: Mapping[str, str]


@dataclass(frozen=True)
class Covariate:
    """What an event sets: base value in its unit, and its factor's shape (whatif-v1.md §2, §4)."""

    name: str
    base: float
    unit: str
    shape: str
    groups: tuple[str, ...]
    provenance: Mapping[str, str]
    note: str = ""


@dataclass(frozen=True)
class Primary:
    """The covariate a target follows, and how (whatif-v1.md §3, first table)."""

    covariate: str
    response: Response
    direction: str
    provenance: Mapping[str, str]
    note: str = ""


@dataclass(frozen=True)
class Secondary:
    """One further covariate's effect on a target (whatif-v1.md §3, second table).

    Multiply class: a factor max(floor, 1 + s*weight*(r(f)/r(1) - 1)). Add class: adds
    s*weight*(r(f)/r(1) - 1), times the mean of |y| where ``offset_scale`` is "mean", and in
    the target's unit where it is "target". In a multiply class ``offset_scale`` is "none".
    """

    covariate: str
    weight: float
    response: Response
    direction: str
    offset_scale: str
    provenance: Mapping[str, str]
    note: str = ""


@dataclass(frozen=True)
class Rule:
    """One line of a class's table of secondary effects, before it is resolved for a target.

    ``selector`` says which covariates it takes and ``weight`` is a number or a rule, as text.
    """

    selector: str
    weight: str
    response: Response
    direction: str
    offset_scale: str
    provenance: Mapping[str, str]
    note: str = ""


@dataclass(frozen=True)
class TargetClass:
    """How effects of several covariates join (whatif-v1.md §3): combine is "multiply" or "add"."""

    name: str
    combine: str
    damping: float
    floor: float
    clip: tuple[float, float] | None
    provenance: Mapping[str, str]
    description: str = ""
    rules: tuple[Rule, ...] = ()


@dataclass(frozen=True)
class Target:
    """A target with everything resolved for it.

    ``secondaries`` stand in the system's covariate order without the primary's covariate.
    ``constant``: the baseline never changes, so the target gives no task (whatif-v1.md §6).
    ``partial``: the frozen suite keeps only its tasks of at most two events (whatif-v1.md §6).
    """

    name: str
    unit: str
    class_: TargetClass
    primary: Primary
    secondaries: tuple[Secondary, ...]
    pool: tuple[float, ...]
    up_only: bool
    constant: bool
    partial: bool
    provenance: Mapping[str, str]
    note: str = ""

    @cached_property
    def covariates(self) -> tuple[str, ...]:
        """The primary covariate, then every other that has a response, in the system's order."""
        return (self.primary.covariate, *(other.covariate for other in self.secondaries))

    def directions(self, k: int | None = None) -> tuple[str, ...]:
        """Directions of the first ``k`` of :attr:`covariates` (all if None)."""
        found = (self.primary.direction, *(other.direction for other in self.secondaries))
        return found[:k]


@dataclass(frozen=True)
class ContextPair:
    """A context and horizon length in steps (whatif-v1.md §5).

    ``most_events_longest`` is "most" at the longest event length, where the context grows to hold
    them; None leaves it to the rule that serves the other lengths.
    """

    name: str
    context: int
    horizon: int
    fewest_events: int
    most_events_longest: int | None = None
    provenance: Mapping[str, str] = FrozenMapping()


@dataclass(frozen=True)
class Axes:
    """What the tasks of a target vary over, and the layout of a history (whatif-v1.md §5)."""

    k: tuple[int, ...]
    event_lengths: tuple[int, ...]
    contexts: tuple[ContextPair, ...]
    gap: int
    prefix: float
    end_buffer: float
    provenance: Mapping[str, str]


@dataclass(frozen=True)
class Setting:
    """One fact of the system's base setting, and where it comes from."""

    text: str
    provenance: str


@dataclass(frozen=True, eq=False)
class System:
    """A whole system as its file describes it (whatif-v1.md §2). Equal only to itself."""

    name: str
    title: str
    description: str
    step_seconds: float
    steps: int
    requires_flow: bool
    targets: tuple[Target, ...]
    covariates: tuple[Covariate, ...]
    classes: tuple[TargetClass, ...]
    axes: Axes
    pool: tuple[float, ...]
    up_only: bool
    pool_provenance: Mapping[str, str]
    baseline: Path
    source: Path
    attribution: str
    settings: tuple[Setting, ...]
    legend: Mapping[str, str]
    provenance: Mapping[str, str]

    @cached_property
    def _targets(self) -> dict[str, Target]:
        return {target.name: target for target in self.targets}

    @cached_property
    def _covariates(self) -> dict[str, int]:
        return {covariate.name: index for index, covariate in enumerate(self.covariates)}

    def target(self, name: str) -> Target:
        """The target of that name; raises CatalogError where there is none."""
        try:
            return self._targets[name]
        except KeyError:
            raise self._unknown("target", name, self._targets) from None

    def covariate(self, name: str) -> Covariate:
        """The covariate of that name; raises CatalogError where there is none."""
        return self.covariates[self.covariate_index(name)]

    def covariate_index(self, name: str) -> int:
        """Place of the covariate in the system's order, from 0."""
        try:
            return self._covariates[name]
        except KeyError:
            raise self._unknown("covariate", name, self._covariates) from None

    def covariates_for(self, target_name: str, k: int) -> tuple[str, ...]:
        """The primary and the first ``k - 1`` others that have a response (whatif-v1.md §4)."""
        names = self.target(target_name).covariates
        if not 1 <= k <= len(names):
            expected = f"a whole number from 1 to {len(names)} (covariates with a response)"
            raise CatalogError(
                [Problem(self.source.name, f"target {target_name!r}", "k", k, expected)]
            )
        return names[:k]

    def _unknown(self, kind: str, name: str, known: Mapping[str, object]) -> CatalogError:
        entry = f"system {self.name!r}"
        return CatalogError([Problem(self.source.name, entry, kind, name, one_of(known, name))])
