"""Faults of different kinds in one file: none hides another, and none is said twice."""

import numpy as np
import pytest

from tests.catalog_helpers import BREWERY, POWER, broken, changed, write_baseline
from whatif_jax.catalog import CatalogError, describe, load_system

# One fault each: old text, new text, the place of the fault
FAULTS = [
    ("step_seconds = 60", "step_seconds = -60", ("file", "step_seconds")),
    ("base = 12.0", "base = 0", ("covariate 'coolant_flow'", "base")),
    ('shape = "bell"', 'shape = "rampe"', ("covariate 'ambient_temperature'", "shape")),
    ('combine = "multiply"', 'combine = "sum"', ("class 'tank'", "combine")),
    ('["coolant_flow"]', '["coolant_flw"]', ("class 'tank'", "secondary[0].covariates[0]")),
    ("weight = 0.5", "wieght = 0.5", ("class 'tank'", "secondary[0].wieght")),
    ("slope = 0.4", "slope = true", ("class 'tank'", "secondary[1].slope")),
    ('class = "tank"', 'class = "tnk"', ("target 'cooling_power'", "class")),
    ('form = "power", exponent = 0.8', 'form = "powr"',
     ("target 'cooling_power'", "primary.form")),
    ('{ covariate = "amb', '{ covariate = "hum',
     ("target 'tank_temperature'", "primary.covariate")),
    ("slope = 0.5", "slpe = 0.5", ("target 'tank_temperature'", "primary.slpe")),
    ("values = [0.25", "values = [1, 0.25", ("file", "pools.values")),
    ("k = [1, 2]", "k = [1, 2, 9]", ("axes", "k")),
    ("context = 512", "context = 4096", ("context 'short'", "context")),
    ("fewest_events = 1", "fewest_events = 1, most_events_longest = 0",
     ("context 'short'", "most_events_longest")),
]  # fmt: skip


def places(error: CatalogError) -> list[tuple[str, str]]:
    return sorted((problem.entry, problem.field) for problem in error.problems)


@pytest.mark.parametrize("first", range(len(FAULTS)))
def test_two_faults_are_two_lines(tmp_path, first):
    for pair in ({first, second} for second in range(first, len(FAULTS))):
        if pair != {13, 14}:  # whether a context fits depends on its events
            error = broken(tmp_path, *(FAULTS[each][:2] for each in pair))
            assert places(error) == sorted(FAULTS[each][2] for each in pair)


def test_many_faults_are_as_many_lines(tmp_path):
    together = FAULTS[:13]
    assert places(broken(tmp_path, *(fault[:2] for fault in together))) == sorted(
        fault[2] for fault in together
    )


def test_a_misspelt_field_is_one_line_wherever_it_stands(tmp_path):
    for old, new in (
        ("exponent = 0.8", "exponnt = 0.8"), ("step_seconds", "step_second"),
        ('covariates = ["coolant_flow"]', 'covariate = ["coolant_flow"]'),
        ('name = "tank"', 'nmae = "tank"'), ('name = "coolant_flow"', 'nmae = "coolant_flow"'),
        ('class = "tank"', 'clas = "tank"'), ("k = [1, 2]", "kk = [1, 2]"),
    ):  # fmt: skip
        (problem,) = broken(tmp_path, (old, new)).problems
        assert "did you mean" in problem.expected


def test_what_a_class_may_say_is_not_missing_where_the_class_is_unknown(tmp_path):
    short = 'primary = { covariate = "coolant_flow", form = "powr" }'
    defaults = 'primary_defaults = { direction = "direct" }\nsecondary = ['
    error = broken(
        tmp_path, (POWER, short), ("secondary = [", defaults), ('class = "tank"', 'class = "tnk"')
    )
    assert places(error) == [
        ("target 'cooling_power'", "class"), ("target 'cooling_power'", "primary.form"),
    ]  # fmt: skip


def described(path) -> CatalogError:
    with pytest.raises(CatalogError) as caught:
        describe(str(path))
    return caught.value


def test_faults_of_the_baseline_stand_beside_those_of_the_file(tmp_path):
    path = changed(tmp_path, ("base = 12.0", "base = 0"), ('name = "cooling_power"', 'name = "cp"'))
    write_baseline(tmp_path, 2800)
    assert [str(problem) for problem in described(path).problems] == [
        "broken.toml: covariate 'coolant_flow': base = 0; expected a number other than 0, as "
        "factors scale it",
        "brewery.parquet: target 'cp': column is missing; expected one float32 column a target",
        "brewery.parquet: file: rows = 2800; expected steps = 2880",
    ]
    assert places(described(f"{path}/tank_temperature")) == places(described(path))
    write_baseline(tmp_path)
    path = changed(tmp_path, ("steps = 2880 ", "steps = 0 "), ("[1, 2]", "[1, 2, 9]"))
    assert places(described(path)) == [("axes", "k"), ("file", "steps")]
    path = changed(tmp_path, ('baseline = "brewery', 'baseline = "nofile'), ('"tank"', '"tnk"'))
    assert "nofile.parquet'; expected a parquet that exists" in str(described(path))
    assert len(described(path).problems) == 3  # both targets are of no class that is there


def test_every_column_of_a_baseline_is_looked_at(tmp_path):
    path = changed(tmp_path)
    power = np.full(2880, np.nan, np.float32)
    write_baseline(tmp_path, cooling_power=power, tank_temperature=np.arange(2880))
    assert [str(problem) for problem in described(path).problems] == [
        "brewery.parquet: target 'tank_temperature': type = 'int64'; expected float32",
        "brewery.parquet: target 'cooling_power': row 0 = nan; expected finite values (2880 are "
        "not)",
    ]
    with pytest.raises(CatalogError, match="File name too long.*; expected a parquet file"):
        describe(str(changed(tmp_path, ('= "brewery.parquet', '= "' + "a" * 3000))))


def test_a_name_of_a_built_in_system_is_taken(tmp_path):
    error = broken(tmp_path, ('name = "brewery"', 'name = "epanet"'), ("base = 12.0", "base = 0"))
    assert places(error) == [("covariate 'coolant_flow'", "base"), ("file", "name")]
    assert "'epanet'; expected a name that no built-in system has" in str(error)
    source = load_system("epanet").source
    assert load_system(source).name == "epanet"
    assert describe(str(source)) == describe("epanet")
    assert load_system(BREWERY).name == "brewery"
