"""The JSON Schema of catalog files: what editors complete and check them by."""

import json
import sys
import tomllib

import jsonschema
import pytest

from tests.catalog_helpers import BREWERY, changed
from whatif_jax import cli
from whatif_jax.catalog import builtin_systems, forms, load_system
from whatif_jax.catalog.json_schema import file_schema

FILES = [BREWERY, *(load_system(name).source for name in builtin_systems())]
CHECK = jsonschema.Draft202012Validator(file_schema())


def faults(path):
    return list(CHECK.iter_errors(tomllib.loads(path.read_text("utf-8"))))


def test_it_is_a_schema():
    CHECK.check_schema(CHECK.schema)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_every_catalog_file_meets_it(path):
    assert not faults(path)


@pytest.mark.parametrize(
    "old, new",
    [
        ("step_seconds", "step_second"),
        ('unit = "L/min"', 'unti = "L/min"'),
        ("damping", "dampening"),
        ("weight = 0.5", "wieght = 0.5"),
        ("covariates = [", "covariate = ["),
        ("exponent = 0.8", "exponnt = 0.8"),
        ("exponent = 0.8", "exponent = 0.8, slope = 1.0"),  # a constant of another form
        ("exponent = 0.8", 'exponent = 0.8, acts = "below"'),  # only of a secondary effect
        ('form = "power"', 'form = "powr"'),
        ('form = "linear", slope = 0.4', 'form = "pivot", slope = 0.4'),  # only of a primary one
        ('shape = "step"', 'shape = "square"'),
        ("values =", "value ="),
        ("event_lengths", "event_length"),
        ("horizon", "horizons"),
        ("steps = 2880 ", "steps = 9999999999999 "),
        ("base = 12.0 ", 'base = "12.0" '),
        ("format_version = 1", "format_version = 1\nlegend = { M = 3 }"),
        ("[axes]", "[axes]\nprovenance = { k = 3 }"),
    ],
)
def test_a_file_with_a_misspelt_field_does_not(tmp_path, old, new):
    path = changed(tmp_path, ('combine = "multiply" ', 'damping = 0.5\ncombine = "multiply" '))
    text = path.read_text("utf-8")
    assert not faults(path)
    assert old in text
    path.write_text(text.replace(old, new, 1), "utf-8")
    assert faults(path)


def test_every_field_is_described():
    def described(schema):
        for name, field in schema.get("properties", {}).items():
            yield name, field.get("description", "")

    tables = [CHECK.schema, *CHECK.schema["$defs"].values()]
    found = [each for table in tables for each in described(table)]
    assert len(found) > 80
    assert not [name for name, text in found if not text.endswith((".", ")")) or len(text) < 9]
    assert {"overhead", "pivot", "rate", "coefficient"} <= {name for name, _ in found}


def test_defaults_may_hold_what_entries_leave_out(tmp_path):
    path = changed(
        tmp_path,
        ('combine = "multiply" ', 'combine = "multiply"\nprimary_defaults = { form = "linear" }\n'),
        ('form = "linear", slope = 0.5', "slope = 0.5"),
    )
    assert load_system(path).targets == load_system(BREWERY).targets
    assert not faults(path)
    path.write_text(path.read_text("utf-8").replace("{ form =", "{ from ="), "utf-8")
    assert faults(path)


def test_every_form_is_in_it():
    tables = CHECK.schema["$defs"]
    assert tables["Primary"]["properties"]["form"]["enum"] == list(forms.FORMS)
    assert set(forms.FORMS) - set(tables["Secondary"]["properties"]["form"]["enum"]) == {
        "pivot", "proportional",
    }  # fmt: skip


def test_the_command_line_prints_it(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["whatif-jax", "describe", "--schema"])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert not ended.value.code
    assert json.loads(capsys.readouterr().out) == file_schema()
    monkeypatch.setattr(sys, "argv", ["whatif-jax", "describe", "--schema", "epanet"])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert ended.value.code == 2
    assert "--schema: given with 'epanet'" in capsys.readouterr().err
