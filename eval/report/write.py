"""Writing a report: from results to a folder with the page, its figures and its tables."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from whatif_jax import Suite, root_key
from whatif_jax.catalog.errors import one_of
from whatif_jax.files import explained, write_whole

from ..paper.findings import Finding, findings, findings_table
from ..paper.published import paper_tables
from ..results import Run
from .browser import browser_tasks
from .comparison import Comparison
from .figures import Picture, draw_figures
from .markdown import footnotes, leaderboard_text
from .models import Model, ReportError, models_of
from .page import Section, render
from .tables import Table, report_tables, write_csv
from .tables.leaderboard import SPLITS_NOTE

__all__ = ["write_report"]

DIFFERENCE_TO = ("ours", "scaling")  # what models are set against if nothing else is asked for


def write_report(
    runs: Sequence[Run],
    suite: Suite,
    out: str | Path,
    *,
    reference: str = "naive",
    others: Sequence[str] | None = None,
    resamples: int = 1000,
    seed: int = 0,
    browser_limit: int = 120,
    progress: Callable[[str], object] = lambda _: None,
) -> Path:
    """Write `index.html`, `figures/*.png|svg`, `tables/*.csv` and `leaderboard.md`.

    Args:
        runs: finished runs of one suite.
        suite: the suite, or the part of it to report.
        out: folder, made if missing; files of an earlier report are overwritten.
        reference: model that skill is first shown against; the page can switch to linear.
        others: models that all others are set against, with a table of differences each; None
            takes `ours` and `scaling` where they are there, else the best.
        resamples: of the bootstrap behind every confidence interval.
        seed: of the bootstrap.
        browser_limit: tasks of the browser at most.
        progress: called with what is being done.

    Returns:
        the path of `index.html`.

    Raises:
        ReportError: no run, no run of the reference or of one of `others`, or runs of another
            suite; or the folder cannot be made, which is tried before the work, or has no room.
        ComparisonError: runs scored with different metric versions or quantile levels.
    """
    out = Path(out)
    models, notes = models_of(runs, suite)
    comparison = Comparison(
        models, suite, reference=reference, resamples=resamples, key=root_key(seed)
    )
    others = chosen_others(comparison, others)
    notes += population_notes(models, suite)
    with explained(ReportError, "out", out):
        out.mkdir(parents=True, exist_ok=True)
        return _write(comparison, others, notes, out, browser_limit, progress)


def _write(
    comparison: Comparison,
    others: Sequence[str],
    notes: Sequence[str],
    out: Path,
    browser_limit: int,
    progress: Callable[[str], object],
) -> Path:
    progress("tables")
    tables = report_tables(comparison, others)
    progress("findings")
    found = findings(comparison, tables["fewest_most"])
    paper = paper_tables(comparison, tables)
    listed = [findings_table(found), *(one.table for one in found)] if found else []
    for table in (*tables.values(), *paper, *listed):
        write_csv(table, out / "tables")
    text = leaderboard_text(comparison, tables, found, paper)
    write_whole(out / "leaderboard.md", lambda at: at.write_text(text, "utf-8"))
    pictures = draw_figures(comparison, tables, out / "figures", progress)
    progress("task browser")
    models = list(comparison.models.values())
    tasks = browser_tasks(models, comparison.suite, most=browser_limit)
    sections = _sections(tables, pictures, found, paper, browser=bool(tasks))
    text = SPLITS_NOTE if len(comparison.splits) > 1 else ""
    sections[0] = sections[0]._replace(text=text, footnotes=footnotes(comparison))
    page = render(sections, comparison, notes=notes, tasks=tasks)
    path = out / "index.html"
    write_whole(path, lambda at: at.write_text(page, "utf-8"))
    return path


def chosen_others(comparison: Comparison, others: Sequence[str] | None) -> list[str]:
    """The models that all others are set against.

    Raises:
        ReportError: one of those asked for has no run.
    """
    if others is None:
        usual = [name for name in DIFFERENCE_TO if name in comparison.models]
        return usual or comparison.order[: len(comparison.order) > 1]
    for name in others:
        if name not in comparison.models:
            raise ReportError(f"difference: {name!r}; expected {one_of(comparison.models, name)}")
    return list(dict.fromkeys(others))


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
