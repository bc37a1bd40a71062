"""Shared fixtures. Shape annotations of the library are checked at run time here, and only here."""

import os

# Four virtual devices, so that sharding is tested on any machine; set before JAX starts.
os.environ["XLA_FLAGS"] = (
    os.environ.get("XLA_FLAGS", "") + " --xla_force_host_platform_device_count=4"
)
os.environ.setdefault("JAX_PLATFORMS", "cpu")

from jaxtyping import install_import_hook

# the kernels; modules that take a user's values check those themselves, with their own errors
install_import_hook(
    [
        f"whatif_jax.{name}"
        for name in (
            "tasks.events",
            "tasks.responses",
            "tasks.response_table",
            "tasks.spec",
            "tasks.task",
            "tasks.verification",
            "evaluation.metrics",
            "evaluation.scoring",
        )
    ],
    "beartype.beartype",
)

import numpy as np  # noqa: E402
import pytest  # noqa: E402

from whatif_jax import Suite, Systems, load_suite, load_systems  # noqa: E402


@pytest.fixture(scope="session")
def systems() -> Systems:
    """All four built-in systems."""
    return load_systems()


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
    from tests.rows import realized

    return realized(few, 16)


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """The current folder is one with files that command lines may be given."""
    from tests.command_lines import FILES

    folder = tmp_path_factory.mktemp("files")
    for name, content in FILES.items():
        if content is None:
            (folder / name).mkdir()
        else:
            (folder / name).write_bytes(content)
    before = os.getcwd()
    os.chdir(folder)
    yield folder
    os.chdir(before)
