"""How often what is drawn: weights of systems, targets and buckets; numbers of covariates by name.

Every refusal is a ValueError that names field, value and expectation.
"""

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from fractions import Fraction
from typing import Any

import jax.numpy as jnp
import numpy as np

from .._types import Array
from ..catalog.errors import one_of
from .stream_fields import whole_numbers
from .systems import Systems

__all__ = [
    "bucket_turns",
    "checked_bucket_weights",
    "checked_k",
    "checked_weights",
    "k_of_targets",
    "shares_of",
    "weighted",
    "weights_of_targets",
]

FINEST = 1000  # a bucket's weight is a whole number of this part of the largest, or a simpler ratio


def weighted(share: Array, shares: Array) -> Array:
    """The first place whose cumulative share lies above `share`, a number in [0, 1).

    A place of weight 0 has the cumulative share of the one before it, so that it is never the
    first; the last place of a weight above 0 has the share 1, so that there is always one.
    """
    return jnp.sum(shares.astype(share.dtype) <= share, dtype=jnp.int32)


def shares_of(weights: np.ndarray) -> np.ndarray:
    """Cumulative shares of some weights, float32, the last of them exactly 1."""
    total = np.cumsum(weights / weights.max())
    return (total / total[-1]).astype(np.float32)


def checked_weights(field: str, given: object) -> dict[str, float]:
    """Weights by name, finite and at least 0; the names are checked where they are used."""
    if not isinstance(given, Mapping):
        raise ValueError(f"{field}: {given!r}; expected weights by name")
    return {name: _weight(f"{field}: {name!r} = {one!r}", one) for name, one in given.items()}


def _weight(text: str, given: Any) -> float:
    number = isinstance(given, int | float | np.integer | np.floating)
    if number and not isinstance(given, bool) and 0.0 <= given <= np.finfo(np.float64).max:
        return float(given)
    raise ValueError(f"{text}; expected a finite number of at least 0")


def weights_of_targets(
    systems: Systems,
    rows: np.ndarray,
    of_systems: Mapping[str, float] | None,
    of_targets: Mapping[str, float] | None,
) -> np.ndarray | None:
    """The weight of every target, a system's times its own; None where none is given.

    Args:
        systems: whose targets they are.
        rows: of the targets that a stream draws from; a name of no other is accepted.
        of_systems: by system; 1 for those not named.
        of_targets: by "system/target" or target, of which the first goes before; 1 for those not
            named.
    """
    if of_systems is None and of_targets is None:
        return None
    names = [systems.targets[row] for row in rows]
    weights = np.ones(len(systems.targets))
    if of_systems is not None:
        _check_names("system_weights", of_systems, [system for system, _ in names])
        given = np.array([of_systems.get(system, 1.0) for system, _ in systems.targets])
        weights *= _some_above_zero("system_weights", of_systems, given, rows)
    if of_targets is not None:
        _check_target_names("target_weights", of_targets, names)
        given = np.array(
            [
                next((of_targets[name] for name in _names_of(*pair) if name in of_targets), 1.0)
                for pair in systems.targets
            ]
        )
        weights *= _some_above_zero("target_weights", of_targets, given, rows)
    if not weights[rows].any():
        raise ValueError(
            f"target_weights: {dict(of_targets or {})} leaves no target of the systems that have a "
            f"weight; expected at least one above 0"
        )
    return weights


def _some_above_zero(
    field: str, named: Mapping[str, float], weights: np.ndarray, rows: np.ndarray
) -> np.ndarray:
    """The weights, the largest of them 1, so that no product is too large."""
    most = weights[rows].max()
    if most == 0.0:
        raise ValueError(f"{field}: {dict(named)} leaves no target; expected at least one above 0")
    return np.minimum(weights / most, 1.0)


def _names_of(system: str, target: str) -> tuple[str, str]:
    """Names that a target goes by, the one that says most first."""
    return f"{system}/{target}", target


def _check_names(field: str, given: Iterable[object], known: Collection[str]) -> None:
    for name in given:
        if name not in known:
            expected = one_of(dict.fromkeys(known), name)
            raise ValueError(f"{field}: {name!r}; expected {expected}, what the stream draws from")


