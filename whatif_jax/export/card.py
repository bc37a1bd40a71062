"""The dataset card of an export: what it is, how to read it, whose it is.

References:
    whatif-v1.md, head (provenance: nothing reconstructed may be presented as the paper's).
"""

import collections
import json
from collections.abc import Iterator, Sequence
from typing import Any

from ..catalog import System, builtin_systems
from ..catalog.entry import Entry, Sourced
from ..suites import Suite
from .columns import KIND, Column
from .formats import Format

__all__ = ["APACHE", "CARD_FILE", "about", "card", "column_table", "table_of"]

CARD_FILE = "README.md"
PAPER = "WhatIf-Bench: Benchmarking Intervention-Aware Time Series Forecasting"
APACHE = "https://www.apache.org/licenses/LICENSE-2.0"

_INTRODUCTION = """\
Forecasting tasks with covariates that are known ahead. The target is an intervention-free
series to which **events** were added: in its history they multiplied some covariates by factors and
the target responded. A last event fills the whole future: in a **replay** task it has the factors
of one of the past events, in a **novel** task factors beyond all of them. The two futures of one
history are a pair."""

_BUILT_IN = f"""\
This is an independent implementation of the benchmark that a paper describes
("{PAPER}"), not its authors' data.
Only part of the paper was at hand: equations and some rows of tables were missing. Every constant
therefore carries its origin, and what was missing is reconstructed and says so. The series come
from runs of the simulators made for this implementation, and every number drawn for a task (window,
factors, choice of the replayed event) was drawn here. Scores on these tasks are comparable
with each other, not digit for digit with the paper's."""

_FILES = """\
`manifest.json` lists every file with its SHA-256; `croissant.json` describes them in the Croissant
format."""

_AXES = ("system", "future", "setting", "k", "context_pair", "event_length", "n_events")


def about(suite: Suite) -> dict[str, Any]:
    """Name, description, licence and citation, for `croissant`."""
    built_in = _is_built_in(suite)
    titles = ", ".join(system.title for system in _present(suite))
    return {
        "name": suite.name,
        "description": (
            f"{len(suite):,} forecasting tasks with known future covariates under replayed and "
            f"novel interventions ({titles}); fingerprint {suite.fingerprint}{_whole(suite)}."
        ),
        "licence": APACHE if built_in else None,
        "cite_as": PAPER if built_in else None,
    }


def card(suite: Suite, form: Format) -> str:
    """The card as Markdown with the front matter of the Hugging Face Hub.

    Args:
        suite: the exported tasks.
        form: the format they are exported in.
    """
    columns = {
        column.name: column for records in form.record_sets(suite) for column in records.columns
    }
    present = _present(suite)
    parts = [
        _front_matter(suite, form),
        f"# {_title(suite)}",
        _INTRODUCTION,
        _identity(suite),
        "## Where it comes from",
        *([_BUILT_IN] if _is_built_in(suite) else []),
        *(_origin(system) for system in present),
        "## Licence and attribution",
        _licence(suite, present),
        "## Reading it",
        form.usage(suite),
        _FILES,
        "## Columns",
        column_table(list(columns.values())),
        "## Composition",
        "\n".join([f"{len(suite):,} tasks,", "", *(_counts(suite, axis) for axis in _AXES)]),
        *(_system_section(suite, system) for system in present),
    ]
    return "\n\n".join(parts) + "\n"


def _title(suite: Suite) -> str:
    return f"A part of {suite.name}" if suite.chosen else suite.name


def _identity(suite: Suite) -> str:
    part = "part of suite" if suite.chosen else "suite"
    return (
        f"{len(suite):,} tasks, {part} `{suite.name}`. Fingerprint (SHA-256 of all values that "
        f"determine the tasks):\n`{suite.fingerprint}`{_whole(suite)}"
    )


def _whole(suite: Suite) -> str:
    """Of a part of a suite, what it is a part of and how it was chosen."""
    if not suite.chosen:
        return ""
    whole = suite.whole
    return (
        f"; chosen by {', '.join(f'`{call}`' for call in suite.chosen)} from the {len(whole):,} "
        f"tasks of `{whole.name}`, whose fingerprint is `{whole.fingerprint}`"
    )


