"""Batches made side by side: order, one program at a time, errors, an early end."""

import threading
import time
import weakref

import numpy as np
import pytest

from whatif_jax.tscm.workers import made_in_order


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_what_is_made_comes_in_order(threads):
    def call(number):
        def made():
            time.sleep(0.002 * (number % 3))  # later ones may be done earlier
            return np.int64(number)

        return made

    calls = [call(number) for number in range(20)]
    groups = [calls[:1], [], calls[1:9], calls[9:]]
    assert list(made_in_order(groups, threads)) == list(range(20))


def test_a_program_is_compiled_before_others_of_its_group_begin():
    done, early, names = set(), [], set()

    def call(group, place):
        def made():
            names.add(threading.current_thread().name)
            if place == 0:
                time.sleep(0.02)
                done.add(group)
            elif group not in done:
                early.append((group, place))
            return 0

        return made

    list(made_in_order([[call(group, place) for place in range(4)] for group in range(3)], 2))
    assert not early and done == {0, 1, 2}
    assert all(name.startswith("episodes") for name in names) and len(names) == 2


@pytest.mark.parametrize("threads", [1, 2])
def test_an_error_is_raised_and_nothing_behind_it_is_handed_on(threads):
    def fails():
        raise ValueError("broken")

    found = []
    with pytest.raises(ValueError, match="broken"):
        found.extend(made_in_order([[lambda: 1, fails, lambda: 3]], threads))
    assert found in ([], [1])


@pytest.mark.parametrize("threads", [1, 2])
def test_no_more_than_a_few_are_made_ahead(threads):
    made = []
    found = made_in_order([[lambda: made.append(0) or 1 for _ in range(50)]], threads)
    next(found)
    found.close()
    time.sleep(0.05)
    assert len(made) <= threads + 3, "an early end begins no others"


@pytest.mark.parametrize("threads", [1, 2])
def test_what_was_handed_on_is_held_no_longer(threads):
    made = {}

    def call(group, place):
        def makes():
            made[group, place] = weakref.ref(found := np.zeros(8))
            return found

        return makes

    got = made_in_order([[call(group, n) for n in range(6)] for group in range(4)], threads)
    for _ in range(20):
        next(got)
    held = [(group, n) for (group, n), one in made.items() if one() is not None and group < 3]
    assert not held, "first batches of programs are not kept to the end"
    got.close()
