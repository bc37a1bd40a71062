"""The folder of an export: what is in it, what is finished, and files that appear only when whole.

While an export runs, the finished files stand in `.export.json`; `manifest.json` is written last,
so that a folder with a manifest is a finished export. One that was damaged since is unfinished
again: whatever is missing or not as it was written is made anew. Where the notes themselves are
damaged, the other files say whether this export was begun here; then all of it is made anew.
"""

import contextlib
import hashlib
import json
import logging
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

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
            "suite" names the suite and its fingerprint, and counts its `items`.
        mark: a text file that only this export writes, and its text: where it stands, a folder
            whose manifest is lost is known all the same.
        paths: of all files that the export writes beside its manifest.
        recognized: whether a file of `paths` that is there holds tasks of this export; None where
            that cannot be told.

    Raises:
        ExportError: on entry, when the folder cannot be written, holds other files, holds another
            export, has a folder in place of a file, or is being written by another process.
    """

    error = ExportError
    what = "out"
    holder = "another export"
    items: ClassVar[str] = "tasks"  # what the suite is made of
    notes: ClassVar[tuple[str, ...]] = (
        "software",
    )  # what the manifest says beside the identity and the files

    def __init__(
        self,
        path: Path,
        identity: Mapping[str, Any],
        mark: tuple[str, str],
        paths: Collection[str],
        recognized: Callable[[str], bool | None],
    ):
        super().__init__(path)
        self.mark = mark
        self.paths = frozenset(paths)
        self.recognized = recognized
        self.identity = json.loads(json.dumps(identity))
        self.finished: dict[str, Entry] = {}

    def open(self) -> None:
        """Read the manifest or the journal; refuse a folder of anything else."""
        manifest, journal = self.path / MANIFEST_FILE, self.path / JOURNAL
        for path in (manifest, journal, *(self.path / each for each in sorted(self.paths))):
            if path.is_dir():
                raise ExportError(
                    f"out: {path} is a folder; expected a file: remove it, or choose another "
                    f"folder to write into"
                )
        if self._read(manifest, self.notes):
            damaged = self._drop_damaged()
            self.complete = not damaged
            if damaged:
                self._reopen(damaged)
            else:
                journal.unlink(missing_ok=True)
        elif self._read(journal):
            self._drop_damaged()
        elif self._is_ours():
            name = JOURNAL if journal.is_file() else MANIFEST_FILE
            self._reopen({name: "missing or not whole, so every file is made again"})
        else:
            self._refuse_others()
            self._note()

    def _refuse_others(self) -> None:
        others = sorted({item.name for item in self.path.iterdir()} - {LOCK})
        if MANIFEST_FILE in others or JOURNAL in others:
            raise ExportError(
                f"out: {self.path / (MANIFEST_FILE if MANIFEST_FILE in others else JOURNAL)}: not "
                f"what an export writes there, and nothing else shows that the folder is this "
                f"export's; expected another folder, or this one deleted"
            )
        if others:
            raise ExportError(
                f"out: {self.path} holds {', '.join(others[:5])}"
                f"{', ...' if len(others) > 5 else ''} and no export; expected a new or an "
                f"empty folder"
            )

    def _drop_damaged(self) -> dict[str, str]:
        """Forget the files that are not as they were finished; what is wrong with each."""
        problems = {path: self._problem(path) for path in sorted(self.paths)}
        damaged = {path: problem for path, problem in problems.items() if problem}
        for path in damaged:
            self.finished.pop(path, None)
        return damaged

    def _reopen(self, damaged: Mapping[str, str]) -> None:
        """Make a finished export an unfinished one, and say so."""
        (path, problem), *others = damaged.items()
        more = f", and {len(others)} more" if others else ""
        _log.warning("out: %s: %s%s; made again", self.path / path, problem, more)
        self._note()
        (self.path / MANIFEST_FILE).unlink(missing_ok=True)

    def _is_ours(self) -> bool:
        """Whether this very export was begun here, by what stands beside its notes."""
        with contextlib.suppress(OSError, ValueError):
            path, text = self.mark
            if (self.path / path).read_text("utf-8") == text:
                return True
        found = {
            path.relative_to(self.path).as_posix()
            for path in self.path.rglob("*")
            if not path.is_dir()
        }
        if not found <= self.paths | {LOCK, JOURNAL, MANIFEST_FILE}:
            return False
        told = {self.recognized(path) for path in sorted(found & self.paths)}
        # none but exports have a journal, and it stands there before the first part does
        return False not in told and (True in told or JOURNAL in found)

    def _read(self, path: Path, notes: Collection[str] = ()) -> bool:
        """Take the finished files from a manifest or journal; False if there is no whole one."""
        try:
            found = json.loads(path.read_text("utf-8"))
        except (FileNotFoundError, ValueError, RecursionError):
            return False
        self._compare(found)
        if not _same_keys(found, {**dict.fromkeys(["files", *notes]), **self.identity}):
            return False
        try:
            entries = {item["path"]: Entry(**item) for item in found["files"]}
        except (TypeError, KeyError):
            return False
        self.finished = {name: entries[name] for name in entries if name in self.paths}
        return True

    def _compare(self, found: Any) -> None:
        """Refuse the notes of another export; what they leave out is no difference."""
        for name, expected in _leaves(self.identity):
            value: Any = found
            for key in name.split("."):
                value = value.get(key, _NOTHING) if isinstance(value, dict) else _NOTHING
            if name == "suite.chosen" or value is _NOTHING or value == expected:
                continue  # however the same tasks were chosen
            if name.startswith("suite."):
                asked, there = (
                    _of_suite(self.items, **one["suite"]) for one in (self.identity, found)
                )
                raise ExportError(
                    f"{name}: {asked}, but {self.path} holds an export of {there}; expected the "
                    f"same {self.items}, or another folder"
                )
            raise ExportError(
                f"{name}: {expected!r}, but {self.path} holds an export with {value!r}; expected "
                f"the same, or another folder"
            )

    def _problem(self, name: str) -> str:
        """What is wrong with a file that was finished, or nothing."""
        path, entry = self.path / name, self.finished.get(name)
        if not path.is_file():
            return "missing"
        if entry is None:
            return "not among the finished files"
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

    def finish(self, **notes: object) -> None:
        """Write the manifest, which makes the export finished.

        Args:
            notes: JSON values, one for each of `notes`.

        Raises:
            ExportError: the disk is full or cannot be written.
        """
        self.identity = {**self.identity, **notes}
        self.write_text(self.path / MANIFEST_FILE, self._document())
        (self.path / JOURNAL).unlink(missing_ok=True)
        self.complete = True


_NOTHING = object()  # a value that notes leave out


def _of_suite(
    items: str,
    name: str = "?",
    chosen: object = (),
    fingerprint: str = "?",
    **others: object,
) -> str:
    """A suite in words; of one from a damaged manifest, what is left."""
    calls: Sequence = chosen if isinstance(chosen, list) else []
    selection = "".join(f".{call}" for call in calls)
    return f"{name}{selection} ({others.get(items, '?')} {items}, fingerprint {fingerprint})"


def _same_keys(found: object, expected: Mapping[str, Any]) -> bool:
    """Whether nested mappings have the same keys."""
    return (
        isinstance(found, dict)
        and found.keys() == expected.keys()
        and all(
            _same_keys(found[key], value)
            for key, value in expected.items()
            if isinstance(value, Mapping)
        )
    )


def _leaves(mapping: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in mapping.items():
        if isinstance(value, Mapping):
            yield from _leaves(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
