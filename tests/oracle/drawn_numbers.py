"""What whatif-v1.md §4 and §5 say of the numbers in a manifest row: a check and a draw."""

import numpy as np

from .layout import (
    COVARIATE_COUNTS,
    EVENT_LENGTHS,
    FUTURES,
    PAIRS,
    SETTINGS,
    context_for,
    events_in,
    layout,
)
from .tables import SYSTEMS, covariates_of, directions, up_only

NOVEL_OFFSET = (5.0, 12.0)  # direct: max(1, largest) + U
NOVEL_SCALE = (0.1, 0.5)  # inverse: min(1, smallest) * U
ROUNDING = 1e-6  # relative; the manifest keeps float32


def check_drawn_numbers(row: dict, largest_k: int = COVARIATE_COUNTS[-1]) -> list[str]:
    """Every way in which a manifest row departs from whatif-v1.md §4 and §5; empty if none.

    `largest_k` may be raised for rows outside the benchmark, which takes at most 5 covariates.
    """
    problems = _check_axes(row, largest_k)
    if problems:
        return problems
    return [*_check_window(row), *_check_history_factors(row), *_check_future_factors(row)]


def _check_axes(row: dict, largest_k: int) -> list[str]:
    """The columns that the others are read with."""
    system = SYSTEMS.get(row["system"])
    if system is None:
        return [f"system {row['system']} is unknown"]
    if row["target"] not in system.targets:
        return [f"target {row['target']} is not of {system.name}"]
    problems = []
    allowed = {
        "context_pair": PAIRS,
        "event_length": EVENT_LENGTHS,
        "setting": SETTINGS,
        "future": FUTURES,
        "k": range(1, min(largest_k, len(system.covariates)) + 1),
    }
    for column, values in allowed.items():
        if row[column] not in values:
            problems.append(f"{column} is {row[column]}, not one of {list(values)}")
    if problems:
        return problems
    wanted = list(covariates_of(system.name, row["target"], row["k"]))
    if list(row["covariates"]) != wanted:
        problems.append(f"covariates are {list(row['covariates'])}, not {wanted}")
    if len(row["factors"]) != row["n_events"]:
        problems.append(f"factors has {len(row['factors'])} events, not {row['n_events']}")
    if any(len(event) != row["k"] for event in row["factors"]):
        problems.append(f"an event of factors does not have {row['k']} covariates")
    if len(row["future_factors"]) != row["k"]:
        problems.append(f"future_factors does not have {row['k']} covariates")
    return problems


def _check_window(row: dict) -> list[str]:
    """Context, horizon, event count, event starts and the window's place (whatif-v1.md §5)."""
    system = SYSTEMS[row["system"]]
    nominal, horizon = system.contexts[row["context_pair"]]
    length = row["event_length"]
    n_events = events_in(row["context_pair"], nominal, length, row["setting"])
    wanted = {
        "n_events": n_events,
        "horizon": horizon,
        "context": context_for(nominal, length, n_events),
    }
    problems = [
        f"{column} is {row[column]}, not {value}"
        for column, value in wanted.items()
        if row[column] != value
    ]
    starts = layout(wanted["context"], length, n_events)
    if list(row["event_starts"]) != starts:
        problems.append(f"event_starts is {list(row['event_starts'])}, not {starts}")
    start = row["window_start"]
    if start < 0 or start + row["context"] + row["horizon"] > system.steps:
        problems.append(f"window_start {start} does not leave the window in {system.steps} steps")
    return problems


def _check_history_factors(row: dict) -> list[str]:
    """Pool, and one direction an event (whatif-v1.md §4)."""
    system = SYSTEMS[row["system"]]
    pool = {float(np.float32(value)) for value in system.pool}
    signs = directions(system.name, row["target"], row["covariates"])
    problems = []
    for number, event in enumerate(row["factors"]):
        outside = [f for f in event if float(np.float32(f)) not in pool]
        if outside:
            problems.append(f"event {number}: {outside} not in the pool")
        pushes = {sign if f > 1 else -sign for sign, f in zip(signs, event, strict=True)}
        if len(pushes) > 1:
            problems.append(f"event {number}: covariates push both up and down")
        elif pushes == {-1} and up_only(system.name, row["target"]):
            problems.append(f"event {number}: pushes down, {row['target']} goes up only")
    return problems


