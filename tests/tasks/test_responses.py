"""Responses: hand-computed values, monotone terms, and gradients against finite differences."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from whatif_jax import (
    Bucket,
    Sizes,
    builtin_systems,
    load_system,
    load_systems,
    realize,
    sample_spec,
)
from whatif_jax.tasks.responses import (
    LINEAR_CORE,
    TERM_KINDS,
    Terms,
    gain_and_shift,
    log_of_factor,
    relative_change,
    signed_power,
)

EVERY_TARGET = [
    (name, target.name) for name in builtin_systems() for target in load_system(name).targets
]


def response_of(systems, name, k):
    row = systems.row(*name)
    columns = systems.order[row, :k]
    return systems.responses.select(
        jnp.asarray(row), columns, jnp.ones(k, bool), systems.mean_magnitude[row]
    )


def respond(response, factors, y):
    gain, shift = gain_and_shift(response, jnp.asarray(factors)[:, None] - 1.0)
    return jnp.clip(gain * y + shift, response.clip_low, response.clip_high)[0]


# whatif-v1.md §3 by hand, at y = 3 and a factor of 4 (or 1/4); ybar is the target's mean |y|
@pytest.mark.parametrize(
    "name, factor, expected",
    [
        (("opendc", "cpu_demand_host-0"), 4.0, lambda ybar: 12.0 + 0.15 * ybar),
        (("opendc", "power_draw_host-0"), 4.0, lambda _: 105.5 + (3 - 105.5) * 4 + 12),
        (("opendc", "cpu_utilization_host-1"), 4.0, lambda _: 0.75),
        (("opendc", "cpu_time_active_1019"), 4.0, lambda _: 3 * 2.6390158215457884),  # 4^0.7
        (("opendc", "cpu_time_idle_1026"), 4.0, lambda _: 3 * 0.757858283255199),  # 4^-0.2
        (("opendc", "cpu_time_idle_1026"), 0.25, lambda _: 3 * 3.0314331330207964),  # 4^0.8
        (("gridlabd", "fan_power"), 4.0, lambda ybar: 12.0 + 0.15 * ybar),
        (("gridlabd", "hvac_load"), 4.0, lambda _: 3 - 1.5518455739153598),  # 3^0.4
        (("gridlabd", "hvac_load"), 0.25, lambda _: 3 + 0.8913012274546019),  # 0.75^0.4
        (("gridlabd", "heating_demand"), 4.0, lambda _: 3 * 6.062866266041593),  # 4^1.3
        (("gridlabd", "heating_demand"), 0.25, lambda _: 3 * 0.43527528164806206),  # 4^-0.6
        (("gridlabd", "air_temperature"), 4.0, lambda _: 3 + 14 * 1.5518455739153598 + 1.5),
        (("gridlabd", "is_HEAT_on"), 4.0, lambda _: 2.0),
        (("epanet", "pressure_23"), 4.0, lambda _: 3 * (1 + 1.15 * 0.7411011265922482 + 0.27)),
        (("epanet", "flowrate_122"), 4.0, lambda _: 3 * (1 + 1.2 * 0.7411011265922482 + 0.27)),
        (("sumo", "meanTimeLoss_e2_e_0"), 4.0, lambda _: 1.875),
        (("sumo", "meanHaltingDuration_e2_e_1"), 4.0, lambda _: 3 * 2.4596031111569496),  # e^0.9
        (("sumo", "CO2_abs_edge_e2c"), 4.0, lambda _: 3 * 5.278031643091577),  # 4^1.2
    ],
)
def test_primary_by_hand(systems, name, factor, expected):
    # tolerance: float32 rounding of a power, a few units in the last place
    response = response_of(systems, name, 1)
    found = respond(response, [factor], 3.0)
    np.testing.assert_allclose(found, expected(float(response.mean_magnitude)), rtol=2e-6)


def test_secondaries_by_hand(systems):
    # sumo flow: primary tau, secondary minGap (weight .45, direction -): y tau^-0.7 *
    # (1 + s .45 (2^-0.3 - 1)) with s = 1/(1 + 0.5 (ln 4 + ln 2)); ln 8 = 2.0794415416798357
    response = response_of(systems, ("sumo", "flow_loop_e_0_near"), 2)
    s = 1 / (1 + 0.5 * 2.0794415416798357)
    expected = 3 * 0.37892914162759955 * (1 + s * 0.45 * (0.8122523963562356 - 1))
    np.testing.assert_allclose(respond(response, [4.0, 2.0], 3.0), expected, rtol=2e-6)
    # sumo jam length: primary minGap y f^0.6, secondary accel adds s .2 * -ybar (f-1)^0.3
    response = response_of(systems, ("sumo", "meanMaxJamLengthInMeters_e2_e_0"), 2)
    ybar = float(response.mean_magnitude)
    expected = 3 * 2.29739670999407 - s * 0.2 * ybar
    np.testing.assert_allclose(respond(response, [4.0, 2.0], 3.0), expected, rtol=2e-6)
    # opendc cpu_demand: memorySize acts below 1 only, coreSpeed is the primary
    response = response_of(systems, ("opendc", "cpu_demand_host-0"), 3)
    names = systems.covariate_names(systems.row("opendc", "cpu_demand_host-0"))
    order = np.asarray(systems.order[systems.row("opendc", "cpu_demand_host-0")])
    assert [names[i] for i in order[:3]] == [
        "coreSpeed_host-0", "coreCount_host-0", "memorySize_host-0",
    ]  # fmt: skip
    ybar = float(response.mean_magnitude)
    alone = 3.0 * 2 + 0.05 * ybar
    np.testing.assert_allclose(respond(response, [2.0, 1.0, 8.0], 3.0), alone, rtol=2e-6)
    s = 1 / (1 + 0.5 * 2 * 0.6931471805599453)
    np.testing.assert_allclose(
        respond(response, [2.0, 1.0, 0.5], 3.0), alone * (1 + s * 0.4), rtol=2e-6
    )


def test_a_multiplicative_secondary_never_turns_the_target_around(systems):
    # coreCount of the other host enters as (2-f)^3: -1000 at f = 12, held at the floor of 0.05
    response = response_of(systems, ("opendc", "cpu_demand_host-0"), 5)
    factors = np.ones(5)
    position = list(np.asarray(systems.order[0, :5])).index(3)
    factors[position] = 12.0
    np.testing.assert_allclose(respond(response, factors, 3.0), 0.15, rtol=2e-6)


@settings(max_examples=200, deadline=None)
@given(
    st.integers(0, len(EVERY_TARGET) - 1),
    st.integers(0, 35),
    st.floats(0.01, 20.0),
    st.floats(1.001, 2.0),
)
def test_every_response_term_is_monotone(systems, target, place, factor, growth):
    # r(f) or o(f) of whatif-v1.md §3 itself, before weights and dampening. The joint dampening
    # shrinks a lone secondary again as its factor goes to 0, so the target as a whole need not be
    # monotone in a secondary. phi (cos^2) is monotone on neither side of 1.
    name = EVERY_TARGET[target]
    row = systems.row(*name)
    place %= int(systems.n_covariates[row])
    column = int(systems.order[row, place])
    if systems.covariate_names(row)[column] == "phi":
        return
    terms = jax.tree.map(lambda leaf: leaf[row, column], systems.responses.terms)
    deviation = jnp.asarray([factor, factor * growth]) - 1.0
    low, high = np.asarray(relative_change(terms, deviation, log_of_factor(deviation)), float)
    sign = 1 if bool(systems.direct[row, column]) else -1
    assert sign * (high - low) >= -1e-5 * (1 + abs(low))


def test_the_linear_core_joins_the_power():
    # at the edge of the core both formulas meet; inside, the line passes through 0
    edge = np.float64(LINEAR_CORE)
    with jax.enable_x64(True):
        inside = signed_power(jnp.asarray([edge * 0.5, edge, -edge, 0.0]), jnp.asarray(0.4))
    np.testing.assert_allclose(inside, [0.5 * edge**0.4, edge**0.4, -(edge**0.4), 0.0], rtol=1e-12)


FACTORS = [
    [1.0, 1.0, 1.0, 1.0, 1.0],
    [1.0, 2.0, 1.0, 0.5, 1.0],
    [0.1, 8.0, 0.25, 4.0, 2.0],
    [12.3, 0.013, 3.3, 17.0, 0.4],
    [1e-5, 1e-5, 2e-5, 1e-5, 1e-5],
]


@pytest.fixture(scope="module")
def wide():
    """Responses of every target to five covariates, stacked, in 64 bits for finite differences."""
    with jax.enable_x64(True):
        loaded = load_systems()
        rows = [response_of(loaded, name, 5) for name in EVERY_TARGET]
        # returned, not yielded: a yield would leave 64 bits on for every test until teardown
        return jax.tree.map(lambda *leaves: jnp.stack(leaves), *rows)


every_value = jax.jit(jax.vmap(respond, in_axes=(0, None, None)))
every_slope = jax.jit(jax.vmap(jax.grad(respond, argnums=1), in_axes=(0, None, None)))


@pytest.mark.parametrize("factors", FACTORS)
def test_gradients_in_factors_equal_finite_differences(wide, factors):
    # Central differences with a step of 1e-8 around 1 (inside the linear core), 1e-6 f elsewhere
    # and 1e-4 f near 0, where f - 1 has few digits of f; tolerance 2e-5 relative plus the rounding
    # of the difference. At f = 1 a response may have a kink (dampening, asymmetric exponents,
    # acting below only, clipping): the gradient is the mean of both slopes, which is what a
    # central difference is.
    with jax.enable_x64(True):
        at = jnp.asarray(factors)
        found = np.asarray(every_slope(wide, at, 1.5))
        assert np.isfinite(found).all()
        for column, factor in enumerate(factors):
            step = 1e-8 if factor == 1.0 else (1e-4 if factor < 1e-3 else 1e-6) * factor
            above = np.asarray(every_value(wide, at.at[column].add(step), 1.5))
            under = np.asarray(every_value(wide, at.at[column].add(-step), 1.5))
            difference = (above - under) / (2 * step)
            noise = 4e-16 * np.maximum(np.abs(above), np.abs(under)) / step
            np.testing.assert_array_less(
                np.abs(found[:, column] - difference), noise + 2e-5 * (1 + np.abs(difference))
            )


def test_gradients_are_finite_at_zero_and_below_the_floor(systems):
    rows = [response_of(systems, name, 5) for name in EVERY_TARGET]
    stacked = jax.tree.map(lambda *leaves: jnp.stack(leaves), *rows)
    for factor in (0.0, 1e-7, 1e-6, 1.0, 1.0 - 6e-8, 1.0 + 1.2e-7):
        assert np.isfinite(every_slope(stacked, jnp.full(5, factor, jnp.float32), 1.5)).all()


def test_gradients_in_constants_equal_finite_differences(wide):
    # every real constant of every target's response; central differences with a step of 1e-6,
    # tolerance 2e-5 relative and 1e-8 of the value for rounding
    with jax.enable_x64(True):
        factors = jnp.asarray([2.0, 4.0, 0.5, 8.0, 1.0])
        constants, rest = eqx.partition(wide, eqx.is_inexact_array)
        axes = jax.tree.map(lambda _: 0, constants), jax.tree.map(lambda _: 0, rest)

        def total(constants, rest):
            return respond(eqx.combine(constants, rest), factors, 1.5)

        value = jax.jit(jax.vmap(total, in_axes=axes))
        slopes = jax.jit(jax.vmap(jax.grad(total), in_axes=axes))(constants, rest)
        leaves, structure = jax.tree.flatten(constants)
        for number, (leaf, slope) in enumerate(zip(leaves, jax.tree.leaves(slopes), strict=True)):
            for place in range(max(1, leaf[0].size)):
                picked = jnp.zeros(leaf[0].size or 1).at[place].set(1e-6).reshape(leaf[0].shape)

                def moved(by, number=number, leaf=leaf):
                    new = [leaf + by if i == number else old for i, old in enumerate(leaves)]
                    return np.asarray(value(jax.tree.unflatten(structure, new), rest))

                difference = (moved(picked) - moved(-picked)) / 2e-6
                found = np.asarray(slope.reshape(len(EVERY_TARGET), -1)[:, place])
                bounded = np.isfinite(np.asarray(leaf.reshape(len(EVERY_TARGET), -1)[:, place]))
                assert np.isfinite(found).all()
                scale = 1 + np.abs(moved(0.0 * picked))
                np.testing.assert_array_less(
                    np.abs(found - difference)[bounded],
                    (2e-5 * np.abs(difference) + 1e-8 * scale)[bounded],
                )


def test_a_whole_task_has_gradients(systems):
    sizes = Sizes(systems.row("gridlabd", "air_temperature"), 5, 64, 2, "novel")
    spec = sample_spec(sizes, systems, Bucket(1024, 128, 5, 64, 64), key=jax.random.key(0))

    def effect(factors, systems):
        task = realize(eqx.tree_at(lambda s: s.future_factors, spec, factors), systems)
        return jnp.mean(task.future - task.future_baseline)

    parameters, rest = eqx.partition(systems, eqx.is_inexact_array)

    @jax.jit
    def slopes(factors, parameters):
        def of_both(factors, parameters):
            return effect(factors, eqx.combine(parameters, rest))

        return jax.grad(of_both, argnums=(0, 1))(factors, parameters)

    for factors in (spec.future_factors, jnp.ones(5)):
        by_factor, by_constant = slopes(factors, parameters)
        assert np.any(by_factor != 0)
        assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves((by_factor, by_constant)))


def test_terms_not_asked_for_are_not_evaluated():
    one = jnp.ones(())
    terms = Terms(**dict.fromkeys(Terms.__dataclass_fields__, one) | {
        "of_deviation": jnp.asarray(False), "deviation_low": -one * jnp.inf,
        "deviation_high": one * jnp.inf,
    })  # fmt: skip
    counts = {}
    for kinds in [(), *[(kind,) for kind in TERM_KINDS], TERM_KINDS]:
        jaxpr = jax.make_jaxpr(lambda d, k=kinds: relative_change(terms, d, d, k))(one)
        counts[kinds] = str(jaxpr).count("exp ") + str(jaxpr).count("cos ")
    assert counts[()] == 0
    assert counts[("cosine",)] == 1
    assert counts[TERM_KINDS] > counts[("power",)]
