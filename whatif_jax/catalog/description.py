"""The catalog as text, with the origin of every constant in brackets beside it."""

import textwrap
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from .builtin import builtin_systems, load_system
from .errors import CatalogError, Problem, one_of
from .forms import FORMS
from .schema import (
    Axes,
    Covariate,
    Primary,
    Response,
    System,
    Target,
    TargetClass,
)

__all__ = ["describe", "describe_overview", "describe_system", "describe_target"]

_WIDTH = 100


def describe(name: str | None = None) -> str:
    """Text about everything (None), a system, or a target.

    A system is a built-in name or the path of a file of your own; a target is its name, where only
    one built-in system has it, or ``system/target``.
    """
    if name is None:
        return describe_overview()
    if name in builtin_systems() or name.endswith(".toml") or Path(name).is_file():
        return describe_system(load_system(name))
    head, slash, tail = name.rpartition("/")
    if slash:
        return describe_target(load_system(head), tail)
    owners = [each for each in map(load_system, builtin_systems()) if name in _target_names(each)]
    if len(owners) == 1:
        return describe_target(owners[0], name)
    if owners:
        accepted = [f"{owner.name}/{name}" for owner in owners]
    else:
        known = [
            target for each in map(load_system, builtin_systems()) for target in _target_names(each)
        ]
        accepted = [*builtin_systems(), *known]
    raise CatalogError(
        [
            Problem(
                "catalog", "describe", "name", name, one_of(accepted, name) + ", or a file's path"
            )
        ]
    )


def describe_overview(systems: Iterable[System] | None = None) -> str:
    """One line a system: the built-in ones if none are given."""
    chosen = list(systems) if systems is not None else [load_system(n) for n in builtin_systems()]
    rows = [["system", "title", "targets", "covariates", "steps", "step"]]
    for each in chosen:
        counts = [str(len(each.targets)), str(len(each.covariates)), str(each.steps)]
        rows.append([each.name, each.title, *counts, f"{each.step_seconds:g} s"])
    hint = "Name a system, a target or system/target for its details."
    return "\n".join([*_table(rows), "", hint]) + "\n"


def describe_system(described: System) -> str:
    """A system's settings, axes, covariates, classes and targets."""
    origin = described.provenance
    lines = [f"{described.name}: {described.title}", *_wrapped(described.description)]
    lines += [
        f"{described.steps} steps{_tag(origin, 'steps')} "
        f"of {described.step_seconds:g} s{_tag(origin, 'step_seconds')}; "
        f"requires flow: {_yes(described.requires_flow)}{_tag(origin, 'requires_flow')}",
        f"file: {described.source}",
        f"baseline: {described.baseline}",
    ]
    if described.attribution:
        lines += _wrapped(f"source: {described.attribution}")
    lines += _legend(described)
    if described.settings:
        lines += ["", "Settings"]
        for setting in described.settings:
            lines += _wrapped(f"- {setting.text} [{setting.provenance}]", "  ")
    lines += ["", "Axes", *_axes(described.axes), _pool_line(described)]
    lines += ["", f"Covariates ({len(described.covariates)}), in order"]
    lines += _covariate_table(described)
    lines += ["", f"Classes ({len(described.classes)})"]
    for class_ in described.classes:
        lines += _class_lines(class_)
    lines += ["", f"Targets ({len(described.targets)})"]
    rows = [["target", "unit", "class", "primary covariate", "direction", "response", ""]]
    for target in described.targets:
        primary = target.primary
        rows.append(
            [
                target.name,
                target.unit,
                target.class_.name,
                primary.covariate + _tag(primary.provenance, "covariate"),
                primary.direction + _tag(primary.provenance, "direction"),
                _constants(primary.response, primary.response.form),
                ", ".join(_marks(target, described)),
            ]
        )
    lines += [*_table(rows, "  "), "", "Forms", *_forms(described)]
    return "\n".join(lines) + "\n"


