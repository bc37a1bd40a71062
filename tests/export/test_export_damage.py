"""Exports whose notes were damaged: made whole by the same command, or refused with a way out."""

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.export_helpers import files, tiny, write
from whatif_jax.export import FORMATS, ExportError
from whatif_jax.export import parquet as parquet_format
from whatif_jax.export.folder import JOURNAL


@pytest.fixture(scope="module", params=FORMATS)
def whole(request, tmp_path_factory) -> Path:
    """A finished export in each format."""
    return write(tiny(8), tmp_path_factory.mktemp("whole") / request.param, format=request.param)


@pytest.fixture
def out(whole, tmp_path) -> Path:
    """A copy of it, to damage."""
    return Path(shutil.copytree(whole, tmp_path / "out"))


def mangled(path: str) -> Callable[[Path], None]:
    """Damage: the last of some keys gets another name."""

    def damage(out: Path) -> None:
        file = out / "manifest.json"
        found = at = json.loads(file.read_text("utf-8"))
        *way, last = path.split(".")
        for key in way:
            at = at[int(key) if key.isdigit() else key]
        at[f"{last[:-1]}X"] = at.pop(last)
        file.write_text(json.dumps(found), "utf-8")

    return damage


def manifest(text: str) -> Callable[[Path], object]:
    """Damage: the manifest holds a text."""
    return lambda out: (out / "manifest.json").write_text(text)


def no_files(out: Path) -> None:
    """Damage: the manifest names no file."""
    found = json.loads((out / "manifest.json").read_text("utf-8"))
    manifest(json.dumps({**found, "files": []}))(out)


def unfinished(journal: str) -> Callable[[Path], None]:
    """Damage: the export stopped after its parts, and the journal holds a text."""

    def damage(out: Path) -> None:
        for name in ("manifest.json", "README.md", "croissant.json"):
            (out / name).unlink()
        (out / JOURNAL).write_text(journal)

    return damage


def manifest_and_card(out: Path) -> None:
    """Damage: of both."""
    (out / "README.md").write_text("")
    (out / "manifest.json").write_text("{}")


DAMAGE = {
    "nothing in the manifest": manifest("{}"),
    "null for a manifest": manifest("null"),
    "a list for a manifest": manifest("[1]"),
    "a manifest of 0 bytes": manifest(""),
    "a manifest nested without end": manifest("[" * 100_000),
    "no files in the manifest": no_files,
    "a key of a file": mangled("files.0.sha256"),
    "the path of a file": mangled("files.0.path"),
    "the key of the files": mangled("files"),
    "the key of the software": mangled("software"),
    "the key of the layout": mangled("layout"),
    "a key of the suite": mangled("suite.chosen"),
    "the key of the suite": mangled("suite"),
    "manifest and card": manifest_and_card,
    "an empty journal": unfinished(""),
    "half a journal": unfinished('{\n "layout": 3,\n "form'),
    "a journal of something else": unfinished("{}"),
}


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE)
def test_the_same_command_makes_a_damaged_export_whole(whole, out, damage):
    damage(out)
    write(tiny(8), out, format=whole.name)
    assert files(out) == files(whole)


@pytest.mark.parametrize("journal", ["", '{"layout": 3'])
def test_an_export_stopped_before_its_first_part_begins_again(tmp_path, journal):
    (tmp_path / JOURNAL).write_text(journal)
    write(tiny(4), tmp_path)
    assert (tmp_path / "manifest.json").exists()


def refused(out: Path, form: str, rows: int = 8) -> str:
    """The one line that an export is refused with; it changes no file."""
    before = files(out)
    with pytest.raises(ExportError) as caught:
        write(tiny(rows), out, format=form)
    assert files(out) == before
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_what_nothing_shows_to_be_this_export_is_refused_with_a_way_out(whole, out):
    way_out = "expected another folder, or this one deleted"
    manifest_and_card(out)
    assert refused(out, whole.name, rows=7).endswith(way_out)  # the parts hold 8
    (out / "thesis.tex").write_text("years of work")
    assert refused(out, whole.name).endswith(way_out)
    (out / "thesis.tex").unlink()
    for part in out.rglob("*.parquet"):
        part.write_bytes(b"damaged too")
    assert refused(out, whole.name).endswith(way_out)
    unfinished("")(out)
    (out / "thesis.tex").write_text("years of work")
    assert refused(out, whole.name).startswith(f"out: {out / JOURNAL}: not what an export writes")


def test_parts_of_other_tasks_under_the_same_ids_are_refused(tmp_path, monkeypatch):
    out = write(tiny(8), tmp_path / "out")
    manifest_and_card(out)
    suite = tiny(8)
    monkeypatch.setattr(type(suite), "fingerprint", "0" * 64)
    with pytest.raises(ExportError, match="or this one deleted"):
        write(suite, out)


def test_a_folder_in_place_of_a_file_is_named(whole, out):
    part = next(out.rglob("*.parquet"))
    for path in (part, out / "manifest.json", out / "README.md"):
        path.unlink()
        path.mkdir()
        assert re.fullmatch(
            f"out: {re.escape(str(path))} is a folder; expected a file: remove it, or .*",
            refused(out, whole.name),
        )
        path.rmdir()
        write(tiny(8), out, format=whole.name)
        assert files(out) == files(whole)


def test_notes_of_another_export_are_still_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(parquet_format, "SHARD_ROWS", 4)
    out = write(tiny(8), tmp_path / "out")
    found = json.loads((out / "manifest.json").read_text("utf-8"))
    for change, message in (
        ({"layout": 2}, "layout: 3, but .* holds an export with 2"),
        ({"suite": {"tasks": 5}}, r"suite\.tasks: .*but .* holds an export of \? \(5 tasks"),
    ):
        manifest(json.dumps({**found, **change}))(out)
        assert re.match(message, refused(out, "parquet"))
