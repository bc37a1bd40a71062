"""The command line: `python -m eval run | report | stream | tscm | list`.

Imports what a command needs inside it, so that `--help` starts in a moment.
"""

import math
from collections.abc import Collection
from pathlib import Path
from typing import Annotated, Any

import typer

from whatif_jax.cli import parse_settings
from whatif_jax.compilation_cache import cache_rule, compilation_said, keep_compiled

__all__ = ["app", "main"]

app = typer.Typer(
    help="Score forecasters on a suite, and report.",
    epilog=cache_rule(),
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)

SuiteName = Annotated[
    str, typer.Option("--suite", help="A suite of the package, or the path of a manifest.")
]
Systems = Annotated[
    list[Path] | None,
    typer.Option("--system", help="Catalog file of a system that is not built in; repeatable."),
]
Results = Annotated[Path, typer.Option("--results", help="Folder of results.")]
Model = Annotated[
    str, typer.Option(help="A forecaster (see `list`), or MODULE:FACTORY of your own.")
]
Settings = Annotated[
    list[str] | None,
    typer.Option(
        "--set", help="KEY=VALUE, a setting of the forecaster: JSON, else text; repeatable."
    ),
]
CheckpointFolder = Annotated[
    Path | None,
    typer.Option(
        "--checkpoint",
        help="Folder of `python -m training export`, for ours and whatever else takes one; ours "
        "without it is the checkout's own, training/checkpoints/tiny.",
    ),
]
Progress = Annotated[
    bool, typer.Option(help="Show tasks per second and time left on standard error.")
]


@app.command()
def run(
    model: Model,
    set_: Settings = None,
    suite: SuiteName = "whatif-v1",
    system: Systems = None,
    where: Annotated[
        list[str] | None,
        typer.Option(
            "--where",
            help="Keep tasks with AXIS=VALUE[,VALUE...], such as system=epanet or k=1,5; "
            "repeatable.",
        ),
    ] = None,
    sample: Annotated[
        int | None,
        typer.Option(min=1, help="Run a sample of so many tasks, stratified over the axes."),
    ] = None,
    batch_size: Annotated[
        int, typer.Option(min=1, help="Tasks that are forecast at once and kept as one file.")
    ] = 256,
    results: Results = Path("results"),
    jobs: Annotated[
        int | None,
        typer.Option(
            min=-1,
            help="Processes for forecasters that compute each series apart on CPU, such as "
            "xgboost; one a CPU if omitted. Others ignore it.",
        ),
    ] = None,
    dask: Annotated[
        str | None,
        typer.Option(help="Address of a Dask scheduler to run such forecasters on instead."),
    ] = None,
    keep_forecasts: Annotated[
        int, typer.Option(min=0, help="Tasks whose forecasts are kept for the task browser.")
    ] = 120,
    checkpoint: CheckpointFolder = None,
    max_cost: Annotated[
        float | None,
        typer.Option(min=0, help="Stop when so many US dollars are spent (forecasters that cost)."),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what would be run and cost; write nothing.")
    ] = False,
    trained_on: Annotated[
        str | None,
        typer.Option(
            help="What the forecaster was trained on, for one that does not say: nothing, "
            "randomised, published, left-out-system or in-distribution.",
        ),
    ] = None,
    training: Annotated[
        str | None,
        typer.Option(
            help='More on it, a JSON object: {"systems": [...]} with in-distribution, '
            '{"left_out": [...]} with left-out-system.',
        ),
    ] = None,
    check: Annotated[
        bool,
        typer.Option(help="Check first that a forecast does not depend on other rows of a batch."),
    ] = True,
    progress: Progress = True,
) -> None:
    """Score a forecaster on a suite. Run again after an interruption: it goes on from there."""
    from .forecasters import make_forecaster, takes

    settings, known = parse_settings(set_ or []), takes(model)
    with_checkpoint(settings, model, checkpoint, known)
    if max_cost is not None:
        if not math.isfinite(max_cost):
            raise ValueError(f"--max-cost: {max_cost}; expected a finite number of US dollars")
        if "max_cost" not in known:
            raise ValueError(f"--max-cost: {model} costs nothing; expected one that does, as llm")
        settings["max_cost"] = max_cost

    from whatif_jax import load_suite
    from whatif_jax.cli import parse_where

    from .run import declared_as, plan_run
    from .run import run as score
    from .sampling import choose

    whole, axes = load_suite(suite, systems=system), parse_where(where or [])
    choose(whole, axes, sample)  # refuses what cannot be chosen before a model is loaded
    forecaster = make_forecaster(model, **settings)
    planned = plan_run(
        forecaster,
        whole,
        where=axes,
        sample=sample,
        batch_size=batch_size,
        keep_forecasts=keep_forecasts,
        declared=declared_as(forecaster, trained_on, training),
    )
    if dry_run:
        from .estimate import describe_plan, estimate_cost

        typer.echo("\n".join(describe_plan(planned)))
        for line in estimate_cost(forecaster, planned, progress=progress):
            typer.echo(line)
        return
    try:
        with compilation_said(progress):
            found = score(
                forecaster, planned, results, jobs=jobs, dask=dask, check=check, progress=progress
            )
    except KeyboardInterrupt:
        raise typer.Exit(130) from None

    from .summary import naive_run, summary

    naive = naive_run(found.folder, found.scores.column("task_id").to_numpy())
    typer.echo("\n".join(summary(found, whole, naive)))


