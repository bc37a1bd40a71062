"""What covariates do to a target: its primary covariate, and the further ones of its class.

References:
    whatif-v1.md §3.
"""

import math
import re
from collections.abc import Mapping, Sequence
from typing import Annotated, ClassVar, Literal, Self

from pydantic import ValidationInfo, field_validator

from .entry import Entry, Fault, Legend, Sourced, Table
from .errors import one_of
from .fields import Count, Flag, NotNegative, Positive, Text, float32, must
from .forms import FORMS, Response

__all__ = ["Effect", "Primary", "Secondary", "WeightRule", "taken", "words"]

_WORD = re.compile(r"\{(.*?)\}")


class Effect(Sourced):
    """How a target responds to a covariate; a file has form and constants among its fields."""

    forms: ClassVar[Mapping[str, type[Response]]]

    response: Response
    direction: Literal["direct", "inverse"]
    """Either "direct" or "inverse": whether the target rises or falls when the factor grows."""
    note: str = ""
    """A remark to print beside the effect."""

    @classmethod
    def accepted(cls, table: Table) -> list[str]:
        """Its own fields, the form and the form's constants; any, where the form is unknown."""
        own = [name for name in cls.model_fields if name != "response"]
        form = cls._form(table)
        return [*own, "form", *(form.model_fields if form else table)]

    @classmethod
    def prepared(cls, table: Table, legend: Legend, faults: list[Fault]) -> Table:
        """The response in a field of its own; constants that are left out have an origin too."""
        own = {name: value for name, value in table.items() if name in cls.model_fields}
        form = cls._form(table)
        names = [*cls.sourced(table), "form"]
        if form is None:  # nothing is known of its constants
            name = table.get("form")
            faults.append(Fault(("form",), name, one_of(cls.forms, name)))
            legend.letters(table.get("provenance"), names, faults, strict=False)
            return {**own, "response": (Response, {}), "provenance": {}}
        constants = {name: table[name] for name in form.model_fields if name in table}
        letters = legend.letters(table.get("provenance"), [*names, *constants], faults)
        for name in form.model_fields:
            letters.setdefault(name, letters.get(form.follows.get(name, "form"), ""))
        return {**own, "response": (form, constants), "provenance": letters}

    @classmethod
    def _form(cls, table: Table) -> type[Response] | None:
        name = table.get("form")
        return cls.forms.get(name) if isinstance(name, str) else None

    @field_validator("response", mode="before")
    @classmethod
    def _of_its_form(cls, response: tuple[type[Response], Table]) -> Response:
        form, constants = response
        return form.model_validate(constants)

    @field_validator("direction")
    @classmethod
    def _as_the_response_goes(cls, direction: str, info: ValidationInfo) -> str:
        trend = info.data["response"].trend() if "response" in info.data else 0
        actual, verb = ("direct", "rises") if trend > 0 else ("inverse", "falls")
        if trend and direction != actual:
            raise ValueError(f"{actual!r}, as the response {verb} when its factor grows")
        return direction


class Primary(Effect):
    """The covariate that a target follows, and how."""

    forms = FORMS
    sources = ("covariate", "direction")

    covariate: Text
    """A string: the name of the covariate."""


class WeightRule(Entry):
    """A weight from the covariate's name: base + step*(h mod modulus)."""

    base: Positive
    """A number above 0: the least weight."""
    step: NotNegative
    """A number, 0 or more: what each 1 of the remainder adds to the weight."""
    modulus: Count
    """A whole number: the divisor of h, the sum of the character codes of the name."""

    def weight(self, h: int) -> float:
        """The weight of a covariate with that sum."""
        return self.base + self.step * (h % self.modulus)

    def finite(self) -> bool:
        """Whether float32 can hold every weight; -1 leaves the largest remainder."""
        return float32(self.weight(-1)) < math.inf


class Secondary(Effect):
    """What covariates beside the primary one do to the targets of a class.

    A class that multiplies takes the factor max(floor, 1 + s*weight*(r(f)/r(1) - 1)), one that
    adds the offset s*weight*(r(f)/r(1) - 1); s is the damping of joint effects.
    """

    forms: ClassVar[Mapping[str, type[Response]]] = {
        name: form for name, form in FORMS.items() if form.ratio_formula
    }
    sources = ("weight", "direction")
    optional_sources = ("offset_scale", "acts")

    covariates: tuple[Text, ...] | None = None
    """Names of the covariates it takes; a target's `where` fills in each {word} of them."""
    group: Text | None = None
    """A group: it takes the covariates of that group that no effect above it takes."""
    others: Flag | None = None
    """true: it takes all covariates that no effect above it takes."""
    weight: Positive | None = None
    """A number above 0: how much it counts; a `weight_rule` may say it instead."""
    weight_rule: (
        Annotated[WeightRule, must("a rule whose weights float32 can hold", WeightRule.finite)]
        | None
    ) = None
    """A table: how the weight follows from a covariate's name."""
    acts: Literal["always", "below", "above"] = "always"
    """Where it acts: "always" (the default), or only where the factor is "below" or "above" 1."""
    offset_scale: Literal["target", "mean"] | None = None
    """In a class that adds, the unit of offsets: "target" (the default) or "mean", that of |y|."""

    @classmethod
    def prepared(cls, table: Table, legend: Legend, faults: list[Fault]) -> Table:
        """There is one way to say which covariates it takes, and one to say its weight."""
        ways = [way for way in ("covariates", "group", "others") if way in table]
        if len(ways) != 1:
            expected = "exactly one of covariates = [names], group = 'name' and others = true"
            faults.append(Fault(("covariates",), ways or None, expected))
        if table.get("others") is False:
            faults.append(Fault(("others",), False, "true, or no such field"))
        if ("weight" in table) == ("weight_rule" in table):
            expected = "either a number above 0, or weight_rule = {base, step, modulus}"
            faults.append(Fault(("weight",), table.get("weight"), expected))
        return super().prepared(table, legend, faults)

    @property
    def covariate(self) -> str:
        """The covariate of a target's effect."""
        (name,) = self.covariates or ()
        return name

    def on(self, covariate: str) -> Self:
        """The effect as it would be written for this covariate alone, as a target has it."""
        changes: dict[str, object] = {"covariates": (covariate,), "group": None, "others": None}
        if self.weight_rule is not None:
            h = sum(map(ord, covariate))
            note = "; ".join(filter(None, (self.note, f"h = {h}")))
            changes |= {"weight": self.weight_rule.weight(h), "weight_rule": None, "note": note}
        return self.model_copy(update=changes)


def words(pattern: str) -> set[str]:
    """The {word}s of a covariate's name that a target's `where` fills in."""
    return set(_WORD.findall(pattern))


def taken(
    patterns: Sequence[str] | None,
    group: str | None,
    where: Mapping[str, str],
    groups: Mapping[str, Sequence[str] | None],
) -> list[str]:
    """Names of the covariates that an effect takes for a target.

    Args:
        patterns: its `covariates`; None where it takes a group, or all others.
        group: its `group`; None where it takes all others.
        where: the target's words; one without a value stays as it is.
        groups: of every covariate of the system, by its name.
    """
    if patterns is not None:
        return [_WORD.sub(lambda word: where.get(word[1], word[0]), each) for each in patterns]
    return [name for name, own in groups.items() if group is None or group in (own or ())]
