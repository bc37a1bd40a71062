"""The Croissant description of an export: JSON-LD that `mlcroissant` validates and reads.

References:
    Croissant 1.1, http://mlcommons.org/croissant/1.1.
"""

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from .columns import Column
from .folder import Entry
from .formats import RecordSet

__all__ = ["CROISSANT_FILE", "croissant"]

CROISSANT_FILE = "croissant.json"

# The context of the specification, in full: validators warn of any other.
_CONTEXT = json.loads((Path(__file__).parent / "croissant_context.json").read_text("utf-8"))

_ENCODINGS = {
    ".parquet": "application/x-parquet",
    ".json": "application/json",
    ".md": "text/markdown",
    ".yaml": "application/yaml",
}

_TYPES = {
    pa.string(): "sc:Text",
    pa.int32(): "cr:Int32",
    pa.int64(): "cr:Int64",
    pa.float32(): "cr:Float32",
    pa.float64(): "cr:Float64",
    pa.bool_(): "sc:Boolean",
}

KEYWORDS = ("time series", "forecasting", "covariates", "interventions")


def croissant(
    *,
    name: str,
    description: str,
    licence: str | None,
    cite_as: str | None,
    version: str,
    record_sets: Sequence[RecordSet],
    files: Iterable[Entry],
    keywords: Sequence[str] = KEYWORDS,
) -> str:
    """The description as JSON text.

    Args:
        name: of the dataset.
        description: one paragraph.
        licence: URL of the licence, if there is one for all of it.
        cite_as: what to cite, if anything.
        version: of the dataset, MAJOR.MINOR.PATCH.
        record_sets: the tables.
        files: every finished file.
        keywords: words to find it by.
    """
    about: dict[str, Any] = {
        "@context": _CONTEXT,
        "@type": "sc:Dataset",
        "conformsTo": "http://mlcommons.org/croissant/1.1",
        "name": name,
        "description": description,
    }
    if licence:
        about["license"] = licence
    if cite_as:
        about["citeAs"] = cite_as
    about["version"] = version
    about["keywords"] = list(keywords)
    about["distribution"] = [
        *(_file_object(entry) for entry in files),
        *(_file_set(records) for records in record_sets),
    ]
    about["recordSet"] = [_record_set(records) for records in record_sets]
    return json.dumps(about, indent=1, ensure_ascii=False) + "\n"


def _file_object(entry: Entry) -> dict[str, Any]:
    suffix = "." + entry.path.rsplit(".", 1)[-1]
    return {
        "@type": "cr:FileObject",
        "@id": entry.path,
        "name": entry.path,
        "contentUrl": entry.path,
        "contentSize": f"{entry.bytes} B",
        "encodingFormat": _ENCODINGS[suffix],
        "sha256": entry.sha256,
    }


def _file_set(records: RecordSet) -> dict[str, Any]:
    return {
        "@type": "cr:FileSet",
        "@id": f"{records.name}-files",
        "name": f"{records.name}-files",
        "description": f"The files of {records.name}.",
        "encodingFormat": _ENCODINGS[".parquet"],
        "includes": list(records.includes),
    }


def _record_set(records: RecordSet) -> dict[str, Any]:
    return {
        "@type": "cr:RecordSet",
        "@id": records.name,
        "name": records.name,
        "description": records.description,
        "key": {"@id": f"{records.name}/{_key(records)}"},
        "field": [_field(records, column) for column in records.columns],
    }


def _key(records: RecordSet) -> str:
    return next(column.name for column in records.columns if column.name.endswith("_id"))


def _field(records: RecordSet, column: Column) -> dict[str, Any]:
    field: dict[str, Any] = {
        "@type": "cr:Field",
        "@id": f"{records.name}/{column.name}",
        "name": column.name,
        "description": column.description,
    }
    type_, dimensions = column.type, 0
    while pa.types.is_list(type_):
        type_, dimensions = type_.value_type, dimensions + 1
    field["dataType"] = "sc:DateTime" if pa.types.is_timestamp(type_) else _TYPES[type_]
    if dimensions:
        field["isArray"] = True
        field["arrayShape"] = ",".join(["-1"] * dimensions)
    field["source"] = {
        "fileSet": {"@id": f"{records.name}-files"},
        "extract": {"column": column.name},
    }
    return field