def describe_target(owner: System, name: str) -> str:
    """A target's primary response and every secondary effect on it."""
    target = owner.target(name)
    primary = target.primary
    lines = [f"{target.name} ({owner.name}), in {target.unit}"]
    if target.note:
        lines += _wrapped(target.note, "  ")
    for mark in _marks(target, owner):
        lines.append(f"  {mark}")
    lines += [*_legend(owner), "", "Primary covariate", *_primary_lines(owner, primary)]
    pool = ", ".join(f"{value:g}" for value in target.pool)
    moves = "up only" if target.up_only else "up and down"
    lines += [
        "",
        f"Pool of factors: {pool}{_tag(target.provenance, 'pool')}; "
        f"events move the target {moves}{_tag(target.provenance, 'up_only')}",
        "",
        f"Class {target.class_.name}: {_combination(target.class_)}",
        "",
        f"Secondary covariates ({len(target.secondaries)}), in order",
    ]
    effects: dict[Response, str] = {}
    rows = [["covariate", "base", "shape", "weight", "direction", "offset in", "effect", "note"]]
    for other in target.secondaries:
        covariate = owner.covariate(other.covariate)
        label = effects.setdefault(other.response, f"r{len(effects) + 1}")
        rows.append(
            [
                other.covariate,
                _base(covariate),
                covariate.shape + _tag(covariate.provenance, "shape"),
                f"{other.weight:.3g}{_tag(other.provenance, 'weight')}",
                other.direction + _tag(other.provenance, "direction"),
                _scale(other.offset_scale) + _tag(other.provenance, "offset_scale"),
                label,
                other.note,
            ]
        )
    lines += _table(rows, "  ")
    if effects:
        lines += ["", "Effects, as the ratio r(f)/r(1)"]
        lines += [f"  {label}: {_formula(effect)}" for effect, label in effects.items()]
    return "\n".join(lines) + "\n"


def _primary_lines(owner: System, primary: Primary) -> list[str]:
    covariate = owner.covariate(primary.covariate)
    lines = [
        f"  {covariate.name}{_tag(primary.provenance, 'covariate')}: "
        f"base {_base(covariate)}, "
        f"{covariate.shape}{_tag(covariate.provenance, 'shape')}, "
        f"{primary.direction}{_tag(primary.provenance, 'direction')}",
        f"  target = {_formula(primary.response, primary=True)}",
    ]
    note = FORMS[primary.response.form].note
    return lines + [f"  ({part})" for part in (note, primary.note) if part]


def _class_lines(class_: TargetClass) -> list[str]:
    title = f"{class_.name} ({class_.description})" if class_.description else class_.name
    lines = [f"  {title}: {_combination(class_)}"]
    rows = [["covariates", "weight", "direction", "offset in", "effect", "note"]]
    for rule in class_.rules:
        rows.append(
            [
                rule.selector,
                rule.weight + _tag(rule.provenance, "weight"),
                rule.direction + _tag(rule.provenance, "direction"),
                _scale(rule.offset_scale) + _tag(rule.provenance, "offset_scale"),
                _constants(rule.response, rule.response.form),
                rule.note,
            ]
        )
    return lines + (_table(rows, "    ") if class_.rules else ["    no secondary effects"])


def _combination(class_: TargetClass) -> str:
    origin = class_.provenance
    parts = [f"{class_.combine}{_tag(origin, 'combine')}"]
    parts.append(f"damping {class_.damping:g}{_tag(origin, 'damping')}")
    if class_.combine == "multiply":
        parts.append(f"each factor at least {class_.floor:g}{_tag(origin, 'floor')}")
    if class_.clip is not None:
        low, high = class_.clip
        parts.append(f"clipped to [{low:g}, {high:g}]{_tag(origin, 'clip')}")
    return ", ".join(parts)


def _formula(response: Response, *, primary: bool = False) -> str:
    """The form's formula, then each constant with its origin."""
    form = FORMS[response.form]
    text = form.primary_formula if primary else form.ratio_formula or form.primary_formula
    return _constants(response, text)


def _constants(response: Response, text: str) -> str:
    """The text, a name or a formula, then each constant with its origin."""
    constants = dict(response.constants)
    if constants.get("exponent_below") == constants.get("exponent"):
        constants.pop("exponent_below", None)
    parts = [f"{key} {value:g}{_tag(response.provenance, key)}" for key, value in constants.items()]
    if response.acts != "always":
        only = "f < 1" if response.acts == "below" else "f > 1"
        parts.append(f"only where {only}{_tag(response.provenance, 'acts')}")
    shown = f"{text}{_tag(response.provenance, 'form')}"
    return f"{shown}: {', '.join(parts)}" if parts else shown


