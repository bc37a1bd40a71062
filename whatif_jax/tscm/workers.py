"""Batches side by side on the cores of a CPU, handed on in their order.

XLA runs one program of small loops on one core. Batches are independent, and calls of compiled
functions do not hold Python's lock, so that one thread a core keeps all of them busy. Rows sharded
over virtual devices of the CPU would as well, but need a flag of XLA's before it starts, and wait
for the slower half of every batch. The values are those of one thread, as programs and keys are.
"""

import os
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

import jax

__all__ = ["made_in_order", "workers"]

Made = TypeVar("Made")
_MOST = 16  # batches in flight are held in memory


def workers() -> int:
    """Threads that make batches: one a core that this process may use, one on an accelerator."""
    if jax.default_backend() != "cpu":
        return 1
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return max(1, min(cores or 1, _MOST))


def made_in_order(groups: Sequence[Sequence[Callable[[], Made]]], threads: int) -> Iterator[Made]:
    """What each call returns, in the order of the calls, made ahead of their use.

    Args:
        groups: calls that share a program. The first of each is made before the others of its
            group, since it compiles; the programs of several groups compile side by side, and what
            these first calls return is held until its turn.
        threads: calls at once; with one, none is made in a thread, and each is made while the one
            before it is used: on an accelerator, calls return before they are computed.
    """
    if threads == 1:
        yield from _one_ahead(groups)
        return

    def waited(call: Callable[[], Made]) -> Made:
        return jax.block_until_ready(call())

    pool = ThreadPoolExecutor(threads, thread_name_prefix="episodes")
    try:
        firsts = deque(pool.submit(waited, group[0]) for group in groups if group)
        flying: deque[Future[Made]] = deque()
        for group in filter(None, groups):
            # what was handed on is held no longer: a batch may be large
            flying.append(firsts.popleft())
            for place, call in enumerate(group[1:]):
                if place == 0:
                    flying[-1].result()
                while len(flying) > threads:
                    yield flying.popleft().result()
                flying.append(pool.submit(waited, call))
        while flying:
            yield flying.popleft().result()
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


def _one_ahead(groups: Sequence[Sequence[Callable[[], Made]]]) -> Iterator[Made]:
    before: list[Made] = []
    for group in groups:
        for call in group:
            made = call()
            yield from before
            before = [made]
    yield from before
