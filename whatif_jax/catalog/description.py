"""The catalog as text, with the origin of every constant in brackets beside it."""

import textwrap
from collections.abc import Sequence
from pathlib import Path

from .builtin import builtin_systems, load_system
from .effects import Effect, Secondary
from .entry import Sourced
from .errors import CatalogError, Problem, one_of
from .forms import FORMS
from .schema import Axes, Covariate, Pools, TargetClass
from .system import System
from .targets import Target

__all__ = ["describe"]

_WIDTH = 100


def describe(name: str | None = None) -> str:
    """Text about everything (None), a system, or a target.

    A system is a built-in name or the path of a file of your own; a target is its name, where only
    one built-in system has it, or ``system/target``.

    Raises:
        CatalogError: there is no such system or target, or its file has faults, or the
            parquet of a file of your own.
    """
    if name is None:
        lines = _overview()
    elif name in builtin_systems() or name.endswith(".toml") or Path(name).is_file():
        lines = _system(load_system(name, with_baseline=True))
    elif "/" in name:
        system, _, target = name.rpartition("/")
        lines = _target(load_system(system, with_baseline=True), target)
    else:
        lines = _target(_owner(name), name)
    return "\n".join(lines) + "\n"


def _owner(name: str) -> System:
    """The one built-in system with a target of that name."""
    systems = [load_system(each) for each in builtin_systems()]
    targets = [(each, target.name) for each in systems for target in each.targets]
    owners = [each for each, target in targets if target == name]
    if len(owners) == 1:
        return owners[0]
    accepted = [f"{each.name}/{name}" for each in owners]
    accepted = accepted or [*builtin_systems(), *(target for _, target in targets)]
    expected = f"{one_of(accepted, name)}, or a file's path"
    raise CatalogError([Problem("catalog", "describe", "name", name, expected)])


def _overview() -> list[str]:
    rows = [["system", "title", "targets", "covariates", "steps", "step"]]
    for each in map(load_system, builtin_systems()):
        counts = [str(len(each.targets)), str(len(each.covariates)), str(each.steps)]
        rows.append([each.name, each.title, *counts, f"{each.step_seconds:g} s"])
    return [*_table(rows), "", "Name a system, a target or system/target for its details."]


def _system(system: System) -> list[str]:
    """A system's settings, axes, covariates, classes and targets."""
    flow = "yes" if system.requires_flow else "no"
    lines = [
        f"{system.name}: {system.title}",
        *_wrapped(system.description),
        f"{_cited(system, 'steps', '{} steps')} of {_cited(system, 'step_seconds', '{} s')}; "
        f"{_cited(system, 'requires_flow', f'requires flow: {flow}')}",
        f"file: {system.source}",
        f"baseline: {system.baseline}",
        *(_wrapped(f"source: {system.attribution}") if system.attribution else []),
        *_legend(system),
        *(["", "Settings"] if system.settings else []),
    ]
    for setting in system.settings:
        lines += _wrapped(f"- {_cited(setting, 'text')}", "  ")
    lines += ["", "Axes", *_axes(system.axes)]
    lines += [
        f"  pool of factors: {_cited(system.pools, 'values')}; {_moves(system.pools, 'targets')}"
    ]
    lines += ["", f"Covariates ({len(system.covariates)}), in order"]
    rows = [["covariate", "base", "unit", "shape", "groups", "note"]]
    for each in system.covariates:
        shape, groups = _cited(each, "shape"), _cited(each, "groups")
        rows.append([each.name, _cited(each, "base"), each.unit, shape, groups, each.note])
    lines += [*_table(rows, "  "), "", f"Classes ({len(system.classes)})"]
    for class_ in system.classes:
        lines += _class(class_)
    lines += ["", f"Targets ({len(system.targets)})"]
    rows = [["target", "unit", "class", "primary covariate", "direction", "response", ""]]
    for target in system.targets:
        effect = [_cited(target.primary, "covariate"), _cited(target.primary, "direction")]
        effect += [_response(target.primary), ", ".join(_marks(target, system))]
        rows.append([target.name, target.unit, target.class_.name, *effect])
    return [*lines, *_table(rows, "  "), "", "Forms", *_forms(system)]


