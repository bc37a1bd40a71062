"""Forecasters by name. Nothing is imported before a forecaster is made.

The tuned variants carry the paper's symbols for their features (Appendix J, Table 19), joined by
hyphens: `z` covariates at the forecast step, `zt` covariates at the origin, `s` mean, standard
deviation and slope of the last 32 values of the target, `h` the horizon, `all` every feature.
"""

import functools
import importlib
import importlib.util
import inspect
import os
import sys
import traceback
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from whatif_jax.evaluation.forecaster import Forecaster

__all__ = [
    "FORECASTERS",
    "NEEDS",
    "PAIRED_FEATURES",
    "TRAINED_ON",
    "declared_of",
    "make_forecaster",
    "needs",
    "takes",
]

# Suffix of a tuned variant's name -> its features, in the order of the paper's rows.
PAIRED_FEATURES: dict[str, tuple[str, ...]] = {
    "z": ("z",),
    "z-s": ("z", "s"),
    "z-zt-s-h": ("z", "zt", "s", "h"),
    "all": ("z", "z_before", "zt", "dz", "s", "h"),
}

GAIN = "-gain"
WITH_GAIN = ("naive", "fracast", "chronos-2", "timesfm-3", "tirex-2", "t0", "timestral")

# Name -> "module:factory". A factory takes settings as keywords and returns a forecaster
# (`whatif_jax.evaluation.evaluate.Forecaster`).
FORECASTERS: dict[str, str] = {
    "naive": "eval.forecasters.naive:make",
    "linear": "eval.forecasters.linear:make_linear",
    "ridge": "eval.forecasters.linear:make_ridge",
    "scaling": "eval.forecasters.scaling:make",
    "xgboost": "eval.forecasters.xgboost:make",
    **{
        f"{model}-paired-{suffix}": f"eval.forecasters.tuned:make_{model}"
        for model in ("linear", "ridge", "xgboost")
        for suffix in PAIRED_FEATURES
    },
    "chronos-2": "eval.forecasters.chronos:make",
    "timesfm-3": "eval.forecasters.timesfm:make",
    "tirex-2": "eval.forecasters.tirex:make",
    "tabpfn-ts": "eval.forecasters.tabpfn:make",
    "t0": "eval.forecasters.t0:make",
    "timestral": "eval.forecasters.timestral:make",
    "ts-icl": "eval.forecasters.tsicl:make",
    "fracast": "eval.forecasters.fracast:make",
    "llm": "eval.forecasters.llm:make",
    "ours": "eval.forecasters.ours:make",
}
# Forecasters that also come with the closed form's response around them, by the suffix "-gain".
FORECASTERS |= {f"{name}{GAIN}": FORECASTERS[name] for name in WITH_GAIN}


# Module that a forecaster needs -> extra of this package that installs it.
NEEDS: dict[str, tuple[str, str]] = {
    "xgboost": ("xgboost", "xgboost"),
    "chronos-2": ("chronos", "chronos"),
    "timesfm-3": ("timesfm3", "timesfm"),
    "tirex-2": ("tirex2", "tirex"),
    "tabpfn-ts": ("tabpfn_time_series", "tabpfn"),
    "t0": ("t0", "t0"),
    "timestral": ("timestral", "timestral"),
    "ts-icl": ("tsicl", "tsicl"),
    "fracast": ("fracast", "fracast"),
    "llm": ("litellm", "llm"),
}


# What a forecaster declares as its `trained_on`, so that listing them imports nothing.
TRAINED_ON: dict[str, str] = {
    **dict.fromkeys(("naive", "linear", "ridge", "xgboost", "scaling"), "nothing"),
    **dict.fromkeys(
        (
            *("chronos-2", "timesfm-3", "tirex-2", "tabpfn-ts", "t0", "timestral", "ts-icl"),
            *("fracast", "llm"),
        ),
        "published",  # but for weights from a folder, which may be anyone's
    ),
}


