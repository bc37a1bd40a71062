"""From a system's file to a checked System (whatif-v1.md §2-§5)."""

import os
import re
import tomllib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from .checks import check_axes, check_pool
from .effects import ClassSpec, merged, read_class, read_primary, resolve
from .errors import MISSING, CatalogError, Problem, one_of
from .reader import Entry, Faults
from .schema import (
    Axes,
    ContextPair,
    Covariate,
    FrozenMapping,
    Primary,
    Setting,
    System,
    Target,
)

__all__ = ["FORMAT_VERSION", "SHAPES", "read_system"]

FORMAT_VERSION = 1
SHAPES = ("step", "bell", "ramp", "half_sine")
_NAME = re.compile(r"[^\s/{}]([^/{}\n\r\t]*[^\s/{}])?")
_OWN_LEGEND = {"own": "given by the author of this file"}


def read_system(path: str | os.PathLike[str]) -> System:
    """Read and check one system's file; raises CatalogError with every problem found.

    The baseline beside it is not opened here.
    """
    source = Path(path)
    faults = Faults(source.name)
    top = Entry(faults, "file", _parse(source))
    version = top.raw("format_version", expected=str(FORMAT_VERSION))
    if version is not MISSING and version != FORMAT_VERSION:
        top.fault("format_version", version, str(FORMAT_VERSION))
    faults.legend = _read_legend(top)
    faults.default_provenance = _read_default_provenance(top, faults.legend)
    name = top.text("name")
    _check_name(faults, "file", name)
    title = top.text("title", name)
    description = top.text("description", "")
    attribution = top.text("attribution", "")
    step_seconds = top.number("step_seconds", above=0.0)
    steps = top.whole("steps")
    requires_flow = top.flag("requires_flow", False)
    baseline = top.text("baseline")
    origin = top.provenance("step_seconds", "steps", "requires_flow")
    settings = _read_settings(top)
    covariates = _read_covariates(top)
    specs = _read_classes(faults, top)
    pools = top.child("pools")
    pool = pools.numbers("values")
    up_only = pools.flag("up_only", False)
    pool_origin = pools.provenance("values", "up_only")
    pools.finish()
    axes = _read_axes(faults, top)
    drafts = [_draft(entry, specs) for entry in top.named_tables("targets", "target")]
    top.finish()
    _check_unique(faults, "covariate", [covariate.name for covariate in covariates])
    _check_unique(faults, "target", [draft.name for draft in drafts])
    _check_unique(faults, "class", [spec.class_.name for spec in specs])
    _check_used(faults, specs, drafts)
    faults.stop_if_any()

    targets = []
    for draft in drafts:
        targets.append(draft.finish(faults, covariates, pool, up_only, pool_origin))
    faults.stop_if_any()
    system = System(
        name=name,
        title=title,
        description=description,
        step_seconds=step_seconds,
        steps=steps,
        requires_flow=requires_flow,
        targets=tuple(targets),
        covariates=covariates,
        classes=tuple(spec.class_ for spec in specs),
        axes=axes,
        pool=pool,
        up_only=up_only,
        pool_provenance=pool_origin,
        baseline=Path(os.path.normpath(source.absolute().parent / baseline)),
        source=source.absolute(),
        attribution=attribution,
        settings=settings,
        legend=faults.legend,
        provenance=origin,
    )
    check_axes(faults, system)
    faults.stop_if_any()
    return system


class _Draft:
    """A target as written, before its covariates are looked up."""

    def __init__(self, entry: Entry, spec: ClassSpec | None, primary: Primary | None) -> None:
        self.entry, self.spec, self.primary = entry, spec, primary
        self.label, self.name = entry.label, entry.text("name")
        _check_name(entry.faults, self.label, self.name)
        self.unit = entry.text("unit")
        self.constant = entry.flag("constant", False)
        self.partial = entry.flag("partial", False)
        self.note = entry.text("note", "")
        self.pool = entry.numbers("pool") if entry.has("pool") else None
        self.up_only = entry.flag("up_only", False) if entry.has("up_only") else None
        entry.taken.update(dict.fromkeys(("pool", "up_only")))
        where = entry.child("where", {})
        self.where = {key: where.text(key) for key in where.table}
        owned = [field for field in ("pool", "up_only") if entry.has(field)]
        self.origin = dict(entry.provenance(*owned)) if owned else {}
        entry.taken["provenance"] = None
        entry.finish()

    def finish(
        self,
        faults: Faults,
        covariates: Sequence[Covariate],
        pool: tuple[float, ...],
        up_only: bool,
        pool_origin: Mapping[str, str],
    ) -> Target:
        """The target with its secondaries, pool and flags settled."""
        spec, primary = self.spec, self.primary
        if spec is None or primary is None:
            raise CatalogError(faults.problems)
        names = [covariate.name for covariate in covariates]
        if primary.covariate not in names:
            expected = one_of(names, primary.covariate)
            faults.add(self.label, "primary.covariate", primary.covariate, expected)
        secondaries = resolve(faults, self.label, spec, covariates, primary.covariate, self.where)
        origin = {"pool": pool_origin["values"], "up_only": pool_origin["up_only"], **self.origin}
        target = Target(
            name=self.name,
            unit=self.unit,
            class_=spec.class_,
            primary=primary,
            secondaries=secondaries,
            pool=pool if self.pool is None else self.pool,
            up_only=up_only if self.up_only is None else self.up_only,
            constant=self.constant,
            partial=self.partial,
            provenance=FrozenMapping(origin),
            note=self.note,
        )
        check_pool(faults, self.label, target, "pools.values" if self.pool is None else "pool")
        return target


