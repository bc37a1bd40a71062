"""Targets: as their tables stand in a file, and with what other tables say of them.

References:
    whatif-v1.md §3-§4, §6.
"""

import re
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Annotated

from pydantic import Field

from .effects import Primary, Secondary
from .entry import Fault, Sourced
from .errors import one_of
from .fields import Flag, FrozenMapping, Name, Number, Text, Texts, float32
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
    pool: tuple[Number, ...] | None = None
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
    table: TargetTable,
    class_: TargetClass,
    covariates: Sequence[Covariate],
    pools: Pools,
    faults: list[Fault],
) -> Target:
    """The target that a table, its class and the system's pools describe; faults are added."""
    order = [covariate.name for covariate in covariates]
    primary = table.primary.covariate
    if primary not in order:
        faults.append(Fault(("primary", "covariate"), primary, one_of(order, primary)))
    found: dict[str, Secondary] = {}
    for index, effect in enumerate(class_.secondary):
        for name in _taken(effect, f"secondary[{index}]", table, covariates, faults):
            if name != primary and name not in found:
                found[name] = effect.on(name)
    letters = {"pool": pools.provenance["values"], "up_only": pools.provenance["up_only"]}
    changes = {
        "class_": class_,
        "secondaries": tuple(found[name] for name in order if name in found),
        "pool": pools.values if table.pool is None else table.pool,
        "up_only": pools.up_only if table.up_only is None else table.up_only,
        "provenance": FrozenMapping({**letters, **table.provenance}),
    }
    target = Target.model_construct(**{**dict(table), **changes})
    faults += _pool_faults(target, "pools.values" if table.pool is None else "pool")
    return target


def _taken(
    effect: Secondary,
    place: str,
    table: TargetTable,
    covariates: Sequence[Covariate],
    faults: list[Fault],
) -> list[str]:
    """Names of the covariates that an effect takes for a target, in its class at that place."""
    order = [covariate.name for covariate in covariates]
    if effect.covariates is not None:
        names = []
        for pattern in effect.covariates:
            words = set(re.findall(r"\{(.*?)\}", pattern))
            name = re.sub(r"\{(.*?)\}", lambda word: table.where.get(word[1], ""), pattern)
            if not words <= table.where.keys():
                expected = f"a value in this target's where table for each {{...}} of {pattern!r}"
                faults.append(Fault(("where",), table.where, expected))
            elif name not in order:
                field = f"{place}.covariates (from its class)"
                faults.append(Fault((field,), name, one_of(order, name)))
            else:
                names.append(name)
        return names
    if effect.group is None:
        return order
    names = [covariate.name for covariate in covariates if effect.group in covariate.groups]
    if not names:
        groups = sorted({group for covariate in covariates for group in covariate.groups})
        expected = f"a group that a covariate is in: {one_of(groups, effect.group)}"
        faults.append(Fault((f"{place}.group (from its class)",), effect.group, expected))
    return names


def _pool_faults(target: Target, field: str) -> Iterator[Fault]:
    """Every event must find a value to draw for each covariate of the target.

    A direct covariate draws above 1 when the target is to rise and below 1 when it is to fall, an
    inverse one the reverse.
    """
    pool = [float32(value) for value in target.pool]
    if not pool or min(pool) <= 0 or 1 in pool or len(set(pool)) < len(pool):
        yield Fault((field,), list(target.pool), "different factors above 0, none of them 1")
        return
    directions = sorted(set(target.directions()))
    if target.up_only:
        reason = f"an up-only target with {' and '.join(directions)} covariates"
    else:
        reason = "a target that events move both ways (or set up_only = true)"
    lacking = []
    if max(pool) < 1 and ("direct" in directions or not target.up_only):
        lacking.append("above 1")
    if min(pool) > 1 and ("inverse" in directions or not target.up_only):
        lacking.append("below 1")
    if lacking:
        expected = f"at least one value {' and one '.join(lacking)}, for {reason}"
        yield Fault((field,), list(target.pool), expected)
