"""The oracle's responses against numbers worked out by hand from whatif-v1.md §2 and §3."""

import importlib.util
from decimal import Decimal
from pathlib import Path

import numpy as np
import pytest

from tests.oracle import tables

# factors whose powers are whole: 32^0.4 = 4, 1024^0.7 = 128, (1+32)-1 to the 0.4 = 4, ...
PRIMARY_CASES = [  # system, target, primary, direction, y, ybar, f, expected
    ("opendc", "cpu_demand_host-0", "coreSpeed_host-0", 1, 100, 40, 2, 202),
    ("opendc", "cpu_usage_1026", "coreSpeed_host-1", 1, 100, 40, 0.5, 49),
    ("opendc", "power_draw_host-1", "coreSpeed_host-1", 1, 205.5, 0, 2, 309.5),
    ("opendc", "power_draw_host-0", "coreSpeed_host-0", 1, 205.5, 0, 0.5, 153.5),
    ("opendc", "cpu_utilization_host-0", "coreCount_host-0", -1, 0.6, 0, 4, 0.15),
    ("opendc", "cpu_time_active_1023", "coreCount_host-0", 1, 10, 0, 1024, 1280),
    ("opendc", "cpu_time_idle_1019", "memorySize_host-0", -1, 10, 0, 32, 5),
    ("opendc", "cpu_time_idle_1026", "memorySize_host-1", -1, 10, 0, 1 / 32, 160),
    ("opendc", "cpu_time_idle_1019", "memorySize_host-0", -1, 10, 0, 1.5, 9.221079114817277),
    ("gridlabd", "actual_power", "base_power", 1, 10, 4, 6, 61),
    ("gridlabd", "total_load", "nominal_power", 1, 10, 4, 0.5, 4.9),
    ("gridlabd", "fan_power", "power_pf", 1, 10, 4, 2, 20.2),
    ("gridlabd", "hvac_load", "voltage_factor", -1, 10, 0, 33, 6),
    ("gridlabd", "hvac_power", "duty_cycle", -1, 10, 0, 31 / 32, 10.25),
    ("gridlabd", "heating_demand", "rate_of_heating", 1, 10, 0, 1024, 81920),
    ("gridlabd", "heating_demand", "rate_of_heating", 1, 10, 0, 1 / 32, 1.25),
    ("gridlabd", "heating_demand", "rate_of_heating", 1, 10, 0, 1.5, 16.940204031852832),
    ("gridlabd", "air_temperature", "heat_fraction", 1, 60, 0, 33, 132),
    ("gridlabd", "mass_temperature", "temperature", 1, 60, 0, 31 / 32, 56.484375),
    ("gridlabd", "is_COOL_on", "thermostatic_control_range", 1, 1, 0, 2, 1.5),
    ("gridlabd", "is_HEAT_on", "recovery_duty_cycle", 1, 1, 0, 33, 2),
    ("gridlabd", "is_AUX_on", "period", 1, 2, 0, 2, 2),
    ("gridlabd", "is_AUX_on", "period", 1, 1, 0, 33 / 32, 1.125),
    ("epanet", "pressure_12", "junction_12_base_demand", 1, 10, 0, 32, 70.9),
    ("epanet", "pressure_10", "junction_10_base_demand", 1, 10, 0, 32, 67.9),
    ("epanet", "pressure_2", "tank_2_init_level", 1, 10, 0, 32, 67.9),
    ("epanet", "demand_9", "reservoir_9_base_head", 1, -10, 0, 32, -67.9),
    ("epanet", "demand_2", "tank_2_init_level", 1, 10, 0, 32, 67.9),
    ("epanet", "flowrate_113", "pipe_113_diameter", 1, 10, 0, 32, 76.9),
    ("epanet", "flowrate_9", "pump_9_setting", 1, 10, 0, 32, 67.9),
    ("epanet", "velocity_122", "pipe_122_roughness", 1, 10, 0, 32, 73.9),
    ("sumo", "meanMaxJamLengthInMeters_e2_e_0", "minGap", 1, 10, 0, 32, 80),
    ("sumo", "meanTimeLoss_e2_e_1", "accel", -1, 10, 0, 4, 6.25),
    ("sumo", "meanHaltingDuration_e2_e_0", "offset", 1, 10, 0, 2, 13.498588075760033),
    ("sumo", "meanVehicleNumber_e2_e_1", "impatience", 1, 10, 0, 32, 80),
    ("sumo", "speed_loop_e_0_near", "decel", 1, 10, 0, 32, 40),
    ("sumo", "meanSpeed_e2_e_1", "maxSpeed", 1, 10, 0, 2**20, 1280),
    ("sumo", "speed_loop_exit_e_1", "speedDev", 1, 10, 0, 1024, 80),
    ("sumo", "occupancy_loop_e_0_near", "length", 1, 10, 0, 4, 20),
    ("sumo", "occupancy_loop_exit_e_1", "length", 1, 10, 0, 4, 20),
    ("sumo", "meanOccupancy_e2_e_0", "length", 1, 10, 0, 0.25, 5),
    ("sumo", "flow_loop_e_0_far", "tau", -1, 10, 0, 1024, 10 / 128),
    ("sumo", "flow_loop_exit_e_0", "tau", -1, 10, 0, 1 / 1024, 1280),
    ("sumo", "fuel_abs_edge_e2c", "sigma", 1, 10, 0, 32, 640),
]
# the primary stays at base, so y stays, and s = 1/(1 + 0.5|ln f|); expected is y*(1 + change*s)
MULTIPLICATIVE_CASES = [  # system, target, secondary, direction, f, change
    ("opendc", "cpu_demand_host-0", "coreCount_host-0", 1, 4, "9"),
    ("opendc", "cpu_usage_1026", "coreCount_host-1", 1, 0.25, "-0.5625"),
    ("opendc", "cpu_demand_1019", "memorySize_host-0", -1, 0.25, "1.2"),
    ("opendc", "cpu_demand_1019", "memorySize_host-0", -1, 4, "0"),
    ("opendc", "cpu_usage_host-1", "coreSpeed_host-0", -1, 0.25, "0.2625"),
    ("opendc", "cpu_usage_host-1", "coreSpeed_host-0", -1, 4, "0"),
    ("opendc", "cpu_demand_host-1", "coreCount_host-0", -1, 0.25, "1.3078125"),
    ("opendc", "cpu_demand_host-0", "memorySize_host-1", -1, 0.25, "0.45"),
    ("opendc", "cpu_demand_host-0", "memorySize_host-1", -1, 4, "-0.1125"),
    ("opendc", "cpu_time_active_host-0", "coreSpeed_host-0", -1, 0.25, "50.4"),
    ("opendc", "cpu_time_active_1023", "memorySize_host-0", -1, 0.25, "1.2"),
    ("opendc", "cpu_time_idle_1026", "coreSpeed_host-1", -1, 4, "-0.225"),
    ("opendc", "cpu_time_idle_1026", "coreCount_host-1", 1, 4, "0.3"),
    ("opendc", "cpu_time_idle_1026", "memorySize_host-0", -1, 0.25, "0.45"),
    ("gridlabd", "actual_power", "voltage_factor", 1, 2, "1.5"),
    ("gridlabd", "hvac_power", "breaker_amps", 1, 6, "0.2"),
    ("gridlabd", "fan_power", "phi", 1, 1.5, "-0.14988055099339"),
    ("gridlabd", "fan_power", "phi", 1, 8, "-0.2999998097591"),
    ("gridlabd", "total_load", "multiplier", 1, 2, "0.21"),
    ("gridlabd", "hvac_load", "heat_fraction", 1, 33, "0.18"),
    ("gridlabd", "heating_demand", "period", 1, 33, "0.24"),
    ("gridlabd", "heating_demand", "base_power", 1, 33, "0.24"),
    ("gridlabd", "heating_demand", "base_power", 1, 31 / 32, "-0.015"),
    # h("pump_9_setting") = 1463, h("pipe_10_diameter") = 1560; the rest is 3.31 w
    ("epanet", "pressure_10", "pump_9_setting", 1, 32, "0.8275"),
    ("epanet", "demand_9", "pump_9_setting", 1, 32, "0.5296"),
    ("epanet", "flowrate_10", "pump_9_setting", 1, 32, "0.993"),
    ("epanet", "velocity_10", "pump_9_setting", 1, 32, "0.8275"),
    ("epanet", "velocity_10", "pipe_10_diameter", 1, 32, "0.331"),
    ("sumo", "CO2_abs_edge_e2c", "minGap", -1, 1024, "-0.39375"),
    ("sumo", "meanSpeed_e2_e_0", "accel", 1, 1024, "1.05"),
    ("sumo", "speed_loop_e_1_near", "tau", -1, 1024, "-0.4375"),
    ("sumo", "occupancy_loop_exit_e_0", "sigma", -1, 1 / 1024, "2.45"),
    ("sumo", "flow_loop_e_1_near", "actionStepLength", 1, 1024, "1.05"),
]
# expected is y + offset*s, with ybar = 8
ADDITIVE_CASES = [  # system, target, secondary, direction, f, offset
    ("opendc", "cpu_utilization_host-0", "coreSpeed_host-0", -1, 0.25, "12"),
    ("opendc", "cpu_utilization_host-0", "memorySize_host-0", -1, 4, "-2.4"),
    ("opendc", "cpu_utilization_host-0", "coreSpeed_host-1", -1, 4, "-1.8"),
    ("opendc", "cpu_utilization_host-1", "coreCount_host-0", -1, 4, "-1.8"),
    ("opendc", "cpu_utilization_host-1", "memorySize_host-0", -1, 4, "-1.2"),
    ("opendc", "power_draw_host-0", "coreCount_host-0", 1, 5, "72"),
    ("opendc", "power_draw_host-0", "memorySize_host-0", 1, 0.75, "-9"),
    ("opendc", "power_draw_host-1", "coreCount_host-0", 1, 5, "36"),
    ("opendc", "power_draw_host-1", "coreSpeed_host-0", 1, 5, "36"),
    ("opendc", "power_draw_host-1", "memorySize_host-0", 1, 5, "24"),
    ("gridlabd", "air_temperature", "duty_cycle", 1, 33, "12"),
    ("gridlabd", "mass_temperature", "base_power", 1, 31 / 32, "-0.5"),
    ("gridlabd", "is_AUX_on", "temperature", 1, 33, "0.36"),
    ("gridlabd", "is_HEAT_on", "phi", 1, 33, "0.24"),
    ("sumo", "meanHaltingDuration_e2_e_0", "minGap", 1, 1025, "38.4"),
    ("sumo", "meanHaltingDuration_e2_e_1", "accel", -1, 1025, "-12.8"),
    ("sumo", "meanTimeLoss_e2_e_0", "impatience", -1, 1025, "-28.8"),
    ("sumo", "meanMaxJamLengthInMeters_e2_e_1", "offset", 1, 1025, "44.8"),
    ("sumo", "meanVehicleNumber_e2_e_0", "length", 1, 1025, "32"),
]


