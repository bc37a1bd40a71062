"""Writing a report: from results to a folder with the page, its figures and its tables."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from whatif_jax.files import write_whole

from .browser import browser_tasks
from .comparison import Comparison
from .findings import Finding, findings
from .further import coverage_table, effects_table, fewest_most_table, runs_table
from .models import Model, models_of
from .numbers import AXES, gap_table, leaderboard_table, pairwise_table, skill_tables
from .page import Picture, Section, render
from .pictures import Pictures
from .published import paper_tables
from .tables import DASH, Column, Table, write_csv

__all__ = ["write_report"]


def write_report(
    runs: Sequence[Any],
    suite: Any,
    out: str | Path,
    *,
    reference: str = "naive",
    resamples: int = 1000,
    seed: int = 0,
    browser_limit: int = 120,
    progress: Callable[[str], object] | None = None,
) -> Path:
    """Write `index.html`, `figures/*.png|svg` and `tables/*.csv`.

    Args:
        runs: finished runs of one suite (`eval.results.Run`): `name`, `version`, `settings`,
            `scores`, `seconds` and `forecasts` are read.
        suite: the suite, or the part of it to report.
        out: folder, made if missing; files of an earlier report are overwritten.
        reference: model that skill is first shown against; the page can switch to linear.
        resamples: of the bootstrap behind every confidence interval.
        seed: of the bootstrap.
        browser_limit: tasks of the browser at most.
        progress: called with what is being done; None for silence.

    Returns:
        the path of `index.html`.

    Raises:
        ReportError: no run, no run of the reference, or runs of another suite.
        ComparisonError: runs scored with different metric versions or quantile levels.
        ImportError: jinja2 or matplotlib is not installed; names the extra.
        OSError: the folder cannot be written.
    """
    _need("jinja2")
    _need("matplotlib")
    say = progress or (lambda _: None)
    out = Path(out)
    models, notes = models_of(runs, suite)
    from whatif_jax import root_key

    comparison = Comparison(
        models, suite, reference=reference, resamples=resamples, key=root_key(seed)
    )
    tables = _tables(comparison, models, say)
    found = findings(comparison, tables)
    paper = paper_tables(comparison, tables)
    say("tables")
    every = [*tables.values(), *paper, _findings_table(found), *(one.table for one in found)]
    write_csv(every, out / "tables")
    pictures = _draw(comparison, tables, out / "figures", say)
    say("task browser")
    tasks = browser_tasks(models, suite, most=browser_limit)
    ranked = [row["model"] for row in tables["leaderboard"].rows if row["reference"] == reference]
    ranked += [name for name in comparison.models if name not in ranked]
    page = render(
        _sections(comparison, tables, pictures, found, paper, bool(tasks)),
        suite=_about(comparison, suite),
        models=[
            (name, comparison.models[name].style, comparison.models[name].forecasts is not None)
            for name in ranked
        ],
        references=comparison.references,
        notes=[*notes, *_notes(models, suite)],
        tasks=tasks,
    )
    path = out / "index.html"
    write_whole(path, lambda at: at.write_text(page, "utf-8"))
    return path


def _need(module: str) -> None:
    from importlib.util import find_spec

    if find_spec(module) is None:
        raise ImportError(f"{module} is not installed; pip install 'whatif-jax[eval]'")


def _tables(
    comparison: Comparison, models: Sequence[Model], say: Callable[[str], object]
) -> dict[str, Table]:
    """Every table of our own results, by name, in the order of the page."""
    say("leaderboard")
    found: list[Table | None] = [leaderboard_table(comparison)]
    say("skills")
    found += skill_tables(comparison)
    by_system = next(one for one in found if one is not None and one.name == "by_system")
    found.append(gap_table(comparison, by_system))
    say("win rates")
    found.append(pairwise_table(comparison))
    say("events, effects, coverage")
    found += [fewest_most_table(comparison), effects_table(comparison), coverage_table(comparison)]
    found.append(runs_table(models))
    return {table.name: table for table in found if table is not None}


def _draw(
    comparison: Comparison, tables: dict[str, Table], folder: Path, say: Callable[[str], object]
) -> dict[str, Picture]:
    pictures = Pictures(comparison, tables, folder, lambda name: say(f"figure {name}"))
    made = [
        pictures.leaderboard(),
        pictures.replay_novel(),
        *(pictures.skill_by(name) for name in AXES),
        pictures.systems(),
        pictures.gap(),
        pictures.pairwise(),
        pictures.fewest_most(),
    ]
    return {picture.name: picture for picture in made if picture is not None}


def _findings_table(found: Sequence[Finding]) -> Table:
    columns = tuple(
        Column(key, key.capitalize()) for key in ("name", "claim", "rule", "verdict", "summary")
    )
    rows = [{column.key: getattr(one, column.key) for column in columns} for one in found]
    return Table("findings", "Findings", columns, rows)


def _about(comparison: Comparison, suite: Any) -> dict[str, Any]:
    table = comparison.table("wql", [comparison.references[0]])
    return {
        "name": suite.name,
        "tasks": len(suite),
        "fingerprint": suite.fingerprint if table is None else table.fingerprint,
        "metric_version": "" if table is None else table.metric_version,
    }


def _notes(models: Sequence[Model], suite: Any) -> list[str]:
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
    comparison: Comparison,
    tables: dict[str, Table],
    pictures: dict[str, Picture],
    found: Sequence[Finding],
    paper: Sequence[Table],
    browser: bool,
) -> list[Section]:
    def section(name: str, title: str, *texts: str) -> Section:
        has_picture = name in pictures
        return Section(
            name.replace("_", "-"), title, texts, [pictures[name]] if has_picture else [],
            [tables[name]], folded=has_picture and name != "leaderboard",
        )  # fmt: skip

    sections = [
        Section(
            "findings", "The paper's findings, in these results",
            ("Under wQL; the rules are applied to the numbers of this report. Open one for them.",),
            findings=found,
        ),
        section("leaderboard", "Leaderboard"),
        section("replay_novel", "Replay and Novel"),
        *(section(name, tables[name].title) for name in AXES),
        section("by_system", "Skill by system"),
        section("gap", f"Replay{DASH}Novel gap"),
    ]  # fmt: skip
    if "pairwise" in tables:
        sections.append(section("pairwise", "Pairwise win rates"))
    sections += [section("fewest_most", "Fewest and most events"), section("effects", "Effects")]
    if "coverage" in tables:
        sections.append(section("coverage", "Quantile coverage"))
    else:
        text = "Every model here gives a point forecast, scored at level 0.5 alone."
        sections.append(Section("coverage", "Quantile coverage", (text,)))
    text = ""
    if not paper:
        text = "Needs results of naive on whatif-v1, the suite that the paper's figures are of."
    sections.append(Section("paper", "Paper and ours", (text,) if text else (), tables=paper))
    text = "Tasks whose forecasts were kept." if browser else "No run kept forecasts."
    sections.append(Section("browser" if browser else "no-browser", "Task browser", (text,)))
    sections.append(section("runs", "Runs"))
    return sections
