"""A whole system: the table that a file is, its targets resolved.

References:
    whatif-v1.md §1-§6.
"""

import math
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, ValidationInfo, field_validator

from .effects import Primary
from .entry import Fault, Legend, Sourced, Table, listed, merged, names_of, refusal, repeated
from .errors import CatalogError, Problem, one_of
from .fields import Count, Flag, FrozenMapping, Name, NotEmpty, Positive, Text, Texts, must
from .schema import Axes, Covariate, Defaults, Pools, Setting, TargetClass
from .targets import Target, TargetTable, resolve_target

__all__ = ["System", "SystemTable", "resolve_system"]


class SystemTable(Sourced):
    """A system: a baseline, its targets and covariates, their responses, what tasks vary over."""

    sources = ("step_seconds", "steps", "requires_flow")

    format_version: Literal[1]
    """The version of this format: 1."""
    name: Name
    """A string without "/", "{" and "}": its name."""
    title: Text = Field(default_factory=lambda system: system.get("name"))
    """Its name as readers see it; by default its `name`."""
    description: str = ""
    """What it is, in a sentence."""
    attribution: str = ""
    """Whose work the baseline comes from."""
    step_seconds: Positive
    """A number above 0: the length of a step, in seconds."""
    steps: Count
    """A whole number: the steps of the baseline, which are the rows of its parquet."""
    requires_flow: Flag = False
    """true: a past event fails where the baseline is near 0, as in pipes that a pump can stop."""
    baseline: Annotated[Path, must("the path of a file", lambda path: path.name)]
    """The path, from this file, of a parquet with a float32 column a target, without gaps."""
    legend: Texts = Field(default_factory=lambda: FrozenMapping({}))
    """A table of letters for the origin of constants, with their meanings; "own" by default."""
    default_provenance: Text | None = None
    """The letter of all that no `provenance` names; "own" where there is no `legend`."""
    settings: tuple[Setting, ...] = ()
    """A list of tables: facts of the system's base setting."""
    covariate_defaults: Defaults | None = None
    """A table: fields that the covariates may leave out."""
    covariates: tuple[Covariate, ...]
    """A list of tables: what events set, in the order in which tasks take them."""
    classes: tuple[TargetClass, ...]
    """A list of tables: how effects of several covariates join."""
    pools: Pools
    """A table: the factors that past events draw from."""
    axes: Axes
    """A table: what tasks vary over, and the layout of a history."""
    targets: Annotated[tuple[TargetTable, ...], NotEmpty]
    """A list of tables: the series of the baseline, which tasks forecast."""

    @classmethod
    def prepared(cls, table: Table, legend: Legend, faults: list[Fault]) -> Table:
        """Defaults go into covariates and primaries; names are each one's own, and known."""
        for field in ("covariates", "classes", "targets"):
            faults += repeated(table, field)
        if isinstance(table.get("classes"), list):
            faults += _class_faults(table)
        defaults = table.get("covariate_defaults", {})
        classes = {name: each for each in listed(table, "classes") for name in names_of(each)}
        put_in = {
            "covariates": [merged(defaults, each) for each in listed(table, "covariates")],
            "targets": [_with_primary(each, classes) for each in listed(table, "targets")],
            "legend": legend.meanings if table.get("legend", {}) == {} else None,
        }
        filled = {name: value for name, value in put_in.items() if value}
        return super().prepared({**table, **filled}, legend, faults)

    @field_validator("default_provenance")
    @classmethod
    def _in_the_legend(cls, letter: str, info: ValidationInfo) -> str:
        legend = info.data.get("legend", {letter: ""})
        if letter not in legend:
            raise ValueError(one_of(legend, letter))
        return letter

    @field_validator("classes")
    @classmethod
    def _one_a_name(cls, classes: tuple[TargetClass, ...]) -> tuple[TargetClass, ...]:
        return tuple(one for each in classes for one in each.each())


