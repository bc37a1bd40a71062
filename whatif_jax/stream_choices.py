"""What a stream draws from: its fields checked, and turned into arrays and static sizes.

References:
    SPEC §4-5.
"""

from typing import TYPE_CHECKING, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import NamedSharding

from ._types import Array, PRNGKeyArray
from .baselines import LEFT_PADDING, RIGHT_PADDING, Baselines
from .events import SHAPES, LayoutRules, fits, most_events
from .sampling import root_key
from .tasks import Bucket, positions_for

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .stream import TaskStream

__all__ = [
    "Choices",
    "Sizes",
    "as_key",
    "bucket_choices",
    "check_fields",
    "check_step",
    "target_rows",
]


class Choices(NamedTuple):
    """What one bucket draws from, as arrays."""

    targets: Array  # int32 [n]: rows of targets long enough for the bucket
    k: Array  # int32 [n]
    event_lengths: Array  # int32 [n]
    counts: Array  # int32 [lengths, n]: numbers of events, by event length
    n_counts: Array  # int32 [lengths]
    novel_share: Array  # float []: probability of a novel future
    shapes: Array  # int32 [n]: event shapes to draw from; unused with catalog shapes


class Sizes(NamedTuple):
    """Static sizes of one bucket's program."""

    bucket: Bucket
    max_covariates: int
    max_events: int
    catalog_shapes: bool
    factor_range: tuple[float, float] | None


def as_key(key: int | PRNGKeyArray) -> PRNGKeyArray:
    """The key of a seed, or the key itself; ValueError for anything else."""
    if isinstance(key, int | np.integer):
        return root_key(key)
    if isinstance(key, jax.Array) and jnp.issubdtype(key.dtype, jax.dtypes.prng_key):
        if key.shape == ():
            return key
        raise ValueError(f"key: keys of shape {key.shape}; expected one key")
    raise ValueError(f"key: {key!r}; expected a seed in [0, 2**32) or a jax.random.key")


def check_step(step: int) -> int:
    """The step as a Python integer; ValueError outside [0, 2**63)."""
    if isinstance(step, bool) or not isinstance(step, int | np.integer):
        raise ValueError(f"step: {step!r}; expected an integer in [0, 2**63)")
    step = int(step)
    if not 0 <= step < 2**63:
        raise ValueError(f"step: {step}; expected an integer in [0, 2**63)")
    return step


def check_fields(stream: "TaskStream") -> None:
    """Everything that can be said of the fields before the catalog is loaded."""

    def whole_numbers(name: str) -> None:
        given = getattr(stream, name)
        values: list = list(given) if np.iterable(given) else [None]
        good = values and all(
            isinstance(value, int | np.integer) and not isinstance(value, bool) and value >= 1
            for value in values
        )
        if not good:
            raise ValueError(f"{name}: {given!r}; expected some whole numbers of at least 1")
        object.__setattr__(stream, name, tuple(int(value) for value in values))

    if isinstance(stream.batch_size, bool) or not isinstance(stream.batch_size, int | np.integer):
        raise ValueError(f"batch_size: {stream.batch_size!r}; expected an integer >= 1")
    if stream.batch_size < 1:
        raise ValueError(f"batch_size: {stream.batch_size}; expected an integer >= 1")
    if stream.k is not None:
        whole_numbers("k")
    whole_numbers("event_lengths")
    if stream.n_events != "powers":
        if isinstance(stream.n_events, str):
            raise ValueError(f"n_events: {stream.n_events!r}; expected 'powers' or whole numbers")
        whole_numbers("n_events")
    if not 0.0 <= stream.novel <= 1.0:
        raise ValueError(f"novel: {stream.novel!r}; expected a probability in [0, 1]")
    pairs: list = list(stream.buckets) if np.iterable(stream.buckets) else [None]
    whole = all(
        isinstance(pair, tuple | list)
        and len(pair) == 2
        and all(isinstance(size, int | np.integer) and size >= 1 for size in pair)
        for pair in pairs
    )
    if not pairs or not whole:
        raise ValueError(f"buckets: {stream.buckets!r}; expected (context, horizon) pairs >= 1")
    for context, horizon in pairs:
        if context > LEFT_PADDING or horizon > RIGHT_PADDING:
            raise ValueError(
                f"buckets: ({context}, {horizon}); expected a context of at most {LEFT_PADDING} "
                f"and a horizon of at most {RIGHT_PADDING}"
            )
    buckets = tuple(tuple(int(size) for size in pair) for pair in pairs)
    object.__setattr__(stream, "buckets", buckets)
    for name in stream.shapes or ():
        if name not in SHAPES:
            raise ValueError(f"shapes: {name!r}; expected some of {', '.join(SHAPES)}")
    if stream.factor_range is not None:
        low, high = stream.factor_range
        if not 0.0 < low < 1.0 < high:
            raise ValueError(
                f"factor_range: {stream.factor_range!r}; expected (low, high), 0 < low < 1 < high"
            )
        object.__setattr__(stream, "factor_range", (float(low), float(high)))
    if stream.sharding is not None:
        if not isinstance(stream.sharding, NamedSharding):
            raise ValueError(f"sharding: {stream.sharding!r}; expected a jax NamedSharding")
        shards = stream.sharding.num_devices
        if stream.batch_size % shards:
            raise ValueError(
                f"batch_size: {stream.batch_size}; expected a multiple of the {shards} devices"
            )