@app.command()
def report(
    out: Annotated[Path, typer.Argument(help="Folder to write the report into.")],
    results: Results = Path("results"),
    suite: SuiteName = "whatif-v1",
    system: Systems = None,
    reference: Annotated[
        str, typer.Option(help="Forecaster that skill is measured against.")
    ] = "naive",
    difference: Annotated[
        list[str] | None,
        typer.Option(
            help="Model that all others are set against, with the difference's intervals; "
            "repeatable. If omitted: ours and scaling where they are there, else the best.",
        ),
    ] = None,
) -> None:
    """Write tables, figures and a page of every finished run."""
    from whatif_jax import load_suite
    from whatif_jax.evaluation import METRIC_VERSION

    from .report.write import write_report
    from .results import load_results
    from .run_files import ResultsError

    whole = load_suite(suite, systems=system)
    runs = load_results(
        results, suite=whole.name, fingerprint=whole.fingerprint, metric_version=METRIC_VERSION
    )
    if not runs:
        raise ResultsError(
            f"results: {results} holds no finished run on {whole.name}; expected at least one of "
            f"`python -m eval run`"
        )
    page = write_report(
        runs,
        whole,
        out,
        reference=reference,
        others=difference or None,
        progress=lambda text: typer.echo(text, err=True),
    )
    typer.echo(str(page))


@app.command()
def stream(
    model: Model,
    set_: Settings = None,
    tasks: Annotated[
        int, typer.Option(min=1, help="Tasks of the stream, and of each hard case.")
    ] = 512,
    checkpoint: CheckpointFolder = None,
    results: Results = Path("results"),
    progress: Progress = True,
) -> None:
    """Score a forecaster on tasks of the randomised stream, and on each hard case alone."""
    from .forecasters import make_forecaster, takes
    from .stream import randomised_cases, score_cases, write_cases

    settings = parse_settings(set_ or [])
    with_checkpoint(settings, model, checkpoint, takes(model))
    forecaster = make_forecaster(model, **settings)
    cases = randomised_cases(tasks)
    with compilation_said(progress):
        rows = score_cases(forecaster, cases, progress=progress)
    path = write_cases(rows, cases.about, results)
    typer.echo(path.with_name("hard_cases.md").read_text("utf-8"))
    typer.echo(str(path))


