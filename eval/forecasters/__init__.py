"""Forecasters by name. Nothing is imported before a forecaster is made.

The tuned variants carry the paper's symbols for their features (Appendix J, Table 19), joined by
hyphens: `z` covariates at the forecast step, `zt` covariates at the origin, `s` mean, standard
deviation and slope of the last 32 values of the target, `h` the horizon, `all` every feature.
"""

import importlib
import inspect
from collections.abc import Callable
from typing import Any

__all__ = ["FORECASTERS", "PAIRED_FEATURES", "make_forecaster"]

# Suffix of a tuned variant's name -> its features, in the order of the paper's rows.
PAIRED_FEATURES: dict[str, tuple[str, ...]] = {
    "z": ("z",),
    "z-s": ("z", "s"),
    "z-zt-s-h": ("z", "zt", "s", "h"),
    "all": ("z", "z_before", "zt", "dz", "s", "h"),
}

# Name -> "module:factory". A factory takes settings as keywords and returns a forecaster
# (`whatif_jax.evaluation.evaluate.Forecaster`).
FORECASTERS: dict[str, str] = {
    "naive": "eval.forecasters.naive:make",
    "linear": "eval.forecasters.linear:make_linear",
    "ridge": "eval.forecasters.linear:make_ridge",
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
    "llm": "eval.forecasters.llm:make",
}


def make_forecaster(name: str, **settings: Any) -> Callable:
    """A forecaster of the registry.

    Args:
        name: one of `FORECASTERS`.
        **settings: what its factory takes.

    Returns:
        a forecaster for `whatif_jax.evaluation.evaluate.evaluate`.

    Raises:
        ValueError: a name that is not in `FORECASTERS`, or settings its factory does not take.
        ImportError: its packages are not installed; names the extra.
    """
    if name not in FORECASTERS:
        raise ValueError(f"name: {name!r}; expected one of {', '.join(FORECASTERS)}")
    module, _, factory = FORECASTERS[name].partition(":")
    make = getattr(importlib.import_module(module), factory)
    _, paired, suffix = name.partition("-paired-")
    given = {**settings, "features": suffix} if paired else settings
    parameters = inspect.signature(make).parameters.values()
    if all(each.kind is not each.VAR_KEYWORD for each in parameters):
        taken = {each.name for each in parameters} - ({"features"} if paired else set())
        unknown = set(settings) - taken
        if unknown:
            raise ValueError(
                f"settings of {name}: {', '.join(sorted(unknown))}; expected some of "
                f"{', '.join(sorted(taken)) or 'none'}"
            )
    return make(**given)
