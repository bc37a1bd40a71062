"""The command line: `whatif-jax describe | suite | export | plot | tscm`.

Imports what a command needs inside it, so that `--help` and `describe` start in a moment.
"""

import json
import sys
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer

from . import __version__
from .compilation_cache import cache_rule, compilation_said, keep_compiled

__all__ = ["app", "main", "parse_settings", "parse_where", "run_app"]

app = typer.Typer(
    help="Does a forecaster use covariates well at values it has never seen?",
    epilog=cache_rule(),
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
suite_app = typer.Typer(help="Frozen suites.", no_args_is_help=True)
app.add_typer(suite_app, name="suite")
tscm_app = typer.Typer(help="Temporal causal worlds.", no_args_is_help=True)
app.add_typer(tscm_app, name="tscm")

SuiteName = Annotated[
    str, typer.Option("--suite", help="A suite of the package, or the path of a manifest.")
]
Systems = Annotated[
    list[Path] | None,
    typer.Option("--system", help="Catalog file of a system that is not built in; repeatable."),
]
Where = Annotated[
    list[str] | None,
    typer.Option(
        "--where",
        help="Keep tasks with AXIS=VALUE[,VALUE...], such as system=epanet or k=1,5; repeatable.",
    ),
]


def parse_where(conditions: list[str]) -> dict[str, list]:
    """`["k=1,5", "system=epanet"]` into keyword arguments of `Suite.where`."""
    from .catalog.errors import one_of
    from .suites import AXES, SCHEMA

    axes: dict[str, list] = {}
    for condition in conditions:
        axis, separator, values = condition.partition("=")
        if not separator or not values or axis not in AXES:
            raise ValueError(
                f"--where: {condition!r}; expected AXIS=VALUE[,VALUE...], the axis "
                f"{one_of(AXES, axis)}"
            )
        parsed: list = values.split(",")
        if str(SCHEMA.field(axis).type).startswith("int"):
            try:
                parsed = [int(value) for value in parsed]
            except ValueError:
                raise ValueError(
                    f"--where: {condition!r}; expected whole numbers for {axis}"
                ) from None
        axes[axis] = axes.get(axis, []) + parsed
    return axes


def parse_settings(items: list[str]) -> dict[str, Any]:
    """`["depth=6", "model=a/b"]` into keyword arguments: JSON values, else texts.

    Raises:
        ValueError: not KEY=VALUE, or a key twice.
    """
    settings: dict[str, Any] = {}
    for item in items:
        key, separator, text = item.partition("=")
        if not separator or not key.isidentifier():
            raise ValueError(f"--set: {item!r}; expected KEY=VALUE, such as alpha=10")
        if key in settings:
            raise ValueError(f"--set: {key} is given twice; expected each key once")
        try:
            settings[key] = json.loads(text)
        except (ValueError, RecursionError):
            settings[key] = text
    return settings


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(__version__)
        raise typer.Exit


@app.callback()
def about(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version."
        ),
    ] = False,
) -> None:
    """What holds for every command."""


@app.command()
def describe(
    name: Annotated[
        str | None,
        typer.Argument(help="A system, a target, system/target, or a catalog file."),
    ] = None,
    schema: Annotated[
        bool, typer.Option("--schema", help="Print the JSON Schema of catalog files, for editors.")
    ] = False,
) -> None:
    """Print the catalog: systems, targets, covariates, responses, and where each comes from."""
    if schema:
        from .catalog.json_schema import file_schema

        if name is not None:
            raise ValueError(
                f"--schema: given with {name!r}; expected no name, as all files share it"
            )
        typer.echo(json.dumps(file_schema(), indent=2))
        return
    from .catalog import describe as text

    typer.echo(text(name))


@suite_app.command("list")
def list_suites() -> None:
    """Name the suites that ship with the package, and their tasks."""
    from .suites import available_suites, load_suite

    for name in available_suites():
        typer.echo(repr(load_suite(name)))


