"""How faults in a system's file are reported, and names that are not in the catalog."""

import pickle
from pathlib import Path

import pytest

from whatif_jax.catalog import CatalogError, describe, load_system

BREWERY = Path(__file__).parents[1] / "data" / "brewery.toml"
POWER = (
    'primary = { covariate = "coolant_flow", direction = "direct", form = "power", exponent = 0.8 }'
)


def broken(tmp_path, *changes):
    """The error of the brewery file with some of its text replaced."""
    text = BREWERY.read_text()
    for old, new in changes:
        assert text.count(old) >= 1, old
        text = text.replace(old, new, 1)
    path = tmp_path / "broken.toml"
    path.write_text(text)
    with pytest.raises(CatalogError) as caught:
        load_system(path)
    return caught.value


def test_all_faults_are_reported_at_once(tmp_path):
    error = broken(
        tmp_path,
        ("base = 12.0 ", "base = 0 "),
        ('form = "linear", slope = 0.5', 'form = "lineal", slope = 0.5'),
        ('unit = "kW"', ""),
    )
    assert {problem.field for problem in error.problems} == {"base", "primary.form", "unit"}
    assert str(error).startswith("3 problems in the catalog:\n  - broken.toml: ")


def test_one_provenance_for_a_whole_file(tmp_path):
    text = BREWERY.read_text()
    start = 'format_version = 1\nlegend = { M = "measured", A = "assumed" }\n'
    text = text.replace("format_version = 1\n", start + 'default_provenance = "M"\n')
    text = text.replace("slope = 0.5", 'slope = 0.5, provenance = { slope = "A" }')
    (tmp_path / "marked.toml").write_text(text)
    found = load_system(tmp_path / "marked.toml")
    response = found.target("tank_temperature").primary.response
    assert response.provenance == {"form": "M", "slope": "A"}
    assert set(found.axes.provenance.values()) == {"M"}
    assert "slope 0.5 [A]" in describe(f"{tmp_path}/marked.toml/tank_temperature")
    error = broken(tmp_path, ("format_version = 1\n", start + 'default_provenance = "X"\n'))
    assert "default_provenance = 'X'; expected one of 'M', 'A'" in str(error)


def test_names_as_a_spreadsheet_gives_them(tmp_path):
    text = BREWERY.read_text().replace("cooling_power", "Cooling power, tank 3 (kW)")
    (tmp_path / "spaced.toml").write_text(text)
    assert load_system(tmp_path / "spaced.toml").targets[0].name == "Cooling power, tank 3 (kW)"


def test_errors_pickle(tmp_path):
    error = broken(tmp_path, ("base = 12.0 ", "base = 0 "))
    copy = pickle.loads(pickle.dumps(error))
    assert str(copy) == str(error)
    assert copy.problems == error.problems
    assert isinstance(error, ValueError)


def test_missing_value_pickles(tmp_path):
    error = broken(tmp_path, ('unit = "L/min"', ""))
    assert str(pickle.loads(pickle.dumps(error))) == str(error)


def test_invalid_toml_gives_the_line(tmp_path):
    error = broken(tmp_path, ("steps = 2880 ", "steps = "))
    assert "broken.toml: file: text = " in str(error)
    assert "line 7" in str(error)


def test_primary_given_twice_is_refused(tmp_path):
    assert "line" in str(broken(tmp_path, (POWER, f"{POWER}\n{POWER}")))


def test_missing_file(tmp_path):
    with pytest.raises(
        CatalogError, match=r"absent\.toml'; expected one of 'opendc'.* or the path of a"
    ):
        load_system(tmp_path / "absent.toml")


def test_unknown_names():
    with pytest.raises(CatalogError, match=r"name = 'opendcc'; .*did you mean 'opendc'\?"):
        load_system("opendcc")
    epanet = load_system("epanet")
    with pytest.raises(CatalogError, match=r"epanet\.toml: system 'epanet': target = 'presure_10'"):
        epanet.target("presure_10")
    with pytest.raises(CatalogError, match=r"did you mean 'pump_9_setting'\?"):
        epanet.covariate("pump_9_settin")
    with pytest.raises(CatalogError, match=r"k = 37; expected a whole number from 1 to 36"):
        epanet.covariates_for("pressure_10", 37)
    with pytest.raises(CatalogError, match=r"did you mean 'pressure_10'\?"):
        describe("presure_10")
    with pytest.raises(CatalogError, match=r"target = 'nothing'"):
        describe("sumo/nothing")