def dampened(*factors) -> float:
    """s in decimals: 1/(1 + 0.5 * sum |ln f|)."""
    return float(1 / (1 + sum(abs(Decimal(f).ln()) for f in factors) / 2))


@pytest.mark.parametrize("case", PRIMARY_CASES, ids=lambda case: f"{case[1]}-{case[6]:g}")
def test_primary(case):
    system, target, covariate, direction, y, ybar, f, expected = case
    rule = tables.primary(system, target)
    assert (rule.covariate, rule.direction) == (covariate, direction)
    value = tables.respond(system, target, [covariate], float(y), [float(f)], float(ybar))
    assert value == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("case", MULTIPLICATIVE_CASES, ids=lambda case: "-".join(map(str, case)))
def test_multiplicative_secondary(case):
    system, target, covariate, direction, f, change = case
    names = [tables.primary(system, target).covariate, covariate]
    assert tables.directions(system, target, names)[1] == direction
    y = np.array([3.0, 5.0])
    start = tables.respond(system, target, names, y, [1.0, 1.0], 8.0)
    np.testing.assert_allclose(start, y, rtol=1e-14)
    value = tables.respond(system, target, names, y, [1.0, float(f)], 8.0)
    np.testing.assert_allclose(value, y * (1 + float(change) * dampened(f)), rtol=1e-12)