def _forms(described: System) -> list[str]:
    """The formulas of the forms the system uses."""
    primaries = {target.primary.response.form for target in described.targets}
    others = {rule.response.form for class_ in described.classes for rule in class_.rules}
    rows = [["form", "primary covariate: target =", "secondary covariate: r(f) =", "note"]]
    for name, form in FORMS.items():
        if name in primaries | others:
            ratio = (form.ratio_formula or "") if name in others else ""
            rows.append([name, form.primary_formula if name in primaries else "", ratio, form.note])
    return _table(rows, "  ")


def _covariate_table(described: System) -> list[str]:
    rows = [["covariate", "base", "unit", "shape", "groups", "note"]]
    for covariate in described.covariates:
        groups = ", ".join(covariate.groups)
        rows.append(
            [
                covariate.name,
                f"{covariate.base:g}{_tag(covariate.provenance, 'base')}",
                covariate.unit,
                covariate.shape + _tag(covariate.provenance, "shape"),
                groups + (_tag(covariate.provenance, "groups") if groups else ""),
                covariate.note,
            ]
        )
    return _table(rows, "  ")


def _axes(axes: Axes) -> list[str]:
    origin = axes.provenance
    numbers = ", ".join(map(str, axes.k))
    lengths = ", ".join(map(str, axes.event_lengths))
    lines = [
        f"  covariates in a task: {numbers}{_tag(origin, 'k')}",
        f"  event lengths: {lengths}{_tag(origin, 'event_lengths')}; "
        f"gap after each: {axes.gap}{_tag(origin, 'gap')}",
        f"  share of the context before the events: {axes.prefix:g}{_tag(origin, 'prefix')}; "
        f"after them: {axes.end_buffer:g}{_tag(origin, 'end_buffer')}",
    ]
    for pair in axes.contexts:
        text = (
            f"  {pair.name}: context {pair.context}{_tag(pair.provenance, 'context')}, "
            f"horizon {pair.horizon}{_tag(pair.provenance, 'horizon')}, "
            f"fewest events {pair.fewest_events}{_tag(pair.provenance, 'fewest_events')}"
        )
        if pair.most_events_longest is not None:
            tag = _tag(pair.provenance, "most_events_longest")
            text += f", most at the longest length {pair.most_events_longest}{tag}"
        lines.append(text)
    return lines


def _pool_line(described: System) -> str:
    values = ", ".join(f"{value:g}" for value in described.pool)
    moves = "up only" if described.up_only else "up and down"
    tags = [_tag(described.pool_provenance, key) for key in ("values", "up_only")]
    return f"  pool of factors: {values}{tags[0]}; events move targets {moves}{tags[1]}"


def _marks(target: Target, owner: System) -> list[str]:
    marks = []
    if target.constant:
        marks.append("constant baseline: gives no task")
    if target.partial:
        marks.append("partial: only tasks of at most two events")
    if target.up_only and not owner.up_only:
        marks.append("up only" + _tag(target.provenance, "up_only"))
    return marks


def _legend(described: System) -> list[str]:
    return [f"[{letter}] {meaning}" for letter, meaning in described.legend.items()]


def _target_names(described: System) -> list[str]:
    return [target.name for target in described.targets]


def _tag(provenance: Mapping[str, str], key: str) -> str:
    letter = provenance.get(key)
    return f" [{letter}]" if letter else ""


def _scale(offset_scale: str) -> str:
    return {"mean": "mean|y|", "target": "target's unit", "none": ""}[offset_scale]


def _base(covariate: Covariate) -> str:
    unit = "" if covariate.unit == "1" else f" {covariate.unit}"
    return f"{covariate.base:g}{unit}{_tag(covariate.provenance, 'base')}"


def _yes(flag: bool) -> str:
    return "yes" if flag else "no"


def _wrapped(text: str, indent: str = "") -> list[str]:
    return textwrap.wrap(text, _WIDTH, initial_indent=indent, subsequent_indent=indent + "  ")


def _table(rows: Sequence[Sequence[str]], indent: str = "") -> list[str]:
    """Columns side by side; a column with nothing to tell is left out."""
    columns = [column for column in zip(*rows, strict=True) if _tells(column)]
    widths = [max(map(len, column)) for column in columns]
    lines = []
    for row in zip(*columns, strict=True):
        cells = [cell.ljust(width) for cell, width in zip(row, widths, strict=True)]
        lines.append((indent + "  ".join(cells)).rstrip())
    return lines


def _tells(column: Sequence[str]) -> bool:
    return any(cell for cell in column[1:])
