"""A whole system: the table that a file is, its targets resolved.

References:
    whatif-v1.md §1-§6.
"""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, ValidationInfo, field_validator

from .consistency import axes_faults, known_names, pool_faults, reference_faults
from .entry import Fault, Legend, Sourced, Table, listed, merged, names_of, repeated
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
        defaults = table.get("covariate_defaults", {})
        classes = {name: each for each in listed(table, "classes") for name in names_of(each)}
        put_in = {
            "covariates": [merged(defaults, each) for each in listed(table, "covariates")],
            "targets": [_with_primary(each, classes) for each in listed(table, "targets")],
            "legend": legend.meanings if table.get("legend", {}) == {} else None,
        }
        filled = {name: value for name, value in put_in.items() if value}
        table = {**table, **filled}
        faults += [*reference_faults(table), *pool_faults(table), *axes_faults(table)]
        return super().prepared(table, legend, faults)

    @classmethod
    def consequent(cls, table: Table, path: tuple[str | int, ...]) -> bool:
        """What a primary leaves out its class may say, where that is not known."""
        match path:
            case ("targets", int(index), "primary", _, *_):
                target = listed(table, "targets")[index]
                name = target.get("class") if isinstance(target, dict) else None
                return name not in (known_names(table, "classes") or ())
        return False

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
    """The system of a table that was read from a file."""
    classes = {each.name: each for each in table.classes}
    targets = [
        resolve_target(target, classes[target.class_name], table.covariates, table.pools)
        for target in table.targets
    ]
    changes = {
        "targets": tuple(targets),
        "source": source.absolute(),
        "baseline": Path(os.path.normpath(source.absolute().parent / table.baseline)),
    }
    return System.model_construct(**{**dict(table), **changes})


def _with_primary(target: object, classes: Mapping[str, object]) -> object:
    """The target, with what its class says of the primary."""
    if not isinstance(target, dict) or "primary" not in target:
        return target
    name, primary = target.get("class"), target["primary"]
    if isinstance(primary, list) and len(primary) == 1:
        (primary,) = primary
    class_ = classes.get(name) if isinstance(name, str) else None
    defaults = class_.get("primary_defaults", {}) if isinstance(class_, dict) else {}
    return {**target, "primary": merged(defaults, primary)}
