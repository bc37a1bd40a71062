"""The baselines by name."""

from collections.abc import Mapping
from typing import Any

from .autoregression import var
from .baseline import Baseline, ClosedForm
from .forecasting import Forecasting
from .interrupted import interrupted
from .regression import (
    back_door,
    fits_back_door,
    fits_front_door,
    fits_instrument,
    fits_regression,
    front_door,
    instrument,
    regression,
)
from .trivial import last, mean, oracle, zero

__all__ = ["baselines"]


def baselines(chronos: Mapping[str, Any] | None = None) -> dict[str, Baseline]:
    """All baselines by name, in the order of a table's rows.

    Args:
        chronos: settings of `eval.forecasters.chronos.make`, such as `model` and `device`. Its
            weights are loaded at its first estimate.
    """

    def make_chronos() -> Any:
        from ..forecasters.chronos import make

        return make(**(chronos or {}))

    found: tuple[Baseline, ...] = (
        ClosedForm("zero", "Zero", zero),
        ClosedForm("mean", "Mean before the onset", mean),
        ClosedForm("last", "Last value", last),
        ClosedForm("var", "Vector autoregression", var),
        ClosedForm("regression", "Plain regression", regression, fits_regression),
        ClosedForm("back_door", "Back-door regression", back_door, fits_back_door),
        ClosedForm("instrument", "Two-stage least squares", instrument, fits_instrument),
        ClosedForm("front_door", "Front-door regression", front_door, fits_front_door),
        ClosedForm("interrupted", "Interrupted time series", interrupted),
        Forecasting("chronos-2", "Chronos-2, treatment known", make_chronos),
        ClosedForm("oracle", "Oracle", oracle),
    )
    return {method.name: method for method in found}
