"""Targets: as their tables stand in a file, and with what other tables say of them.

References:
    whatif-v1.md §3-§4, §6.
"""

from collections.abc import Sequence
from functools import cached_property
from typing import Annotated

from pydantic import Field

from .effects import Primary, Secondary, taken
from .entry import Sourced
from .fields import Factors, Flag, FrozenMapping, Name, Text, Texts
from .schema import Covariate, Pools, TargetClass

__all__ = ["Target", "TargetTable", "resolve_target"]


class TargetTable(Sourced):
    """A series of the baseline, which tasks forecast."""

    optional_sources = ("pool", "up_only")

    name: Name
    """A string without "/", "{" and "}": its name, and that of its column in the baseline."""
    unit: Text
    """A string: the unit of its values, "1" for a plain number."""
    class_name: Annotated[Text, Field(alias="class")]
    """A string: the name of its class."""
    where: Texts = Field(default_factory=lambda: FrozenMapping({}))
    """A table: what each {word} stands for in the `covariates` of its class's effects."""
    primary: Primary
    """Exactly one primary: a table of the covariate it follows, with direction and form."""
    pool: Factors | None = None
    """Factors of its own instead of those in `pools`."""
    up_only: Flag | None = None
    """Whether events only raise it; as in `pools` by default."""
    constant: Flag = False
    """true: its baseline never changes, so it gives no task."""
    partial: Flag = False
    """true: the frozen suite keeps only its tasks of at most two events."""
    note: str = ""
    """A remark to print beside it."""


class Target(TargetTable):
    """A target with its class, its secondary effects in the covariates' order, and its pool."""

    class_: TargetClass
    secondaries: tuple[Secondary, ...]
    pool: tuple[float, ...]
    up_only: bool

    @cached_property
    def covariates(self) -> tuple[str, ...]:
        """The primary covariate, then every other that has a response, in the system's order."""
        return (self.primary.covariate, *(other.covariate for other in self.secondaries))

    def directions(self) -> tuple[str, ...]:
        """The direction of each of :attr:`covariates`."""
        return (self.primary.direction, *(other.direction for other in self.secondaries))


def resolve_target(
    table: TargetTable, class_: TargetClass, covariates: Sequence[Covariate], pools: Pools
) -> Target:
    """The target that a table, its class and the system's pools describe."""
    groups = {covariate.name: covariate.groups for covariate in covariates}
    found: dict[str, Secondary] = {}
    for effect in class_.secondary:
        for name in taken(effect.covariates, effect.group, table.where, groups):
            if name != table.primary.covariate and name not in found:
                found[name] = effect.on(name)
    letters = {"pool": pools.provenance["values"], "up_only": pools.provenance["up_only"]}
    changes = {
        "class_": class_,
        "secondaries": tuple(found[name] for name in groups if name in found),
        "pool": pools.values if table.pool is None else table.pool,
        "up_only": pools.up_only if table.up_only is None else table.up_only,
        "provenance": FrozenMapping({**letters, **table.provenance}),
    }
    return Target.model_construct(**{**dict(table), **changes})