def _draft(entry: Entry, specs: Sequence[ClassSpec]) -> _Draft:
    known = {spec.class_.name: spec for spec in specs}
    spec = known.get(entry.text("class", choices=known))
    if spec is None:  # what its primary may leave out is then unknown
        entry.taken["primary"] = None
        return _Draft(entry, None, None)
    return _Draft(entry, spec, read_primary(entry, spec.primary_defaults))


def _parse(source: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(source.read_text(encoding="utf-8"))
    except OSError as error:
        raise _file_error(source, str(source), "a readable TOML file") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise _file_error(source, str(error), "valid TOML (UTF-8)") from error


def _file_error(source: Path, value: str, expected: str) -> CatalogError:
    return CatalogError([Problem(source.name, "file", "text", value, expected)])


def _read_legend(top: Entry) -> Mapping[str, str]:
    if not top.has("legend"):
        top.taken["legend"] = None
        return _OWN_LEGEND
    legend = top.child("legend")
    return {key: legend.text(key) for key in legend.table} or _OWN_LEGEND


def _read_default_provenance(top: Entry, legend: Mapping[str, str]) -> str | None:
    """What holds for every table that names no provenance of its own; None asks each to."""
    if top.has("default_provenance"):
        return top.text("default_provenance", choices=legend) or None
    top.taken["default_provenance"] = None
    return next(iter(legend)) if legend is _OWN_LEGEND else None


def _read_settings(top: Entry) -> tuple[Setting, ...]:
    settings = []
    top.raw("settings", [])
    for entry in top.named_tables("settings", "setting") if top.has("settings") else ():
        text = entry.text("text")
        settings.append(Setting(text, entry.provenance("text").get("text", "")))
        entry.finish()
    return tuple(settings)


def _read_covariates(top: Entry) -> tuple[Covariate, ...]:
    defaults = top.child("covariate_defaults", {}).table
    covariates = []
    for given in top.named_tables("covariates", "covariate"):
        entry = Entry(top.faults, given.label, merged(defaults, dict(given.table)))
        name = entry.text("name")
        _check_name(top.faults, entry.label, name)
        base = entry.number("base")
        if base == 0:
            entry.fault("base", entry.table["base"], "a number other than 0, as factors scale it")
        unit = entry.text("unit")
        shape = entry.text("shape", choices=SHAPES)
        groups = entry.texts("groups", [])
        note = entry.text("note", "")
        fields = ["base", "shape"] + (["groups"] if groups else [])
        origin = entry.provenance(*fields)
        entry.finish()
        covariates.append(Covariate(name, base, unit, shape, groups, origin, note))
    return tuple(covariates)


def _read_classes(faults: Faults, top: Entry) -> list[ClassSpec]:
    specs: list[ClassSpec] = []
    for entry in top.named_tables("classes", "class"):
        if entry.has("names") and not entry.has("name"):
            entry.label = f"class {entry.table['names']!r}"
        specs.extend(read_class(faults, entry))
    return specs


def _read_axes(faults: Faults, top: Entry) -> Axes:
    entry = Entry(faults, "axes", top.raw("axes", expected="a table of fields"))
    k = entry.wholes("k")
    lengths = entry.wholes("event_lengths")
    gap = entry.whole("gap", 32, least=0)
    prefix = entry.number("prefix", 0.40, least=0.0, below=1.0)
    end_buffer = entry.number("end_buffer", 0.02, least=0.0, below=1.0)
    contexts = []
    for pair in entry.named_tables("contexts", "context"):
        fields = ["context", "horizon", "fewest_events"]
        longest = None
        if pair.has("most_events_longest"):
            longest = pair.whole("most_events_longest")
            fields.append("most_events_longest")
        pair.taken["most_events_longest"] = None
        name = pair.text("name")
        context, horizon, fewest = (pair.whole(field) for field in fields[:3])
        origin = pair.provenance(*fields)
        pair.finish()
        contexts.append(ContextPair(name, context, horizon, fewest, longest, origin))
    origin = entry.provenance("k", "event_lengths", "gap", "prefix", "end_buffer")
    entry.finish()
    _check_unique(faults, "context", [pair.name for pair in contexts])
    if entry.has("contexts") and not contexts:
        entry.fault("contexts", [], "at least one context")
    return Axes(k, lengths, tuple(contexts), gap, prefix, end_buffer, origin)


def _check_name(faults: Faults, label: str, name: str) -> None:
    if name and not _NAME.fullmatch(name):
        faults.add(label, "name", name, "a name without '/', '{', '}' or spaces around it")


def _check_unique(faults: Faults, kind: str, names: Iterable[str]) -> None:
    for name, count in Counter(names).items():
        if name and count > 1:
            expected = f"a name no other {kind} has (it is given {count} times)"
            faults.add(f"{kind} {name!r}", "name", name, expected)


def _check_used(faults: Faults, specs: Iterable[ClassSpec], drafts: Sequence[_Draft]) -> None:
    used = {draft.spec.class_.name for draft in drafts if draft.spec is not None}
    if not drafts:
        faults.add("file", "targets", [], "at least one target")
        return
    if any(draft.spec is None for draft in drafts):
        return
    for spec in specs:
        if spec.class_.name not in used:
            expected = "a class that at least one target is of"
            faults.add(f"class {spec.class_.name!r}", "name", spec.class_.name, expected)
