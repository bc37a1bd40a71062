"""Task specs: every drawn number of a task, and the sizes that its compiled program needs.

References:
    whatif-v1.md §4 (events), §5 (layout).
"""

import dataclasses
import operator
from collections.abc import Sequence
from typing import Any, TypeGuard

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

from .._types import Array, Bool, Float, Int
from .events import SHAPES, Whole
from .systems import check_window

__all__ = [
    "FUTURES",
    "Bucket",
    "Sizes",
    "TaskSpec",
    "bucket_for",
    "checked_range",
    "is_whole",
    "per_event",
    "positions_for",
    "with_factors",
]

# The order gives each kind of future its number in `TaskSpec.future`.
FUTURES = ("replay", "novel")


def is_whole(value: object) -> TypeGuard[int]:
    """Whether a value is a plain whole number: Python's or NumPy's, no bool."""
    return isinstance(value, int | np.integer) and not isinstance(value, bool)


@dataclasses.dataclass(frozen=True)
class Bucket:
    """The static sizes that tasks of one compiled program share.

    A task may be smaller than its bucket: histories are aligned to the right, all else to the
    left, and masks say what is real.

    Raises:
        ValueError: a size that is no whole number of at least 1, a context or horizon beyond the
            padding of `Systems`, or shapes that do not begin with a step, the shape of padding.
    """

    context: int  # C, steps of the history
    horizon: int  # H, steps of the future
    covariates: int  # K
    events: int  # E, of the history
    positions: int  # evaluations of the response that its histories need (`positions_for`)
    shapes: tuple[str, ...] = SHAPES  # names of the event shapes that its tasks may hold

    def __post_init__(self) -> None:
        for name in ("context", "horizon", "covariates", "events", "positions"):
            value = getattr(self, name)
            if not is_whole(value) or value < 1:
                raise ValueError(f"{name}: {value!r}; expected a whole number of at least 1")
        check_window("bucket", self.context, self.horizon)
        names = list(self.shapes) if isinstance(self.shapes, tuple) else []
        if names[:1] != [SHAPES[0]] or any(
            names.count(name) > 1 or name not in SHAPES for name in names
        ):
            raise ValueError(
                f"bucket: shapes {self.shapes}; expected {SHAPES[0]!r} first, then some of {SHAPES}"
            )

    @property
    def shaped(self) -> bool:
        """Whether a shape other than a step may occur; if not, one position serves an event."""
        return self.shapes != SHAPES[:1]


def per_event(event_length: Whole, shaped: bool = True) -> Whole:
    """Positions one event needs: its shape is symmetric, so half its steps; one for a step."""
    return (event_length + 1) // 2 if shaped else 0 * event_length + 1


def positions_for(event_length: Whole, n_events: Whole, shaped: bool = True) -> Whole:
    """`Bucket.positions` that one history needs."""
    return n_events * per_event(event_length, shaped)


class TaskSpec(eqx.Module):
    """The drawn numbers of one task; everything random about it.

    Made by `sample_spec`, or by a suite from its manifest. A batch of specs is a spec whose leaves
    have leading axes; the bucket is static and shared.

    References:
        whatif-v1.md §4, §5.
    """

    target: Int[Array, "*batch"]  # row of the target in `Systems`
    covariates: Int[Array, "*batch K"]  # columns of its system's covariates, primary first
    covariate_mask: Bool[Array, "*batch K"]  # False where a column is padding
    shapes: Int[Array, "*batch K"]  # event shape of each covariate, number in `events.SHAPES`
    window_start: Int[Array, "*batch"]  # baseline step of the first step of the history
    context: Int[Array, "*batch"]  # steps of the history, <= bucket.context
    horizon: Int[Array, "*batch"]  # steps of the future, <= bucket.horizon
    event_length: Int[Array, "*batch"]  # steps of every event in the history
    n_events: Int[Array, "*batch"]  # events in the history, <= E
    event_starts: Int[Array, "*batch E"]  # those starts, for reading; `realize` uses the slots
    slot_start: Int[Array, "*batch"]  # event e starts at slot_start + e * slot_stride
    slot_stride: Int[Array, "*batch"]
    factors: Float[Array, "*batch E K"]  # of each covariate in each event of the history
    future_factors: Float[Array, "*batch K"]  # of each covariate over the whole future
    future: Int[Array, "*batch"]  # kind of future, number in `FUTURES`
    bucket: Bucket = eqx.field(static=True)


def with_factors(
    spec: TaskSpec,
    future_factors: ArrayLike | Sequence | None = None,
    factors: ArrayLike | Sequence | None = None,
) -> TaskSpec:
    """The spec of the same task under other events. Pure; differentiable in the factors.

    Args:
        spec: of one task.
        future_factors: of each covariate over the whole future [K]; None: as they are.
        factors: of each covariate in each event of the history [E, K]; None: as they are.
            Both may leave out the padding: a task of two covariates takes two factors.

    Raises:
        ValueError: no spec, another shape, or a factor that is no finite number above 0.
    """
    if not isinstance(spec, TaskSpec):
        raise ValueError(f"spec: {' '.join(str(spec).split())[:80]}; expected a TaskSpec")
    for name, given in (("future_factors", future_factors), ("factors", factors)):
        if given is not None:
            values = _padded(name, given, spec)
            spec = eqx.tree_at(operator.attrgetter(name), spec, values)
    return spec