@suite_app.command("show")
def show_suite(
    name: Annotated[str, typer.Argument()] = "whatif-v1", system: Systems = None
) -> None:
    """Print a suite's composition, per axis and target, and its fingerprint."""
    from .suites import load_suite

    suite = load_suite(name, systems=system)
    typer.echo(repr(suite))
    for axis in ("future", "setting", "k", "event_length", "n_events", "context_pair"):
        values = ", ".join(f"{value} {count:,}" for value, count in suite.count(axis).items())
        typer.echo(f"{axis}: {values}")
    shapes = ", ".join(
        f"{context} + {horizon} {n:,}" for (context, horizon), n in suite.shapes.items()
    )
    typer.echo(f"context + horizon: {shapes}")
    for item in suite.catalog:
        typer.echo(f"{item.name}:")
        counts = suite.where(system=item.name).count("target")
        for target in item.targets:
            typer.echo(f"  {target.name:40} {counts.get(target.name, 0):5,}")
    typer.echo(f"fingerprint: {suite.fingerprint}")


@suite_app.command("define")
def define_suite(
    name: Annotated[str, typer.Argument(help="A suite of the package.")] = "whatif-v1",
    scores: Annotated[
        bool, typer.Option("--scores", help="Print how forecasts are scored instead.")
    ] = False,
) -> None:
    """Print a suite's definition: systems, responses, events, layout, verification, files."""
    from .suites import definition

    path = Path(__file__).parent / "evaluation" / "scores.md"
    typer.echo(path.read_text("utf-8") if scores else definition(name), nl=False)


_BUILD = """Enumerate all candidates, draw, verify, and write the manifest of a frozen suite.

A recipe names the suite and, for each system, the composition that its draw must have:

\b
    name = "own"            # of the suite
    [\\[systems]]             # one for each system
    name = "brewery.toml"   # or "epanet"; from the recipe's folder
    full_targets = 2        # targets that keep all their tasks
    partial_tasks = 0       # tasks that its partial targets keep
"""  # \b keeps the lines, and \\[ a bracket


@suite_app.command("build", help=_BUILD)
def build_suite(
    out: Annotated[
        Path | None, typer.Argument(help="Where to write the manifest; printed only if omitted.")
    ] = None,
    recipe: Annotated[
        Path | None,
        typer.Option(
            help="Recipe (TOML): systems and the composition to find; built-in if omitted."
        ),
    ] = None,
    most_seeds: Annotated[int, typer.Option(min=1, help="Seeds to try for each system.")] = 1000,
) -> None:
    """Enumerate all candidates, draw, verify, and write the manifest of a frozen suite."""
    from .suites.freeze import freeze

    with compilation_said():
        freeze(out, recipe, most_seeds)


@app.command()
def export(
    out: Annotated[Path, typer.Argument(help="Folder to write into; made if missing.")],
    format: Annotated[str, typer.Option(help="parquet, fev or gluonts.")] = "parquet",
    where: Where = None,
    sample: Annotated[
        int | None,
        typer.Option(min=1, help="Export a sample of so many tasks, stratified over the axes."),
    ] = None,
    limit: Annotated[
        int | None, typer.Option(min=1, help="Export only the first so many tasks.")
    ] = None,
    suite: SuiteName = "whatif-v1",
    system: Systems = None,
    progress: Annotated[bool, typer.Option(help="Show a progress bar.")] = True,
) -> None:
    """Write tasks to files. Run again, it goes on where it stopped and mends what is damaged."""
    from .export import export as write
    from .suites import load_suite

    tasks = load_suite(suite, systems=system).where(**parse_where(where or []))
    if not len(tasks):
        raise ValueError(f"--where: {where}; expected conditions that some task meets")
    if sample is not None:
        tasks = tasks.sample(sample)
    if limit is not None:
        tasks = tasks.take(range(min(limit, len(tasks))))
    try:
        with compilation_said(progress):
            folder = write(tasks, out, format=format, progress=progress)
    except KeyboardInterrupt as stopped:
        typer.echo(stopped, err=True)
        raise typer.Exit(130) from None
    typer.echo(f"{len(tasks):,} tasks in {folder}")