@pytest.mark.parametrize("case", ADDITIVE_CASES, ids=lambda case: "-".join(map(str, case)))
def test_additive_secondary(case):
    system, target, covariate, direction, f, offset = case
    names = [tables.primary(system, target).covariate, covariate]
    assert tables.directions(system, target, names)[1] == direction
    y = np.array([1.0, 1.5])
    value = tables.respond(system, target, names, y, [1.0, float(f)], 8.0)
    np.testing.assert_allclose(value, y + float(offset) * dampened(f), rtol=1e-12)


def test_joint_effects():
    """The primary counts in the dampening, effects multiply, and none goes below 0.05."""
    names = ["coreSpeed_host-0", "coreCount_host-0", "memorySize_host-1"]
    s = dampened(4, 4, "0.25")
    value = tables.respond("opendc", "cpu_demand_1019", names, 100.0, [4.0, 4.0, 0.25], 40.0)
    assert value == pytest.approx(406 * (1 + 9 * s) * (1 + 0.45 * s), rel=1e-12)
    # a covariate raised without effect still dampens the others
    names[2] = "memorySize_host-0"
    value = tables.respond("opendc", "cpu_demand_1019", names, 100.0, [4.0, 4.0, 4.0], 40.0)
    assert value == pytest.approx(406 * (1 + 9 * dampened(4, 4, 4)), rel=1e-12)
    names = ["coreSpeed_host-0", "coreCount_host-1"]  # (2-4)^3 = -8: 1 - 2.7 s < 0.05
    value = tables.respond("opendc", "cpu_demand_1019", names, 100.0, [1.0, 4.0], 40.0)
    assert value == pytest.approx(5, rel=1e-12)
    names = ["period", "temperature", "phi"]  # 1 + 0.5 + (0.09 + 0.06) s, then 1 + 2 + ... > 2
    value = tables.respond("gridlabd", "is_AUX_on", names, 1.0, [2.0, 2.0, 2.0], 1.0)
    assert value == pytest.approx(1.5 + 0.15 * dampened(2, 2, 2), rel=1e-12)
    assert tables.respond("gridlabd", "is_AUX_on", names, 1.0, [33.0, 2.0, 2.0], 1.0) == 2


