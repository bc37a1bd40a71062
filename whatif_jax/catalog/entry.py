"""What all tables of a catalog file share: defaults, provenance, and faults in our words."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, ClassVar, NamedTuple, Self

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    ValidationError,
    ValidationInfo,
    WithJsonSchema,
    model_validator,
)
from pydantic.functional_validators import ModelWrapValidatorHandler

from .errors import nearest, one_of
from .fields import FrozenMapping, Texts

__all__ = [
    "KINDS",
    "Entry",
    "Fault",
    "Legend",
    "Sourced",
    "Table",
    "listed",
    "merged",
    "names_of",
    "refusal",
    "repeated",
]

Table = Mapping[str, object]
KINDS = {
    "covariates": "covariate",
    "classes": "class",
    "targets": "target",
    "contexts": "context",
    "settings": "setting",
}
"""What one entry of a list of tables is called."""
_EXPECTED = {
    "bool_type": "true or false",
    "dict_type": "a table of fields",
    "greater_than": "a number above {gt:g}",
    "greater_than_equal": "a number of {ge:g} or more",
    "int_type": "a whole number",
    "less_than": "a number below {lt:g}",
    "less_than_equal": "a number up to {le}",
    "mapping_type": "a table of fields",
    "path_type": "a path, as a string",
    "string_pattern_mismatch": "a name without '/', '{{', '}}' or spaces around it",
    "string_too_short": "a string that is not empty",
    "string_type": "a string",
    "tuple_type": "a list",
    "value_error": "{error}",
}  # by the type of pydantic's error; for others, what the field's description says


class Fault(NamedTuple):
    """One fault of a table: the path to it from there, what stands there, what was expected."""

    path: tuple[str | int, ...]
    value: object  # None where it is missing
    expected: str


def refusal(faults: Sequence[Fault]) -> ValidationError:
    """The error that takes faults through pydantic, which puts the table's place before a path."""
    return ValidationError.from_exception_data(
        "catalog",
        [
            {"type": "value_error", "loc": path, "input": value, "ctx": {"error": expected}}
            for path, value, expected in faults
        ],
    )


class Legend(NamedTuple):
    """Letters for origins and their meanings, and the letter of tables that name none, if any."""

    meanings: Mapping[str, str] = {"own": "given by the author of this file"}
    default: str | None = "own"

    def letters(
        self, given: object, names: Sequence[str], faults: list[Fault], *, strict: bool = True
    ) -> dict[str, str]:
        """A letter for each name from one for all, or from a table of them and a ``default``.

        With ``strict`` that table has no other names, unless there are none to have.
        """
        table = given if isinstance(given, dict) else {"default": given}
        rest = self.default if table.get("default") is None else table["default"]
        found = {name: table.get(name, rest) for name in names}
        missing = ", ".join(name for name, letter in found.items() if letter is None)
        wrong: dict[str, object] = {missing: None} if missing else {}
        wrong |= {name: each for name, each in found.items() if each not in [None, *self.meanings]}
        meanings = ", ".join(f"{letter!r} ({text})" for letter, text in self.meanings.items())
        for name, letter in wrong.items():
            faults.append(Fault(("provenance", name), letter, f"one of the legend's {meanings}"))
        for name in table:
            if strict and names and name not in ("default", *names):
                expected = f"no such key: {one_of(names, name)}"
                faults.append(Fault(("provenance", name), table[name], expected))
        return {name: str(letter) for name, letter in found.items()}