def _target(system: System, name: str) -> list[str]:
    """A target's primary response and every secondary effect on it."""
    target = system.target(name)
    primary, covariate = target.primary, system.covariate(target.primary.covariate)
    lines = [
        f"{target.name} ({system.name}), in {target.unit}",
        *_wrapped(target.note, "  "),
        *(f"  {mark}" for mark in _marks(target, system)),
        *_legend(system),
        "",
        "Primary covariate",
        f"  {_cited(primary, 'covariate')}: base {_base(covariate)}, "
        f"{_cited(covariate, 'shape')}, {_cited(primary, 'direction')}",
        f"  target = {_response(primary, primary.response.primary_formula())}",
        *(f"  ({note})" for note in (primary.response.note, primary.note) if note),
        "",
        f"Pool of factors: {_cited(target, 'pool')}; {_moves(target, 'the target')}",
        "",
        f"Class {target.class_.name}: {_combination(target.class_)}",
        *_wrapped(target.class_.note, "  "),
        "",
        f"Secondary covariates ({len(target.secondaries)}), in order",
    ]
    labels: dict[str, str] = {}  # by the text of an effect
    rows = [["covariate", "base", "shape", "weight", "direction", "offset in", "effect", "note"]]
    for effect in target.secondaries:
        covariate = system.covariate(effect.covariate)
        text = _response(effect, effect.response.ratio_formula)
        label = labels.setdefault(text, f"r{len(labels) + 1}")
        weight, direction = (
            _cited(effect, "weight", f"{effect.weight:.3g}"),
            _cited(effect, "direction"),
        )
        cells = [covariate.name, _base(covariate), _cited(covariate, "shape"), weight, direction]
        rows.append([*cells, _offset(effect), label, effect.note])
    lines += _table(rows, "  ")
    if labels:
        lines += ["", "Effects, as the ratio r(f)/r(1)"]
    return [*lines, *(f"  {label}: {text}" for text, label in labels.items())]


def _class(class_: TargetClass) -> list[str]:
    title = f"{class_.name} ({class_.description})" if class_.description else class_.name
    rows = [["covariates", "weight", "direction", "offset in", "effect", "note"]]
    for effect in class_.secondary:
        others = f"group {effect.group}" if effect.group else "all others"
        chosen = others if effect.covariates is None else ", ".join(effect.covariates)
        weight = "{}"
        if (rule := effect.weight_rule) is not None:
            weight = f"{rule.base:g} + {rule.step:g}*(h mod {rule.modulus})"
            weight += ", h = sum of the name's character codes"
        cells = [chosen, _cited(effect, "weight", weight), _cited(effect, "direction")]
        rows.append([*cells, _offset(effect), _response(effect), effect.note])
    effects = _table(rows, "    ") if class_.secondary else ["    no secondary effects"]
    notes = _wrapped(class_.note, "    ")
    return [f"  {title}: {_combination(class_)}", *notes, *effects]


def _combination(class_: TargetClass) -> str:
    parts = [_cited(class_, "combine"), _cited(class_, "damping", "damping {}")]
    if class_.combine == "multiply":
        parts.append(_cited(class_, "floor", "each factor at least {}"))
    if class_.clip is not None:
        parts.append(_cited(class_, "clip", "clipped to [{}]"))
    return ", ".join(parts)


