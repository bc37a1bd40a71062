"""whatif_jax: does a forecaster use covariates well at values it has never seen?

The public names, listed in `__init__.pyi`, load on first use, so that `import whatif_jax` imports
neither JAX nor pyarrow and starts no backend.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)

__version__ = "0.1.0"
