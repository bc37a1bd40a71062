"""Where the programs keep what XLA compiled, so that only the first run of each waits for it.

And what they say meanwhile. XLA's own alarm ("Very slow compile?", after two minutes) has no switch
of its own: what silences it silences XLA's errors, so it stays.
"""

import contextlib
import os
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

__all__ = ["cache_folder", "cache_rule", "compilation_said", "keep_compiled"]

FOLDER = "JAX_COMPILATION_CACHE_DIR"
# JAX keeps what took a second by default; much of a task's programs takes less
SECONDS = "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"
# JAX's events: a scalar when XLA begins, in the thread that waits for it, a duration when it ends
COMPILING = "/jax/core/compile/backend_compile_duration"


def cache_folder() -> Path | None:
    """The folder unless said otherwise: in the user's cache folder; None without a home folder."""
    try:
        root = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    except RuntimeError:  # a container's user, whom no list of users names
        return None
    return Path(root) / "whatif-jax" / "compiled"


def cache_rule() -> str:
    """Where compiled programs are kept, for a program's help."""
    kept = cache_folder() or "XDG_CACHE_HOME/whatif-jax/compiled, and nowhere without a home folder"
    return (
        f"Compiled programs are kept in {kept}; the variable {FOLDER} names another folder, or "
        f"none if it is empty."
    )


def keep_compiled() -> None:
    """Keep compiled programs in `cache_folder`, in this process and those that it starts.

    For programs, before they import JAX: it sets variables of the environment that JAX reads then.
    Does nothing where the user has set the folder, an empty name (no cache) among them; where JAX
    is imported already, since its caller has settings of its own; or where there is no home folder
    or the folder cannot be written.
    """
    folder = cache_folder()
    if FOLDER in os.environ or "jax" in sys.modules or folder is None:
        return
    with contextlib.suppress(OSError):
        folder.mkdir(parents=True, exist_ok=True)  # raises where a file is in the way
        if os.access(folder, os.W_OK):
            os.environ[FOLDER] = str(folder)
            os.environ.setdefault(SECONDS, "0.3")


@contextlib.contextmanager
def compilation_said(shown: bool = True, *, after: float = 2.0) -> Iterator[None]:
    """While it is open, say on standard error what XLA compiles and how long that took.

    For programs, on a terminal. What is compiled or read from the cache at once is not mentioned.

    Args:
        shown: whether to say anything.
        after: seconds before a program is mentioned.
    """
    if not (shown and sys.stderr.isatty()):
        yield
        return
    from jax import monitoring
    from tqdm import tqdm

    waiting: dict[int, threading.Timer] = {}  # by the thread that waits
    over = threading.Event()  # JAX 0.8 lets no listener go

    def say(text: str) -> None:
        tqdm.write(text, file=sys.stderr)  # above a progress bar, if there is one

    def begun(event: str, value: float, **about: str | int) -> None:
        if event == COMPILING and not over.is_set():
            timer = threading.Timer(after, say, [f"compiling {about.get('fun_name')} ..."])
            waiting[threading.get_ident()] = timer
            timer.daemon = True
            timer.start()

    def ended(event: str, duration_secs: float, **about: str | int) -> None:
        if event == COMPILING and not over.is_set():
            if timer := waiting.pop(threading.get_ident(), None):
                timer.cancel()
            if duration_secs >= after:
                say(f"compiled {about.get('fun_name')} in {duration_secs:.1f} s")

    monitoring.register_scalar_listener(begun)
    monitoring.register_event_duration_secs_listener(ended)
    try:
        yield
    finally:
        over.set()
