"""Fingerprints: a hash of everything that determines the tasks of a suite.

References:
    whatif-v1.md §8.
"""

import hashlib
import json
from collections.abc import Sequence

import jax
import numpy as np
import pyarrow as pa
import pyarrow.compute as compute

from ..catalog import Response, System
from ..tasks import Systems
from .manifest import SCHEMA, flat_values

__all__ = ["fingerprint_of"]


def fingerprint_of(table: pa.Table, catalog: Sequence[System], systems: Systems) -> str:
    """SHA-256 of canonical values: manifest, series of its targets, constants of their responses.

    Args:
        table: a manifest or some of its rows, in their order.
        catalog: the systems it names.
        systems: the same, loaded: their series.
    """
    digest = hashlib.sha256(b"whatif-suite-1")
    for field in SCHEMA:
        digest.update(f"\0{field.name}\0".encode())
        column = table.column(field.name)
        if pa.types.is_list(field.type):
            lengths = compute.list_value_length(column).to_numpy(zero_copy_only=False)
            digest.update(lengths.astype("<i8").tobytes())
        if pa.types.is_string(field.type) or field.name == "covariates":
            digest.update(json.dumps(column.to_pylist()).encode())
        else:
            kind = "<f4" if "factors" in field.name else "<i8"
            digest.update(flat_values(table, field.name).astype(kind).tobytes())
    names = (table.column(name).to_pylist() for name in ("system", "target"))
    used = set(zip(*names, strict=True))
    systems = jax.device_get(systems)  # else a program is compiled and run for every series
    for row, key in enumerate(systems.targets):
        if key in used:
            digest.update(f"\0{key[0]}/{key[1]}\0".encode())
            digest.update(np.asarray(systems.series(row), "<f4").tobytes())
    for system in catalog:
        for target in system.targets:
            if (system.name, target.name) in used:
                digest.update(canonical_response(system, target.name).encode())
    return digest.hexdigest()


def canonical_response(system: System, name: str) -> str:
    """What the catalog says of one target's response, as canonical JSON (no provenance)."""
    target = system.target(name)
    kind = target.class_

    def response(item: Response, acts: str = "always") -> list:
        return [item.form, sorted((k, float(v)) for k, v in item.constants.items()), acts]

    return json.dumps(
        {
            "primary": [target.primary.covariate, response(target.primary.response)],
            "secondaries": [
                [other.covariate, other.weight, response(other.response, other.acts),
                 other.offset_scale or "none"]
                for other in target.secondaries
            ],
            "class": [kind.combine, float(kind.damping), float(kind.floor),
                      [float(value) for value in kind.clip or ()]],
            "covariates": [[c.name, float(c.base), c.shape] for c in system.covariates],
        },
        sort_keys=True,
    )  # fmt: skip
