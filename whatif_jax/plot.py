"""A picture of tasks: target, covariates and events, as in the README."""

import contextlib
import io
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from .catalog import System, load_system
from .files import explained, write_whole
from .tasks import Systems, Task, TaskSpec, realize
from .tasks.forked import refuse_forked

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["plot_task"]

INSTALL = "pip install 'whatif-jax[plot]'"
# Okabe and Ito's colours, told apart with any colour vision
INK, ORANGE, BLUE, GREEN, SHADE = "#222222", "#D55E00", "#0072B2", "#009E73", "#E9E9E9"
# One a covariate, and no more than five are in a task of the frozen suite
STYLES = ((GREEN, "-"), (INK, ":"), (ORANGE, "--"), (BLUE, "-."), ("#CC79A7", (0, (5, 1))))
MEANING = {"replay": "the factors of a past event", "novel": "factors beyond all past ones"}
STYLE: dict[Any, Any] = {
    "axes.spines.top": False,
    "axes.spines.right": False,
    "legend.frameon": False,
    "legend.fontsize": 9,
    "savefig.dpi": 110,
}

_realize = jax.jit(realize)


def plot_task(
    spec: TaskSpec | Sequence[TaskSpec],
    systems: Systems,
    *,
    catalog: Sequence[str | Path | System] = (),
    path: str | Path | None = None,
) -> "Figure":
    """Draw a task, or several of one target side by side, and what would have been without events.

    Looks the same whatever a user's matplotlib settings are.

    Args:
        spec: of one task, such as `suite.spec(17)`; or several.
        systems: their series and responses, such as `suite.systems`.
        catalog: systems that are not built in, as catalog files or `System` objects.
        path: a file to write as well, of the kind that its ending says, such as .png or .svg.

    Returns:
        the figure, which a notebook shows.

    Raises:
        CatalogError: the system is neither built in nor in `catalog`.
        ImportError: matplotlib is not installed; names the extra.
        ForkedError: in a process that was forked after JAX was used.
        ValueError: no task, tasks of several targets or of other systems, or an ending that
            matplotlib does not know.
        OSError: the file cannot be written; nothing is left behind.
    """
    refuse_forked()
    specs: list = list(spec) if isinstance(spec, list | tuple) else [spec]
    if not all(isinstance(each, TaskSpec) and np.ndim(each.target) == 0 for each in specs):
        shown = " ".join(str(spec).split())[:80]
        raise ValueError(f"spec: {shown}; expected a TaskSpec of one task, or several")
    if not isinstance(systems, Systems):
        raise ValueError(f"systems: {str(systems)[:80]!r}; expected Systems, such as suite.systems")
    if path is not None and not isinstance(path, str | os.PathLike):
        raise ValueError(f"path: {path!r}; expected the path of a file")
    for each in specs:
        _check_row(each, systems)
    rows = {int(each.target) for each in specs}
    if len(rows) != 1:
        names = ["/".join(systems.targets[row]) for row in sorted(rows)]
        raise ValueError(f"spec: {len(specs)} tasks of {names}; expected tasks of one target")
    owner, target = systems.targets[rows.pop()]
    given = {system.name: system for system in map(load_system, catalog)}
    system = given.get(owner) or load_system(owner)
    with _style():
        from matplotlib.figure import Figure

        figure = Figure(figsize=(max(9, 5 * len(specs)), 4.6), layout="constrained")
        kind = None if path is None else _kind(figure, Path(path))
        axes = figure.subplots(
            2, len(specs), sharex=True, sharey="row", height_ratios=(2.2, 1), squeeze=False
        )
        for each, (top, bottom) in zip(specs, axes.T, strict=True):
            _draw(top, bottom, each, systems, system)
        axes[0, 0].set_ylabel(f"{_words(target)} ({system.target(target).unit})")
        axes[1, 0].set_ylabel("factor")
        axes[1, 0].set_ylim(bottom=0)  # last: it holds for every column
        for axis in axes[:, 0]:
            axis.legend(loc="upper left")
        if path is not None:
            with explained(OSError, "path", Path(path)):
                write_whole(Path(path), lambda at: figure.savefig(at, format=kind))
    figure._repr_png_ = lambda: _png(figure)  # type: ignore[attr-defined]
    return figure


