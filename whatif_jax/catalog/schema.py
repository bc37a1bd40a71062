"""The tables of a catalog file that mean what is written in them.

All are frozen, and provenance is data: every constant's origin is found under the constant's own
name in the ``provenance`` of the object that holds it, as a letter of the system's ``legend``
("P" is printed in the paper, "R" is reconstructed).

References:
    whatif-v1.md §1-§5.
"""

from collections.abc import Mapping
from typing import Annotated, Literal, Self

from .effects import Secondary
from .entry import Fault, Legend, Sourced, Table, listed, merged, repeated
from .fields import (
    Count,
    Factors,
    Flag,
    Name,
    NotEmpty,
    NotNegative,
    Number,
    Share,
    Text,
    Whole,
    must,
)

__all__ = ["Axes", "ContextPair", "Covariate", "Pools", "Setting", "TargetClass"]


Rising = Annotated[
    tuple[Count, ...],
    NotEmpty,
    must(
        "rising whole numbers, each 1 or more", lambda values: list(values) == sorted(set(values))
    ),
]
Bounds = Annotated[
    tuple[Number, ...],
    must("two numbers, the lower first", lambda pair: len(pair) == 2 and pair[0] < pair[1]),
]
NotZero = Annotated[Number, must("a number other than 0, as factors scale it", bool)]
Defaults = Mapping[str, object]


class Setting(Sourced):
    """One fact of a system's base setting."""

    sources = ("text",)

    text: Text
    """A string: the fact."""


class Covariate(Sourced):
    """What an event sets."""

    sources = ("base", "shape")
    optional_sources = ("groups",)

    name: Name
    """A string without "/", "{" and "}": its name."""
    base: NotZero
    """A number other than 0: its value outside events, in `unit`, which events multiply."""
    unit: Text
    """A string: the unit of its values, "1" for a plain number."""
    shape: Literal["step", "bell", "ramp", "half_sine"]
    """One of "step", "bell", "ramp" and "half_sine": how its factor leaves 1 in an event."""
    groups: tuple[Text, ...] = ()
    """Names of groups by which secondary effects can take it; none by default."""
    note: str = ""
    """A remark to print beside it."""


class TargetClass(Sourced):
    """How effects of several covariates join, and what those beside a primary one do."""

    sources = ("combine", "damping", "floor")
    optional_sources = ("clip",)

    name: Text = ""
    """Its name, which targets give as their `class`."""
    names: tuple[Text, ...] | None = None
    """The names of classes that are alike in all else, instead of `name`."""
    description: str = ""
    """What its targets are."""
    note: str = ""
    """A remark to print beside it."""
    combine: Literal["multiply", "add"]
    """Either "multiply" or "add": how secondary effects join the target."""
    damping: NotNegative = 0.5
    """How much joint effects weaken one another, from 0, not at all; 0.5 by default."""
    floor: Share = 0.05
    """The least factor of an effect in a class that multiplies; 0.05 by default."""
    clip: Bounds | None = None
    """Bounds [lower, upper] of the target, in its unit; none by default."""
    primary_defaults: Defaults | None = None
    """A table: fields that the `primary` of its targets may leave out."""
    secondary_defaults: Defaults | None = None
    """A table: fields that its secondary effects may leave out."""
    secondary: tuple[Secondary, ...] = ()
    """A list of tables: what other covariates do; of several that take one the first counts."""

    @classmethod
    def prepared(cls, table: Table, legend: Legend, faults: list[Fault]) -> Table:
        """Defaults go into the secondary effects; some fields stand in some places only."""
        if ("name" in table) == ("names" in table):
            expected = "either a string that is not empty, or names = [several]"
            faults.append(Fault(("name",), table.get("name"), expected))
        combine, defaults = table.get("combine"), table.get("secondary_defaults", {})
        if combine == "add":
            defaults = merged({"offset_scale": "target"}, defaults)
        effects = [merged(defaults, effect) for effect in listed(table, "secondary")]
        for index, effect in enumerate(effects):
            wrong = {}
            if index + 1 < len(effects):
                wrong["others"] = "the last effect of its class, as it takes all that remain"
            if combine == "multiply":
                wrong["offset_scale"] = "no such field in a class that multiplies"
            for name, expected in wrong.items():
                if isinstance(effect, dict) and name in effect:
                    faults.append(Fault(("secondary", index, name), effect[name], expected))
        changed = {**table, "secondary": effects} if effects else table
        return super().prepared(changed, legend, faults)

    def each(self) -> list[Self]:
        """A class for each name, without the defaults, which have been put in."""
        done = {"names": None, "primary_defaults": None, "secondary_defaults": None}
        names = self.names or (self.name,)
        return [self.model_copy(update={**done, "name": name}) for name in names]


class Pools(Sourced):
    """The factors that past events draw from."""

    sources = ("values", "up_only")

    values: Factors
    """Numbers above 0, not 1: the factors, some above 1 and, unless `up_only`, some below."""
    up_only: Flag = False
    """true: events only raise targets; false (the default): they move them both ways."""


class ContextPair(Sourced):
    """A length of history and future."""

    sources = ("context", "horizon", "fewest_events")
    optional_sources = ("most_events_longest",)

    name: Text
    """A string: its name."""
    context: Count
    """A whole number: steps of the history, more where its events need them."""
    horizon: Count
    """A whole number: steps of the future."""
    fewest_events: Count
    """A whole number: the fewest events of a history."""
    most_events_longest: Count | None = None
    """The most events of the longest length; by default as the rule for other lengths says."""


class Axes(Sourced):
    """What the tasks of a target vary over, and the layout of a history."""

    sources = ("k", "event_lengths", "gap", "prefix", "end_buffer")

    k: Rising
    """Rising whole numbers: of covariates that events move."""
    event_lengths: Rising
    """Rising whole numbers: the lengths of events, in steps."""
    contexts: Annotated[tuple[ContextPair, ...], NotEmpty]
    """A list of tables: lengths of history and future."""
    gap: Whole = 32
    """Steps without an event after each event; 32 by default."""
    prefix: Share = 0.40
    """Share of the history before its first event; 0.40 by default."""
    end_buffer: Share = 0.02
    """Share of the history after its last event; 0.02 by default."""

    @classmethod
    def prepared(cls, table: Table, legend: Legend, faults: list[Fault]) -> Table:
        """No two contexts have one name."""
        faults += repeated(table, "contexts")
        return super().prepared(table, legend, faults)