def _check_target_names(
    field: str,
    given: Iterable[object],
    names: Sequence[tuple[str, str]],
    more: Sequence[str] = (),
) -> None:
    """Refuse what is neither "system/target" nor target nor one of `more`."""
    whole = [f"{system}/{target}" for system, target in names]
    short = [*more, *sorted({target for _, target in names})]
    for name in given:
        if name not in whole:
            _check_names(field, [name], whole if "/" in str(name) else short)


def k_of_targets(
    systems: Systems, rows: np.ndarray, named: Mapping[str, Sequence[int]], most: int
) -> list[tuple[int, ...]]:
    """Numbers of covariates to draw from, ascending, for every target.

    Args:
        systems: whose targets they are.
        rows: of the targets that a stream draws from; a name of no other is accepted.
        named: by "system/target", target or system, of which the first goes before.
        most: for a target not named, 1 to this, as far as it has covariates.
    """
    names = [systems.targets[row] for row in rows]
    _check_target_names("k", named, names, list(dict.fromkeys(system for system, _ in names)))
    found, drawn = [], set(rows.tolist())
    has = np.asarray(systems.n_covariates).tolist()
    for row, (system, target) in enumerate(systems.targets):
        name = next((name for name in (*_names_of(system, target), system) if name in named), None)
        if name is None:
            found.append(tuple(range(1, 1 + min(most, has[row]))))
            continue
        k = tuple(sorted(set(named[name])))
        if row in drawn and k[-1] > has[row]:
            raise ValueError(
                f"k: {name!r}: {k[-1]}; expected at most {has[row]}, the covariates of "
                f"{system}/{target}"
            )
        found.append(k)
    return found


def checked_k(given: Mapping[str, object]) -> dict[str, tuple[int, ...]]:
    """Whole numbers by name."""
    if not given:
        raise ValueError("k: {}; expected whole numbers by name, or None for the default")
    return {name: whole_numbers(f"k: {name!r}", k) for name, k in given.items()}


def checked_bucket_weights(given: object, buckets: int) -> tuple[float, ...]:
    """One weight a bucket, at least one above 0, and none above 0 that is too small to be met."""
    weights: list = list(given) if np.iterable(given) and not isinstance(given, str) else []
    if isinstance(given, Mapping) or len(weights) != buckets:
        raise ValueError(f"bucket_weights: {given!r}; expected {buckets} weights, one a bucket")
    weights = [
        _weight(f"bucket_weights: {one!r} of bucket {place}", one)
        for place, one in enumerate(weights)
    ]
    largest = max(weights)
    if largest == 0.0:
        raise ValueError(f"bucket_weights: {given!r}; expected at least one above 0")
    for one in weights:
        if 0.0 < one < largest / FINEST:
            raise ValueError(
                f"bucket_weights: {one!r}; expected 0, or at least 1/{FINEST} of the largest, "
                f"{largest!r}"
            )
    return tuple(weights)


def bucket_turns(weights: Sequence[float] | None, buckets: int) -> tuple[int, ...]:
    """The buckets of one period of steps: step s has the bucket at s modulo the period's length.

    Each bucket has a whole number of turns in proportion to its weight, the j-th of its n in the
    middle of the j-th n-th of the period, so that every stretch of steps has nearly its share.
    Weights are taken as ratios to the largest, of a denominator up to 1000; where these have no
    common period of 1000 steps a bucket, they are rounded to thousandths of the largest.

    References:
        M. Balinski and H. P. Young, Fair Representation (1982): Webster's method, which gives out
        seats one by one in this order.
    """
    if weights is None:
        return tuple(range(buckets))
    largest = max(weights)
    ratios = [Fraction(one / largest).limit_denominator(FINEST) for one in weights]
    common = math.lcm(*(ratio.denominator for ratio in ratios))
    turns = [int(ratio * common) for ratio in ratios]
    if sum(turns) > FINEST * buckets:
        turns = [round(ratio * FINEST) for ratio in ratios]
    shortest = math.gcd(*turns)
    due = sorted(
        ((2 * j + 1) / (2 * (n // shortest)), place)
        for place, n in enumerate(turns)
        for j in range(n // shortest)
    )
    return tuple(place for _, place in due)
