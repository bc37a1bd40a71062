"""The kinds of settings of forecasters, and the check that a factory is given such."""

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Literal, ParamSpec, TypeVar, get_type_hints

from pydantic import ConfigDict, Field, ValidationError, validate_call

__all__ = [
    "Count",
    "Device",
    "Dollars",
    "Flag",
    "LiteLLMModel",
    "LongHorizon",
    "Penalty",
    "Place",
    "Seconds",
    "Secret",
    "Seed",
    "Temperature",
    "Text",
    "TextOrNone",
    "Whole",
    "checked_settings",
]

Arguments = ParamSpec("Arguments")
Made = TypeVar("Made")
_SHOWN = 100  # characters of a value in a message


def _kind(expected: str, **limits: Any) -> Any:
    return Field(description=expected, strict=True, **limits)


def _number(expected: str, **limits: Any) -> Any:
    return _kind(expected, allow_inf_nan=False, **limits)


Count = Annotated[int, _kind("an integer >= 1", ge=1)]
Whole = Annotated[int | None, _kind("an integer >= 0, or null", ge=0)]
Seed = Annotated[int, _kind("an integer in 0 .. 2147483647", ge=0, lt=2**31)]
Flag = Annotated[bool, _kind("true or false")]
Penalty = Annotated[float, _number("a number above 0", gt=0)]
Seconds = Annotated[float, _number("a number >= 0", ge=0)]
Dollars = Annotated[float | None, _number("a number >= 0, or null", ge=0)]
Temperature = Annotated[float | None, _number("a number >= 0, or null", ge=0)]
Text = Annotated[str, _kind("a text", pattern=r"\S")]
TextOrNone = Annotated[str | None, _kind("a text, or null", pattern=r"\S")]
Device = Annotated[str | None, _kind("the name of a device, or null", pattern=r"\S")]
Secret = Annotated[str | None, _kind("a text, or null", repr=False)]
Place = Annotated[Path | None, Field(description="a path, or null")]
LiteLLMModel = Annotated[
    str, _kind("litellm's name of one, such as anthropic/claude-opus-4-8", pattern=r"\S")
]
LongHorizon = Annotated[Literal["blocks", "widen"], Field(description="one of blocks, widen")]


def checked_settings(factory: Callable[Arguments, Made]) -> Callable[Arguments, Made]:
    """A factory that refuses a setting that is not of the kind its annotation names.

    Raises:
        ValueError: on a call; names the first such setting, its value unless it is a secret, and
            what was expected.
    """
    check = validate_call(config=ConfigDict(validate_default=True))(factory)
    hints = get_type_hints(factory, include_extras=True)

    @functools.wraps(factory)
    def make(*arguments: Arguments.args, **settings: Arguments.kwargs) -> Made:
        try:
            return check(*arguments, **settings)
        except ValidationError as error:
            fault = error.errors()[0]
            name = str(fault["loc"][0])
            (field,) = hints[name].__metadata__
            value = repr(fault["input"]) if field.repr else "its value"
            if len(value) > _SHOWN:
                value = f"{value[: _SHOWN - 3]}..."
            raise ValueError(f"{name}: {value}; expected {field.description}") from None

    return make
