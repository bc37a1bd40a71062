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
            "responses",
            "response_table",
            "events",
            "tasks",
            "verification",
            "sampling",
            "metrics",
            "scoring",
        )
    ],
    "beartype.beartype",
)

import pytest  # noqa: E402

from whatif_jax import Baselines, load_baselines  # noqa: E402


@pytest.fixture(scope="session")
def baselines() -> Baselines:
    """All four built-in systems."""
    return load_baselines()
