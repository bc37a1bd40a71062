"""litellm, imported late and kept quiet: it fetches nothing, retries nothing and prints nothing."""

import os
from types import ModuleType

from ..base import require

__all__ = ["litellm"]


def litellm() -> ModuleType:
    """The litellm module.

    Its table of prices is the one in the package: the newest would be fetched over the network at
    import, and numbers of a dry run would change from day to day.

    Raises:
        ImportError: it is not installed; names the extra.
    """
    os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # read while it is imported
    module = require("litellm", "llm")
    # else it prints an advertisement at every failed call
    vars(module)["suppress_debug_info"] = True
    return module
