"""Small samples of the frozen suite, shared by the tests of forecasters and of `evaluate`."""

import numpy as np
import pytest

from tests.rows import realized
from whatif_jax import Suite, load_suite


@pytest.fixture(scope="session")
def suite() -> Suite:
    """The frozen suite, all of it."""
    return load_suite("whatif-v1")


@pytest.fixture(scope="session")
def few(suite) -> Suite:
    """Forty tasks of one context and horizon, every K and both futures, steps alone and bells."""
    short = suite.where(context=1024)
    return short.take(np.sort(np.random.default_rng(3).choice(len(short), 40, replace=False)))


@pytest.fixture(scope="session")
def arrays(few) -> dict[int, dict[str, np.ndarray]]:
    """Every task of `few` by id, covariates without padding."""
    return realized(few, 16)
