"""Constants of the four built-in systems against whatif-v1.md §2-§3, typed in by hand."""

import pytest

from whatif_jax.catalog import load_system

THERMAL = {
    "heat_fraction",
    "temperature",
    "thermostatic_control_range",
    "rate_of_heating",
    "rate_of_cooling",
    "duty_cycle",
    "recovery_duty_cycle",
    "period",
}
JUNCTIONS = (10, 11, 12, 13, 21, 22, 23, 31, 32)
PIPES = (10, 11, 12, 21, 22, 31, 110, 111, 112, 113, 121, 122)


def secondaries(system_name, target):
    found = load_system(system_name).target(target).secondaries
    return {
        other.covariate: (
            other.weight,
            other.response.form,
            dict(other.response.constants),
            other.acts,
            other.direction,
            other.offset_scale,
        )
        for other in found
    }


def primary(system_name, target):
    found = load_system(system_name).target(target).primary
    return found.covariate, found.direction, found.response.form, dict(found.response.constants)


# OpenDC


def test_opendc_bases():
    found = {c.name: (c.base, c.unit) for c in load_system("opendc").covariates}
    assert list(found) == [
        f"{q}_host-{h}" for h in (0, 1) for q in ("coreCount", "coreSpeed", "memorySize")
    ]
    for host in (0, 1):
        assert found[f"coreCount_host-{host}"][0] == 16
        assert found[f"coreSpeed_host-{host}"] == (3000, "MHz")
        assert found[f"memorySize_host-{host}"] == (64, "GB")


@pytest.mark.parametrize(
    ("target", "same", "other"),
    [("cpu_demand_host-0", 0, 1), ("cpu_usage_host-1", 1, 0), ("cpu_demand_1026", 1, 0)],
)
def test_opendc_demand(target, same, other):
    speed = f"coreSpeed_host-{same}"
    assert primary("opendc", target) == (speed, "direct", "proportional", {"overhead": 0.05})
    power = {"exponent": 2.0, "exponent_below": 2.0}
    memory = {"exponent": -1.0, "exponent_below": -1.0}
    assert secondaries("opendc", target) == {
        f"coreCount_host-{same}": (0.60, "power", power, "always", "direct", None),
        f"memorySize_host-{same}": (0.40, "power", memory, "below", "inverse", None),
        f"coreSpeed_host-{other}": (0.35, "linear", {"slope": -1.0}, "below", "inverse", None),
        f"coreCount_host-{other}": (0.30, "reflected_cubic", {}, "always", "inverse", None),
        f"memorySize_host-{other}": (
            0.20,
            "constant_plus_power",
            {"coefficient": 3.0, "exponent": -1.0},
            "always",
            "inverse",
            None,
        ),
    }


def test_opendc_other_classes():
    power = {"exponent": 0.7, "exponent_below": 0.7}
    active = primary("opendc", "cpu_time_active_1023")
    assert active == ("coreCount_host-0", "direct", "power", power)
    found = secondaries("opendc", "cpu_time_active_1023")
    cube = {"exponent": -3.0, "exponent_below": -3.0}
    speed = (0.80, "power", cube, "always", "inverse", None)
    assert found.pop("coreSpeed_host-0") == speed
    demand = secondaries("opendc", "cpu_demand_1023")
    assert found == {name: demand[name] for name in found}
    idle = primary("opendc", "cpu_time_idle_1026")
    assert idle[:2] == ("memorySize_host-1", "inverse")
    assert idle[3] == {"exponent": -0.2, "exponent_below": -0.8}
    found = secondaries("opendc", "cpu_time_idle_1019")
    assert found["coreSpeed_host-0"][:2] == (0.30, "power")
    assert found["coreSpeed_host-0"][2]["exponent"] == -1.0
    assert found["coreCount_host-0"][2]["exponent"] == 0.5
    assert found["coreCount_host-0"][4] == "direct"
    assert found["coreSpeed_host-1"] == demand["coreSpeed_host-1"]