def _padded(name: str, given: object, spec: TaskSpec) -> Array:
    """Factors as the spec holds them, 1 where it has no covariate or no event."""
    held = getattr(spec, name)
    values: Any
    if any(
        isinstance(each, bool) or getattr(each, "dtype", None) == np.dtype(bool)
        for each in jax.tree.leaves(given)
    ):
        raise ValueError(f"{name}: {given!r}; expected numbers, not truths")
    try:
        with np.errstate(over="ignore"):
            values = np.asarray(given).astype(held.dtype, casting="same_kind")
    except jax.errors.TracerArrayConversionError:
        values = jnp.asarray(given, held.dtype)
    except (TypeError, ValueError):
        raise ValueError(f"{name}: {given!r}; expected numbers") from None
    shapes = {held.shape}
    if spec.target.ndim == 0 and not isinstance(spec.covariate_mask, jax.core.Tracer):
        real = (int(spec.n_events), int(np.asarray(spec.covariate_mask).sum()))
        shapes.add(real[-held.ndim :])
    if values.shape not in shapes:
        raise ValueError(
            f"{name}: shape {values.shape}; expected {' or '.join(map(str, sorted(shapes)))}"
        )
    if isinstance(values, np.ndarray) and not np.all(np.isfinite(values) & (values > 0)):
        raise ValueError(f"{name}: {values.tolist()}; expected finite factors above 0")
    missing = [(0, have - want) for have, want in zip(held.shape, values.shape, strict=True)]
    return jnp.pad(values, missing, constant_values=1)


def _whole(value: object) -> object:
    """NumPy's integers as Python's, which are checked; all else as it is."""
    return int(value) if is_whole(value) else value


def _future_number(future: object) -> object:
    """The number of a future by name; numbers, traced ones among them, as they are."""
    if isinstance(future, str) and future in FUTURES:
        return FUTURES.index(future)
    if isinstance(future, str) or (is_whole(future) and not 0 <= future < len(FUTURES)):
        raise ValueError(f"future: {future!r}; expected one of {', '.join(FUTURES)}")
    return _whole(future)


def checked_range(factor_range: object) -> tuple[float, float] | None:
    """A range of factors as two floats; ValueError if it is none."""
    if factor_range is None:
        return None
    ends = tuple(factor_range) if np.iterable(factor_range) else ()
    real = len(ends) == 2 and all(
        isinstance(end, int | float | np.integer | np.floating) and not isinstance(end, bool)
        for end in ends
    )
    smallest, largest = float(np.finfo(np.float32).tiny), float(np.finfo(np.float32).max)
    if not real or not smallest <= ends[0] < 1.0 < ends[1] <= largest:
        raise ValueError(
            f"factor_range: {str(factor_range)[:80]}; expected (low, high), 0 < low < 1 < high, "
            "both in the range of float32"
        )
    return float(ends[0]), float(ends[1])


class Sizes(eqx.Module):
    """What a task is asked to be. Numbers may be traced; vmap over any of them.

    Attributes:
        target: row of the target (`Systems.row`).
        k: covariates that events act on, the primary among them.
        event_length: steps of every past event.
        n_events: events in the history.
        future: "replay" or "novel", or its number in `FUTURES`.
        context: steps of the history; None: as many as the bucket has.
        horizon: steps of the future; None: as many as the bucket has.
        shapes: event shape of each covariate ([K], numbers in `events.SHAPES`); None: the
            catalog's.
        factor_range: (low, high): past factors are drawn log-uniform between low and 1 or 1 and
            high; None: from the catalog's pool. Not traced.

    Raises:
        ValueError: what is no whole number, no future or no range.
    """

    target: Any = eqx.field(converter=_whole)
    k: Any = eqx.field(converter=_whole)
    event_length: Any = eqx.field(converter=_whole)
    n_events: Any = eqx.field(converter=_whole)
    future: Any = eqx.field(converter=_future_number)
    context: Any = eqx.field(converter=_whole, default=None)
    horizon: Any = eqx.field(converter=_whole, default=None)
    shapes: Int[Array, "*batch K"] | None = None
    factor_range: tuple[float, float] | None = eqx.field(
        converter=checked_range, static=True, default=None
    )

    def __check_init__(self) -> None:
        for name in ("target", "k", "event_length", "n_events", "future", "context", "horizon"):
            value = getattr(self, name)
            known = value is None or is_whole(value)  # None: an axis of vmap that is not mapped
            dtype = getattr(value, "dtype", None)
            if not known and (dtype is None or not jnp.issubdtype(dtype, jnp.integer)):
                raise ValueError(f"{name}: {value!r}; expected a whole number")
        dtype = getattr(self.shapes, "dtype", None)
        if self.shapes is not None and (dtype is None or not jnp.issubdtype(dtype, jnp.integer)):
            raise ValueError(
                f"shapes: {self.shapes!r}; expected an array [K] of numbers in {SHAPES}"
            )


def bucket_for(sizes: Sizes) -> Bucket:
    """The smallest bucket that holds tasks of these sizes.

    Args:
        sizes: plain whole numbers, context and horizon among them.

    Raises:
        ValueError: a size is not a whole number of at least 1.
    """
    for name in ("context", "horizon", "k", "event_length", "n_events"):
        value = getattr(sizes, name)
        if not is_whole(value) or value < 1:
            raise ValueError(f"{name}: {value!r}; expected a whole number of at least 1")
    return Bucket(
        sizes.context,
        sizes.horizon,
        covariates=sizes.k,
        events=sizes.n_events,
        positions=positions_for(sizes.event_length, sizes.n_events),
    )
