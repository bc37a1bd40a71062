"""Systems as data: targets, covariates and responses with their provenance (whatif-v1.md §1-§5).

Importing this starts no JAX backend.
"""

from .builtin import builtin_systems, load_system
from .description import describe
from .errors import CatalogError
from .schema import (
    Axes,
    ContextPair,
    Covariate,
    Primary,
    Response,
    Secondary,
    System,
    Target,
    TargetClass,
)

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
    "load_system",
]
