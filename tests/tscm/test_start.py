"""Importing the worlds starts no JAX backend."""

import subprocess
import sys

PROGRAM = """
import sys
import whatif_jax
assert "jax" not in sys.modules
assert "tscm" in dir(whatif_jax)
whatif_jax.tscm.EpisodeStream
from jax._src import xla_bridge
assert not xla_bridge._backends
whatif_jax.tscm.load_prior("front_door")
assert not xla_bridge._backends
"""


def test_no_backend_is_started_on_import():
    subprocess.run([sys.executable, "-c", PROGRAM], check=True)
