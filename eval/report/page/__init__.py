"""The report's page: one HTML file that holds its styles, scripts, figures and data."""

import base64
import functools
import itertools
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jinja2
from markupsafe import Markup

from ...paper.findings import Finding
from ..comparison import Comparison
from ..figures import Picture
from ..labels import INFORMED_MARK, MEAN_OVER_MODELS, METRIC_LABELS
from ..style import Style
from ..tables import Table, shown

__all__ = ["Section", "file", "parts", "render", "swatch", "templates"]

_FOLDER = Path(__file__).parent


class Section(NamedTuple):
    """A section of the page. `folded` hides its tables until they are opened."""

    id: str
    title: str
    text: str = ""
    picture: Picture | None = None
    tables: Sequence[Table] = ()
    findings: Sequence[Finding] = ()
    folded: bool = False
    footnotes: Sequence[str] = ()  # of marked models


def render(
    sections: Sequence[Section],
    comparison: Comparison,
    *,
    notes: Sequence[str],
    tasks: Sequence[dict[str, Any]],
) -> str:
    """The whole page.

    Args:
        sections: in order.
        comparison: the models, and what they are compared on.
        notes: sentences shown above all sections.
        tasks: of `browser_tasks`.
    """
    models = [comparison.models[name] for name in comparison.order]
    styles = comparison.styles
    swatches = {name: swatch(style) for name, style in styles.items()}
    browser = {
        "metrics": list(METRIC_LABELS),
        "models": [
            {
                "name": model.name,
                "colour": styles[model.name].colour,
                "dashes": styles[model.name].dashes,
                "swatch": swatches[model.name],
                "kept": model.run.forecasts is not None,
                "drawn": model.name in comparison.drawn,
            }
            for model in models
        ],
        "tasks": tasks,
        "first": max(tasks, key=lambda task: (task["kept"], task["clarity"]))["id"]
        if tasks
        else None,
    }
    return (
        templates()
        .get_template("template.html.j2")
        .render(
            sections=sections,
            suite=comparison.suite,
            about=models[0].run.metadata,
            models=models,
            metrics=METRIC_LABELS,
            references=comparison.references,
            notes=notes,
            swatches=swatches,
            drawn=comparison.drawn,
            total=MEAN_OVER_MODELS,
            parts=parts,
            groups=functools.partial(_groups, comparison=comparison),
            informed={model.name: model.informed for model in models if model.informed},
            mark=INFORMED_MARK,
            file=file,
            browser=browser,
        )
    )


def templates(*folders: Path) -> jinja2.Environment:
    """What makes pages of the templates of this folder, and of other folders, which come first."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader([*folders, _FOLDER]),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"shown": shown, "address": _address}
    return environment


def file(name: str) -> Markup:
    """A file of this folder, for a page that holds it."""
    return Markup((_FOLDER / name).read_text("utf-8"))


def parts(table: Table) -> Iterator[tuple[dict[str, str], list[dict[str, Any]]]]:
    """What each variant of a table is of, and its rows."""
    if not table.variants:
        yield {}, table.frame.to_dicts()
        return
    parts = table.frame.partition_by(table.variants, as_dict=True, maintain_order=True)
    for values, rows in parts.items():
        yield dict(zip(table.variants, values, strict=True)), rows.to_dicts()


def _groups(
    rows: list[dict[str, Any]], comparison: Comparison
) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """Rows of a table by the split of their models, with a heading where there are several."""

    def split(row: dict[str, Any]) -> str:
        model = comparison.models.get(row.get("model", ""))
        return model.split if model else ""

    if len({split(row) for row in rows} - {""}) < 2:
        yield "", rows
        return
    for name, group in itertools.groupby(rows, split):
        yield name, list(group)


def _address(svg: str) -> str:
    """An SVG as an address, so that names inside different figures do not meet."""
    return "data:image/svg+xml;base64," + base64.b64encode(svg.encode()).decode()


def swatch(style: Style) -> Markup:
    """A short line as a model is drawn."""
    dash = Markup(' stroke-dasharray="{}"').format(style.dashes) if style.dashes else ""
    return Markup(
        '<svg class="swatch" width="24" height="9" aria-hidden="true">'
        '<path d="M0 4.5H24" stroke="{}" stroke-width="2.6"{}/></svg>'
    ).format(style.colour, dash)
