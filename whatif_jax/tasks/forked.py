"""A process forked after JAX started waits for JAX's threads, which it has not, without end.

Such as the workers of PyTorch's loaders on Linux before Python 3.14, unless asked to be spawned.
"""

import os

from jax._src import xla_bridge  # no public name says whether a backend has started

__all__ = ["ForkedError", "refuse_forked"]


class ForkedError(RuntimeError):
    """This process was forked from one that had used JAX, so JAX cannot be used here."""


def refuse_forked() -> None:
    """Raise in a process that JAX would never answer.

    Raises:
        ForkedError: this process, or one it was forked from, was forked after JAX had started.
    """
    if _State.forked:
        raise ForkedError(
            f"process {os.getpid()}: forked after its parent had used JAX, which waits there "
            f"forever; expected a worker started by 'spawn' or 'forkserver', such as "
            f"DataLoader(..., multiprocessing_context='spawn')"
        )


class _State:
    """Of this process; asked before a fork, since the lock that guards the answer may stay shut."""

    started = False
    forked = False


def _before() -> None:
    _State.started = xla_bridge.backends_are_initialized()


def _in_child() -> None:
    _State.forked = _State.forked or _State.started


if hasattr(os, "register_at_fork"):  # not on Windows, which has no fork
    os.register_at_fork(before=_before, after_in_child=_in_child)
