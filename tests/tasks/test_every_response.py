"""Every constant of the built-in catalog against the oracle, where each is typed a second time."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.oracle import tables
from whatif_jax import builtin_systems, load_system, load_systems
from whatif_jax.tasks.responses import gain_and_shift

FACTORS = (0.1, 0.3, 0.9, 1.5, 4.0, 12.0)
WORDS = {1: "direct", -1: "inverse"}
UNITS = {
    "opendc": {"coreCount_host-1": "cores", "coreSpeed_host-0": "MHz", "memorySize_host-0": "GB"},
    "gridlabd": {"base_power": "kW", "temperature": "degF", "breaker_amps": "A", "phi": "1"},
    "epanet": {
        "junction_10_base_demand": "GPM", "reservoir_9_base_head": "ft", "pipe_31_diameter": "in",
        "pipe_122_roughness": "Hazen-Williams C", "pump_9_setting": "1",
    },
    "sumo": {"minGap": "m", "accel": "m/s2", "maxSpeed": "m/s", "tau": "s", "sigma": "1"},
}  # fmt: skip


@pytest.mark.parametrize("name", builtin_systems())
def test_order_bases_shapes_weights_and_directions(name):
    system, oracle = load_system(name), tables.SYSTEMS[name]
    assert [target.name for target in system.targets] == list(oracle.targets)
    assert [(c.name, c.base, c.shape) for c in system.covariates] == [
        (c.name, c.base, c.shape) for c in oracle.covariates
    ]
    assert {c: system.covariate(c).unit for c in UNITS[name]} == UNITS[name]
    for target in system.targets:
        expected = tables.primary(name, target.name)
        assert target.primary.covariate == expected.covariate
        assert target.primary.direction == WORDS[expected.direction]
        assert (target.class_.combine == "add") == tables.additive(name, target.name)
        assert (target.class_.clip == (1, 2)) == tables.state(name, target.name)
        assert target.up_only == tables.up_only(name, target.name)
        assert target.pool == oracle.pool
        for other in target.secondaries:
            rule = tables.secondary(name, target.name, other.covariate)
            assert other.weight == pytest.approx(rule.weight, rel=1e-12), other.covariate
            assert other.direction == WORDS[rule.direction], (target.name, other.covariate)


@pytest.mark.parametrize("name", builtin_systems())
def test_the_response_to_every_covariate(name):
    """The primary alone, and with each secondary, at every pair of a few factors; rtol 2e-5."""
    system = load_system(name)
    systems = load_systems([name], max_covariates=len(system.covariates))
    rows = [row for row, _ in enumerate(systems.targets)]
    order, width = np.asarray(systems.order), len(system.covariates)
    pairs = [(row, order[row, place]) for row in rows for place in range(1, width)]
    # factor 1 stands first and last: a secondary alone, a primary alone
    grid = np.array(np.meshgrid((1.0, *FACTORS), (1.0, *FACTORS))).reshape(2, -1)

    @jax.jit
    @jax.vmap
    def respond(row, column):
        columns = jnp.stack([systems.order[row, 0], column])
        response = systems.responses.select(
            row, columns, jnp.ones(2, bool), systems.mean_magnitude[row]
        )
        return gain_and_shift(response, jnp.asarray(grid, jnp.float32) - 1.0)

    gains, shifts = map(np.asarray, respond(*map(jnp.asarray, zip(*pairs, strict=True))))
    y = np.array([0.5, -3.0, 1.7])
    for (row, column), gain, shift in zip(pairs, gains, shifts, strict=True):
        target = systems.targets[row][1]
        names = (system.target(target).primary.covariate, system.covariates[column].name)
        mean = float(systems.mean_magnitude[row])
        found = gain[:, None] * y + shift[:, None]
        if tables.state(name, target):
            found = np.clip(found, 1, 2)
        expected = tables.respond(name, target, names, y, grid[:, :, None], mean)
        scale = np.abs(expected).max(axis=1, keepdims=True) + np.abs(expected)
        wrong = np.abs(found - expected) / scale
        assert wrong.max() < 2e-5, (target, names, grid[:, wrong.max(axis=1).argmax()])
