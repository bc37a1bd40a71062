"""The report on temporal causal worlds: one page, its tables as CSV files, and Markdown."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from whatif_jax.files import explained, write_whole

from ..paper.findings import Finding, findings_table
from ..report.labels import DASH, INFORMED_MARK, MEAN_OVER_MODELS
from ..report.markdown import grid
from ..report.models import ReportError
from ..report.page import Section, file, parts, swatch, templates
from ..report.style import styles
from ..report.tables import Table, shown, write_csv
from .board import Board
from .checks import checks
from .published import later_table, paper_table
from .statistics import METRICS
from .tables import (
    axis_tables,
    methods_table,
    reference_table,
    scored_on,
    scores_table,
    values_table,
)

__all__ = ["reference_text", "scored_text", "write_page"]

_CHECKS_TEXT = (
    "Computed from the numbers of this page, each by the rule that is stated. Open one for them."
)


def write_page(board: Board, out: Path) -> Path:
    """Write `index.html`, `tables/*.csv` and `tscm.md`.

    Returns:
        the path of `index.html`.

    Raises:
        ReportError: the folder cannot be written.
    """
    found = checks(board)
    sections = [
        _section(reference_table(board)),
        Section("checks", "What must come out", _CHECKS_TEXT, findings=found),
    ]
    papers = [table for table in (paper_table(board), later_table(board)) if table is not None]
    sections.append(Section("paper", "DoTime's figures and ours", tables=papers))
    for label in board.plain:
        tables = [scores_table(board, label), *axis_tables(board, label)]
        sections.append(Section(label, label, tables=tables))
    for name in dict.fromkeys(suite.name for suite in board.suites.values()):
        table = values_table(board, name)
        if table is not None:
            sections.append(_section(table))
    sections.append(_section(methods_table(board)))
    tables = [table for section in sections for table in section.tables]
    with explained(ReportError, "out", out):
        for table in (*tables, findings_table(found), *(one.table for one in found)):
            write_csv(table, out / "tables")
        text = _markdown(board, found, papers)
        write_whole(out / "tscm.md", lambda at: at.write_text(text, "utf-8"))
        page, path = _rendered(board, sections), out / "index.html"
        write_whole(path, lambda at: at.write_text(page, "utf-8"))
    return path


def _section(table: Table) -> Section:
    return Section(table.name.replace("_", "-"), table.title, tables=[table])


def _rendered(board: Board, sections: Sequence[Section]) -> str:
    def alone(rows: list[dict[str, Any]]) -> list[tuple[str, list[dict[str, Any]]]]:
        return [("", rows)]

    looks = {name: swatch(style) for name, style in styles(list(board.order)).items()}
    facts = [
        f"{label}: {_scored(board, label)} episodes of {board.suites[label].steps} steps"
        for label in board.columns
    ]
    return templates(Path(__file__).parent / "page").get_template("page.html.j2").render(
        sections=sections,
        models=board.order,
        metrics=METRICS,
        facts=[*facts, f"{board.resamples:,} resamples"],
        swatches=looks,
        parts=parts,
        groups=alone,
        informed={},
        mark=INFORMED_MARK,
        total=MEAN_OVER_MODELS,
        file=file,
    )  # fmt: skip


def reference_text(board: Board) -> str:
    """The reference table as the paper prints it: RMSE ± deviation (direction), in Markdown."""
    table = reference_table(board)
    labels = board.columns
    rows = []
    for row in table.frame.to_dicts():
        cells = [row["model"]]
        for place, _ in enumerate(labels):
            keys = ("interventional_rmse", "deviation", "interventional_direction")
            error, spread, direction = (row[f"s{place}_{key}"] for key in keys)
            text = DASH if error is None else f"{error:.3f}"
            text += "" if spread is None else f" ± {spread:.3f}"
            cells.append(text + ("" if direction is None else f" ({direction:.2f})"))
        rows.append(cells)
    return grid(("method", *labels), rows)


def scored_text(board: Board) -> str:
    """How many episodes of each suite the methods were scored on, which a sample makes fewer."""
    said = "; ".join(f"{label}: {_scored(board, label)} episodes" for label in board.columns)
    return f"{said}."


def _scored(board: Board, label: str) -> str:
    """One number where all methods have the same, else who has which."""
    methods: dict[str, list[str]] = {}
    for model in board.of(label):
        methods.setdefault(scored_on(board, label, model), []).append(model)
    if len(methods) == 1:
        return next(iter(methods))
    return ", ".join(f"{size} ({', '.join(names)})" for size, names in methods.items())


def _markdown(board: Board, found: Sequence[Finding], papers: Sequence[Table]) -> str:
    """Reference table, checks, the paper's figures, methods."""
    reference = reference_table(board)
    verdicts = grid(
        ("must come out", "here", ""), [(one.claim, one.verdict, one.summary) for one in found]
    )
    return (
        "\n\n".join(
            [
                f"## {reference.title}\n\nRMSE ± its standard deviation over {board.resamples:,} "
                "resamples of the episodes, and in brackets direction accuracy, both against the "
                f"interventional run. {scored_text(board)}",
                reference_text(board),
                f"## What must come out\n\n{verdicts}",
                *(_plain(table) for table in papers),
                _plain(methods_table(board)),
            ]
        )
        + "\n"
    )


def _plain(table: Table) -> str:
    heads = [f"{one.group} {one.label}".strip() for one in table.columns]
    rows = [
        [shown(row[one.key], one.kind) for one in table.columns] for row in table.frame.to_dicts()
    ]
    return f"## {table.title}\n\n{table.note}\n\n{grid(heads, rows)}"
