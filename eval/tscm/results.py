"""Estimates of a baseline on a suite of episodes, as files: one for each suite, evidence, baseline.

`<folder>/<suite>/<evidence>/<baseline>.parquet` has one row a query, with the truths beside the
estimates, so that every score can be computed from it again. A run on more episodes adds to it.
Estimates by other code than the checkout's are not there for it: they are made again.
"""

import dataclasses
import functools
import hashlib
import json
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as parquet

from whatif_jax.files import explained, write_whole
from whatif_jax.tscm import EpisodeSuite

from ..run_files import ResultsError
from .question import EVIDENCE

__all__ = [
    "COLUMNS",
    "Estimates",
    "before",
    "joined",
    "load_estimates",
    "read",
    "stored",
    "write",
]

VERSION = "1"  # of what the columns mean
# Modules that a change of estimates cannot come from.
_LATER = ("board", "cases", "checks", "command", "published", "report", "results", "run",
          "statistics", "tables")  # fmt: skip
COLUMNS = pa.schema(
    [
        ("episode", pa.int32()),  # number in the suite
        ("part", pa.string()),
        ("structure", pa.string()),  # "" where there is none
        ("tier", pa.int8()),
        ("regimes", pa.int8()),  # the world has
        ("offset", pa.int32()),  # of the query, from what the suite's prior says
        ("factual", pa.float32()),
        ("counterfactual", pa.float32()),
        ("interventional", pa.float32()),
        # what the baseline says of the same
        ("estimated_counterfactual", pa.float32()),
        ("estimated_interventional", pa.float32()),
        ("estimated_effect", pa.float32()),
    ]
)


@dataclasses.dataclass(frozen=True)
class Estimates:
    """What one baseline estimated of the episodes of one suite.

    Attributes:
        suite: label, such as "identifiability-v1+observed_normal".
        evidence: the steps it was shown, one of `question.EVIDENCE`.
        baseline: its name.
        about: label, what it was trained on, structures it fits, as texts.
        table: `COLUMNS`, by episode, then by offset; no episode twice.
    """

    suite: str
    evidence: str
    baseline: str
    about: Mapping[str, Any]
    table: pa.Table

    @property
    def name(self) -> str:
        """As reports call it."""
        return self.baseline if self.evidence == "before" else f"{self.baseline} ({self.evidence})"

    @property
    def episodes(self) -> np.ndarray:
        """Numbers of the episodes, ascending."""
        return np.unique(self.column("episode"))

    def column(self, name: str) -> np.ndarray:
        """A column as NumPy has it."""
        return self.table.column(name).to_numpy(zero_copy_only=False)


@functools.cache
def code() -> str:
    """SHA-256 of the modules that estimate: all beside this one that do not score or report."""
    folder = Path(__file__).parent
    texts = [path.read_bytes() for path in sorted(folder.glob("*.py")) if path.stem not in _LATER]
    return hashlib.sha256(b"\0".join(texts)).hexdigest()


def stored(folder: Path, suite: str, evidence: str, baseline: str) -> Path:
    """Where the estimates of a baseline lie."""
    return folder / suite / evidence / f"{baseline}.parquet"


def write(folder: Path, found: Estimates, suite: EpisodeSuite) -> Path:
    """Write estimates whole.

    Raises:
        ResultsError: the folder cannot be written.
    """
    path = stored(folder, found.suite, found.evidence, found.baseline)
    said = {"suite": found.suite, "contents": suite.fingerprint, "version": VERSION,
            "code": code(), "evidence": found.evidence, "baseline": found.baseline,
            "about": json.dumps(dict(found.about), sort_keys=True)}  # fmt: skip
    table = found.table.replace_schema_metadata(said)
    with explained(ResultsError, "out", path):
        write_whole(path, lambda at: parquet.write_table(table, at, compression="zstd"))
    return path


def read(path: Path) -> tuple[Estimates, Mapping[str, str]]:
    """Estimates of a file, and what it says of itself.

    Raises:
        ResultsError: no such file, a damaged one, or one of another version.
    """
    try:
        table = parquet.read_table(path)
    except (OSError, pa.ArrowException) as error:
        reason = str(error).splitlines()[0]
        raise ResultsError(f"results: {path}: {reason}; expected a whole file") from None
    said = {k.decode(): v.decode() for k, v in (table.schema.metadata or {}).items()}
    known = table.schema.remove_metadata().equals(COLUMNS) and said.get("version") == VERSION
    if not known:
        raise ResultsError(
            f"results: {path}: version {said.get('version', 'unknown')}; expected {VERSION}: "
            f"remove it, or choose another folder"
        )
    found = Estimates(
        said["suite"], said["evidence"], said["baseline"], json.loads(said["about"]), table
    )
    return found, said


def before(folder: Path, suite: EpisodeSuite, evidence: str, baseline: str) -> Estimates | None:
    """What an earlier run of the same code left; None where it left nothing.

    Raises:
        ResultsError: it is damaged, of another version, or of a suite with other contents.
    """
    path = stored(folder, suite.version, evidence, baseline)
    if not path.is_file():
        return None
    found, said = read(path)
    if said["contents"] != suite.fingerprint:
        raise ResultsError(
            f"results: {path} is of another {suite.version}; expected the same seed, sizes and "
            f"priors: remove it, or choose another folder"
        )
    return found if said["code"] == code() else None


def joined(tables: Iterable[pa.Table]) -> pa.Table:
    """Estimates of several runs together, by episode and offset."""
    return pa.concat_tables(tables).sort_by([("episode", "ascending"), ("offset", "ascending")])


def load_estimates(
    folder: Path,
    suites: Iterable[EpisodeSuite],
    left_out: Callable[[Path], object] = lambda _: None,
) -> list[Estimates]:
    """All estimates on some suites, in the order of suites, evidence and names of baselines.

    Args:
        folder: of the results.
        suites: whose results are wanted.
        left_out: called with the path of what other code made.

    Raises:
        ResultsError: as for `before`.
    """
    found = []
    for suite in suites:
        for evidence in EVIDENCE:
            for path in sorted((folder / suite.version / evidence).glob("*.parquet")):
                one = before(folder, suite, evidence, path.stem)
                if one is None:
                    left_out(path)
                else:
                    found.append(one)
    return found