@app.command()
def tscm(
    suite: Annotated[
        str,
        typer.Option("--suite", help="identifiability, regime, continuous, generic, or all."),
    ] = "all",
    baselines: Annotated[
        str,
        typer.Option(
            "--baselines",
            help="Names with commas between; all closed forms if omitted. chronos-2 is asked for "
            "by name, one of your own as MODULE:FACTORY.",
        ),
    ] = "",
    sample: Annotated[
        int | None,
        typer.Option(min=1, help="Episodes of each suite at most, its parts in proportion."),
    ] = None,
    evidence: Annotated[
        str,
        typer.Option(
            help="What a baseline reads of the factual run: steps before the onset, or whole."
        ),
    ] = "before",
    values: Annotated[
        str,
        typer.Option(
            help="Where intervention values come from, with commas between: prior, "
            "positivity_aware, observed_discrete, observed_normal, observed_uniform. All of them "
            "for identifiability if omitted, which takes five times as long."
        ),
    ] = "",
    set_: Settings = None,
    out: Annotated[
        Path, typer.Option("--out", help="Folder of the page and of its results.")
    ] = Path("results/tscm"),
    progress: Progress = True,
) -> None:
    """Score baselines on temporal causal worlds: DoTime's reference table, and a page.

    Identifiability comes with long series and a linear instrument, on which the page checks what
    must come out. Programs are compiled first, minutes of it; whole suites then take seconds.
    What was estimated before is kept: run again after an interruption, or with more baselines.
    """
    from .tscm.command import chosen_baselines, chosen_suites, run_and_report
    from .tscm.report import reference_text, scored_text

    suites = chosen_suites(suite, names_in(values))
    methods = chosen_baselines(names_in(baselines), parse_settings(set_ or []))
    try:
        with compilation_said(progress):
            board, page = run_and_report(
                suites,
                methods,
                out,
                evidence=evidence,
                sample=sample,
                progress=progress,
                say=lambda text: typer.echo(text, err=True),
            )
    except KeyboardInterrupt:
        raise typer.Exit(130) from None
    typer.echo(f"{reference_text(board)}\n\n{scored_text(board)}\n")
    typer.echo(str(page))


def names_in(text: str) -> list[str]:
    """Names with commas between."""
    return [name.strip() for name in text.split(",") if name.strip()]


def with_checkpoint(
    settings: dict[str, Any], model: str, checkpoint: Path | None, known: Collection[str]
) -> None:
    """Put the folder of `--checkpoint` into the settings of a forecaster.

    Raises:
        ValueError: the forecaster takes none, or `--set` gave one too.
    """
    if checkpoint is None:
        if "checkpoint" in known and "checkpoint" not in settings:
            typer.echo(
                f"{model}: the checkout's own weights, as no --checkpoint is given", err=True
            )
        return
    if "checkpoint" not in known or "checkpoint" in settings:
        raise ValueError(
            f"--checkpoint: {checkpoint}; expected a model that takes one, as ours, and it "
            f"once, not {model}'s settings {sorted(settings)}"
        )
    settings["checkpoint"] = str(checkpoint)


@app.command("list")
def list_runs(results: Results = Path("results")) -> None:
    """Name the forecasters, what they were trained on, whether they can be made; and the runs."""
    from .forecasters import FORECASTERS, declared_of, needs

    for name in FORECASTERS:
        extra, installed = needs(name)
        state = "" if installed else f"not installed: pip install -e '.[{extra}]'"
        typer.echo(f"{name:24} trained on: {declared_of(name):12} {state}".rstrip())
    if not results.is_dir():
        typer.echo(f"no runs: {results} is no folder")
        return
    from .summary import run_lines

    typer.echo("\n".join(run_lines(results)) or f"no runs in {results}")


def main() -> None:
    """Run `python -m eval`."""
    from whatif_jax.cli import run_app

    keep_compiled()
    run_app(app, "eval")
