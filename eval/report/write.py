"""Writing a report: from results to a folder with the page, its figures and its tables."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from whatif_jax import Suite, root_key
from whatif_jax.files import explained, write_whole

from ..paper.findings import Finding, findings, findings_table
from ..paper.published import paper_tables
from ..results import Run
from .browser import browser_tasks
from .comparison import Comparison
from .figures import Picture, draw_figures
from .models import Model, ReportError, models_of
from .page import Section, render
from .tables import Table, report_tables, write_csv

__all__ = ["write_report"]


def write_report(
    runs: Sequence[Run],
    suite: Suite,
    out: str | Path,
    *,
    reference: str = "naive",
    resamples: int = 1000,
    seed: int = 0,
    browser_limit: int = 120,
    progress: Callable[[str], object] = lambda _: None,
) -> Path:
    """Write `index.html`, `figures/*.png|svg` and `tables/*.csv`.

    Args:
        runs: finished runs of one suite.
        suite: the suite, or the part of it to report.
        out: folder, made if missing; files of an earlier report are overwritten.
        reference: model that skill is first shown against; the page can switch to linear.
        resamples: of the bootstrap behind every confidence interval.
        seed: of the bootstrap.
        browser_limit: tasks of the browser at most.
        progress: called with what is being done.

    Returns:
        the path of `index.html`.

    Raises:
        ReportError: no run, no run of the reference, or runs of another suite; or the folder
            cannot be made, which is tried before the work, or has no room.
        ComparisonError: runs scored with different metric versions or quantile levels.
    """
    out = Path(out)
    models, notes = models_of(runs, suite)
    comparison = Comparison(
        models, suite, reference=reference, resamples=resamples, key=root_key(seed)
    )
    notes += population_notes(models, suite)
    with explained(ReportError, "out", out):
        out.mkdir(parents=True, exist_ok=True)
        return _write(comparison, notes, out, browser_limit, progress)


def _write(
    comparison: Comparison,
    notes: Sequence[str],
    out: Path,
    browser_limit: int,
    progress: Callable[[str], object],
) -> Path:
    progress("tables")
    tables = report_tables(comparison)
    progress("findings")
    found = findings(comparison, tables["fewest_most"])
    paper = paper_tables(comparison, tables)
    listed = [findings_table(found), *(one.table for one in found)] if found else []
    for table in (*tables.values(), *paper, *listed):
        write_csv(table, out / "tables")
    pictures = draw_figures(comparison, tables, out / "figures", progress)
    progress("task browser")
    models = list(comparison.models.values())
    tasks = browser_tasks(models, comparison.suite, most=browser_limit)
    sections = _sections(tables, pictures, found, paper, browser=bool(tasks))
    page = render(sections, comparison, notes=notes, tasks=tasks)
    path = out / "index.html"
    write_whole(path, lambda at: at.write_text(page, "utf-8"))
    return path


def population_notes(models: Sequence[Model], suite: Suite) -> list[str]:
    """Sentences about the models that were not scored on all tasks."""
    kinds = {
        f"a sample of the {len(suite):,} tasks": [
            f"{model.name} (n = {len(model.task_ids):,})"
            for model in models
            if model.sample and not model.where
        ],
        f"tasks that meet conditions, not comparable with skills over all {len(suite):,}": [
            f"{model.name} ({model.scored}; n = {len(model.task_ids):,})"
            for model in models
            if model.where
        ],
    }
    return [
        f"Scored on {kind}: {', '.join(names)}. Their skills are against the reference on the same "
        "tasks; win rates are over the tasks that all models share."
        for kind, names in kinds.items()
        if names
    ]


def _sections(
    tables: Mapping[str, Table],
    pictures: Mapping[str, Picture],
    found: Sequence[Finding],
    paper: Sequence[Table],
    *,
    browser: bool,
) -> list[Section]:
    def section(table: Table) -> Section:
        name, picture = table.name.replace("_", "-"), pictures.get(table.name)
        folded = picture is not None and table.name != "leaderboard"
        return Section(name, table.title, "", picture, [table], folded=folded)

    title = "The paper's findings, in these results"
    text = "Under wQL; the rules are applied to the numbers of this report. Open one for them."
    sections = [
        section(tables["leaderboard"]),
        *([Section("findings", title, text, findings=found)] if found else []),
        *(section(one) for name, one in tables.items() if name not in ("leaderboard", "runs")),
    ]
    if "coverage" not in tables:
        text = "Every model here gives a point forecast, scored at level 0.5 alone."
        sections.append(Section("coverage", "Quantile coverage", text))
    if found:  # it is the paper's suite
        text = "Needs results of naive."
        sections.append(Section("paper", "Paper and ours", "" if paper else text, tables=paper))
    if browser:
        text = "Both futures of histories whose forecasts were kept."
        sections.append(Section("browser", "Task browser", text))
    else:
        sections.append(Section("no-browser", "Task browser", "No run kept forecasts."))
    return [*sections, section(tables["runs"])]