def _response(effect: Effect, text: str = "") -> str:
    """The response's form, or a text for it, then each constant with its origin."""
    constants = effect.response.constants
    if constants.get("exponent_below") == constants.get("exponent"):
        constants.pop("exponent_below", None)
    parts = [_cited(effect, name, f"{name} {value:g}") for name, value in constants.items()]
    if isinstance(effect, Secondary) and effect.acts != "always":
        sign = "<" if effect.acts == "below" else ">"
        parts.append(_cited(effect, "acts", f"only where f {sign} 1"))
    shown = _cited(effect, "form", text or effect.response.form)
    return f"{shown}: {', '.join(parts)}" if parts else shown


def _forms(system: System) -> list[str]:
    """The formulas of the forms that the system uses."""
    primaries = {target.primary.response.form for target in system.targets}
    others = {effect.response.form for each in system.classes for effect in each.secondary}
    rows = [["form", "primary covariate: target =", "secondary covariate: r(f) =", "note"]]
    for name, form in FORMS.items():
        if name in primaries | others:
            primary = form.primary_formula() if name in primaries else ""
            rows.append([name, primary, form.ratio_formula if name in others else "", form.note])
    return _table(rows, "  ")


def _axes(axes: Axes) -> list[str]:
    lines = [
        f"  covariates in a task: {_cited(axes, 'k')}",
        f"  event lengths: {_cited(axes, 'event_lengths')}; gap after each: {_cited(axes, 'gap')}",
        f"  share of the context before the events: {_cited(axes, 'prefix')}; "
        f"after them: {_cited(axes, 'end_buffer')}",
    ]
    for pair in axes.contexts:
        parts = [_cited(pair, "context", "context {}"), _cited(pair, "horizon", "horizon {}")]
        parts.append(_cited(pair, "fewest_events", "fewest events {}"))
        if pair.most_events_longest is not None:
            parts.append(_cited(pair, "most_events_longest", "most at the longest length {}"))
        lines.append(f"  {pair.name}: {', '.join(parts)}")
    return lines


def _marks(target: Target, system: System) -> list[str]:
    marks = {
        "constant baseline: gives no task": target.constant,
        "partial: only tasks of at most two events": target.partial,
        _cited(target, "up_only", "up only"): target.up_only and not system.pools.up_only,
    }
    return [mark for mark, holds in marks.items() if holds]


def _legend(system: System) -> list[str]:
    return [f"[{letter}] {meaning}" for letter, meaning in system.legend.items()]


def _moves(entry: Pools | Target, what: str) -> str:
    moves = "up only" if entry.up_only else "up and down"
    return f"events move {what} {_cited(entry, 'up_only', moves)}"


def _offset(effect: Secondary) -> str:
    text = "mean|y|" if effect.offset_scale == "mean" else "target's unit"
    return _cited(effect, "offset_scale", text) if effect.offset_scale else ""


def _base(covariate: Covariate) -> str:
    return _cited(covariate, "base", "{}" if covariate.unit == "1" else f"{{}} {covariate.unit}")


def _cited(entry: Sourced, field: str, text: str = "{}") -> str:
    """A text with the field's value in it, and its origin; empty where there is no text."""
    shown = text.replace("{}", _plain(getattr(entry, field, "")), 1)
    letter = entry.provenance.get(field)
    return f"{shown} [{letter}]" if letter and shown else shown


def _plain(value: object) -> str:
    if isinstance(value, tuple):
        return ", ".join(map(_plain, value))
    return f"{value:g}" if isinstance(value, float) else str(value)


def _wrapped(text: str, indent: str = "") -> list[str]:
    return textwrap.wrap(text, _WIDTH, initial_indent=indent, subsequent_indent=indent + "  ")


def _table(rows: Sequence[Sequence[str]], indent: str = "") -> list[str]:
    """Columns side by side; a column with nothing to tell is left out."""
    columns = [column for column in zip(*rows, strict=True) if any(column[1:])]
    widths = [max(map(len, column)) for column in columns]
    lines = []
    for row in zip(*columns, strict=True):
        cells = [cell.ljust(width) for cell, width in zip(row, widths, strict=True)]
        lines.append((indent + "  ".join(cells)).rstrip())
    return lines
