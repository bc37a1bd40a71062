"""One task at a time in float64, from a manifest row and a baseline (whatif-v1.md §4, §6 and §8).

`reference_task` is what the tests compare with and what the benchmark calls the plain loop: a
loop over tasks and over the events of a task, whole windows at a time.
"""

import numpy as np

from .drawn_numbers import check_drawn_numbers, check_pair, draw_row
from .layout import context_for, layout, most_events
from .tables import covariate_table, respond

__all__ = [
    "check_drawn_numbers",
    "check_pair",
    "context_for",
    "draw_row",
    "layout",
    "most_events",
    "reference_task",
    "reference_task_at_once",
    "respond",
    "verify",
]

SMALLEST_EFFECT = 0.10


def bell(length: int) -> np.ndarray:
    """The bell over a window of `length` steps, 1 at its middle (whatif-v1.md §4)."""
    steps = np.arange(length)
    return np.exp(-0.5 * ((steps - (length - 1) / 2) / (length / 6)) ** 2)


def window_factors(covariates, peaks, bell_of_window: np.ndarray) -> list:
    """Each covariate's factor over a window: an array for a bell, one number for a step (§4)."""
    peaks = np.asarray(peaks, dtype=np.float64)
    return [
        1 + (peak - 1) * bell_of_window if covariate.shape == "bell" else peak
        for covariate, peak in zip(covariates, peaks, strict=True)
    ]


def reference_task(row: dict, series) -> dict:
    """The values of one manifest row (whatif-v1.md §8), in float64.

    `row` holds the manifest's columns; `series` is the whole baseline of the row's target.
    Returns history [context], future [horizon], future_baseline [horizon], history_covariates
    [k][context] and future_covariates [k][horizon], covariates in their own units.
    """
    system, target, names = row["system"], row["target"], row["covariates"]
    covariates, bases, series, ybar = parts = _parts(row, series)
    length = row["event_length"]
    history = series[row["window_start"] :][: row["context"]].copy()
    history_covariates = np.repeat(bases[:, None], row["context"], axis=1)
    bell_of_event = bell(length)
    for start, peaks in zip(row["event_starts"], row["factors"], strict=True):
        window = slice(start, start + length)
        factors = window_factors(covariates, peaks, bell_of_event)
        history[window] = respond(system, target, names, history[window], factors, ybar)
        for number, factor in enumerate(factors):
            history_covariates[number, window] = bases[number] * factor
    return {"history": history, "history_covariates": history_covariates} | _future(row, *parts)


def reference_task_at_once(row: dict, series) -> dict:
    """`reference_task` with all events of the task in one array: faster where there are many."""
    system, target, names = row["system"], row["target"], row["covariates"]
    covariates, bases, series, ybar = parts = _parts(row, series)
    length = row["event_length"]
    history = series[row["window_start"] :][: row["context"]].copy()
    history_covariates = np.repeat(bases[:, None], row["context"], axis=1)
    windows = np.array(row["event_starts"])[:, None] + np.arange(length)
    peaks = np.array([list(event) for event in row["factors"]])
    factors = window_factors(covariates, peaks.T[:, :, None], bell(length))
    history[windows] = respond(system, target, names, history[windows], factors, ybar)
    for number, factor in enumerate(factors):
        history_covariates[number, windows] = bases[number] * factor
    return {"history": history, "history_covariates": history_covariates} | _future(row, *parts)


def _parts(row: dict, series) -> tuple:
    """The row's covariates, their bases, the baseline in float64 and its mean |y|."""
    covariates = [covariate_table(row["system"])[name] for name in row["covariates"]]
    bases = np.array([covariate.base for covariate in covariates])
    series = np.asarray(series, dtype=np.float64)
    return covariates, bases, series, np.mean(np.abs(series))


def _future(row: dict, covariates, bases, series, ybar) -> dict:
    """The future's columns: one event over the whole horizon (whatif-v1.md §4)."""
    horizon = row["horizon"]
    baseline = series[row["window_start"] + row["context"] :][:horizon].copy()
    factors = window_factors(covariates, row["future_factors"], bell(horizon))
    in_units = np.empty((len(covariates), horizon))
    for number, factor in enumerate(factors):
        in_units[number] = bases[number] * factor
    future = respond(row["system"], row["target"], row["covariates"], baseline, factors, ybar)
    return {"future": future, "future_baseline": baseline, "future_covariates": in_units}


def effect_over_window(system: str, y: np.ndarray, x: np.ndarray, tolerance: float) -> float:
    """The mean relative change of an event's window (whatif-v1.md §6); 0 if every step is dead."""
    moved = np.abs(x - y)
    small = np.abs(y) < tolerance
    dead = small & (moved < tolerance)
    change = np.where(small, 1.0, np.minimum(moved / np.where(small, 1.0, np.abs(y)), 1.0))
    if system == "epanet":
        return float(np.mean(np.where(dead, 0.0, change)))
    return float(np.mean(change[~dead])) if not dead.all() else 0.0


def verify(row: dict, series) -> tuple[bool, bool, list[float]]:
    """Whether history and future pass (whatif-v1.md §6), and every event's effect, future last.

    A task is kept where both pass; a failed history takes both tasks of its pair. A constant
    baseline passes nothing, and its effects are given as 0.
    """
    series = np.asarray(series, dtype=np.float64)
    if np.all(series == series[0]):
        return False, False, [0.0] * (len(row["event_starts"]) + 1)
    tolerance = 1e-4 * np.max(np.abs(series))
    task = reference_task(row, series)
    system, length = row["system"], row["event_length"]
    baseline = series[row["window_start"] :][: row["context"]]
    effects, flows = [], True
    for start in row["event_starts"]:
        y, x = baseline[start : start + length], task["history"][start : start + length]
        effects.append(effect_over_window(system, y, x, tolerance))
        flows = flows and not np.any(np.abs(y) < tolerance)
    future_effect = effect_over_window(system, task["future_baseline"], task["future"], tolerance)
    history_passes = all(effect >= SMALLEST_EFFECT for effect in effects)
    if system == "epanet":
        history_passes = history_passes and bool(flows)
    return history_passes, future_effect >= SMALLEST_EFFECT, [*effects, future_effect]