def _check_future_factors(row: dict) -> list[str]:
    """Replay repeats an event whole; Novel lies past the history as drawn (whatif-v1.md §4)."""
    future = np.array(row["future_factors"], dtype=np.float32)
    history = np.array([list(event) for event in row["factors"]], dtype=np.float32)
    if row["future"] == "replay":
        if any(np.array_equal(event, future) for event in history):
            return []
        return ["replay: future_factors are not those of one history event"]
    problems = []
    signs = directions(row["system"], row["target"], row["covariates"])
    for name, sign, value, past in zip(row["covariates"], signs, future, history.T, strict=True):
        if sign > 0:
            lowest, highest = (max(1.0, float(past.max())) + offset for offset in NOVEL_OFFSET)
        else:
            lowest, highest = (min(1.0, float(past.min())) * scale for scale in NOVEL_SCALE)
        if not lowest * (1 - ROUNDING) <= value <= highest * (1 + ROUNDING):
            problems.append(f"novel: {name} is {value}, not within [{lowest}, {highest}]")
    return problems


def check_pair(replay: dict, novel: dict) -> list[str]:
    """A pair is one history with its Replay and Novel futures (whatif-v1.md §1)."""
    problems = []
    for column in sorted(set(replay) - {"task_id", "future", "future_factors"}):
        if not np.array_equal(replay[column], novel[column]):
            problems.append(f"{column} differs within the pair")
    if (replay["future"], novel["future"]) != ("replay", "novel"):
        problems.append("a pair is a replay task and a novel task")
    return problems


def _in_float32(values) -> list:
    """Rounded as the manifest keeps them, as Python numbers."""
    return np.asarray(values, dtype=np.float32).tolist()


def draw_row(
    generator: np.random.Generator,
    system: str,
    target: str,
    *,
    k: int | None = None,
    context_pair: str | None = None,
    event_length: int | None = None,
    setting: str | None = None,
    future: str | None = None,
    task_id: int = 0,
) -> dict:
    """A manifest row that whatif-v1.md §4 and §5 allow; axes not given are drawn.

    `k` may be anything up to the number of covariates of the system. A generator in the same
    state, asked for the other future, gives the other task of the pair. The numbers are not
    those of the frozen suite, whose generator whatif-v1.md does not name.
    """
    table = SYSTEMS[system]
    k = int(generator.choice(COVARIATE_COUNTS)) if k is None else k
    context_pair = context_pair or str(generator.choice(PAIRS))
    event_length = event_length or int(generator.choice(EVENT_LENGTHS))
    setting = setting or str(generator.choice(SETTINGS))
    future = future or str(generator.choice(FUTURES))
    nominal, horizon = table.contexts[context_pair]
    n_events = events_in(context_pair, nominal, event_length, setting)
    context = context_for(nominal, event_length, n_events)

    window_start = int(generator.integers(table.steps - context - horizon + 1))
    covariates = list(covariates_of(system, target, k))
    signs = np.array(directions(system, target, covariates))
    above = [value for value in table.pool if value > 1]
    below = [value for value in table.pool if value < 1]
    factors = []
    for _ in range(n_events):
        push = 1 if up_only(system, target) else int(generator.choice([1, -1]))
        factors.append([generator.choice(above if sign == push else below) for sign in signs])
    factors = np.array(factors)
    if future == "replay":
        future_factors = factors[generator.integers(n_events)]
    else:
        future_factors = np.where(
            signs > 0,
            np.maximum(1, factors.max(axis=0)) + generator.uniform(*NOVEL_OFFSET, size=k),
            np.minimum(1, factors.min(axis=0)) * generator.uniform(*NOVEL_SCALE, size=k),
        )
    return {
        "task_id": task_id,
        "pair_id": task_id // 2,
        "system": system,
        "target": target,
        "k": k,
        "context_pair": context_pair,
        "context": context,
        "horizon": horizon,
        "event_length": event_length,
        "n_events": n_events,
        "setting": setting,
        "future": future,
        "window_start": window_start,
        "event_starts": layout(context, event_length, n_events),
        "covariates": covariates,
        "factors": _in_float32(factors),
        "future_factors": _in_float32(future_factors),
    }
