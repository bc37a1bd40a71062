"""Layouts and shapes against the printed facts and the oracle."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.oracle import layout as oracle
from whatif_jax.tasks.events import (
    SHAPES,
    LayoutRules,
    context_for,
    fits,
    layout,
    most_events,
    profiles,
)


def starts(context, length, n_events, *rules) -> list[int]:
    """First step of every event."""
    slots = layout(context, length, n_events, *rules)
    return [slots.slot_start + event * slots.slot_stride for event in range(n_events)]


def test_printed_contexts():
    # whatif-v1.md §5 [P]
    assert context_for(1024, 512, 2) == 1876
    assert context_for(7328, 512, 8) == 7504
    assert context_for(7776, 512, 8) == 7776
    assert context_for(4096, 512, 4) == 4096
    assert most_events(8192, 32) == 64


@given(
    st.integers(200, 10_000), st.integers(1, 600), st.integers(1, 80)
)  # fmt: skip
def test_layouts_equal_the_oracle(context, length, n_events):
    assert fits(context, length, n_events) == oracle.fits(context, length, n_events)
    # where not even one event fits, ours says 0 and the oracle the least a task can have
    assert max(1, most_events(context, length)) == oracle.most_events(context, length)
    grown = context_for(context, length, n_events)
    assert grown == oracle.context_for(context, length, n_events)
    assert starts(grown, length, n_events) == oracle.layout(grown, length, n_events)


@given(st.integers(300, 9000), st.integers(1, 300), st.integers(1, 40))
def test_slots_stay_between_prefix_and_buffer_and_keep_their_gaps(context, length, n_events):
    context = context_for(context, length, n_events)
    steps = np.array(starts(context, length, n_events))
    assert steps[0] == context * 2 // 5
    assert steps[-1] + length + 32 <= context - -(-context // 50)
    assert (np.diff(steps) >= length + 32).all()


def test_other_rules():
    rules = LayoutRules(gap=5, prefix=1_000, end_buffer=0)
    assert starts(100, 10, 6, rules) == [10, 25, 40, 55, 70, 85]
    assert not fits(100, 10, 7, rules)


@pytest.mark.parametrize("context, length, n_events", [(1024, 512, 2), (100, 10, 0), (100, 0, 1)])
def test_events_that_do_not_fit_are_refused(context, length, n_events):
    with pytest.raises(ValueError, match="n_events.*expected"):
        layout(context, length, n_events)


@pytest.mark.parametrize("length", [1, 2, 3, 32, 57, 512])
def test_shapes_by_hand(length):
    # float32: tolerance of a few units in the last place
    step = np.arange(length)
    shares = np.asarray(profiles(step, length))
    middle = (length - 1) / 2
    np.testing.assert_allclose(shares[0], 1.0)
    np.testing.assert_allclose(
        shares[1], np.exp(-0.5 * ((step - middle) / (length / 6)) ** 2), rtol=1e-5
    )
    assert (shares >= 0).all()
    assert (shares <= 1).all()
    np.testing.assert_allclose(shares, shares[:, ::-1], atol=1e-6)
    assert shares[2].max() == 1.0
    for number, name in enumerate(SHAPES):
        np.testing.assert_array_equal(profiles(step, length, (name,))[0], shares[number])


def test_a_ramp_holds_its_middle_half():
    np.testing.assert_allclose(
        np.asarray(profiles(np.arange(8), 8))[2], [0.5, 1, 1, 1, 1, 1, 1, 0.5]
    )
