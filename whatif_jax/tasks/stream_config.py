"""What a stream draws from: fields that check themselves, as arrays and static sizes.

References:
    whatif-v1.md §4, §5.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax.sharding import NamedSharding

from .._types import Array, PRNGKeyArray
from ..catalog import System
from ..catalog.errors import one_of
from .events import SHAPES, fits, most_events
from .forked import refuse_forked
from .spec import Bucket, checked_range, positions_for
from .stream_fields import as_key, check_batch, checked_buckets, checked_probability, whole_numbers
from .stream_weights import (
    bucket_turns,
    checked_bucket_weights,
    checked_k,
    checked_weights,
    k_of_targets,
    shares_of,
    weights_of_targets,
)
from .systems import Systems, load_systems

__all__ = ["Choices", "StreamConfig"]

DEFAULT_MOST = 5  # covariates of a task, as in the frozen suite
DEFAULT_LENGTHS = (32, 64, 128, 256, 512)  # of events, those that fit a bucket


class Choices(NamedTuple):
    """What one bucket draws from, as arrays."""

    targets: Array  # int32 [n]: rows of targets long enough for the bucket
    target_shares: Array | None  # float32 [n], cumulative, by weight; None: all alike
    k: Array  # int32 [n], ascending; or [all targets, n], each target's own, padded
    n_k: Array  # int32 [all targets]: how many of them are a target's
    event_lengths: Array  # int32 [n]
    counts: Array  # int32 [lengths, n]: numbers of events, by event length
    n_counts: Array  # int32 [lengths]
    novel_share: Array  # float []: probability of a novel future
    shapes: Array | None  # int32 [n]: event shapes to draw from; None: the catalog's


class KTable(NamedTuple):
    """Numbers of covariates to draw from, on the host; `Choices` says what the arrays are."""

    values: np.ndarray
    counts: np.ndarray
    most: int


@dataclasses.dataclass(frozen=True, eq=False)
class StreamConfig:
    """The fields of `TaskStream`, which says what they mean, checked and turned into arrays.

    Raises:
        ValueError: a field's value is not usable; names field, value and expectation.
    """

    key: int | PRNGKeyArray
    batch_size: int
    buckets: Sequence[tuple[int, int]] = ((1024, 128),)
    systems: Any = None
    targets: Sequence[str] | None = None
    k: Sequence[int] | Mapping[str, Sequence[int]] | None = None
    event_lengths: Sequence[int] | None = None
    n_events: Sequence[int] | str = "powers"
    novel: float = 0.5
    shapes: Sequence[str] | None = None
    factor_range: tuple[float, float] | None = None
    sharding: NamedSharding | None = None
    system_weights: Mapping[str, float] | None = None
    target_weights: Mapping[str, float] | None = None
    bucket_weights: Sequence[float] | None = None
    root: PRNGKeyArray = dataclasses.field(init=False, repr=False)
    choices: tuple[tuple[Bucket, Choices], ...] = dataclasses.field(init=False, repr=False)
    turns: tuple[int, ...] = dataclasses.field(init=False, repr=False)  # buckets of a period
    weights: np.ndarray | None = dataclasses.field(init=False, repr=False)  # of all targets

    def __post_init__(self) -> None:
        refuse_forked()
        self._set("root", as_key(self.key))
        check_batch(self.batch_size, self.sharding)
        self._check_numbers()
        self._set("buckets", checked_buckets(self.buckets))
        if self.bucket_weights is not None:
            given = checked_bucket_weights(self.bucket_weights, len(self.buckets))
            self._set("bucket_weights", given)
        self._set("turns", bucket_turns(self.bucket_weights, len(self.buckets)))
        systems = self._load()
        self._set("systems", systems)
        rows = _target_rows(systems, self.targets)
        weights = weights_of_targets(systems, rows, self.system_weights, self.target_weights)
        self._set("weights", weights)
        k_table = self._check_k(rows if weights is None else rows[weights[rows] > 0.0], rows)
        self._check_events(rows)
        self._set("choices", tuple(self._choices(rows, k_table, *pair) for pair in self.buckets))

    def _set(self, name: str, value: object) -> None:
        object.__setattr__(self, name, value)

    def _check_numbers(self) -> None:
        if isinstance(self.k, Mapping):
            self._set("k", checked_k(self.k))
        elif self.k is not None:
            self._set("k", whole_numbers("k", self.k))
        if self.event_lengths is not None:
            self._set("event_lengths", whole_numbers("event_lengths", self.event_lengths))
        if not isinstance(self.n_events, str):
            self._set("n_events", whole_numbers("n_events", self.n_events))
        elif self.n_events != "powers":
            raise ValueError(f"n_events: {self.n_events!r}; expected 'powers' or whole numbers")
        checked_probability("novel", self.novel)
        if self.shapes is not None:
            shapes = tuple(self.shapes) if np.iterable(self.shapes) else ()
            if not shapes or not all(isinstance(name, str) and name in SHAPES for name in shapes):
                raise ValueError(f"shapes: {self.shapes!r}; expected some of {', '.join(SHAPES)}")
        self._set("factor_range", checked_range(self.factor_range))
        for name in ("system_weights", "target_weights"):
            if getattr(self, name) is not None:
                self._set(name, checked_weights(name, getattr(self, name)))

    def _load(self) -> Systems:
        if isinstance(self.systems, Systems):
            return self.systems
        one = isinstance(self.systems, str | Path | System)
        if self.systems is not None and not one and not np.iterable(self.systems):
            raise ValueError(
                f"systems: {self.systems!r}; expected names, paths of catalog files, or loaded "
                f"systems"
            )
        if isinstance(self.k, Mapping):
            most = max(DEFAULT_MOST, *map(max, self.k.values()))
        else:
            most = DEFAULT_MOST if self.k is None else max(self.k)
        return load_systems(self.systems, max_covariates=most)

    def _check_k(self, rows: np.ndarray, all_rows: np.ndarray) -> KTable:
        """Numbers of covariates, those of `rows` within what their targets have."""
        systems = self.systems
        has = np.asarray(systems.n_covariates)
        default = min(DEFAULT_MOST, systems.max_covariates, int(has[all_rows].max()))
        if isinstance(self.k, Mapping):
            own = k_of_targets(systems, all_rows, self.k, default)
            most = max(max(own[row]) for row in all_rows)
            systems.check_width(most)
            # padded, so that other numbers up to the same one compile nothing new
            table = np.array([np.resize(k[:most], most) for k in own], np.int32)
            return KTable(table, np.array([min(len(k), most) for k in own], np.int32), most)
        k = range(1, 1 + default) if self.k is None else self.k
        if self.k is not None and max(k) > has[rows].min():
            raise ValueError(
                f"k: {max(k)}; expected at most {has[rows].min()}, the covariates of "
                f"{'/'.join(systems.targets[rows[has[rows].argmin()]])}, or numbers by target"
            )
        k = tuple(sorted(set(k)))
        self._set("k", k)
        systems.check_width(max(k))
        return KTable(np.array(k, np.int32), np.searchsorted(k, has, side="right"), max(k))

    def _choices(
        self, rows: np.ndarray, k: KTable, context: int, horizon: int
    ) -> tuple[Bucket, Choices]:
        """What one bucket draws from; ValueError where nothing fits it."""
        systems = self.systems
        rows = rows[np.asarray(systems.length)[rows] >= context + horizon]
        if not len(rows):
            raise ValueError(
                f"buckets: ({context}, {horizon}) is longer than every target; expected at most "
                f"{int(np.max(np.asarray(systems.length)))} steps together"
            )
        weights = None if self.weights is None else self.weights[rows]
        if weights is not None and not weights.any():
            raise ValueError(
                f"buckets: ({context}, {horizon}) is longer than every target that has a weight; "
                f"expected weights above 0 for some that are long enough"
            )
        counts = self._events(rows, context)
        if not counts:
            raise ValueError(
                f"event_lengths: {self.event_lengths or DEFAULT_LENGTHS}; expected some that fit a "
                f"context of {context}, of at most {self._longest(rows, context)} steps where a "
                f"history has one event"
            )
        table = np.ones((len(counts), max(map(len, counts.values()))), np.int32)
        for row, wanted in enumerate(counts.values()):
            table[row, : len(wanted)] = wanted
        if self.shapes is None:
            used = {SHAPES[number] for number in np.unique(np.asarray(systems.shape)[rows])}
        else:
            used = set(self.shapes)
        # steps first and always: the shape of padding
        shapes = tuple(name for name in SHAPES if name in used or name == SHAPES[0])
        bucket = Bucket(
            context,
            horizon,
            covariates=k.most,
            events=int(table.max()),
            positions=max(
                positions_for(length, max(wanted), len(shapes) > 1)
                for length, wanted in counts.items()
            ),
            shapes=shapes,
        )
        drawn = None if self.shapes is None else [SHAPES.index(name) for name in self.shapes]
        return bucket, Choices(
            targets=jnp.asarray(rows, jnp.int32),
            target_shares=None if weights is None else jnp.asarray(shares_of(weights)),
            k=jnp.asarray(k.values, jnp.int32),
            n_k=jnp.asarray(k.counts, jnp.int32),
            event_lengths=jnp.asarray(list(counts), jnp.int32),
            counts=jnp.asarray(table),
            n_counts=jnp.asarray([len(wanted) for wanted in counts.values()], jnp.int32),
            novel_share=jnp.asarray(self.novel, jnp.float32),
            shapes=None if drawn is None else jnp.asarray(drawn, jnp.int32),
        )

    def _longest(self, rows: np.ndarray, context: int) -> int:
        """Steps of the longest event that a context holds for every target."""
        rules = self.systems.layout_rules(rows)
        lengths = range(context, 0, -1)
        return next((n for n in lengths if all(fits(context, n, 1, rule) for rule in rules)), 0)

    def _check_events(self, rows: np.ndarray) -> None:
        """Refuse an event length, or a number of events, that no bucket holds."""
        found = [self._events(rows, context) for context, _ in self.buckets]
        lengths = {length for counts in found for length in counts}
        numbers = {number for counts in found for wanted in counts.values() for number in wanted}
        for name, asked, held in (
            ("event_lengths", self.event_lengths, lengths),
            ("n_events", self.n_events, numbers),
        ):
            missing = [] if asked is None or isinstance(asked, str) else set(asked) - held
            if missing and lengths:
                raise ValueError(
                    f"{name}: {min(missing)} fits no bucket beside the other choices; expected "
                    f"some of {sorted(held)}, or a longer context than "
                    f"{max(context for context, _ in self.buckets)}"
                )

    def _events(self, rows: np.ndarray, context: int) -> dict[int, list[int]]:
        """Numbers of events to draw from by event length, those that fit every target."""
        rules = self.systems.layout_rules(rows)
        found = {}
        for length in self.event_lengths or DEFAULT_LENGTHS:
            if isinstance(self.n_events, str):  # "powers"
                most = min(most_events(context, length, rule) for rule in rules)
                wanted = [1 << power for power in range(most.bit_length())]
            else:
                wanted = [
                    count
                    for count in self.n_events
                    if all(fits(context, length, count, rule) for rule in rules)
                ]
            if wanted:
                found[length] = wanted
        return found


def _target_rows(systems: Systems, names: Sequence[str] | None) -> np.ndarray:
    """Rows of the named targets; constant ones are refused, or left out when none is named."""
    constant = np.asarray(systems.constant)
    if names is None:
        if constant.all():
            raise ValueError(
                f"systems: every target of {', '.join(systems.systems)} is constant; expected "
                f"series that vary"
            )
        return np.flatnonzero(~constant)
    if isinstance(names, str):
        names = [names]
    if not np.iterable(names):
        raise ValueError(f"targets: {names!r}; expected target names, or None for all that vary")
    if not len(names):
        raise ValueError("targets: []; expected target names, or None for all that vary")
    rows = []
    for name in names:
        found = [
            row
            for row, (system, target) in enumerate(systems.targets)
            if name in (target, f"{system}/{target}")
        ]
        if not found:
            known = {target for _, target in systems.targets}
            raise ValueError(f"targets: {name!r}; expected {one_of(sorted(known), name)}")
        for row in found:
            if constant[row]:
                raise ValueError(
                    f"targets: {name!r} is constant in its baseline; expected targets that vary"
                )
        rows += found
    return np.array(sorted(set(rows)))