class Entry(BaseModel):
    """A table of a catalog file: frozen, and without fields that are not its own."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    @classmethod
    def accepted(cls, table: Table) -> list[str]:
        """The fields that this table may have."""
        return [field.alias or name for name, field in cls.model_fields.items()]

    @classmethod
    def prepared(cls, table: Table, legend: Legend, faults: list[Fault]) -> Table:
        """The table with defaults put in; faults that no field shows on its own are added."""
        return table

    @classmethod
    def consequent(cls, table: Table, path: tuple[str | int, ...]) -> bool:
        """Whether what is missing at that path may be so by another fault of the table alone."""
        return False

    @model_validator(mode="wrap")
    @classmethod
    def _with_all_faults(
        cls, table: object, handler: ModelWrapValidatorHandler[Self], info: ValidationInfo
    ) -> Self:
        if not isinstance(table, dict):  # an entry already, or something to refuse
            return handler(table)
        accepted = cls.accepted(table)
        known = {name: value for name, value in table.items() if name in accepted}
        unknown = {name: value for name, value in table.items() if name not in accepted}
        faults = [
            Fault((name,), value, f"no such field here: {one_of(accepted, name)}")
            for name, value in unknown.items()
        ]
        table = cls.prepared(known, info.context or Legend(), faults)
        try:
            entry = handler(table)
        except ValidationError as error:
            for line in error.errors(include_url=False):
                kind, path = line["type"], line["loc"]
                value = table.get(str(path[0])) if len(path) == 1 else line["input"]
                # not where a default follows another field, whose fault it is
                if kind != "default_factory_not_called":
                    expected = cls._expected(kind, path, value, line.get("ctx", {}))
                    faults.append(Fault(path, value, expected))
        meant = [nearest(name, accepted) for name in unknown]  # a response has no place of its own
        slips = {place for name in meant for place in ((name,), ("response", name))}
        faults = [
            fault
            for fault in faults
            if fault.value is not None
            or not (fault.path in slips or cls.consequent(table, fault.path))
        ]
        if faults:
            raise refusal(faults)
        return entry

    @classmethod
    def _expected(
        cls, kind: str, path: tuple[str | int, ...], value: object, context: Mapping[str, str]
    ) -> str:
        """What a field should hold in our words, by pydantic's type of its error."""
        if kind == "literal_error":
            names = re.findall("'(.*?)'", context["expected"]) or [context["expected"]]
            return one_of(names, value)
        if kind in _EXPECTED or len(path) > 1:
            return _EXPECTED.get(kind, "a table of fields").format(**context)
        fields = {field.alias or name: field for name, field in cls.model_fields.items()}
        described = str(fields[str(path[0])].description).removesuffix(".")
        return described[:1].lower() + described[1:]


_LETTERS = {"type": ["string", "object"], "additionalProperties": {"type": "string"}}


class Sourced(Entry):
    """A table with constants, and the origin of each."""

    sources: ClassVar[tuple[str, ...]] = ()  # the fields that have an origin
    optional_sources: ClassVar[tuple[str, ...]] = ()  # those that have one where they are given

    provenance: Annotated[Texts, WithJsonSchema(_LETTERS)] = Field(
        default_factory=lambda: FrozenMapping({})
    )
    """The origin of its constants: a letter of the `legend`, or a table of a letter a field and a
    `default`; by default the file's `default_provenance`."""

    @classmethod
    def sourced(cls, table: Table) -> list[str]:
        """The fields of this table that have an origin."""
        return [*cls.sources, *(name for name in cls.optional_sources if name in table)]

    @classmethod
    def prepared(cls, table: Table, legend: Legend, faults: list[Fault]) -> Table:
        """The table with a letter for each field that has an origin."""
        letters = legend.letters(table.get("provenance"), cls.sourced(table), faults)
        return {**table, "provenance": letters}


def merged(defaults: object, table: object) -> object:
    """The table over its defaults; what is no table is left to be refused."""
    if isinstance(defaults, dict) and isinstance(table, dict):
        return {**defaults, **table}
    return table


def listed(table: Table, field: str) -> list[object]:
    """The list in a field; empty where it holds none."""
    value = table.get(field)
    return value if isinstance(value, list) else []


def names_of(table: object) -> list[str]:
    """The name of a table, or the names of one that stands for several."""
    if not isinstance(table, dict):
        return []
    names = listed(table, "names") or [table.get("name")]
    return [name for name in names if isinstance(name, str) and name]


def repeated(table: Table, field: str) -> Iterator[Fault]:
    """A fault for every name that several tables of a list have."""
    places: dict[str, list[int]] = {}
    for index, each in enumerate(listed(table, field)):
        for name in names_of(each):
            places.setdefault(name, []).append(index)
    for name, indices in places.items():
        if len(indices) > 1:
            expected = f"a name no other {KINDS[field]} has (it is given {len(indices)} times)"
            yield Fault((field, indices[0], "name"), name, expected)
