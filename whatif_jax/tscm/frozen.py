"""What a suite of episodes was frozen with: its definition, its values, where they were computed.

References:
    suites.json, beside this file; written by `python -m tests.tscm.freeze`.
"""

import functools
import hashlib
import importlib.metadata
import json
import os
import platform
from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any

import jax
import numpy as np

from .episode import Episode

__all__ = ["FROZEN_FILE", "FrozenValues", "frozen_values", "platform_name"]

FROZEN_FILE = "suites.json"
_WIDE = ("avx", "fma", "amx")


class FrozenValues:
    """SHA-256 of all values of episodes, added in batches; the size of a batch does not matter."""

    def __init__(self) -> None:
        self._digests: dict[str, Any] = {}
        self.episodes = 0
        self.redrawn = 0  # episodes that were drawn again
        self.redraws = 0  # attempts that left the limit

    def add(self, episode: Episode) -> None:
        """The next episodes, with a leading axis; in the order of their numbers."""
        found = jax.device_get(episode)
        for path, leaf in jax.tree_util.tree_leaves_with_path(found):
            name = jax.tree_util.keystr(path)
            values = np.ascontiguousarray(leaf)
            kind = values.dtype.newbyteorder("<")
            head = f"{name} {kind.str} {values.shape[1:]}".encode()
            digest = self._digests.setdefault(name, hashlib.sha256(head))
            digest.update(values.astype(kind, copy=False).data)
        self.episodes += len(found.redraws)
        self.redrawn += int(np.sum(found.redraws > 0))
        self.redraws += int(np.sum(found.redraws))

    def hexdigest(self) -> str:
        """Of what was added so far."""
        parts = (f"{name} {one.hexdigest()}" for name, one in sorted(self._digests.items()))
        return hashlib.sha256("\n".join(parts).encode()).hexdigest()


@functools.cache
def frozen_values() -> Mapping[str, Mapping[str, Any]]:
    """By version of a suite: fingerprint of its definition, and by part of its values.

    With the platform they were computed on, where they are the same to the bit; elsewhere sums may
    be rounded otherwise.
    """
    at = files(__package__) / FROZEN_FILE
    return json.loads(at.read_text("utf-8")) if at.is_file() else {}


def platform_name() -> str:
    """What decides the last bits of values: device, its instructions, compiler and its flags."""
    words = [jax.devices()[0].device_kind]
    if jax.default_backend() == "cpu":
        words = [platform.machine(), *_processor()]
    words += [flag for flag in os.environ.get("XLA_FLAGS", "").split() if "isa" in flag]
    return f"{' '.join(words)}, jaxlib {importlib.metadata.version('jaxlib')}"


def _processor() -> list[str]:
    """Name and vector instructions, where Linux tells them."""
    described = Path("/proc/cpuinfo")
    text = described.read_text("utf-8") if described.is_file() else ""
    facts = {
        name.strip(): value.strip()
        for name, _, value in (line.partition(":") for line in text.splitlines())
    }
    wide = [word for word in facts.get("flags", "").split() if word.startswith(_WIDE)]
    return [facts.get("model name", platform.processor()), *sorted(wide)]