def _check_row(spec: TaskSpec, systems: Systems) -> None:
    """Refuse a spec whose target, covariates or window these systems do not have."""
    row, columns = int(spec.target), np.asarray(spec.covariates)[np.asarray(spec.covariate_mask)]
    end = int(spec.window_start) + int(spec.context) + int(spec.horizon)
    if row < len(systems.targets):
        owner, _ = systems.targets[row]
        width = len(systems.covariates[systems.systems.index(owner)])
        if end <= int(systems.length[row]) and np.all(columns < width):
            return
    raise ValueError(
        f"systems: {', '.join(systems.systems)}; expected those of the spec, whose target is row "
        f"{row}, its covariates {columns.tolist()} and its window up to step {end}"
    )


def _png(figure: "Figure") -> bytes:
    """What Jupyter shows, whether pyplot was imported or not."""
    file = io.BytesIO()
    with _style():
        figure.savefig(file, format="png")
    return file.getvalue()


@contextlib.contextmanager
def _style() -> Iterator[None]:
    """matplotlib's defaults and ours, until the end of the block."""
    try:
        import matplotlib
    except ImportError as error:
        raise ImportError(f"matplotlib is not installed; {INSTALL}") from error
    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(STYLE)
        yield


def _kind(figure: "Figure", path: Path) -> str:
    """The format that a file's ending names."""
    known = figure.canvas.get_supported_filetypes()
    kind = path.suffix[1:].lower()
    if kind not in known:
        raise ValueError(f"path: {str(path)!r}; expected an ending of {', '.join(sorted(known))}")
    return kind


def _draw(top: "Axes", bottom: "Axes", spec: TaskSpec, systems: Systems, system: System) -> None:
    """One task: its target above, the factors of its covariates below."""
    task: Task = jax.device_get(_realize(spec, systems))
    context, horizon, start = int(spec.context), int(spec.horizon), int(spec.window_start)
    past, ahead = np.arange(-context, 0), np.arange(horizon)
    steps = np.append(past, ahead)
    for axis in (top, bottom):
        for event in np.asarray(spec.event_starts)[: int(spec.n_events)] - context:
            axis.axvspan(event, event + int(spec.event_length), color=SHADE, lw=0)
        axis.axvspan(0, horizon, color=SHADE, lw=0)
    usual = systems.series(int(spec.target))[start:][: context + horizon]
    top.plot(steps, usual, color=ORANGE, lw=1.2, ls=(0, (4, 2)), label="without intervention")
    top.plot(past, task.history[-context:], color=INK, lw=1.2, label="history")
    top.plot(ahead, task.future[:horizon], color=BLUE, lw=2, label="future to forecast")
    top.set_title(_title(spec))
    columns = np.asarray(spec.covariates)[np.asarray(spec.covariate_mask)]
    for place, column in enumerate(columns):
        covariate = system.covariates[column]
        values = np.append(
            task.history_covariates[place, -context:], task.future_covariates[place, :horizon]
        )
        colour, line = STYLES[place % len(STYLES)]
        label = _words(covariate.name)
        bottom.plot(steps, values / covariate.base, color=colour, ls=line, lw=1.6, label=label)
    bottom.set_xlabel(f"step of {_span(system.step_seconds)}; 0 is the first to forecast")


def _title(spec: TaskSpec) -> str:
    """What the future's factors are beside the past ones; by the values, which may be a user's."""
    mask = np.asarray(spec.covariate_mask)
    past = np.asarray(spec.factors)[: int(spec.n_events), mask]
    ahead = np.asarray(spec.future_factors)[mask]
    if np.any(np.all(past == ahead, axis=1)):
        kind = "replay"
    elif np.all((ahead > past.max(axis=0)) | (ahead < past.min(axis=0))):
        kind = "novel"
    else:
        return "Future: other factors"
    return f"{kind.capitalize()}: {MEANING[kind]}"


def _words(name: str) -> str:
    return name.replace("_", " ")


def _span(seconds: float) -> str:
    minutes = seconds / 60
    return f"{minutes:g} minutes" if minutes >= 1 else f"{seconds:g} seconds"
