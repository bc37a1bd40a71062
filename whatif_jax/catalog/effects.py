"""Reading primaries, classes and their secondary effects from a system's file (whatif-v1.md §3)."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from .errors import MISSING, one_of
from .forms import FORMS, form_names, trend
from .reader import Entry, Faults, is_number
from .schema import (
    Covariate,
    FrozenMapping,
    Primary,
    Response,
    Rule,
    Secondary,
    TargetClass,
)

__all__ = ["ClassSpec", "code_sum", "primary_covariate", "read_class", "read_primary", "resolve"]

DIRECTIONS = ("direct", "inverse")
ACTS = ("always", "below", "above")
OFFSET_SCALES = ("target", "mean")
COMBINES = ("multiply", "add")
DEFAULT_DAMPING = 0.5
DEFAULT_FLOOR = 0.05


@dataclass(frozen=True)
class EffectSpec:
    """A secondary effect as written: which covariates it takes, and its weight or weight rule."""

    names: tuple[str, ...] | None
    group: str | None
    weight: float | Mapping[str, float]
    rule: Rule
    label: str


@dataclass(frozen=True)
class ClassSpec:
    """A class as written, with what its targets' primaries start from."""

    class_: TargetClass
    effects: tuple[EffectSpec, ...]
    primary_defaults: Mapping[str, Any] = field(default_factory=dict)


def code_sum(name: str) -> int:
    """Sum of the character codes of a covariate's name, the h of whatif-v1.md §3."""
    return sum(ord(character) for character in name)


def merged(defaults: Mapping[str, Any], table: object) -> object:
    """The table over its class's defaults; what is no table is left for its reader to refuse."""
    return {**defaults, **table} if isinstance(table, dict) else table


def read_response(
    entry: Entry, *, secondary: bool, others: Sequence[str]
) -> tuple[Response, FrozenMapping[str]]:
    """The response of an entry, and the provenance of its ``others`` fields."""
    name = entry.text("form", choices=form_names(secondary=secondary))
    acts = entry.text("acts", "always", ACTS) if secondary else "always"
    form = FORMS.get(name)
    given: dict[str, float] = {}
    complete = form is not None
    for parameter in form.parameters if form else ():
        if entry.has(parameter.name) or parameter.default is None:
            given[parameter.name] = entry.number(parameter.name)
            complete = complete and math.isfinite(given[parameter.name])
        else:
            entry.taken[parameter.name] = None
    if form is None:  # its constants cannot be checked, so they are no further faults
        entry.taken.update(dict.fromkeys(entry.table))
    own = ["form", *given] + (["acts"] if acts != "always" else [])
    origin = entry.provenance(*others, *own)
    constants = given
    if form is not None and complete:
        constants = form.fill(given)
        _check_constants(entry, name, constants)
    letters = {key: origin[key] for key in own if key in origin}
    for parameter in form.parameters if form else ():
        if parameter.name not in given:
            source = parameter.default if isinstance(parameter.default, str) else "form"
            letters[parameter.name] = letters.get(source, "")
    response = Response(name, FrozenMapping(constants), acts, FrozenMapping(letters))
    return response, FrozenMapping({key: origin[key] for key in others if key in origin})


def _check_constants(entry: Entry, form: str, constants: Mapping[str, float]) -> None:
    """The declared direction must be the response's own, and r(1) must not be 0."""
    if form == "constant_plus_power" and constants["coefficient"] == -1:
        entry.fault("coefficient", -1.0, "a number other than -1, as r(1) divides the response")
    rises = trend(form, constants)
    declared = entry.table.get("direction")
    if rises and declared in DIRECTIONS and declared != DIRECTIONS[rises < 0]:
        verb = "rises" if rises > 0 else "falls"
        expected = f"{DIRECTIONS[rises < 0]!r}, as the response {verb} when its factor grows"
        entry.fault("direction", declared, expected)


def primary_covariate(table: object) -> object:
    """The covariate an unread primary names, for the message about two of them."""
    return table.get("covariate") if isinstance(table, dict) else table


def read_primary(target: Entry, defaults: Mapping[str, Any]) -> Primary | None:
    """The one primary of a target."""
    expected = "exactly one primary: a table with covariate, direction and form"
    table = target.raw("primary", expected=expected)
    if table is MISSING:
        return None
    if isinstance(table, list):
        if len(table) != 1:
            target.fault("primary", [primary_covariate(item) for item in table], expected)
            return None
        table = table[0]
    entry = Entry(target.faults, target.label, merged(defaults, table), "primary.")
    covariate = entry.text("covariate")
    direction = entry.text("direction", choices=DIRECTIONS)
    note = entry.text("note", "")
    response, origin = read_response(entry, secondary=False, others=("covariate", "direction"))
    entry.finish()
    return Primary(covariate, response, direction, origin, note)


def read_class(faults: Faults, entry: Entry) -> list[ClassSpec]:
    """The class, or classes where ``names`` lists several that share all but the name."""
    names = entry.texts("names") if entry.has("names") else (entry.text("name"),)
    combine = entry.text("combine", choices=COMBINES)
    damping = entry.number("damping", DEFAULT_DAMPING, least=0.0)
    floor = entry.number("floor", DEFAULT_FLOOR, least=0.0, below=1.0)
    clip = _read_clip(entry)
    description = entry.text("description", "")
    primary_defaults = _table(entry, "primary_defaults")
    secondary_defaults = _table(entry, "secondary_defaults")
    effects = []
    written = entry.listed("secondary", [], "a list of secondary effects")
    for index, table in enumerate(written):
        prefix = f"secondary[{index}]."
        child = Entry(faults, entry.label, merged(secondary_defaults, table), prefix)
        effects.append(_read_effect(child, combine))
        if child.has("others") and index + 1 < len(written):
            child.fault("others", True, "the last effect of its class, as it takes all that remain")
    fields = ["combine", "damping", "floor"] + (["clip"] if clip else [])
    origin = entry.provenance(*fields)
    entry.finish()
    rules = tuple(effect.rule for effect in effects)
    return [
        ClassSpec(
            TargetClass(name, combine, damping, floor, clip, origin, description, rules),
            tuple(effects),
            primary_defaults,
        )
        for name in names
    ]


