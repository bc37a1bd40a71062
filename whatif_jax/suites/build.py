"""Building a frozen suite: enumerate candidates, draw, verify, compose.

References:
    whatif-v1.md §5 (axes), §6 (verification and composition).
"""

import dataclasses
import functools
from collections.abc import Callable, Iterator, Mapping

import jax
import jax.numpy as jnp
import numpy as np
import pyarrow as pa

from .._types import Array, PRNGKeyArray
from ..catalog import System
from ..tasks import FUTURES, Bucket, Sizes, Systems, TaskSpec, root_key, verify
from ..tasks.draw import share_counters, spec_from, uniform_shares_apart
from ..tasks.events import context_for, layout_rules, most_events
from ..tasks.spec import positions_for
from .manifest import SCHEMA

__all__ = ["Candidates", "SystemDraw", "candidates", "compose", "draw_system", "search_seed"]

SETTINGS = ("fewest", "most")
# Targets the catalog calls partial keep only tasks of so few events [P]
PARTIAL_EVENTS = 2
# Rows verified at once: fixed, so that every bucket compiles once
CHUNK = 256


@dataclasses.dataclass(frozen=True)
class Candidates:
    """All candidate pairs of one system, one row a pair; columns of equal length."""

    target: np.ndarray  # int32, number of the target within the system
    k: np.ndarray
    context_pair: np.ndarray  # str
    context: np.ndarray
    horizon: np.ndarray
    event_length: np.ndarray
    n_events: np.ndarray
    setting: np.ndarray  # str

    def __len__(self) -> int:
        return len(self.target)


def candidates(system: System) -> Candidates:
    """Enumerate the pairs of one system: target, K, context pair, event length, setting."""
    rows = []
    rules, longest = layout_rules(system), max(system.axes.event_lengths)
    for number, _ in enumerate(system.targets):
        for k in system.axes.k:
            for pair in system.axes.contexts:
                for length in system.axes.event_lengths:
                    most = most_events(pair.context, length, rules)
                    if length == longest and pair.most_events_longest:
                        most = pair.most_events_longest
                    counts = (pair.fewest_events, most)
                    for setting, n_events in zip(SETTINGS, counts, strict=True):
                        context = context_for(pair.context, length, n_events, rules)
                        rows.append(
                            (number, k, pair.name, context, pair.horizon, length, n_events, setting)
                        )
    columns = list(zip(*rows, strict=True))
    return Candidates(
        *(np.array(column, np.int32 if isinstance(column[0], int) else object)
          for column in columns)
    )  # fmt: skip


@dataclasses.dataclass(frozen=True)
class SystemDraw:
    """Every candidate of one system drawn with one seed, and what verification said."""

    seed: int
    candidates: Candidates
    drawn: dict[str, dict[str, np.ndarray]]  # by future: fields of `TaskSpec`, [pairs, ...]
    ok: np.ndarray  # bool [pairs, 2], replay and novel


@functools.partial(jax.jit, static_argnames="bucket")
def _draw_chunk(
    sizes: Sizes, systems: Systems, bucket: Bucket, root: PRNGKeyArray, pairs: Array
) -> tuple[TaskSpec, Array]:
    """Specs of both futures of some pairs, [2, pairs, ...], and whether each is verified."""

    def draw(future: Array, sizes: Sizes, pair: Array) -> tuple[TaskSpec, Array]:
        sizes = dataclasses.replace(sizes, future=future)
        # numbers in the order in which the suites that are frozen drew them
        low = np.arange(len(share_counters(bucket)[0]))
        flat = uniform_shares_apart(jax.random.fold_in(root, pair), 0 * low, low, systems)
        spec = spec_from(flat, sizes, systems, bucket)
        return spec, verify(spec, systems).ok

    over_pairs = jax.vmap(draw, in_axes=(None, 0, 0))
    return jax.vmap(over_pairs, in_axes=(0, None, None))(jnp.arange(len(FUTURES)), sizes, pairs)


def draw_system(
    system: System,
    systems: Systems,
    seed: int,
    rows: np.ndarray | None = None,
    progress: Callable[[int], None] = lambda done: None,
) -> SystemDraw:
    """Draw and verify candidates of one system.

    Pair number p draws from fold_in(seed's key, p), so a part of the candidates draws the same
    numbers as the whole.

    Args:
        system: the system.
        systems: loaded systems, it among them.
        seed: in [0, 2**32).
        rows: candidate pairs to draw, all when omitted; the others count as failed.
        progress: called with the number of pairs done since the last call.
    """
    every = candidates(system)
    rows = np.arange(len(every)) if rows is None else np.asarray(rows)
    first = systems.row(system.name, system.targets[0].name)
    root = root_key(seed)
    ok = np.zeros((len(every), 2), bool)
    drawn: dict[str, dict[str, np.ndarray]] = {future: {} for future in FUTURES}
    for bucket in _buckets(system, every):
        at = rows[(every.context[rows] == bucket.context) & (every.horizon[rows] == bucket.horizon)]
        for start in range(0, len(at), CHUNK):
            part = at[start : start + CHUNK]
            padded = np.resize(part, CHUNK)
            target, k, length, n_events = (
                jnp.asarray(values[padded], jnp.int32)
                for values in (every.target + first, every.k, every.event_length, every.n_events)
            )
            sizes = Sizes(target, k, length, n_events, future=jnp.zeros(CHUNK, jnp.int32))
            pairs = jnp.asarray(padded, jnp.uint32)
            specs, oks = _draw_chunk(sizes, systems, bucket, root, pairs)
            ok[part] = np.asarray(oks).T[: len(part)]
            for name, values in vars(specs).items():
                if name == "bucket":
                    continue
                for future, value in zip(FUTURES, np.asarray(values), strict=True):
                    store = drawn[future].setdefault(
                        name, np.zeros((len(every), *value.shape[1:]), value.dtype)
                    )
                    store[part] = value[: len(part)]
            progress(len(part))
    return SystemDraw(seed, every, drawn, ok)


