"""Forecasters by name, whether what they need is installed, and forecasters of the user's own."""

import importlib
import importlib.util
import inspect
import os
import sys
from collections.abc import Callable, Mapping
from typing import Any

from .forecasters import FORECASTERS, make_forecaster

__all__ = ["NEEDS", "find_forecaster", "needs", "takes"]

# Module that a forecaster of the registry needs -> extra of this package that installs it.
NEEDS: dict[str, tuple[str, str]] = {
    "xgboost": ("xgboost", "xgboost"),
    "chronos-2": ("chronos", "chronos"),
    "timesfm-3": ("timesfm3", "timesfm"),
    "tirex-2": ("tirex2", "tirex"),
    "tabpfn-ts": ("tabpfn_time_series", "tabpfn"),
    "t0": ("t0", "t0"),
    "timestral": ("timestral", "timestral"),
    "ts-icl": ("tsicl", "tsicl"),
    "llm": ("litellm", "llm"),
}


def needs(name: str) -> tuple[str, bool]:
    """The extra that a forecaster of the registry needs, "" for none, and whether it is there."""
    module, extra = NEEDS.get(name.partition("-paired-")[0], ("", ""))
    return extra, not module or importlib.util.find_spec(module) is not None


def _factory(name: str) -> Callable:
    """The factory of a registered forecaster, or of one given as MODULE:FACTORY."""
    known = FORECASTERS.get(name, name)
    module, colon, attribute = known.partition(":")
    if not colon or not module or not attribute:
        raise ValueError(
            f"model: {name!r}; expected one of {', '.join(FORECASTERS)}, or MODULE:FACTORY of "
            f"your own"
        )
    if name not in FORECASTERS and os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    try:
        return getattr(importlib.import_module(module), attribute)
    except (ModuleNotFoundError, AttributeError) as error:
        if name in FORECASTERS or getattr(error, "name", module) not in (module, attribute):
            raise
        raise ValueError(f"model: {name!r}: {error}; expected a module and its factory") from None


def takes(name: str) -> list[str]:
    """Names of the settings that a forecaster takes.

    Raises:
        ValueError: an unknown name.
    """
    parameters = inspect.signature(_factory(name)).parameters.values()
    return sorted(each.name for each in parameters if each.kind not in (each.VAR_KEYWORD,))


def find_forecaster(name: str, settings: Mapping[str, Any]) -> Callable:
    """Make a forecaster of the registry, or one of the user's own.

    Args:
        name: one of `FORECASTERS`, or MODULE:FACTORY: a function that takes settings as keywords
            and returns a forecaster. The module is looked for in the current folder too.
        settings: what the factory takes.

    Raises:
        ValueError: an unknown name, or settings that the factory does not take.
        ImportError: its packages are not installed; names the extra.
    """
    factory = _factory(name)
    open_ended = any(
        each.kind is each.VAR_KEYWORD for each in inspect.signature(factory).parameters.values()
    )
    unknown = sorted(set(settings) - set(takes(name)))
    if unknown and not open_ended:
        raise ValueError(
            f"set: {name} takes no {', '.join(unknown)}; expected some of "
            f"{', '.join(takes(name)) or 'none'}"
        )
    if name in FORECASTERS:
        return make_forecaster(name, **settings)
    return factory(**settings)