class System(SystemTable):
    """A system whose targets are resolved, and whose files are known. Equal only to itself."""

    source: Path
    targets: tuple[Target, ...]

    __eq__ = object.__eq__
    __hash__ = object.__hash__

    def target(self, name: str) -> Target:
        """The target of that name; raises CatalogError where there is none."""
        return self.targets[self._index("target", [each.name for each in self.targets], name)]

    def covariate(self, name: str) -> Covariate:
        """The covariate of that name; raises CatalogError where there is none."""
        return self.covariates[self.covariate_index(name)]

    def covariate_index(self, name: str) -> int:
        """Place of the covariate in the system's order, from 0."""
        return self._index("covariate", [each.name for each in self.covariates], name)

    def _index(self, kind: str, names: list[str], name: str) -> int:
        if name not in names:
            entry, expected = f"system {self.name!r}", one_of(names, name)
            raise CatalogError([Problem(self.source.name, entry, kind, name, expected)])
        return names.index(name)


def resolve_system(table: SystemTable, source: Path) -> System:
    """The system of a table that was read from a file.

    Raises:
        ValidationError: with the faults of what the table says in several places.
    """
    classes = {each.name: each for each in table.classes}
    found: dict[tuple[object, ...], Fault] = {}  # what is a class's or the pools', only once
    targets = []
    for index, target in enumerate(table.targets):
        faults: list[Fault] = []
        class_ = classes[target.class_name]
        targets.append(resolve_target(target, class_, table.covariates, table.pools, faults))
        for fault in faults:
            place = index if "primary" in fault.path else fault.path
            path = ("targets", index, *fault.path)
            found.setdefault((place, repr(fault.value)), fault._replace(path=path))
    if found:
        raise refusal(list(found.values()))
    changes = {
        "targets": tuple(targets),
        "source": source.absolute(),
        "baseline": Path(os.path.normpath(source.absolute().parent / table.baseline)),
    }
    system = System.model_construct(**{**dict(table), **changes})
    if faults := list(_axes_faults(system)):
        raise refusal(faults)
    return system


def _class_faults(table: Table) -> Iterator[Fault]:
    """Every target is of a class that is there, and every class is some target's."""
    classes = [
        (index, name)
        for index, each in enumerate(listed(table, "classes"))
        for name in names_of(each)
    ]
    names = [name for _, name in classes]
    targets = listed(table, "targets")
    used = [each.get("class") for each in targets if isinstance(each, dict)]
    for index, target in enumerate(targets):
        name = target.get("class") if isinstance(target, dict) else None
        if isinstance(name, str) and name not in names:
            yield Fault(("targets", index, "class"), name, one_of(names, name))
    for index, name in classes:
        if used and name not in used and all(each in names for each in used):
            yield Fault(("classes", index, "name"), name, "a class that at least one target is of")


def _with_primary(target: object, classes: Mapping[str, object]) -> object:
    """The target, with what its class says of the primary; where it has none that is not read."""
    if not isinstance(target, dict) or "primary" not in target:
        return target
    name, primary = target.get("class"), target["primary"]
    if isinstance(primary, list) and len(primary) == 1:
        (primary,) = primary
    class_ = classes.get(name) if isinstance(name, str) else None
    if isinstance(class_, dict):
        primary = merged(class_.get("primary_defaults", {}), primary)
    else:
        primary = Primary.model_construct()
    return {**target, "primary": primary}


def _axes_faults(system: System) -> Iterator[Fault]:
    axes = system.axes
    for target in system.targets:
        most = len(target.covariates)
        if max(axes.k) > most:
            expected = f"at most {most}, the covariates of target {target.name!r} with a response"
            yield Fault(("axes", "k"), list(axes.k), expected)
            break
    free = 1.0 - axes.prefix - axes.end_buffer
    if free <= 0:
        shares = [axes.prefix, axes.end_buffer]
        expected = "two shares that leave room for events"
        yield Fault(("axes", "prefix and end_buffer"), shares, expected)
        return
    length = max(axes.event_lengths)
    for index, pair in enumerate(axes.contexts):
        events = max(pair.fewest_events, pair.most_events_longest or 0)
        context = max(pair.context, math.ceil(events * (length + axes.gap) / free))
        if context + pair.horizon > system.steps:
            expected = (
                f"context + horizon within the {system.steps} steps of the baseline (here "
                f"{context} + {pair.horizon}, with {events} events of length {length})"
            )
            yield Fault(("axes", "contexts", index, "context"), pair.context, expected)
