"""What the tables of a file say of one another: names that are known, pools and axes that fit.

They are looked at as they are written, so that a fault inside one table hides none of another; only
what depends on something that cannot be read is left out.

References:
    whatif-v1.md §3-§5.
"""

import math
from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import TypeAdapter, ValidationError

from .effects import taken, words
from .entry import Fault, Table, listed, merged, names_of
from .errors import one_of
from .fields import Count, Factors, Flag, Share, Text, Texts, Whole, float32
from .schema import Axes

__all__ = ["axes_faults", "known_names", "pool_faults", "reference_faults"]

_COUNT, _COUNTS = TypeAdapter(Count), TypeAdapter(tuple[Count, ...])
_WHOLE, _SHARE, _FLAG = TypeAdapter(Whole), TypeAdapter(Share), TypeAdapter(Flag)
_TEXT, _TEXTS, _WHERE = TypeAdapter(Text), TypeAdapter(tuple[Text, ...]), TypeAdapter(Texts)
_FACTORS = TypeAdapter(Factors)

Groups = Mapping[str, tuple[str, ...] | None]  # of every covariate; None where they cannot be read


def known_names(table: Table, field: str) -> list[str] | None:
    """The names of a list of tables, in order; None where not all can be known."""
    each = [names_of(entry) for entry in listed(table, field)]
    names = [name for some in each for name in some]
    known = isinstance(table.get(field), list) and all(each) and len(set(names)) == len(names)
    return names if known else None


def reference_faults(table: Table) -> Iterator[Fault]:
    """Classes, covariates and groups that are named are there, and every class is used."""
    yield from _class_faults(table)
    groups = _groups(table)
    if groups is None:
        return
    for index, class_ in enumerate(listed(table, "classes")):
        for place, effect in enumerate(_effects(class_) or ()):
            for path, value, expected in _effect_faults(_table(effect), groups):
                yield Fault(("classes", index, "secondary", place, *path), value, expected)
    said = set()  # what is a class's, only once
    for index, target in enumerate(listed(table, "targets")):
        primary = _read(_TEXT, _table(_table(target).get("primary")).get("covariate"))
        if primary is not None and primary not in groups:
            path = ("targets", index, "primary", "covariate")
            yield Fault(path, primary, one_of(groups, primary))
        for path, value, expected in _word_faults(_table(target), _class_of(table, target), groups):
            if (path, repr(value), expected) not in said:
                said.add((path, repr(value), expected))
                yield Fault(("targets", index, *path), value, expected)


def pool_faults(table: Table) -> Iterator[Fault]:
    """Every event must find a value to draw for each covariate of a target.

    A direct covariate draws above 1 when the target is to rise and below 1 when it is to fall, an
    inverse one the reverse.
    """
    pools, groups = _table(table.get("pools")), _groups(table)
    said: set[str] = set()
    for index, each in enumerate(listed(table, "targets")):
        target = _table(each)
        field = "pool" if "pool" in target else "pools.values"
        values = target.get("pool", pools.get("values"))
        up_only = _read(_FLAG, target.get("up_only", pools.get("up_only", False)))
        pool = _read(_FACTORS, values)
        if pool is None or up_only is None:
            continue
        directions = _directions(table, target, groups)[0].values()
        given = [way for way in ("direct", "inverse") if way in directions]
        held, lacking = [float32(value) for value in pool], []
        if max(held) < 1 and ("direct" in given or not up_only):
            lacking.append("above 1")
        if min(held) > 1 and ("inverse" in given or not up_only):
            lacking.append("below 1")
        reason = "a target that events move both ways (or set up_only = true)"
        if up_only:
            reason = f"an up-only target with {' and '.join(given)} covariates"
        if lacking and field not in said:
            said |= {field} - {"pool"}  # the pools' only once
            expected = f"at least one value {' and one '.join(lacking)}, for {reason}"
            yield Fault(("targets", index, field), values, expected)


def axes_faults(table: Table) -> Iterator[Fault]:
    """Tasks act on no more covariates than there are, and fit into the baseline."""
    axes = _table(table.get("axes"))
    yield from _k_faults(table, axes)
    prefix, end_buffer = (
        _read(_SHARE, _or_default(axes, name)) for name in ("prefix", "end_buffer")
    )
    if prefix is None or end_buffer is None:
        return
    free = 1.0 - prefix - end_buffer
    if free <= 0:
        expected = "two shares that leave room for events"
        yield Fault(("axes", "prefix and end_buffer"), [prefix, end_buffer], expected)
        return
    steps, gap = _read(_COUNT, table.get("steps")), _read(_WHOLE, _or_default(axes, "gap"))
    lengths = _read(_COUNTS, axes.get("event_lengths"))
    if steps is None or gap is None or not lengths:
        return
    for index, each in enumerate(listed(axes, "contexts")):
        pair = _table(each)
        names = ("context", "horizon", "fewest_events", "most_events_longest")
        numbers = [_read(_COUNT, pair.get(name, 1)) for name in names]  # 1 where most is left out
        if None in numbers or not pair.keys() >= set(names[:3]):
            continue
        context, horizon, *counts = numbers
        events = max(counts)
        needed = max(context, math.ceil(events * (max(lengths) + gap) / free))
        if needed + horizon > steps:
            expected = (
                f"context + horizon within the {steps} steps of the baseline (here "
                f"{needed} + {horizon}, with {events} events of length {max(lengths)})"
            )
            yield Fault(("axes", "contexts", index, "context"), context, expected)