def test_opendc_additive_classes():
    assert load_system("opendc").target("cpu_utilization_host-0").class_.combine == "add"
    assert primary("opendc", "cpu_utilization_host-1") == (
        "coreCount_host-1",
        "inverse",
        "power",
        {"exponent": -1.0, "exponent_below": -1.0},
    )
    found = secondaries("opendc", "cpu_utilization_host-1")
    assert {name: value[0] for name, value in found.items()} == {
        "coreSpeed_host-1": 0.5,
        "memorySize_host-1": 0.4,
        "coreSpeed_host-0": 0.3,
        "coreCount_host-0": 0.3,
        "memorySize_host-0": 0.2,
    }
    for _, form, constants, acts, direction, scale in found.values():
        assert (form, constants["exponent"]) == ("power", -1.0)
        assert (acts, direction, scale) == ("always", "inverse", "mean")
    power = primary("opendc", "power_draw_host-0")
    assert power == ("coreSpeed_host-0", "direct", "pivot", {"pivot": 105.5, "slope": 4.0})
    found = secondaries("opendc", "power_draw_host-0")
    assert [found[name][0] for name in found] == [0.6, 0.3, 0.3, 0.3, 0.2]
    watts = {"scale": 60.0, "exponent": 0.5, "slope": 0.0}
    for effect in found.values():
        assert effect[1:] == ("signed_power", watts, "always", "direct", "target")


# GridLAB-D


def test_gridlabd_covariates():
    found = load_system("gridlabd").covariates
    assert {c.name for c in found if "thermal" in c.groups} == THERMAL
    bases = {"base_power": 10, "nominal_power": 10, "heat_fraction": 0.05}
    bases |= {"temperature": 60, "breaker_amps": 60}
    for covariate in found:
        assert covariate.base == bases.get(covariate.name, 1)


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        ("actual_power", ("base_power", "direct", "proportional", {"overhead": 0.05})),
        ("total_load", ("nominal_power", "direct", "proportional", {"overhead": 0.05})),
        ("fan_power", ("power_pf", "direct", "proportional", {"overhead": 0.05})),
        ("hvac_load", ("voltage_factor", "inverse", "signed_power", (-1.0, 0.4, 0.0))),
        ("hvac_power", ("duty_cycle", "inverse", "signed_power", (-1.0, 0.4, 0.0))),
        ("heating_demand", ("rate_of_heating", "direct", "power", (1.3, 0.6))),
        ("air_temperature", ("heat_fraction", "direct", "signed_power", (14.0, 0.4, 0.5))),
        ("mass_temperature", ("temperature", "direct", "signed_power", (14.0, 0.4, 0.5))),
        ("is_COOL_on", ("thermostatic_control_range", "direct", "signed_power", (0.5, 0.4, 0.0))),
        ("is_HEAT_on", ("recovery_duty_cycle", "direct", "signed_power", (0.5, 0.4, 0.0))),
        ("is_AUX_on", ("period", "direct", "signed_power", (0.5, 0.4, 0.0))),
    ],
)
def test_gridlabd_primaries(target, expected):
    found = primary("gridlabd", target)
    constants = expected[3] if isinstance(expected[3], dict) else None
    assert found[:3] == expected[:3]
    assert found[3] == constants or tuple(found[3].values()) == expected[3]


@pytest.mark.parametrize("target", ["actual_power", "hvac_power"])
def test_gridlabd_power(target):
    found = secondaries("gridlabd", target)
    assert found["voltage_factor"][:2] == (0.50, "power")
    assert found["voltage_factor"][2]["exponent"] == 2
    assert found["breaker_amps"][:3] == (0.40, "linear", {"slope": 0.1})
    assert found["phi"][:3] == (0.30, "cosine_squared", {"rate": 1.57})
    rest = {"scale": 1.0, "exponent": 1.0, "slope": 0.05}
    thermal = {"scale": 0.15, "exponent": 0.4, "slope": 0.0}
    for name, effect in found.items():
        assert effect[3:] == ("always", "direct", None)
        if name in THERMAL:
            assert effect[:3] == (0.30, "signed_power", thermal)
        elif name not in {"voltage_factor", "breaker_amps", "phi"}:
            assert effect[:3] == (0.20, "power_linear", rest)


