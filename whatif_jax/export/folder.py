"""The folder of an export: what is in it, what is finished, and files that appear only when whole.

While an export runs, the finished files stand in `.export.json`; `manifest.json` is written last,
so that a folder with a manifest is a finished export. One that was damaged since is unfinished
again: whatever is missing or not as it was written is made anew.
"""

import contextlib
import hashlib
import json
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from ..files import LOCK, HeldFolder
from .errors import ExportError

__all__ = ["JOURNAL", "MANIFEST_FILE", "Entry", "Folder"]

JOURNAL = ".export.json"
MANIFEST_FILE = "manifest.json"

_log = logging.getLogger(__name__)


class Entry(NamedTuple):
    """One finished file."""

    path: str  # below the folder, with forward slashes
    sha256: str
    bytes: int
    rows: int  # tasks in it; 0 for a file about the export


class Folder(HeldFolder):
    """One export's folder, held while it is written.

    Args:
        path: the folder; made if missing.
        identity: what makes two exports the same one, JSON values in nested mappings. Its
            "suite" names the suite and its fingerprint.
        mark: a text file that only this export writes, and its text: where it stands, a folder
            whose manifest is lost is known all the same.

    Raises:
        ExportError: on entry, when the folder cannot be written, holds other files, holds another
            export, or is being written by another process.
    """

    error = ExportError
    what = "out"
    holder = "another export"

    def __init__(self, path: Path, identity: Mapping[str, Any], mark: tuple[str, str]):
        super().__init__(path)
        self.mark = mark
        self.identity = json.loads(json.dumps(identity))
        self.finished: dict[str, Entry] = {}

    def open(self) -> None:
        """Read the manifest or the journal; refuse a folder of anything else."""
        manifest, journal = self.path / MANIFEST_FILE, self.path / JOURNAL
        if manifest.is_file() and not (self._is_ours() and not _is_json(manifest)):
            self._read(manifest)
            damaged = self._drop_damaged()
            self.complete = not damaged
            if damaged:
                self._reopen(damaged)
            else:
                journal.unlink(missing_ok=True)
        elif journal.is_file():
            self._read(journal)
            self._drop_damaged()
        elif self._is_ours():
            self._reopen({MANIFEST_FILE: "missing or not whole, so every file is made again"})
        else:
            others = sorted({item.name for item in self.path.iterdir()} - {LOCK})
            if others:
                raise ExportError(
                    f"out: {self.path} holds {', '.join(others[:5])}"
                    f"{', ...' if len(others) > 5 else ''} and no export; expected a new or an "
                    f"empty folder"
                )
            self._note()

    def _drop_damaged(self) -> dict[str, str]:
        """Forget the files that are not as they were finished; what is wrong with each."""
        problems = {path: self._problem(entry) for path, entry in self.finished.items()}
        damaged = {path: problem for path, problem in problems.items() if problem}
        for path in damaged:
            del self.finished[path]
        return damaged

    def _reopen(self, damaged: Mapping[str, str]) -> None:
        """Make a finished export an unfinished one, and say so."""
        (path, problem), *others = damaged.items()
        more = f", and {len(others)} more" if others else ""
        _log.warning("out: %s: %s%s; made again", self.path / path, problem, more)
        self._note()
        (self.path / MANIFEST_FILE).unlink(missing_ok=True)

    def _is_ours(self) -> bool:
        """Whether an export of this very suite was described here, whatever became of it since."""
        with contextlib.suppress(OSError, ValueError):
            path, text = self.mark
            return (self.path / path).read_text("utf-8") == text
        return False

    def _read(self, path: Path) -> None:
        try:
            found = json.loads(path.read_text("utf-8"))
            self._compare(found)
            self.finished = {item["path"]: Entry(**item) for item in found["files"]}
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise ExportError(
                f"out: {path}: not what an export writes there ({error!r}); expected a new or an "
                f"empty folder"
            ) from error

    def _compare(self, found: Mapping[str, Any]) -> None:
        for name, expected in _leaves(self.identity):
            value: Any = found
            for key in name.split("."):
                value = value.get(key)
            if name == "suite.chosen" or value == expected:
                continue  # however the same tasks were chosen
            if name.startswith("suite."):
                asked, there = (_of_suite(**one["suite"]) for one in (self.identity, found))
                raise ExportError(
                    f"{name}: {asked}, but {self.path} holds an export of {there}; expected the "
                    f"same tasks, or another folder"
                )
            raise ExportError(
                f"{name}: {expected!r}, but {self.path} holds an export with {value!r}; expected "
                f"the same, or another folder"
            )

    def _problem(self, entry: Entry) -> str:
        """What is wrong with a file that was finished, or nothing."""
        path = self.path / entry.path
        if not path.is_file():
            return "missing"
        size = path.stat().st_size
        if size != entry.bytes:
            return f"{size} bytes; expected {entry.bytes}"
        sha256 = _sha256(path)
        return "" if sha256 == entry.sha256 else f"sha256 {sha256}; expected {entry.sha256}"

    def _document(self) -> str:
        files = [entry._asdict() for _, entry in sorted(self.finished.items())]
        return json.dumps({**self.identity, "files": files}, indent=1, ensure_ascii=False) + "\n"

    def _note(self) -> None:
        self.write_text(self.path / JOURNAL, self._document())

    def add(self, path: str, save: Callable[[Path], object], rows: int = 0) -> None:
        """Write one file of the export and note it as finished.

        Args:
            path: below the folder, with forward slashes.
            save: called with the path of a temporary file to write.
            rows: tasks in the file.

        Raises:
            ExportError: the disk is full or cannot be written.
        """

        def note(unfinished: Path) -> None:
            size = unfinished.stat().st_size
            self.finished[path] = Entry(path, _sha256(unfinished), size, rows)

        self.write(self.path / path, save, note)
        self._note()

    def add_text(self, path: str, text: str) -> None:
        """`add` of a text, unless it is there already. Raises ExportError as `add` does."""
        held = self.finished.get(path)
        if held is None or held.sha256 != hashlib.sha256(text.encode()).hexdigest():
            self.add(path, lambda at: at.write_bytes(text.encode()))

    def finish(self, notes: Mapping[str, Any]) -> None:
        """Write the manifest, which makes the export finished.

        Args:
            notes: what the manifest says beside the identity and the files.

        Raises:
            ExportError: the disk is full or cannot be written.
        """
        self.identity = {**self.identity, **notes}
        self.write_text(self.path / MANIFEST_FILE, self._document())
        (self.path / JOURNAL).unlink(missing_ok=True)
        self.complete = True


def _of_suite(name: str, chosen: Sequence[str], fingerprint: str, tasks: int) -> str:
    selection = "".join(f".{call}" for call in chosen)
    return f"{name}{selection} ({tasks} tasks, fingerprint {fingerprint})"


def _leaves(mapping: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in mapping.items():
        if isinstance(value, Mapping):
            yield from _leaves(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


def _is_json(path: Path) -> bool:
    try:
        json.loads(path.read_text("utf-8"))
    except ValueError:
        return False
    return True


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