def _buckets(system: System, every: Candidates) -> Iterator[Bucket]:
    shapes = sorted(set(zip(every.context.tolist(), every.horizon.tolist(), strict=True)))
    for context, horizon in shapes:
        at = (every.context == context) & (every.horizon == horizon)
        yield Bucket(
            context,
            horizon,
            covariates=max(system.axes.k),
            events=int(every.n_events.max()),
            positions=int(np.max(positions_for(every.event_length[at], every.n_events[at]))),
        )


def kept(system: System, draw: SystemDraw) -> np.ndarray:
    """Which tasks stay, bool [pairs, 2]: verified, and of few events where a target is partial."""
    partial = np.array([target.partial for target in system.targets])[draw.candidates.target]
    return draw.ok & ~(partial & (draw.candidates.n_events > PARTIAL_EVENTS))[:, None]


def composition(system: System, draw: SystemDraw) -> dict[str, int]:
    """Kept tasks of every target."""
    counts = kept(system, draw).sum(axis=1)
    return {
        target.name: int(counts[draw.candidates.target == number].sum())
        for number, target in enumerate(system.targets)
    }


def facts(system: System, counts: Mapping[str, int]) -> tuple[int, int]:
    """(full targets, tasks of partial targets) of a composition."""
    whole = 2 * len(candidates(system)) // len(system.targets)
    partial = {target.name for target in system.targets if target.partial}
    full = sum(count == whole for name, count in counts.items() if name not in partial)
    return full, sum(counts[name] for name in partial)


def search_seed(
    system: System,
    systems: Systems,
    *,
    full_targets: int,
    partial_tasks: int,
    seeds: range,
    progress: Callable[[int], None] = lambda seed: None,
    pairs_done: Callable[[int], None] = lambda done: None,
) -> SystemDraw:
    """The draw of the smallest seed whose composition is the published one.

    Partial targets are drawn first: most seeds fail there, and they are few.

    Raises:
        ValueError: no seed in the range gives it; says what the seeds gave.
    """
    every = candidates(system)
    partial = np.array([target.partial for target in system.targets])[every.target]
    few = np.flatnonzero(partial & (every.n_events <= PARTIAL_EVENTS))
    found: list[int | tuple[int, int]] = []
    for seed in seeds:
        progress(seed)
        if len(few):
            first = draw_system(system, systems, seed, few)
            count = int(kept(system, first).sum())
            if count != partial_tasks:
                found.append(count)
                continue
        draw = draw_system(system, systems, seed, progress=pairs_done)
        counts = composition(system, draw)
        if facts(system, counts) == (full_targets, partial_tasks):
            return draw
        found.append(facts(system, counts))
    most = max((each[0] for each in found if isinstance(each, tuple)), default=None)
    best = "" if most is None else f"at most {most} full ones and "
    partial_counts = [each if isinstance(each, int) else each[1] for each in found]
    raise ValueError(
        f"{system.name}: no seed in {seeds} gives {full_targets} full targets and "
        f"{partial_tasks} tasks of partial ones; they gave {best}{min(partial_counts)} .. "
        f"{max(partial_counts)} tasks of partial ones. In a full target every task passes "
        "verification; expected wider factors, or `partial = true` at a target that loses some"
    )


def compose(draws: Mapping[str, SystemDraw], catalog: Mapping[str, System]) -> pa.Table:
    """The manifest of the kept tasks of all systems, ids dense from 0."""
    columns: dict[str, list] = {name: [] for name in SCHEMA.names}
    pair_id = -1
    for name, draw in draws.items():
        system, every = catalog[name], draw.candidates
        keep = kept(system, draw)
        names = [covariate.name for covariate in system.covariates]
        for pair in np.flatnonzero(keep.any(axis=1)):
            pair_id += 1
            k, n_events = int(every.k[pair]), int(every.n_events[pair])
            for number in np.flatnonzero(keep[pair]):
                future = FUTURES[number]
                drawn = draw.drawn[future]
                row = {
                    "task_id": len(columns["task_id"]),
                    "pair_id": pair_id,
                    "system": name,
                    "target": system.targets[every.target[pair]].name,
                    "k": k,
                    "context_pair": every.context_pair[pair],
                    "context": int(every.context[pair]),
                    "horizon": int(every.horizon[pair]),
                    "event_length": int(every.event_length[pair]),
                    "n_events": n_events,
                    "setting": every.setting[pair],
                    "future": future,
                    "window_start": int(drawn["window_start"][pair]),
                    "event_starts": drawn["event_starts"][pair, :n_events],
                    "covariates": [names[column] for column in drawn["covariates"][pair, :k]],
                    "factors": list(drawn["factors"][pair, :n_events, :k]),
                    "future_factors": drawn["future_factors"][pair, :k],
                }
                for column, value in row.items():
                    columns[column].append(value)
    return pa.table([pa.array(columns[field.name], field.type) for field in SCHEMA], schema=SCHEMA)
