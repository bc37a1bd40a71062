"""Train a forecaster on the stream: `python -m training fit | export | rows`.

Works on top of `whatif_jax`, which imports nothing from here. The example of how to train on the
stream is `fit.py`.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .forecaster import load_forecaster as load_forecaster

__all__ = ["load_forecaster"]


def __getattr__(name: str) -> object:
    """`load_forecaster`, imported when it is asked for: it needs JAX."""
    if name not in __all__:
        raise AttributeError(f"module 'training' has no attribute {name!r}")
    from .forecaster import load_forecaster

    return load_forecaster