def _present(suite: Suite) -> list[System]:
    names = set(suite.column("system"))
    return [system for system in suite.catalog if system.name in names]


def _is_built_in(suite: Suite) -> bool:
    return all(system.name in builtin_systems() for system in _present(suite))


def _front_matter(suite: Suite, form: Format) -> str:
    lines = ["---", f"pretty_name: {json.dumps(_title(suite))}"]
    lines += [f"license: {'apache-2.0' if _is_built_in(suite) else 'other'}"]
    lines += ["task_categories:", "- time-series-forecasting"]
    lines += ["tags:", "- time-series", "- covariates", "- interventions", "configs:"]
    for name, pattern in form.configurations(suite).items():
        lines += [f"- config_name: {json.dumps(name)}", f"  data_files: {json.dumps(pattern)}"]
    return "\n".join([*lines, "---"])


def _origin(system: System) -> str:
    """A system's base setting, each fact with its origin, and how many constants have which."""
    lines = [f"**{system.title}** (`{system.name}`). {system.description}".strip()]
    legend = "; ".join(f"[{letter}] {meaning}" for letter, meaning in system.legend.items())
    counts = collections.Counter(_letters(system))
    shares = ", ".join(f"{count} [{letter}]" for letter, count in sorted(counts.items()))
    if shares:
        lines.append(
            f"Constants and choices in its catalog by origin: {shares}. {legend}. "
            f"`whatif-jax describe {_described(system)}` lists them one by one."
        )
    facts = [f"- {setting.text} [{setting.provenance['text']}]" for setting in system.settings]
    return "\n\n".join([*lines, *(["\n".join(facts)] if facts else [])])


def _described(system: System) -> str:
    """What `whatif-jax describe` finds a system by."""
    return system.name if system.name in builtin_systems() else system.source.name


def _letters(item: object) -> Iterator[str]:
    """The origin of every constant below a catalog object, each constant once."""
    if isinstance(item, tuple):
        for part in item:
            yield from _letters(part)
    elif isinstance(item, Entry):
        if isinstance(item, Sourced):
            yield from item.provenance.values()
        for name in type(item).model_fields:
            if name not in ("secondaries", "class_"):  # they repeat the system's classes
                yield from _letters(getattr(item, name))


def _licence(suite: Suite, present: Sequence[System]) -> str:
    sources = "\n".join(
        f"- {system.title}: {system.attribution or 'no attribution given'}" for system in present
    )
    if _is_built_in(suite):
        head = f"Apache License 2.0 ({APACHE}). The series were made with, and from, the work of:"
    else:
        head = "Not all of these systems ship with whatif_jax; ask their owners for a licence."
    return f"{head}\n\n{sources}"


def column_table(columns: Sequence[Column]) -> str:
    """Name, type and meaning of columns, in Markdown."""
    return table_of(
        ["column", "type", "what it is"],
        [[f"`{column.name}`", f"`{_type(column)}`", column.description] for column in columns],
    )


def _type(column: Column) -> str:
    text = str(column.type).replace("item: ", "").replace("element: ", "")
    return text.replace("float", "float32")


def _counts(suite: Suite, axis: str) -> str:
    counts = ", ".join(f"{value}: {count:,}" for value, count in suite.count(axis).items())
    return f"- by `{KIND if axis == 'future' else axis}`: {counts}"


def _system_section(suite: Suite, system: System) -> str:
    tasks = suite.where(system=system.name)
    counts = tasks.count("target")
    targets = [
        [
            f"`{target.name}`",
            target.unit,
            f"`{target.primary.covariate}`",
            f"{counts[target.name]:,}",
        ]
        for target in system.targets
        if target.name in counts
    ]
    covariates = [
        [f"`{covariate.name}`", f"{covariate.base:g}", covariate.unit, covariate.shape]
        for covariate in system.covariates
    ]
    return "\n\n".join(
        [
            f"### {system.title}",
            f"{len(tasks):,} tasks; one step is {system.step_seconds:g} s. Unit 1: a plain number.",
            table_of(["target", "unit", "primary covariate", "tasks"], targets),
            table_of(["covariate", "base value", "unit", "shape of its events"], covariates),
        ]
    )


def table_of(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table in Markdown."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(
        "| " + " | ".join(str(cell).replace("|", "\\|") for cell in line) + " |" for line in lines
    )