def declared_of(name: str) -> str:
    """What a forecaster of the registry was trained on, "unknown" where that is not fixed."""
    return TRAINED_ON.get(name.partition("-paired-")[0].removesuffix(GAIN), "unknown")


def needs(name: str) -> tuple[str, bool]:
    """The extra that a forecaster of the registry needs, "" for none, and whether it is there."""
    module, extra = NEEDS.get(name.partition("-paired-")[0].removesuffix(GAIN), ("", ""))
    return extra, not module or importlib.util.find_spec(module) is not None


def make_forecaster(name: str, /, **settings: object) -> "Forecaster":
    """A forecaster of the registry, or one of the user's own.

    Args:
        name: one of `FORECASTERS`, or MODULE:FACTORY: a function that takes settings as keywords
            and returns a forecaster. The module is looked for in the current folder too.
        **settings: what the factory takes.

    Raises:
        ValueError: an unknown name, settings that the factory does not take, or a factory of the
            user's own that fails or returns what cannot be called.
        ImportError: its packages are not installed; names the extra.
    """
    factory = _factory(name)
    parameters = _parameters(name, factory)
    unknown = sorted(set(settings) - set(takes(name)))
    if unknown and all(each.kind is not each.VAR_KEYWORD for each in parameters):
        from whatif_jax.catalog.errors import one_of

        expected = one_of(takes(name), unknown[0])
        raise ValueError(f"settings of {name}: {', '.join(unknown)}; expected {expected}")
    try:
        forecaster = factory(**settings)
    except (ValueError, ImportError, OSError, RuntimeError):
        raise
    except Exception as error:
        *_, last = traceback.extract_tb(error.__traceback__)
        raise ValueError(
            f"model: {name!r}: {type(error).__name__}: {error} (line {last.lineno} of "
            f"{last.filename}); expected a factory that returns "
            f"a forecaster and takes these settings"
        ) from error
    if not callable(forecaster):
        raise ValueError(
            f"model: {name!r} returns {str(forecaster)[:80]!r}; expected a factory that returns "
            f"a forecaster"
        )
    return forecaster


def takes(name: str) -> list[str]:
    """Names of the settings that a forecaster takes, as for `make_forecaster`."""
    parameters = _parameters(name, _factory(name))
    named = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    return sorted(each.name for each in parameters if each.kind in named)


def _parameters(name: str, factory: Callable[..., "Forecaster"]) -> list[inspect.Parameter]:
    """Parameters of a factory; ValueError where it is none."""
    try:
        return list(inspect.signature(factory).parameters.values())
    except (TypeError, ValueError) as error:  # what cannot be called, and some of C's functions
        raise ValueError(
            f"model: {name!r}: {error}; expected a factory that returns a forecaster"
        ) from None


def _factory(name: str) -> Callable[..., "Forecaster"]:
    """The factory of a registered forecaster, or of one given as MODULE:FACTORY."""
    module, colon, attribute = FORECASTERS.get(name, name).partition(":")
    if not colon or not all(part.isidentifier() for part in (*module.split("."), attribute)):
        from whatif_jax.catalog.errors import one_of

        expected = one_of(FORECASTERS, name)
        raise ValueError(f"model: {name!r}; expected {expected}, or MODULE:FACTORY of your own")
    if name not in FORECASTERS and os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    try:
        factory = getattr(importlib.import_module(module), attribute)
    except (ModuleNotFoundError, AttributeError) as error:
        if name in FORECASTERS or getattr(error, "name", module) not in (module, attribute):
            raise
        raise ValueError(
            f"model: {name!r}: {error}; expected a module and its factory, which "
            f"returns a forecaster"
        ) from None
    if name in FORECASTERS and name.endswith(GAIN):
        from .gain import gained

        return gained(factory)
    _, paired, features = name.partition("-paired-")
    # by position, so that it is no setting: the name says it
    return functools.partial(factory, features) if name in FORECASTERS and paired else factory
