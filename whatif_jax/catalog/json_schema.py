"""A JSON Schema of catalog files, for editors that complete and check TOML by one."""

from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue

from .effects import Effect, Primary, Secondary
from .system import SystemTable

__all__ = ["file_schema"]


def file_schema() -> JsonSchemaValue:
    """The JSON Schema of a catalog file; reading one checks more than a schema can say."""
    schema = _tidied(SystemTable.model_json_schema())
    tables = schema["$defs"]
    del tables["Response"]
    for effect in (Primary, Secondary):
        _put_forms_in(tables[effect.__name__], effect)
    holders = {
        "Covariate": schema,
        "Primary": tables["TargetClass"],
        "Secondary": tables["TargetClass"],
    }
    for name, holder in holders.items():
        del tables[name]["required"]  # as any field may stand among the defaults
        holder["properties"][f"{name.lower()}_defaults"]["$ref"] = f"#/$defs/{name}"
    return {"$schema": GenerateJsonSchema.schema_dialect, **schema}


def _tidied(schema: JsonSchemaValue) -> JsonSchemaValue:
    """Without titles, which repeat names, and without null, which TOML does not have."""
    tidy = {}
    for key, value in schema.items():
        if isinstance(value, dict):
            tidy[key] = _tidied(value)
        elif key == "anyOf":
            (option,) = (each for each in value if each != {"type": "null"})
            tidy |= _tidied(option)
        elif value is not None and key != "title":
            tidy[key] = value
    return tidy


def _put_forms_in(table: JsonSchemaValue, effect: type[Effect]) -> None:
    """Constants among the fields of an effect, each only beside a form that has it."""
    fields = table["properties"]
    del fields["response"]
    what = "target" if effect is Primary else "ratio r(f)"
    formulas = [
        f"{name}: {form.primary_formula() if effect is Primary else form.ratio_formula}"
        for name, form in effect.forms.items()
    ]
    fields["form"] = {
        "enum": list(effect.forms),
        "description": f"The form of the {what}, where f is the factor, y the baseline and "
        f"g(f, p) = sign(f-1)*|f-1|^p. {'; '.join(formulas)}.",
    }
    own, table["allOf"] = list(fields), []
    for name, form in effect.forms.items():
        constants = _tidied(form.model_json_schema())["properties"]
        fields |= constants
        chosen = {"properties": {"form": {"const": name}}, "required": ["form"]}
        names = {"propertyNames": {"enum": [*own, *constants]}}
        table["allOf"].append({"if": chosen, "then": names})
