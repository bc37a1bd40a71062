"""What a run says at its end, and what is said of runs in a list."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.compute as compute

from whatif_jax import Suite

from .results import Run, load_run
from .run_files import PARTS, RUN_FILE, ResultsError, declared_in, read_run_file

__all__ = ["naive_run", "run_lines", "summary", "tasks_text"]


def summary(run: Run, suite: Suite, naive: Run | None = None) -> list[str]:
    """Lines about a finished run: tasks, imputed, seconds, and skill where naive was run too.

    Args:
        run: the run.
        suite: the whole suite.
        naive: a run of naive on at least the same tasks; None says that there is none.
    """
    scores = run.scores
    seconds = run.seconds.column("seconds").to_numpy()
    imputed = int(compute.sum(scores.column("imputed")).as_py() or 0)
    crossings = int(compute.sum(scores.column("crossings")).as_py() or 0)
    lines = [
        f"{run.name} {run.version}: {len(scores):,} tasks ({tasks_text(run.metadata['tasks'])}), "
        f"{imputed:,} imputed, {crossings:,} crossings, {np.mean(seconds):.3g} s a series",
        f"wQL {_mean(scores, 'wql')}, WAPE {_mean(scores, 'wape')} (means over the tasks)",
    ]
    if run.name == "naive":
        return [*lines, str(run.folder)]
    if naive is None:
        return [*lines, "skill: run naive too, into the same results", str(run.folder)]
    rows = np.isin(suite.column("task_id"), scores.column("task_id").to_numpy())
    return [*lines, *_skill(run, naive, suite.take(rows)), str(run.folder)]


def _mean(scores: Any, name: str) -> str:
    return f"{np.mean(scores.column(name).to_numpy()):.4g}"


def _skill(run: Run, naive: Run, suite: Suite) -> list[str]:
    """Skill of all tasks and by future, with intervals: by pair, as both futures share a past."""
    from whatif_jax import root_key
    from whatif_jax.comparison import bootstrap, error_table, skill_scores

    table = error_table({"naive": naive.scores, run.name: run.scores}, suite)
    futures = table.axis("future")
    parts = {"all": np.ones(len(table), bool)}
    parts |= {future: futures == future for future in np.unique(futures).tolist()}
    texts = []
    for name, rows in parts.items():
        found = bootstrap(table.take(rows), skill_scores, key=root_key(0), by="pair")
        estimate, lower, upper = (float(v[1]) for v in (found.estimate, found.lower, found.upper))
        texts.append(f"{name} {estimate:.3f} [{lower:.3f}, {upper:.3f}]")
    return [f"skill against naive (wQL, 95 % intervals): {', '.join(texts)}"]


def tasks_text(tasks: str) -> str:
    """The `tasks` of the metadata for people to read."""
    if tasks == "all":
        return "the whole suite"
    choice = json.loads(tasks)
    where = "; ".join(
        f"{axis} {', '.join(map(str, values[:4]))}{', ...' if len(values) > 4 else ''}"
        for axis, values in choice.get("where", {}).items()
    )
    if "sample" not in choice:
        return where
    return f"a stratified sample{f' of {where}' if where else ''}"


def naive_run(folder: Path, task_ids: Sequence[int] | np.ndarray) -> Run | None:
    """A finished run of naive on at least these tasks, among the runs beside `folder`."""
    for path in sorted(folder.parent.glob(f"naive-*/{RUN_FILE}")):
        try:
            run = load_run(path.parent)
        except ResultsError:  # unfinished, or being written
            continue
        if np.isin(task_ids, run.scores.column("task_id").to_numpy()).all():
            return run
    return None


def run_lines(root: Path) -> list[str]:
    """A line about every run below a folder of results, finished or not, damaged or not."""
    lines = []
    for path in sorted(root.rglob(RUN_FILE)):
        try:
            about = read_run_file(path.parent)
            state = f"{about['task_count']:,} tasks"
            if about["complete"]:
                load_run(path.parent)  # whether it can be
            else:
                parts = len(list((path.parent / PARTS).glob("*.parquet")))
                state = f"unfinished, {parts} of {about['batches']} batches"
        except ResultsError as error:
            lines.append(str(error))
            continue
        found = about["metadata"]
        settings = f" {found['settings']}" if found["settings"] != "{}" else ""
        lines.append(
            f"{found['suite']} {found['fingerprint'][:12]}, metrics {found['metric_version']}: "
            f"{found['forecaster']} {found['version']}{settings}, {tasks_text(found['tasks'])}: "
            f"{state}, trained on: {declared_in(about).trained_on}"
        )
    return lines
