"""What one simulator run hands back, and the checks that every run passes (whatif-v1.md §2, §8)."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .errors import SimulatorError

__all__ = [
    "Progress",
    "Recording",
    "check_recording",
    "check_timestamps",
    "grouped_warnings",
    "last_seen",
]

Progress = Callable[[int, int], None]
"""Called by a runner with (steps simulated so far, steps in all)."""


@dataclass
class Recording:
    """The series of one run with everything a baseline file says about them (whatif-v1.md §8)."""

    system: str
    columns: dict[str, np.ndarray]  # target -> [steps], in the order of whatif-v1.md §2
    units: dict[str, str]  # target -> unit
    step_seconds: int
    simulator: str
    version: str
    settings: dict[str, Any]
    seed: int | None
    attribution: str
    record: dict[str, Any] = field(default_factory=dict)  # what happened: teleports, replaced, ...
    warnings: list[str] = field(default_factory=list)  # the simulator's own


def check_timestamps(
    system: str,
    field_name: str,
    seconds: Sequence[float] | np.ndarray,
    step_seconds: float,
) -> None:
    """Refuse timestamps that repeat, go backwards or are not `step_seconds` apart."""
    times = np.asarray(seconds, dtype=np.float64)
    gaps = np.diff(times)
    bad = np.flatnonzero(~(np.abs(gaps - step_seconds) <= 1e-6 * step_seconds))  # NaN too
    if len(bad):
        row = int(bad[0]) + 1
        kind = "repeated" if gaps[row - 1] == 0 else "uneven"
        raise SimulatorError(
            system,
            field_name,
            f"{kind} timestamp {times[row]:.6f} s at row {row}, {gaps[row - 1]:.6f} s after the "
            "row before",
            f"rows {step_seconds:g} s apart",
        )


def check_recording(recording: Recording, targets: Sequence[str], steps: int) -> None:
    """Refuse a recording whose columns, lengths or values are not those that were asked for."""
    system = recording.system
    if list(recording.columns) != list(targets):
        missing = [name for name in targets if name not in recording.columns]
        raise SimulatorError(
            system,
            "columns",
            list(recording.columns),
            f"{list(targets)} (missing: {missing})",
        )
    for name, values in recording.columns.items():
        if np.shape(values) != (steps,):
            raise SimulatorError(system, name, f"{np.shape(values)[0]} rows", f"{steps} rows")
        bad = np.flatnonzero(~np.isfinite(values))
        if len(bad):
            raise SimulatorError(
                system,
                name,
                f"{values[bad[0]]} at row {bad[0]} ({len(bad)} such rows)",
                "finite values",
            )
        if name not in recording.units:
            raise SimulatorError(system, name, "no unit", "the unit of each column")


def last_seen(values: np.ndarray, absent: np.ndarray) -> np.ndarray:
    """Replace the rows marked absent by the last value seen before them.

    Rows before the first seen value take that first value: there is nothing earlier to take.
    """
    seen = np.flatnonzero(~absent)
    if not len(seen):
        raise ValueError("every row is absent")
    rows = np.where(absent, -1, np.arange(len(values)))
    rows = np.maximum.accumulate(rows)
    rows[rows < 0] = seen[0]
    return values[rows]


def grouped_warnings(lines: Sequence[str], limit: int = 20) -> list[str]:
    """Distinct warnings with how often each came, alike but for numbers and names as one."""
    groups: dict[str, list[str]] = {}
    for line in lines:
        groups.setdefault(re.sub(r"'[^']*'|\d+", "", line), []).append(line)
    return [
        alike[0] if len(alike) == 1 else f"{alike[0]} (and {len(alike) - 1} more alike)"
        for alike in list(groups.values())[:limit]
    ]
