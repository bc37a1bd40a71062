"""How faults in a system's file are reported, and names that are not in the catalog."""

import json
import pickle
import shutil
import tomllib

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.catalog_helpers import BREWERY, POWER, broken, changed, write_baseline
from whatif_jax.catalog import CatalogError, describe, load_system


def test_all_faults_are_reported_at_once(tmp_path):
    error = broken(
        tmp_path,
        ("base = 12.0 ", "base = 0 "),
        ('form = "linear", slope = 0.5', 'form = "lineal", slope = 0.5'),
        ('unit = "kW"', ""),
    )
    assert {problem.field for problem in error.problems} == {"base", "primary.form", "unit"}
    assert str(error).startswith("3 problems in the catalog:\n  - broken.toml: ")


def test_faults_of_every_table_and_several_of_one_are_reported_at_once(tmp_path):
    error = broken(
        tmp_path,
        ("format_version = 1", 'format_version = 2\nsettings = [{ txt = "cold" }]'),
        ("steps = 2880 ", "steps = 0 "),
        ('name = "ambient_temperature"\nbase = 18.0', 'name = "coolant_flow"\nbase = true'),
        ("weight = 0.5", "weight = -1, wait = 1"),
        ('covariates = ["ambient_temperature"], weight', "others = true, group = 3, weight"),
        ('"direct", form = "linear", slope = 0.5', '"inverse", form = "linear", slope = 0.5'),
        ("values = [0.25, 0.5, 2, 4]", 'values = [0.25, 0.5, 2, "4"]\nprovenance = "P"'),
        ("k = [1, 2] ", "k = []\nprefix = 1.0 "),
        ("horizon = 64", "horizon = 6.4"),
    )  # fmt: skip
    assert sorted((problem.entry, problem.field) for problem in error.problems) == [
        ("axes", "k"),
        ("axes", "prefix"),
        ("class 'tank'", "secondary[0].wait"),
        ("class 'tank'", "secondary[0].weight"),
        ("class 'tank'", "secondary[1].covariates"),
        ("class 'tank'", "secondary[1].group"),
        ("context 'short'", "horizon"),
        ("covariate 'coolant_flow'", "base"),
        ("covariate 'coolant_flow'", "name"),
        ("file", "format_version"),
        ("file", "pools.provenance of up_only"),
        ("file", "pools.provenance of values"),
        ("file", "pools.values[3]"),
        ("file", "steps"),
        ("setting number 1", "txt"),
        ("target 'tank_temperature'", "primary.direction"),
    ]


def test_what_is_wrong_in_a_class_of_several_names_is_said_once(tmp_path):
    error = broken(
        tmp_path, ('name = "tank"', 'names = ["tank", "tub"]'), ("weight = 0.5", "weight = 0")
    )
    assert [problem.entry for problem in error.problems if "weight" in problem.field] == [
        "class ['tank', 'tub']"
    ]
    error = broken(tmp_path, ('name = "tank"', 'names = ["tank", "tub"]'))
    assert "class ['tank', 'tub']: name = 'tub'; expected a class that at least" in str(error)


def test_what_a_class_or_the_pools_do_wrong_is_said_at_the_first_target(tmp_path):
    for change in (('coolant_flow"], weight', 'flow"], weight'), ("2, 4]", "1, 4]")):
        assert len(broken(tmp_path, change).problems) == 1


def test_a_primary_may_be_a_list_of_one(tmp_path):
    path = changed(tmp_path, (POWER, POWER.replace("{", "[{").replace("}", "}]")))
    assert load_system(path).targets == load_system(BREWERY).targets


def places(table, path=()):
    """The paths to everything in a document."""
    for key, value in table.items() if isinstance(table, dict) else enumerate(table):
        yield (*path, key)
        if isinstance(value, dict | list):
            yield from places(value, (*path, key))


def written(value) -> str:
    """A value as TOML."""
    if isinstance(value, dict):
        pairs = (f"{json.dumps(key)} = {written(each)}" for key, each in value.items())
        return "{" + ", ".join(pairs) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(written, value)) + "]"
    return repr(value) if isinstance(value, float) else json.dumps(value)