@pytest.mark.parametrize(
    ("target", "weights", "scales", "combine", "clip"),
    [
        ("heating_demand", (0.40, 0.20), (0.15, 0.3), "multiply", None),
        ("air_temperature", (0.30, 0.20), (10.0, 10.0), "add", None),
        ("mass_temperature", (0.30, 0.20), (10.0, 10.0), "add", None),
        ("is_HEAT_on", (0.30, 0.20), (0.3, 0.3), "add", (1.0, 2.0)),
    ],
)
def test_gridlabd_other_classes(target, weights, scales, combine, clip):
    class_ = load_system("gridlabd").target(target).class_
    assert (class_.combine, class_.clip) == (combine, clip)
    for name, effect in secondaries("gridlabd", target).items():
        index = 0 if name in THERMAL else 1
        constants = {"scale": scales[index], "exponent": 0.4, "slope": 0.0}
        scale = "target" if combine == "add" else None
        expected = (weights[index], "signed_power", constants, "always", "direct", scale)
        assert effect == expected


# EPANET


def test_epanet_primaries():
    expected = {
        f"pressure_{j}": (f"junction_{j}_base_demand", 1 + 0.05 * (j % 10)) for j in JUNCTIONS
    }
    expected |= {"pressure_2": ("tank_2_init_level", 1), "demand_2": ("tank_2_init_level", 1)}
    expected |= {"demand_9": ("reservoir_9_base_head", 1), "flowrate_9": ("pump_9_setting", 1)}
    expected |= {f"flowrate_{p}": (f"pipe_{p}_diameter", 1 + 0.1 * (p % 10)) for p in PIPES}
    expected |= {f"velocity_{p}": (f"pipe_{p}_roughness", 1 + 0.1 * (p % 10)) for p in PIPES}
    assert len(expected) == 37
    for target, (covariate, scale) in expected.items():
        found = primary("epanet", target)
        assert found[:3] == (covariate, "direct", "power_linear")
        assert found[3] == pytest.approx({"scale": scale, "exponent": 0.4, "slope": 0.09})


def test_epanet_weight_rule():
    rules = {
        "pressure": (0.05, 5),
        "demand": (0.02, 5),
        "flowrate": (0.04, 6),
        "velocity": (0.03, 6),
    }
    for target in load_system("epanet").targets:
        step, modulus = rules[target.class_.name]
        assert target.name.startswith(target.class_.name)
        for other in target.secondaries:
            code = sum(other.covariate.encode("ascii"))
            assert other.weight == pytest.approx(0.10 + step * (code % modulus))
            assert dict(other.response.constants) == {"scale": 1, "exponent": 0.4, "slope": 0.01}
            assert (other.direction, other.response.form) == ("direct", "power_linear")
    # by hand: "pump_9_setting" sums to 1463, 1463 mod 5 = 3 and mod 6 = 5
    assert secondaries("epanet", "pressure_10")["pump_9_setting"][0] == pytest.approx(0.25)
    assert secondaries("epanet", "velocity_10")["pump_9_setting"][0] == pytest.approx(0.25)
    assert secondaries("epanet", "flowrate_10")["pump_9_setting"][0] == pytest.approx(0.30)


def test_epanet_bases():
    found = {
        covariate.name: (covariate.base, covariate.unit)
        for covariate in load_system("epanet").covariates
    }
    demands = (1, 150, 150, 100, 150, 200, 150, 100, 100)
    diameters = (18, 14, 10, 10, 12, 6, 18, 10, 12, 8, 8, 6)
    expected = {
        f"junction_{j}_base_demand": (demand, "GPM")
        for j, demand in zip(JUNCTIONS, demands, strict=True)
    }
    expected["reservoir_9_base_head"] = (800, "ft")
    expected["tank_2_init_level"] = (120, "ft")
    expected["pump_9_setting"] = (1, "1")
    for pipe, inches in zip(PIPES, diameters, strict=True):
        expected[f"pipe_{pipe}_diameter"] = (inches, "in")
    for pipe in PIPES:
        expected[f"pipe_{pipe}_roughness"] = (100, "Hazen-Williams C")
    assert found == expected
    assert list(found) == list(expected)


# SUMO