def resolve(
    faults: Faults,
    label: str,
    spec: ClassSpec,
    covariates: Sequence[Covariate],
    primary: str,
    where: Mapping[str, str],
) -> tuple[Secondary, ...]:
    """Secondary effects of one target in the covariates' order; the first match counts."""
    order = [covariate.name for covariate in covariates]
    found: dict[str, Secondary] = {}
    for effect in spec.effects:
        for name in _matches(faults, label, effect, covariates, where):
            if name not in order:
                expected = one_of(order, name)
                field = f"{effect.label}.covariates (from its class)"
                faults.add(label, field, name, expected, once=True)
            elif name != primary and name not in found:
                found[name] = _secondary(effect, name)
    return tuple(found[name] for name in order if name in found)


def _matches(
    faults: Faults,
    label: str,
    effect: EffectSpec,
    covariates: Sequence[Covariate],
    where: Mapping[str, str],
) -> list[str]:
    if effect.names is not None:
        names = []
        for pattern in effect.names:
            try:
                names.append(pattern.format_map(where))
            except (KeyError, ValueError, IndexError, AttributeError):
                expected = f"a value in this target's where table for each {{...}} of {pattern!r}"
                faults.add(label, "where", dict(where), expected, once=True)
        return names
    if effect.group is not None:
        members = [each.name for each in covariates if effect.group in each.groups]
        if not members:
            groups = sorted({group for each in covariates for group in each.groups})
            expected = "a group that a covariate is in: " + one_of(groups, effect.group)
            field = f"{effect.label}.group (from its class)"
            faults.add(label, field, effect.group, expected, once=True)
        return members
    return [each.name for each in covariates]


def _secondary(effect: EffectSpec, name: str) -> Secondary:
    rule, weight, note = effect.rule, effect.weight, effect.rule.note
    if isinstance(weight, Mapping):
        total = code_sum(name)
        weight = weight["base"] + weight["step"] * (total % int(weight["modulus"]))
        note = "; ".join(part for part in (note, f"h = {total}") if part)
    return Secondary(
        name, weight, rule.response, rule.direction, rule.offset_scale, rule.provenance, note
    )


def _read_effect(entry: Entry, combine: str) -> EffectSpec:
    ways = [way for way in ("covariates", "group", "others") if entry.has(way)]
    if len(ways) != 1:
        expected = "exactly one of covariates = [names], group = 'name' and others = true"
        entry.fault("covariates", ways or MISSING, expected)
    names = entry.texts("covariates") if "covariates" in ways else None
    group = entry.text("group") if "group" in ways else None
    if "others" in ways and not entry.flag("others", True):
        entry.fault("others", False, "true, or no such field")
    entry.taken.update(dict.fromkeys(("covariates", "group", "others")))
    weight, weight_text = _read_weight(entry)
    direction = entry.text("direction", choices=DIRECTIONS)
    scale = "none"
    if combine == "add":
        scale = entry.text("offset_scale", "target", OFFSET_SCALES)
    note = entry.text("note", "")
    others = ("weight", "direction") + (("offset_scale",) if combine == "add" else ())
    response, origin = read_response(entry, secondary=True, others=others)
    entry.finish()
    selector = ", ".join(names) if names else f"group {group}" if group else "all others"
    rule = Rule(selector, weight_text, response, direction, scale, origin, note)
    return EffectSpec(names, group, weight, rule, entry.prefix.rstrip("."))


def _read_weight(entry: Entry) -> tuple[float | Mapping[str, float], str]:
    expected = "a number above 0, or weight_rule = {base, step, modulus}"
    if entry.has("weight_rule") == entry.has("weight"):
        both = entry.has("weight")
        entry.fault("weight", "given beside a weight_rule" if both else MISSING, expected)
        entry.taken.update(dict.fromkeys(("weight", "weight_rule")))
        return 1.0, ""
    entry.taken.update(dict.fromkeys(("weight", "weight_rule")))
    if entry.has("weight"):
        value = entry.table["weight"]
        if not is_number(value) or value <= 0:
            entry.fault("weight", value, expected)
            return 1.0, ""
        return float(value), f"{value:g}"
    rule = entry.child("weight_rule")
    base = rule.number("base", above=0.0)
    step = rule.number("step", least=0.0)
    modulus = rule.whole("modulus")
    rule.finish()
    text = f"{base:g} + {step:g}*(h mod {modulus}), h = sum of the name's character codes"
    return FrozenMapping({"base": base, "step": step, "modulus": float(modulus)}), text


def _read_clip(entry: Entry) -> tuple[float, float] | None:
    if not entry.has("clip"):
        entry.taken["clip"] = None
        return None
    numbers = entry.numbers("clip")
    if len(numbers) != 2 or numbers[0] >= numbers[1]:
        entry.fault("clip", list(numbers), "two numbers, the lower first")
        return None
    return numbers[0], numbers[1]


def _table(entry: Entry, name: str) -> Mapping[str, Any]:
    value = entry.raw(name, {})
    if not isinstance(value, dict):
        entry.fault(name, value, "a table of fields")
        return {}
    return value
