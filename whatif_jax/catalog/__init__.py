"""Systems as data: targets, covariates and responses with their provenance (whatif-v1.md §1-§5).

Importing this imports no JAX.
"""

from . import forms
from .builtin import builtin_systems, load_system
from .description import describe
from .effects import Primary, Secondary
from .errors import CatalogError
from .forms import Response
from .schema import Axes, ContextPair, Covariate, TargetClass
from .system import System
from .targets import Target

__all__ = [
    "Axes",
    "CatalogError",
    "ContextPair",
    "Covariate",
    "Primary",
    "Response",
    "Secondary",
    "System",
    "Target",
    "TargetClass",
    "builtin_systems",
    "describe",
    "forms",
    "load_system",
]
