"""Where the programs keep what XLA compiled, so that only the first run of each waits for it."""

import contextlib
import os
import sys
from pathlib import Path

__all__ = ["cache_folder", "keep_compiled"]

FOLDER = "JAX_COMPILATION_CACHE_DIR"
# JAX keeps what took a second by default; much of a task's programs takes less
SECONDS = "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"


def cache_folder() -> Path:
    """The folder unless said otherwise: in the user's cache folder."""
    root = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(root) / "whatif-jax" / "compiled"


def keep_compiled() -> None:
    """Keep compiled programs in `cache_folder`, in this process and those that it starts.

    For programs, before they import JAX: it sets variables of the environment that JAX reads then.
    Does nothing where the user has set the folder, an empty name (no cache) among them; where JAX
    is imported already, since its caller has settings of its own; or where the folder cannot be
    written.
    """
    if FOLDER in os.environ or "jax" in sys.modules:
        return
    folder = cache_folder()
    with contextlib.suppress(OSError):
        folder.mkdir(parents=True, exist_ok=True)
    if os.access(folder, os.W_OK):
        os.environ[FOLDER] = str(folder)
        os.environ.setdefault(SECONDS, "0.3")