SUMO = {  # base, weight in additive classes, in multiplicative ones, sign in each
    "minGap": (2.5, 0.60, 0.45, 1, -1),
    "accel": (2.6, 0.20, 0.15, -1, 1),
    "decel": (4.5, 0.20, 0.30, -1, 1),
    "maxSpeed": (55.56, 0.20, 0.15, -1, 1),
    "sigma": (0.5, 0.20, 0.35, 1, -1),
    "tau": (1, 0.20, 0.50, 1, -1),
    "length": (5, 0.50, 0.35, 1, -1),
    "speedDev": (0.1, 0.20, 0.25, -1, -1),
    "offset": (10, 0.70, 0.30, 1, 1),
    "width": (1.8, 0.20, 0.15, 1, 1),
    "height": (1.5, 0.20, 0.15, 1, 1),
    "lcStrategic": (1, 0.20, 0.20, -1, 1),
    "lcCooperative": (1, 0.20, 0.20, -1, 1),
    "lcSpeedGain": (1, 0.20, 0.20, -1, 1),
    "impatience": (0.5, 0.45, 0.15, -1, 1),
    "actionStepLength": (1, 0.20, 0.15, 1, 1),
}


def test_sumo_secondaries():
    found = load_system("sumo")
    assert [c.name for c in found.covariates] == list(SUMO)
    for target in found.targets:
        additive = target.class_.name in {"delay", "jam_length"}
        assert target.class_.combine == ("add" if additive else "multiply")
        for other in target.secondaries:
            _, add, multiply, add_sign, multiply_sign = SUMO[other.covariate]
            sign = add_sign if additive else multiply_sign
            assert other.weight == (add if additive else multiply)
            assert other.direction == ("direct" if sign > 0 else "inverse")
            constants = other.response.constants
            if additive:
                assert (other.response.form, other.offset_scale) == ("signed_power", "mean")
                assert dict(constants) == {"scale": sign, "exponent": 0.3, "slope": 0}
            else:
                assert (other.response.form, other.offset_scale) == ("power", None)
                assert constants["exponent"] == constants["exponent_below"] == 0.3 * sign


def test_sumo_bases():
    assert {c.name: c.base for c in load_system("sumo").covariates} == {
        n: v[0] for n, v in SUMO.items()
    }


@pytest.mark.parametrize(
    ("pattern", "covariate", "direction", "form", "first"),
    [
        ("meanMaxJamLengthInMeters_e2_e_{}", "minGap", "direct", "power", 0.6),
        ("meanTimeLoss_e2_e_{}", "accel", "inverse", "power_linear", 0.5),
        ("meanHaltingDuration_e2_e_{}", "offset", "direct", "exponential", 0.3),
        ("meanVehicleNumber_e2_e_{}", "impatience", "direct", "power", 0.6),
        ("speed_loop_e_{}_near", "decel", "direct", "power", 0.4),
        ("meanSpeed_e2_e_{}", "maxSpeed", "direct", "power", 0.35),
        ("speed_loop_exit_e_{}", "speedDev", "direct", "power", 0.3),
        ("occupancy_loop_e_{}_near", "length", "direct", "power", 0.5),
        ("occupancy_loop_exit_e_{}", "length", "direct", "power", 0.5),
        ("meanOccupancy_e2_e_{}", "length", "direct", "power", 0.5),
        ("flow_loop_e_{}_near", "tau", "inverse", "power", -0.7),
        ("flow_loop_e_{}_far", "tau", "inverse", "power", -0.7),
        ("flow_loop_exit_e_{}", "tau", "inverse", "power", -0.7),
    ],
)
def test_sumo_primaries(pattern, covariate, direction, form, first):
    for lane in (0, 1):
        found = primary("sumo", pattern.format(lane))
        assert found[:3] == (covariate, direction, form)
        assert next(iter(found[3].values())) == first
    for gas in ("CO2", "NOx", "PMx", "fuel"):
        found = primary("sumo", f"{gas}_abs_edge_e2c")
        assert found[:3] == ("sigma", "direct", "power")
        assert found[3]["exponent"] == 1.2
    loss = primary("sumo", "meanTimeLoss_e2_e_0")[3]
    assert loss == {"scale": 0.5, "exponent": -1.0, "slope": 0.0}