EPANET = load_system("epanet").source
DOCUMENTS = [tomllib.loads(path.read_text("utf-8")) for path in (BREWERY, EPANET)]
DOCUMENTS[1]["name"] = "network"  # as no file of a user's own may have a built-in name
KEYS = ["name", "names", "form", "others", "response", "provenance", "where", "class", "class_name"]
NAMES = st.sampled_from([*KEYS, "pivot", "power", "add", "tank", "coolant_flow", "{x}", "P", ""])
VALUES = st.recursive(
    st.booleans() | st.integers() | st.floats() | st.just(10**400) | NAMES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=5,
)


@pytest.fixture(scope="module")
def baselines(tmp_path_factory):
    """A folder with the parquets that the documents name."""
    folder = tmp_path_factory.mktemp("baselines")
    shutil.copy(EPANET.with_suffix(".parquet"), folder)
    write_baseline(folder)
    return folder


@settings(max_examples=400, deadline=None)
@given(st.sampled_from(range(2)).flatmap(
    lambda which: st.tuples(st.just(which), st.sampled_from(list(places(DOCUMENTS[which]))))
), st.sampled_from(KEYS), VALUES)  # fmt: skip
@example((0, ("classes", 0)), "name", [])
@example((0, ("targets", 0, "primary", "form")), "name", ["power"])
def test_whatever_stands_anywhere_is_read_or_refused_in_our_words(baselines, at, key, value):
    which, path = at
    document = json.loads(json.dumps(DOCUMENTS[which]))
    around = document
    for part in path[:-1]:
        around = around[part]
    around[path[-1]] = value
    if isinstance(around, dict):
        around.setdefault(key, value)
    file = baselines / "any.toml"
    file.write_text(
        "\n".join(f"{name} = {written(each)}" for name, each in document.items()), "utf-8"
    )
    try:
        text = describe(str(file))
    except CatalogError as error:
        problems = error.problems
    else:
        assert text.startswith(load_system(file).name)
        return
    foreign = (
        "Input should",
        "valid ",
        "pydantic",
        "§",
        "{expected}",
        "{error}",
        "{ge",
        "{gt",
        "{l",
    )
    assert problems
    for problem in problems:
        assert problem.expected and problem.field
        assert not [text for text in foreign if text in problem.expected], problem


def test_one_provenance_for_a_whole_file(tmp_path):
    text = BREWERY.read_text()
    write_baseline(tmp_path)
    start = 'format_version = 1\nlegend = { M = "measured", A = "assumed" }\n'
    text = text.replace("format_version = 1\n", start + 'default_provenance = "M"\n')
    text = text.replace("slope = 0.5", 'slope = 0.5, provenance = { slope = "A" }')
    (tmp_path / "marked.toml").write_text(text)
    found = load_system(tmp_path / "marked.toml")
    primary = found.target("tank_temperature").primary
    assert primary.provenance == {"covariate": "M", "direction": "M", "form": "M", "slope": "A"}
    assert set(found.axes.provenance.values()) == {"M"}
    assert "slope 0.5 [A]" in describe(f"{tmp_path}/marked.toml/tank_temperature")
    error = broken(tmp_path, ("format_version = 1\n", start + 'default_provenance = "X"\n'))
    assert "default_provenance = 'X'; expected one of 'M', 'A'" in str(error)
    assert len(error.problems) == 1
    text = 'slope = 0.5, provenance = { slop = "A" }'
    error = broken(
        tmp_path,
        ("format_version = 1\n", start + 'default_provenance = "M"\n'),
        ("slope = 0.5", text),
    )
    assert "primary.provenance of slop = 'A'; expected no such key: one of 'covariate'" in str(
        error
    )
    assert "did you mean 'slope'?" in str(error)


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
    with pytest.raises(CatalogError, match=r"did you mean 'pressure_10'\?"):
        describe("presure_10")
    with pytest.raises(CatalogError, match=r"target = 'nothing'"):
        describe("sumo/nothing")