def _class_faults(table: Table) -> Iterator[Fault]:
    """Every target is of a class that is there, and every class is some target's."""
    names = known_names(table, "classes")
    if names is None:
        return
    targets = listed(table, "targets")
    used = [_read(_TEXT, _table(each).get("class")) for each in targets]
    for index, name in enumerate(used):
        if name is not None and name not in names:
            yield Fault(("targets", index, "class"), name, one_of(names, name))
    for index, class_ in enumerate(listed(table, "classes")):
        for name in names_of(class_):
            if used and name not in used and all(each in names for each in used):
                expected = "a class that at least one target is of"
                yield Fault(("classes", index, "name"), name, expected)


def _effect_faults(effect: Table, groups: Groups) -> Iterator[Fault]:
    """What an effect names by itself, whatever the target."""
    for number, given in enumerate(listed(effect, "covariates")):
        name = _read(_TEXT, given)
        if name is not None and not words(name) and name not in groups:
            yield Fault(("covariates", number), name, one_of(groups, name))
    group = _read(_TEXT, effect.get("group"))
    if group is not None and "covariates" not in effect and None not in groups.values():
        every = sorted({each for own in groups.values() for each in own or ()})
        if group not in every:
            expected = f"a group that a covariate is in: {one_of(every, group)}"
            yield Fault(("group",), group, expected)


def _word_faults(target: Table, class_: object, groups: Groups) -> Iterator[Fault]:
    """What the effects of a target's class name through words of its own."""
    where = _read(_WHERE, target.get("where", {}))
    for place, effect in enumerate(_effects(class_) or ()):
        for pattern in _read(_TEXTS, listed(_table(effect), "covariates")) or ():
            if where is None or not words(pattern):
                continue
            if not words(pattern) <= where.keys():
                expected = f"a value in this target's where table for each {{...}} of {pattern!r}"
                yield Fault(("where",), dict(where), expected)
                continue
            (name,) = taken((pattern,), None, where, {})
            if name not in groups:
                field = f"secondary[{place}].covariates (from its class)"
                yield Fault((field,), name, one_of(groups, name))


def _k_faults(table: Table, axes: Table) -> Iterator[Fault]:
    read = [_read(_COUNT, each) for each in listed(axes, "k")]
    counts = [count for count in read if count is not None]
    given = table.get("covariates")
    if not counts or not isinstance(given, list):
        return
    groups = _groups(table)
    for target in listed(table, "targets"):
        directions, whole = _directions(table, _table(target), groups)
        most = min(len(directions), len(given))  # a misspelt name counts as the one it is meant for
        if whole and max(counts) > most:
            name = _table(target).get("name")
            expected = f"at most {most}, the covariates of target {name!r} with a response"
            yield Fault(("axes", "k"), axes["k"], expected)
            return
    if max(counts) > len(given):
        yield Fault(("axes", "k"), axes["k"], f"at most {len(given)}, the covariates there are")


def _directions(
    table: Table, target: Table, groups: Groups | None
) -> tuple[dict[str, object], bool]:
    """The direction by covariate, the primary's first, and whether these are all of the target."""
    primary, effects = _table(target.get("primary")), _effects(_class_of(table, target))
    where = _read(_WHERE, target.get("where", {}))
    name = _read(_TEXT, primary.get("covariate"))
    found = {} if name is None else {name: primary.get("direction")}
    if name is None or effects is None or groups is None or where is None:
        return found, False
    for each in effects:
        effect = _table(each)
        patterns, group = effect.get("covariates"), _read(_TEXT, effect.get("group"))
        names = None if patterns is None else _read(_TEXTS, patterns)
        ways = (names is not None, group is not None, effect.get("others") is True)
        others = taken(names, group, where, groups) if sum(ways) == 1 else []
        if not others or (group is not None and None in groups.values()):
            return found, False
        for other in others:
            found.setdefault(other, effect.get("direction"))
    return found, True


def _groups(table: Table) -> Groups | None:
    """The groups of every covariate by its name; None where not all names can be known."""
    names = known_names(table, "covariates")
    if names is None:
        return None
    tables = map(_table, listed(table, "covariates"))
    return {
        name: _read(_TEXTS, each.get("groups", []))
        for name, each in zip(names, tables, strict=True)
    }


def _class_of(table: Table, target: object) -> object:
    """The class of a target; None where it cannot be known."""
    name = _table(target).get("class")
    known = name in (known_names(table, "classes") or ())
    return (
        next((c for c in listed(table, "classes") if name in names_of(c)), None) if known else None
    )


def _effects(class_: object) -> list[object] | None:
    """The secondary effects of a class with its defaults; None where they cannot be read."""
    if not isinstance(class_, dict) or not isinstance(class_.get("secondary", []), list):
        return None
    defaults = class_.get("secondary_defaults", {})
    return [merged(defaults, effect) for effect in listed(class_, "secondary")]


def _read(kind: TypeAdapter[Any], value: object) -> Any:
    """The value, if it is of that kind; else None."""
    try:
        return kind.validate_python(value)
    except ValidationError:
        return None


def _or_default(axes: Table, name: str) -> object:
    return axes.get(name, Axes.model_fields[name].default)


def _table(value: object) -> Table:
    """The table; an empty one where it is none."""
    return value if isinstance(value, dict) else {}
