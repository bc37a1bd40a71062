"""Faults in a system's file: each message names file, entry, field, value and what was expected."""

import pytest

from tests.catalog_helpers import BREWERY, POWER, broken
from whatif_jax.catalog import load_system

# old text, new text, what of the file has which value, part of what was expected
CASES = {
    "unknown covariate in a secondary response": (
        '["ambient_temperature"], weight', '["ambient_temprature"], weight',
        "class 'tank': secondary[1].covariates[0] = 'ambient_temprature'",
        "did you mean 'ambient_temperature'?",
    ),
    "unknown covariate in a primary response": (
        'primary = { covariate = "coolant_flow"', 'primary = { covariate = "flow"',
        "target 'cooling_power': primary.covariate = 'flow'",
        "one of 'coolant_flow', 'ambient_temperature'",
    ),
    "two primaries": (
        POWER, POWER.replace("{", "[{").replace("}", '}, { covariate = "ambient_temperature" }]'),
        "target 'cooling_power': primary = [{'covariate': 'coolant_flow', 'direction': "
        "'direct', 'form': 'power', 'exponent': 0.8}, {'covari...",
        "exactly one primary",
    ),
    "no primary": (
        POWER, "",
        "target 'cooling_power': primary is missing", "exactly one primary",
    ),
    "pool with values on one side for a two-way target": (
        "values = [0.25, 0.5, 2, 4]", "values = [2, 4]",
        "target 'cooling_power': pools.values = [2, 4]",
        "at least one value below 1, for a target that events move both ways",
    ),
    "pool of one target on one side": (
        'unit = "kW"', 'unit = "kW"\npool = [0.5]',
        "target 'cooling_power': pool = [0.5]", "at least one value above 1",
    ),
    "up-only pool without values for an inverse covariate": (
        "values = [0.25, 0.5, 2, 4]", "values = [2, 4]\nup_only = true",
        "target 'tank_temperature': pools.values = [2, 4]",
        "below 1, for an up-only target with direct and inverse covariates",
    ),
    "factor of one in a pool": (
        "values = [0.25, 0.5, 2, 4]", "values = [0.5, 1, 2]",
        "file: pools.values = [0.5, 1, 2]", "none of them 1",
    ),
    "base of zero": (
        "base = 12.0 ", "base = 0.0 ",
        "covariate 'coolant_flow': base = 0.0", "a number other than 0",
    ),
    "base not finite": (
        "base = 12.0 ", "base = inf ",
        "covariate 'coolant_flow': base = inf", "a finite number",
    ),
    "duplicate target": (
        'name = "tank_temperature"', 'name = "cooling_power"',
        "target 'cooling_power': name = 'cooling_power'",
        "a name no other target has (it is given 2 times)",
    ),
    "duplicate covariate": (
        'name = "ambient_temperature"', 'name = "coolant_flow"',
        "covariate 'coolant_flow': name = 'coolant_flow'", "a name no other covariate has",
    ),
    "unknown form": (
        'form = "power", exponent = 0.8', 'form = "powr", exponent = 0.8',
        "target 'cooling_power': primary.form = 'powr'", "did you mean 'power'?",
    ),
    "primary form in a secondary": (
        'form = "linear", slope = 0.4', 'form = "pivot", pivot = 1.0, slope = 0.4',
        "class 'tank': secondary[1].form = 'pivot'", "one of 'power', 'linear'",
    ),
    "missing constant": (
        'form = "power", exponent = 0.8', 'form = "power"',
        "target 'cooling_power': primary.exponent is missing", "a number: the exponent of f",
    ),
    "constant of another form": (
        'form = "power", exponent = 0.8', 'form = "power", exponent = 0.8, slope = 1.0',
        "target 'cooling_power': primary.slope = 1.0", "no such field here",
    ),
    "constant that is text": (
        "exponent = 0.8", 'exponent = "0.8"',
        "target 'cooling_power': primary.exponent = '0.8'", "a finite number",
    ),
    "constant that is not finite": (
        "exponent = 0.8", "exponent = nan",
        "target 'cooling_power': primary.exponent = nan", "a finite number",
    ),
    "unknown direction": (
        'direction = "inverse"', 'direction = "down"',
        "class 'tank': secondary[0].direction = 'down'", "one of 'direct', 'inverse'",
    ),
    "direction against the response": (
        'direction = "inverse", form = "power", exponent = -0.3',
        'direction = "direct", form = "power", exponent = -0.3',
        "class 'tank': secondary[0].direction = 'direct'", "'inverse', as the response falls",
    ),
    "unknown shape": (
        'shape = "step"', 'shape = "square"',
        "covariate 'coolant_flow': shape = 'square'", "one of 'step', 'bell', 'ramp', 'half_sine'",
    ),
    "weight of zero": (
        "weight = 0.5", "weight = 0",
        "class 'tank': secondary[0].weight = 0", "a number above 0",
    ),
    "unknown class": (
        'class = "tank"', 'class = "tub"',
        "target 'cooling_power': class = 'tub'", "'tank'",
    ),
    "unknown way to combine": (
        'combine = "multiply" ', 'combine = "times" ',
        "class 'tank': combine = 'times'", "one of 'multiply', 'add'",
    ),
    "clip the wrong way round": (
        'combine = "multiply" ', 'clip = [2, 1]\ncombine = "multiply" ',
        "class 'tank': clip = [2, 1]", "the lower first",
    ),
    "unknown field": (
        'unit = "kW"', 'unit = "kW"\nunits = "kW"',
        "target 'cooling_power': units = 'kW'", "did you mean 'unit'?",
    ),
    "missing field": (
        'unit = "L/min"', "",
        "covariate 'coolant_flow': unit is missing", "a string: the unit of its values",
    ),
    "placeholder without a value": (
        '["coolant_flow"], weight', '["coolant_{place}"], weight',
        "target 'cooling_power': where = {}", "'coolant_{place}'",
    ),
    "group without members": (
        'covariates = ["coolant_flow"], weight', 'group = "cold", weight',
        "class 'tank': secondary[0].group = 'cold'",
        "a group that a covariate is in",
    ),
    "others before the end": (
        'covariates = ["coolant_flow"], weight', "others = true, weight",
        "class 'tank': secondary[0].others = True", "the last effect of its class",
    ),
    "no selector": (
        'covariates = ["coolant_flow"], weight', "weight",
        "class 'tank': secondary[0].covariates is missing", "exactly one of covariates",
    ),
    "more covariates than a target has": (
        "k = [1, 2] ", "k = [1, 2, 3] ",
        "axes: k = [1, 2, 3]", "at most 2, the covariates of target 'cooling_power'",
    ),
    "k not rising": (
        "k = [1, 2] ", "k = [2, 1] ",
        "axes: k = [2, 1]", "rising whole numbers",
    ),
    "history longer than the baseline": (
        "context = 512", "context = 4096",
        "context 'short': context = 4096", "within the 2880 steps of the baseline",
    ),
    "steps that are no whole number": (
        "steps = 2880 ", "steps = 2880.5 ",
        "file: steps = 2880.5", "a whole number",
    ),
    "no steps": (
        "steps = 2880 ", "steps = 0 ",
        "file: steps = 0", "a number of 1 or more",
    ),
    "class that is no target's": (
        "[[targets]]", '[[classes]]\nname = "tub"\ncombine = "add"\n\n[[targets]]',
        "class 'tub': name = 'tub'", "a class that at least one target is of",
    ),
    "primary that only acts below": (
        "exponent = 0.8", 'exponent = 0.8, acts = "below"',
        "target 'cooling_power': primary.acts = 'below'", "no such field here",
    ),
    "unit of an offset in a class that multiplies": (
        "weight = 0.8", 'weight = 0.8, offset_scale = "mean"',
        "class 'tank': secondary[1].offset_scale = 'mean'",
        "no such field in a class that multiplies",
    ),
    "two ways to choose covariates": (
        '["coolant_flow"], weight', '["coolant_flow"], group = "cold", weight',
        "class 'tank': secondary[0].covariates = ['covariates', 'group']",
        "exactly one of covariates",
    ),
    "others that are none": (
        'covariates = ["ambient_temperature"], weight', "others = false, weight",
        "class 'tank': secondary[1].others = False", "true, or no such field",
    ),
    "weight and rule": (
        "weight = 0.5", "weight = 0.5, weight_rule = { base = 0.1, step = 0.1, modulus = 5 }",
        "class 'tank': secondary[0].weight = 0.5", "either a number above 0, or weight_rule",
    ),
    "fault in a rule": (
        "weight = 0.5", "weight_rule = { base = 0.1, step = 0.1, modulus = 0 }",
        "class 'tank': secondary[0].weight_rule.modulus = 0", "a number of 1 or more",
    ),
    "coefficient that divides by 0": (
        'form = "linear", slope = 0.5',
        'form = "constant_plus_power", coefficient = -1, exponent = 2',
        "target 'tank_temperature': primary.coefficient = -1", "a number other than -1",
    ),
    "name beside names": (
        'name = "tank"', 'name = "tank"\nnames = ["tank"]',
        "class ['tank']: name = 'tank'", "either a string that is not empty, or names",
    ),
    "contexts that are none": (
        'contexts = [{ name = "short", context = 512, horizon = 64, fewest_events = 1 }]',
        "contexts = []",
        "axes: contexts = []", "a list that is not empty",
    ),
    "entry that is no table": (
        'contexts = [{ name = "short", context = 512, horizon = 64, fewest_events = 1 }]',
        'contexts = [{ name = "short", context = 512, horizon = 64, fewest_events = 1 }, 3]',
        "context number 2: entry = 3", "a table of fields",
    ),
    "list of tables that is none": (
        'contexts = [{ name = "short", context = 512, horizon = 64, fewest_events = 1 }]',
        "contexts = 512",
        "axes: contexts = 512", "a list",
    ),
    "table that is none": (
        "secondary = [", "primary_defaults = 3\nsecondary = [",
        "class 'tank': primary_defaults = 3", "a table of fields",
    ),
    "factors that are one in float32": (
        "values = [0.25, 0.5, 2, 4]", "values = [0.5, 2, 2.00000001]",
        "file: pools.values = [0.5, 2, 2.00000001]",
        "different factors above 0",
    ),
    "no room for events": (
        "k = [1, 2] ", "prefix = 0.6\nend_buffer = 0.4\nk = [1, 2] ",
        "axes: prefix and end_buffer = [0.6, 0.4]", "two shares that leave room",
    ),
    "format of another version": (
        "format_version = 1", "format_version = 9",
        "file: format_version = 9", "1",
    ),
    "provenance outside the legend": (
        "format_version = 1", 'format_version = 1\nlegend.M = "measured"\nprovenance = "Q"',
        "file: provenance of steps = 'Q'", "one of the legend's 'M' (measured)",
    ),
    "no provenance though there is a legend": (
        "format_version = 1", 'format_version = 1\nlegend.M = "measured"',
        "covariate 'coolant_flow': provenance of base, shape is missing",
        "one of the legend's 'M' (measured)",
    ),
    "name with a slash": (
        'name = "brewery"', 'name = "my/brewery"',
        "file: name = 'my/brewery'", "a name without '/'",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_fault_is_named(tmp_path, case):
    old, new, what, expected = CASES[case]
    error = broken(tmp_path, (old, new))
    start = f"broken.toml: {what}; expected "
    lines = [str(problem) for problem in error.problems]
    hits = [line for line in lines if line.startswith(start)]
    assert len(hits) == 1, "\n".join(lines)
    assert expected in hits[0].removeprefix(start)
    assert hits[0] in str(error)


def test_the_changes_are_all_that_is_wrong():
    assert load_system(BREWERY).name == "brewery"


@pytest.mark.parametrize("case", [case for case in CASES if "provenance" not in case])
def test_one_fault_gives_one_problem(tmp_path, case):
    old, new, *_ = CASES[case]
    assert len(broken(tmp_path, (old, new)).problems) == 1