def target_rows(baselines: Baselines, names: "Sequence[str] | None") -> np.ndarray:
    """Rows of the named targets; constant ones are refused, or left out when none is named."""
    constant = np.asarray(baselines.constant)
    if names is None:
        if constant.all():
            raise ValueError(
                f"systems: every target of {', '.join(baselines.systems)} is constant; expected "
                f"series that vary"
            )
        return np.flatnonzero(~constant)
    if isinstance(names, str):
        names = [names]
    if not len(names):
        raise ValueError("targets: []; expected target names, or None for all that vary")
    rows = []
    for name in names:
        found = [
            row
            for row, (system, target) in enumerate(baselines.targets)
            if name in (target, f"{system}/{target}")
        ]
        if not found:
            raise ValueError(
                f"targets: {name!r}; expected target names of {', '.join(baselines.systems)}"
            )
        for row in found:
            if constant[row]:
                raise ValueError(
                    f"targets: {name!r} is constant in its baseline; expected targets that vary"
                )
        rows += found
    return np.array(sorted(set(rows)))


def bucket_choices(
    stream: "TaskStream",
    baselines: Baselines,
    k: tuple[int, ...],
    rows: np.ndarray,
    context: int,
    horizon: int,
) -> tuple[Choices, Sizes]:
    """Choices and static sizes of one bucket; ValueError where nothing fits it."""
    rows = rows[np.asarray(baselines.length)[rows] >= context + horizon]
    if not len(rows):
        raise ValueError(
            f"buckets: ({context}, {horizon}) is longer than every target; expected at most "
            f"{int(np.max(np.asarray(baselines.length)))} steps together"
        )
    most_k = int(np.min(np.asarray(baselines.n_covariates)[rows]))
    if max(k) > most_k:
        raise ValueError(f"k: {max(k)}; expected at most {most_k} for these targets")
    rules = {
        LayoutRules(*(int(value) for value in values))
        for values in zip(
            np.asarray(baselines.gap)[rows],
            np.asarray(baselines.prefix)[rows],
            np.asarray(baselines.end_buffer)[rows],
            strict=True,
        )
    }
    lengths, counts = [], []
    for length in stream.event_lengths:
        if isinstance(stream.n_events, str):  # "powers"
            most = min(most_events(context, length, rule) for rule in rules)
            wanted = [1 << power for power in range(most.bit_length())]
        else:
            wanted = [
                count
                for count in stream.n_events
                if all(fits(context, length, count, rule) for rule in rules)
            ]
        if wanted:
            lengths.append(length)
            counts.append(wanted)
    if not lengths:
        raise ValueError(
            f"event_lengths, n_events: {stream.event_lengths}, {stream.n_events}; expected at "
            f"least one combination that fits a context of {context}"
        )
    table = np.ones((len(lengths), max(map(len, counts))), np.int32)
    for row, wanted in enumerate(counts):
        table[row, : len(wanted)] = wanted
    if stream.shapes is None:
        used = {SHAPES[number] for number in np.unique(np.asarray(baselines.shape)[rows])}
    else:
        used = set(stream.shapes)
    # steps first and always: the shape of padding
    shapes = tuple(name for name in SHAPES if name in used or name == SHAPES[0])
    positions = max(
        positions_for(length, max(wanted), len(shapes) > 1)
        for length, wanted in zip(lengths, counts, strict=True)
    )
    choices = Choices(
        targets=jnp.asarray(rows, jnp.int32),
        k=jnp.asarray(k, jnp.int32),
        event_lengths=jnp.asarray(lengths, jnp.int32),
        counts=jnp.asarray(table),
        n_counts=jnp.asarray([len(wanted) for wanted in counts], jnp.int32),
        novel_share=jnp.asarray(stream.novel, jnp.float32),
        shapes=jnp.asarray([SHAPES.index(name) for name in stream.shapes or SHAPES[:1]], jnp.int32),
    )
    sizes = Sizes(
        bucket=Bucket(context, horizon, positions, shapes),
        max_covariates=max(k),
        max_events=int(table.max()),
        catalog_shapes=stream.shapes is None,
        factor_range=stream.factor_range,
    )
    return choices, sizes
