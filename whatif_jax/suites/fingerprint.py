"""Fingerprints: a hash of everything that determines the tasks of a suite.

References:
    whatif-v1.md §8.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence

import jax
import numpy as np
import pyarrow as pa
import pyarrow.compute as compute

from ..catalog import Response, System
from ..tasks import Systems
from .manifest import SCHEMA, ManifestError, flat_values

__all__ = ["check_frozen", "fingerprint_of", "frozen_values"]


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


def frozen_values(table: pa.Table, catalog: Sequence[System], systems: Systems) -> dict[str, str]:
    """What is kept with a manifest when it is frozen, for `check_frozen`: texts by name.

    The fingerprint, and as JSON the hashes of each system's part of it, by system and kind.
    """
    names = (table.column(name).to_pylist() for name in ("system", "target"))
    used = set(zip(*names, strict=True))
    parts: dict[str, dict[str, str]] = {}
    for system in catalog:
        targets = [item.name for item in system.targets if (system.name, item.name) in used]
        constants = [canonical_response(system, name).encode() for name in targets]
        rows = [systems.row(system.name, name) for name in targets]
        series = [np.asarray(systems.series(row), "<f4").tobytes() for row in rows]
        parts[system.name] = {
            kind: hashlib.sha256(b"\0".join(values)).hexdigest()
            for kind, values in (("constants", constants), ("series", series))
        }
    fingerprint = fingerprint_of(table, catalog, systems)
    return {"fingerprint": fingerprint, "systems": json.dumps(parts)}


def check_frozen(
    name: str, kept: Mapping[str, str], table: pa.Table, catalog: Sequence[System], systems: Systems
) -> None:
    """Refuse a manifest whose tasks are other ones now than when it was frozen.

    Args:
        name: of the suite.
        kept: from `frozen_values`, then.
        table: the manifest.
        catalog: the systems it names.
        systems: the same, loaded.

    Raises:
        ManifestError: names both fingerprints, and what changed.
    """
    found = frozen_values(table, catalog, systems)
    if found["fingerprint"] == kept["fingerprint"]:
        return
    then = json.loads(kept.get("systems", "{}"))
    changed = [
        f"the {kind} of {system}"
        for system, kinds in json.loads(found["systems"]).items()
        for kind, value in kinds.items()
        if then.get(system, {}).get(kind) != value
    ]
    raise ManifestError(
        f"fingerprint: {name} was frozen with {kept['fingerprint']} and has "
        f"{found['fingerprint']} now, since {' and '.join(changed) or 'its rows'} changed; "
        f"expected what it was frozen with, or a new suite (`whatif-jax suite build`)"
    )


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
