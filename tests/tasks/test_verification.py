"""Verification against the oracle, and each of its rules by hand."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.oracle.reference import verify as oracle_verify
from tests.rows import as_suite, random_rows
from whatif_jax import Bucket, Sizes, sample_spec, verify
from whatif_jax.tasks.systems import LEFT_PADDING

check = jax.jit(jax.vmap(verify, in_axes=(0, None)))
PARTIAL = ("demand_9", "flowrate_10", "flowrate_9", "velocity_10")


def compare(suite, row, found) -> bool:
    """Compare one row with the oracle; whether no effect was too near the threshold to tell."""
    series = suite.systems.series(suite.systems.row(row["system"], row["target"]))
    history_ok, future_ok, effects = oracle_verify(row, series)
    *past, ahead = effects
    np.testing.assert_allclose(found.effects[: len(past)], past, atol=2e-4)
    np.testing.assert_allclose(found.future_effect, ahead, atol=2e-4)
    if min(abs(effect - 0.1) for effect in effects) <= 1e-3:
        return False
    assert bool(found.history_ok) == history_ok
    assert bool(found.future_ok) == future_ok
    assert bool(found.ok) == (history_ok and future_ok)
    return True


@pytest.mark.parametrize(
    "axes, count",
    [
        ({}, 120),
        ({"systems": ["epanet"], "target": "flowrate_10"}, 60),
        ({"systems": ["epanet"], "target": "velocity_10"}, 60),
        ({"systems": ["opendc"], "target": "cpu_demand_1023"}, 60),
        ({"systems": ["gridlabd"], "target": "hvac_load"}, 60),
    ],
)
def test_equals_the_oracle(axes, count):
    # effects to 2e-4 absolute in float32; verdicts wherever no effect is that near the threshold
    rows = random_rows(7, count, context_pair="C1", event_length=64, **axes)
    suite = as_suite(rows)
    decided = 0
    for at in map(suite.rows_of, suite.batch_ids(count)):
        found = check(suite.specs(at), suite.systems)
        decided += sum(
            compare(suite, rows[place], jax.tree.map(lambda leaf, n=n: leaf[n], found))
            for n, place in enumerate(at)
        )
    assert decided > 0.8 * count


def one_event(systems, name, factor=4.0, length=64):
    sizes = Sizes(systems.row(*name), 1, length, 1, "replay")
    spec = sample_spec(sizes, systems, Bucket(1024, 128, 5, 2, 64), key=jax.random.key(0))
    return eqx.tree_at(
        lambda s: (s.factors, s.future_factors, s.window_start),
        spec,
        (
            jnp.full_like(spec.factors, factor),
            jnp.full_like(spec.future_factors, factor),
            jnp.asarray(0, jnp.int32),
        ),
    )


def with_series(systems, name, series):
    """The same systems with one target's series replaced."""
    row = systems.row(*name)
    series = jnp.asarray(series, systems.values.dtype)
    values = systems.values.at[row, LEFT_PADDING : LEFT_PADDING + len(series)].set(series)
    magnitude = jnp.abs(series)
    return eqx.tree_at(
        lambda b: (b.values, b.mean_magnitude, b.peak_magnitude),
        systems,
        (
            values,
            systems.mean_magnitude.at[row].set(magnitude.mean()),
            systems.peak_magnitude.at[row].set(magnitude.max()),
        ),
    )


@pytest.mark.parametrize(
    "factor, effect", [(4.0, 1.0), (1.5, 1 - 1.5**-0.7), (1.16, 1 - 1.16**-0.7)]
)
def test_the_effect_is_the_mean_relative_change_capped_at_one(systems, factor, effect):
    # a flow y tau^-0.7 of y = 3: the change is the same share at every step; 1/4 would move it by
    # 1.64 of itself, which counts as 1
    name = ("sumo", "flow_loop_e_0_near")
    changed = with_series(systems, name, np.full(8640, 3.0))
    found = verify(one_event(changed, name, factor if factor < 4 else 0.25), changed)
    np.testing.assert_allclose(found.effects[0], effect, rtol=1e-4)
    np.testing.assert_allclose(found.future_effect, effect, rtol=1e-4)
    assert bool(found.future_ok) == (effect >= 0.10)


def test_dead_steps_are_left_out_except_where_flow_is_required(systems):
    # every second step is 0 and stays 0: half the steps say nothing, the others change by half
    series = np.where(np.arange(9000) % 2, 4.0, 0.0)
    free = ("sumo", "flow_loop_e_0_near")
    changed = with_series(systems, free, series[:8640])
    found = verify(one_event(changed, free, 2.0), changed)
    np.testing.assert_allclose(found.effects[0], 1 - 2**-0.7, rtol=1e-4)
    assert bool(found.ok)
    flow = ("epanet", "flowrate_11")
    changed = with_series(systems, flow, series)
    found = verify(one_event(changed, flow, 2.0), changed)
    share = 1.1 * (2**0.4 - 1) + 0.09
    np.testing.assert_allclose(found.effects[0], share / 2, rtol=1e-4)
    assert not bool(found.history_ok)  # a step without flow within an event
    assert bool(found.future_ok)  # which the future may have


def test_a_change_from_nothing_counts_as_one(systems):
    # hvac_load is 0 and rises by g(1/2): the relative change of a dead baseline is 1
    name = ("gridlabd", "hvac_load")
    changed = with_series(systems, name, np.where(np.arange(9000) < 5000, 0.0, 5.0))
    found = verify(one_event(changed, name, 0.5), changed)
    np.testing.assert_allclose(found.effects[0], 1.0)


def test_a_constant_target_gives_no_task(systems):
    name = ("gridlabd", "is_COOL_on")
    found = verify(one_event(systems, name), systems)
    assert float(found.effects[0]) > 0.10
    assert not bool(found.history_ok)


def test_padding_events_do_not_count(systems):
    found = verify(one_event(systems, ("gridlabd", "total_load")), systems)
    assert bool(found.event_ok[1])
    assert float(found.effects[1]) == 0.0