@app.command()
def plot(
    tasks: Annotated[
        list[int],
        typer.Argument(
            metavar="TASK_ID", help="A task of the suite, or several of one target, side by side."
        ),
    ],
    output: Annotated[
        Path, typer.Option(help="File to write, of the kind that its ending says.")
    ] = Path("task.png"),
    suite: SuiteName = "whatif-v1",
    system: Systems = None,
) -> None:
    """Draw tasks: history, events, covariates, and the future with and without its event."""
    from .plot import plot_task
    from .suites import load_suite

    found = load_suite(suite, systems=system)
    specs = [found.spec(task_id) for task_id in tasks]
    plot_task(specs, found.systems, catalog=found.catalog, path=output)
    typer.echo(str(output))


@tscm_app.command("suites")
def list_episode_suites() -> None:
    """Name the suites of episodes that ship with the package, and their parts."""
    from .tscm import episode_suites, load_episode_suite

    for name in episode_suites():
        typer.echo(repr(load_episode_suite(name)))


@tscm_app.command("export")
def export_episodes(
    out: Annotated[Path, typer.Argument(help="Folder to write into; made if missing.")],
    suite: Annotated[
        str, typer.Option(help="identifiability, regime, continuous or generic.")
    ] = "identifiability",
    values: Annotated[
        str | None,
        typer.Option(
            help="Where values of hard interventions come from, such as observed_normal: a variant "
            "of the suite."
        ),
    ] = None,
    sample: Annotated[
        int | None,
        typer.Option(
            min=1, help="Export so many episodes: the first of each part, parts in proportion."
        ),
    ] = None,
    limit: Annotated[
        int | None, typer.Option(min=1, help="Export only the first so many episodes.")
    ] = None,
    batch_size: Annotated[int, typer.Option(min=1, help="Most episodes made at once.")] = 1024,
    progress: Annotated[bool, typer.Option(help="Show a progress bar.")] = True,
) -> None:
    """Write episodes to files that dotime's loader and others read.

    Run again, it goes on where it stopped and mends what is damaged.
    """
    from .export import export_episodes as write
    from .tscm import load_episode_suite

    found = load_episode_suite(suite, values=values)
    numbers: Any = range(found.episodes)
    if sample is not None:
        numbers = found.sample(sample)
    if limit is not None:
        numbers = numbers[:limit]
    try:
        with compilation_said(progress):
            folder = write(found, out, numbers=numbers, batch_size=batch_size, progress=progress)
    except KeyboardInterrupt as stopped:
        typer.echo(stopped, err=True)
        raise typer.Exit(130) from None
    typer.echo(f"{len(numbers):,} episodes in {folder}")


def run_app(app: typer.Typer, program: str) -> NoReturn:
    """Run a command line and exit.

    0 where all went well; 2, and one line on standard error, where the input is wrong; 130 where it
    was interrupted. What a forecaster raises, which carries a note that says so, and a fault of our
    own are shown as they are: their author wants to see where.
    """
    try:
        for argument in sys.argv[1:]:
            if argument.encode(errors="replace").decode() != argument:
                raise ValueError(f"argument: {argument!r}; expected text in UTF-8")
        sys.exit(app(standalone_mode=False) or 0)
    except typer.Abort:  # interrupted
        sys.exit(130)
    except Exception as error:
        if hasattr(error, "format_message"):  # typer's: a wrong option, or a call without any
            text = error.format_message()
            for fault in getattr(error.__cause__, "errors", list)():  # pydantic's, without value
                text += f", not {str(fault['input'])[:100]!r}"
        elif not isinstance(error, _OF_INPUT):
            raise
        else:
            ours = type(error).__module__.partition(".")[0] in ("eval", "training", "whatif_jax")
            if getattr(error, "__notes__", None) and not ours and type(error) is not ImportError:
                raise
            text = str(error.args[0] if isinstance(error, KeyError) and error.args else error)
            if not ours:  # other packages break their lines as they like
                text = " ".join(text.split()) or type(error).__name__
        if text:
            typer.echo(f"{program}: {text}", err=True)
        sys.exit(2)


_OF_INPUT = (ValueError, KeyError, RuntimeError, OSError, ImportError, MemoryError, OverflowError)


def main() -> None:
    """Run `whatif-jax`."""
    keep_compiled()
    run_app(app, "whatif-jax")


if __name__ == "__main__":
    main()
