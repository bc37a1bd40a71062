"""Systems as data: targets, covariates and responses with their provenance (SPEC §1-§5).

Importing this starts no JAX backend.
"""

from whatif_jax.catalog.builtin import builtin_systems, system
from whatif_jax.catalog.description import describe
from whatif_jax.catalog.errors import CatalogError
from whatif_jax.catalog.loader import load_system
from whatif_jax.catalog.schema import (
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
    "system",
]
