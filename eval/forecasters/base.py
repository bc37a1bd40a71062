"""What the forecasters share: missing packages, quantiles by level, what a run costs."""

import importlib
from types import ModuleType
from typing import NamedTuple

from whatif_jax.evaluation.levels import select_levels

__all__ = ["Estimate", "require", "select_levels"]


class Estimate(NamedTuple):
    """What forecasts not yet made will take.

    A forecaster that costs has a method `estimate` with the arguments of a forecast, which returns
    this and makes no forecast; a dry run adds it up over the batches.

    Attributes:
        prompt_tokens: sent.
        completion_tokens: written by the model, reasoning included.
        cost: in US dollars, None where the model's price is unknown.
        requests: calls, if each is answered at the first attempt.
        cached: forecasts that need no call.
        note: what the numbers rest on.
    """

    prompt_tokens: int
    completion_tokens: int
    cost: float | None
    requests: int = 0
    cached: int = 0
    note: str = ""


def require(module: str, extra: str) -> ModuleType:
    """Import what an optional part needs.

    Args:
        module: name of the module, `package.part` allowed.
        extra: the extra of this package that installs it.

    Returns:
        the module.

    Raises:
        ImportError: it is not installed, or a module that it needs is not; names the extra.
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        install = f"pip install -e '.[{extra}]'"
        if getattr(error, "name", None) in (module, module.partition(".")[0]):
            raise ImportError(f"{module} is not installed; {install}", name=error.name) from error
        raise ImportError(
            f"{module} cannot be imported ({error}); {install}", name=error.name
        ) from error
