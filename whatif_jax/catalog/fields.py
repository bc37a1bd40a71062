"""The kinds of fields in a catalog file. Numbers must hold as float32, where tasks are computed."""

import math
import struct
from collections.abc import Callable, Iterator, Mapping
from typing import Annotated, TypeVar

from pydantic import AfterValidator, BeforeValidator, Field, Strict, StrictBool

__all__ = [
    "Count",
    "Factors",
    "Flag",
    "FrozenMapping",
    "Name",
    "NotEmpty",
    "NotNegative",
    "Number",
    "Positive",
    "Share",
    "Text",
    "Texts",
    "Whole",
    "float32",
    "must",
]

Value = TypeVar("Value")
_MOST = 2**31 - 1


class FrozenMapping(Mapping[str, Value]):
    """A mapping that cannot change, so that what holds it can be hashed and pickled."""

    __slots__ = ("_items",)

    def __init__(self, items: Mapping[str, Value]) -> None:
        self._items = dict(items)

    def __getitem__(self, key: str) -> Value:
        return self._items[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._items)

    def __len__(self) -> int:
        return len(self._items)

    def __hash__(self) -> int:
        return hash(frozenset(self._items.items()))

    def __repr__(self) -> str:
        return repr(self._items)

    def __reduce__(self) -> tuple[type["FrozenMapping[Value]"], tuple[dict[str, Value]]]:
        return FrozenMapping, (self._items,)


def float32(value: float) -> float:
    """The value as float32 holds it, infinite where it is too large."""
    try:
        return float(struct.unpack("<f", struct.pack("<f", float(value)))[0])
    except OverflowError:
        return math.inf


def _number(value: object) -> float:
    if isinstance(value, int | float) and not isinstance(value, bool):
        held = float32(value)
        if math.isfinite(held) and (held == 0) == (value == 0):
            return float(value)
    raise ValueError("a finite number that float32 can hold")


def _are_factors(values: tuple[float, ...]) -> bool:
    held = {float32(value) for value in values}
    return bool(held) and min(held) > 0 and 1 not in held and len(held) == len(values)


def must(be: str, holds: Callable[[Value], object]) -> AfterValidator:
    """Refuses values of which something does not hold, and says what they must be."""

    def check(value: Value) -> Value:
        if not holds(value):
            raise ValueError(be)
        return value

    return AfterValidator(check)


FLOAT32 = BeforeValidator(_number)
NotEmpty = must("a list that is not empty", bool)  # min_length counts without what has faults
Text = Annotated[str, Field(min_length=1)]
Texts = Annotated[Mapping[str, Text], AfterValidator(FrozenMapping)]
Name = Annotated[str, Field(pattern=r"^[^\s/{}]([^/{}\n\r\t]*[^\s/{}])?$")]
Flag = StrictBool
Number = Annotated[float, FLOAT32]
Factors = Annotated[
    tuple[Number, ...], must("different factors above 0, none of them 1", _are_factors)
]
Positive = Annotated[float, Field(gt=0), FLOAT32]
NotNegative = Annotated[float, Field(ge=0), FLOAT32]
Share = Annotated[float, Field(ge=0, lt=1), FLOAT32]
Whole = Annotated[int, Strict(), Field(ge=0, le=_MOST)]
Count = Annotated[int, Strict(), Field(ge=1, le=_MOST)]
