"""The report's page: one HTML file that holds its styles, scripts, figures and data."""

import base64
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from ..findings import Finding
from ..style import Style
from ..tables import DASH, Column, Table, intervals, shown

__all__ = ["Picture", "PictureFile", "Section", "render"]

_FOLDER = Path(__file__).parent
_NAMES = {"wql": "wQL", "wape": "WAPE"}


class PictureFile(NamedTuple):
    """One variant of a figure; None where a switch does not matter to it."""

    metric: str | None
    reference: str | None
    svg: str
    alt: str

    @property
    def source(self) -> str:
        """The SVG as an address, so that names inside different figures do not meet."""
        return "data:image/svg+xml;base64," + base64.b64encode(self.svg.encode()).decode()


class Picture(NamedTuple):
    """A figure with all its variants."""

    name: str
    caption: str
    files: list[PictureFile]


class Section(NamedTuple):
    """A section of the page. `folded` hides its tables until they are opened."""

    id: str
    title: str
    texts: Sequence[str] = ()
    figures: Sequence[Picture] = ()
    tables: Sequence[Table] = ()
    findings: Sequence[Finding] = ()
    folded: bool = False


def render(
    sections: Sequence[Section],
    *,
    suite: dict[str, Any],
    models: Sequence[tuple[str, Style, bool]],
    references: Sequence[str],
    notes: Sequence[str],
    tasks: Sequence[dict[str, Any]],
) -> str:
    """The whole page.

    Args:
        sections: in order.
        suite: name, tasks, fingerprint and metric_version.
        models: name, style and whether forecasts were kept, best first.
        references: models that skills are against, the first shown first.
        notes: sentences shown above all sections.
        tasks: of `browser_tasks`.

    Raises:
        ImportError: jinja2 is not installed.
    """
    try:
        import jinja2
    except ImportError as error:
        raise ImportError("jinja2 is not installed; pip install 'whatif-jax[eval]'") from error
    environment = jinja2.Environment(
        autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    style = {name: one for name, one, _ in models}
    browser = {
        "models": [
            {
                "name": name,
                "colour": one.colour,
                "dashes": one.dashes,
                "swatch": _swatch(one),
                "kept": kept,
            }
            for name, one, kept in models
        ],
        "tasks": list(tasks),
    }
    script = "\n".join(
        (_FOLDER / name).read_text("utf-8") for name in ("page.js", "series.js", "browser.js")
    )
    trusted = jinja2.utils.markupsafe.Markup  # our own files, and text escaped below
    return environment.from_string((_FOLDER / "template.html.j2").read_text("utf-8")).render(
        sections=sections,
        suite=suite,
        models=models,
        metrics=list(_NAMES.items()),
        references=list(references),
        notes=list(notes),
        css=trusted((_FOLDER / "page.css").read_text("utf-8")),
        js=trusted(script),
        task_data=trusted(_json(browser)),
        html_table=lambda table: trusted(html_table(table, style)),
    )


def _json(value: Any) -> str:
    """JSON that cannot end the script element that holds it."""
    text = json.dumps(value, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return text.replace("<", "\\u003c")


def html_table(table: Table, style: dict[str, Style]) -> str:
    """A table as HTML, one element for each of its variants; values as the CSV has them beside."""
    parts = []
    if not table.variants:
        parts.append(_one(table, table.rows, "", style))
    else:
        chosen = list(
            dict.fromkeys(tuple(row[key] for key in table.variants) for row in table.rows)
        )
        for values in chosen:
            wanted = dict(zip(table.variants, values, strict=True))
            rows = [row for row in table.rows if wanted.items() <= row.items()]
            attributes = "".join(f' data-{key}="{_text(wanted[key])}"' for key in wanted)
            parts.append(_one(table, rows, attributes, style))
    note = f'<p class="note">{_text(table.note)}</p>' if table.note else ""
    return "".join(parts) + note


def _one(table: Table, rows: list[dict[str, Any]], attributes: str, style: dict) -> str:
    kind = "scroll variant" if attributes else "scroll"
    body = "".join(_row(table, row, style) for row in rows)
    return (
        f'<div class="{kind}"{attributes}><table data-table="{_text(table.name)}">'
        f"<thead>{_head(table.columns)}</thead><tbody>{body}</tbody></table></div>"
    )


def _head(columns: Sequence[Column]) -> str:
    head = ""
    if any(column.group for column in columns):
        cells, place = [], 0
        while place < len(columns):
            group = columns[place].group
            span = 1
            while group and place + span < len(columns) and columns[place + span].group == group:
                span += 1
            cells.append(f'<th colspan="{span}">{_text(group)}</th>')
            place += span
        head = f'<tr class="groups">{"".join(cells)}</tr>'
    cells = [
        f'<th class="sort{" n" if column.numeric else ""}" data-column="{number}" '
        f'scope="col">{_text(column.label)}</th>'
        for number, column in enumerate(columns)
    ]
    return f"{head}<tr>{''.join(cells)}</tr>"


def _row(table: Table, row: dict[str, Any], style: dict[str, Style]) -> str:
    cells = []
    for column in table.columns:
        value = row.get(column.key)
        text = _text(shown(value, column.kind))
        if column.key == "model" and value in style:
            text = _swatch(style[value]) + text
        for number, ends in enumerate(intervals(row, column)):
            kind = "ci wide" if number else "ci"
            text += f'<span class="{kind}">{_text(ends)}</span>'
        kind = ' class="n"' if column.numeric else ' class="long"' if len(str(value)) > 60 else ""
        known = "" if text == DASH else value
        if known in (float("inf"), float("-inf")):
            known = "Infinity" if known > 0 else "-Infinity"  # as scripts read it
        cells.append(
            f'<td{kind} data-key="{_text(column.key)}" data-value="{_text(known)}">{text}</td>'
        )
    total = ' class="total"' if row.get("model") == "mean over models" else ""
    return f"<tr{total}>{''.join(cells)}</tr>"


def _swatch(style: Style) -> str:
    dash = f' stroke-dasharray="{style.dashes}"' if style.dashes else ""
    return (
        '<svg class="swatch" width="24" height="9" aria-hidden="true">'
        f'<path d="M0 4.5H24" stroke="{style.colour}" stroke-width="2.6"{dash}/></svg>'
    )


def _text(value: Any) -> str:
    from html import escape

    return escape(str(value))