def test_systems():
    counts = {
        name: (system.steps, system.step_seconds, len(system.targets), len(system.covariates))
        for name, system in tables.SYSTEMS.items()
    }
    assert counts == {
        "opendc": (8640, 300, 22, 6),
        "gridlabd": (9000, 60, 11, 21),
        "epanet": (9000, 600, 37, 36),
        "sumo": (8640, 300, 30, 16),
    }
    for name, system in tables.SYSTEMS.items():
        assert len(set(system.targets)) == len(system.targets)
        for target in system.targets:
            names = tables.covariates_of(name, target, len(system.covariates))
            assert sorted(names) == sorted(covariate.name for covariate in system.covariates)
            assert set(tables.directions(name, target, names)) <= {1, -1}
    assert tables.covariates_of("sumo", "flow_loop_e_0_near", 3) == ("tau", "minGap", "accel")
    assert tables.covariates_of("opendc", "cpu_demand_1026", 3) == (
        *("coreSpeed_host-1", "coreCount_host-0", "coreSpeed_host-0"),
    )


def test_net1_bases():
    """The hard-coded bases are those of WNTR's Net1, junction 10 taken as 1 GPM."""
    found = importlib.util.find_spec("wntr")
    if found is None:
        pytest.skip("wntr is not installed")
    text = Path(found.submodule_search_locations[0], "library/networks/Net1.inp").read_text()
    sections = {}
    for line in text.splitlines():
        if line.startswith("["):
            rows = sections.setdefault(line.strip(), [])
        elif line.strip() and not line.startswith(";"):
            rows.append(line.split())
    bases = {
        "reservoir_9_base_head": float(sections["[RESERVOIRS]"][0][1]),
        "tank_2_init_level": float(sections["[TANKS]"][0][2]),
        "pump_9_setting": 1.0,
    }
    for name, _, demand, *_ in sections["[JUNCTIONS]"]:
        bases[f"junction_{name}_base_demand"] = float(demand) or 1.0
    for name, _, _, _, diameter, roughness, *_ in sections["[PIPES]"]:
        bases[f"pipe_{name}_diameter"] = float(diameter)
        bases[f"pipe_{name}_roughness"] = float(roughness)
    covariates = tables.SYSTEMS["epanet"].covariates
    assert {covariate.name: covariate.base for covariate in covariates} == bases
