"""Exports that are interrupted, done again, refused, or run out of disk."""

import functools
import re
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from pyarrow import parquet

from tests.export_helpers import files, folder, small_suite, system_files, tiny, write
from whatif_jax.export import FORMATS, ExportError
from whatif_jax.export import parquet as parquet_format
from whatif_jax.export.folder import JOURNAL, Folder
from whatif_jax.files import LOCK


def test_order_of_the_suite_does_not_matter(tmp_path):
    suite = tiny(6)
    one = write(suite, tmp_path / "one")
    other = write(suite.take([5, 3, 1, 0, 2, 4]), tmp_path / "other")
    tables = [parquet.read_table(at / "data") for at in (one, other)]
    assert tables[0].equals(tables[1])


def changed(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[40] ^= 1
    path.write_bytes(content)


@pytest.mark.parametrize(
    ("path", "damage", "problem"),
    [
        ("data/part-00001.parquet", changed, "sha256 .*; expected"),
        ("data/part-00001.parquet", Path.unlink, "missing"),
        ("croissant.json", lambda path: path.write_text("{}"), "2 bytes; expected"),
        ("manifest.json", lambda path: path.write_text("{"), "missing or not whole"),
        ("manifest.json", Path.unlink, "missing or not whole"),
    ],
)
def test_a_damaged_export_is_made_whole_again(tmp_path, monkeypatch, caplog, path, damage, problem):
    monkeypatch.setattr(parquet_format, "SHARD_ROWS", 4)
    out = write(tiny(), tmp_path / "out")
    whole = files(out)
    before = {each: (out / each).stat().st_mtime_ns for each in whole}
    damage(out / path)
    assert write(tiny(), out) == out
    (record,) = caplog.records
    assert re.match(f"out: {re.escape(str(out / path))}: .*{problem}.*made again", record.message)
    assert files(out) == whole
    kept = {each for each in whole if (out / each).stat().st_mtime_ns == before[each]}
    if path != "manifest.json":  # which says what the others should be
        assert kept == set(whole) - {path, "manifest.json"}
    caplog.clear()
    write(tiny(), out)
    assert not caplog.records


def test_a_damaged_export_is_still_one_when_making_it_whole_fails(tmp_path, monkeypatch):
    monkeypatch.setattr(parquet_format, "SHARD_ROWS", 4)
    out = write(tiny(), tmp_path / "out")
    whole = files(out)
    (out / "data" / "part-00002.parquet").unlink()

    def broken(self, table, path):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(parquet_format.Parquet, "save", broken)
        with pytest.raises(KeyboardInterrupt):
            write(tiny(), out)
    assert not (out / "manifest.json").exists()
    write(tiny(), out)
    assert files(out) == whole


def test_the_folder_of_another_export_without_its_manifest_is_refused(tmp_path):
    out = write(tiny(8), tmp_path / "out")
    (out / "manifest.json").unlink()
    with pytest.raises(ExportError, match="and no export; expected a new or an empty"):
        write(tiny(9), out)
    with pytest.raises(ExportError, match="and no export; expected a new or an empty"):
        write(tiny(8), out, format="gluonts")


def test_another_suite_is_refused_by_both_fingerprints(tmp_path):
    out = write(tiny(8), tmp_path / "out")
    with pytest.raises(ExportError) as caught:
        write(tiny(9), out)
    assert tiny(8).fingerprint in str(caught.value)
    assert tiny(9).fingerprint in str(caught.value)
    where = "where(context=256, system='brewery')"
    assert f"small.{where}.take(range(9)) (9 tasks, fingerprint " in str(caught.value)
    assert f"an export of small.{where}.take(range(8)) (8 tasks, " in str(caught.value)
    again = tiny(16).take([1, 2]).whole.take(tiny(8).table.column("task_id").to_numpy())
    assert write(again, out) == out  # the same tasks, chosen otherwise
    with pytest.raises(ExportError, match=r"format: 'fev', but .* 'parquet'"):
        write(tiny(8), out, format="fev")
    with pytest.raises(ExportError, match=r"settings\.batch_size: 7, but .* 12"):
        write(tiny(8), out, batch_size=7)


KILLED = """
    import sys, time
    from pathlib import Path
    from whatif_jax.export import export, parquet
    from whatif_jax.suites import load_suite

    out, manifest, *systems = sys.argv[1:]
    save = parquet.Parquet.save
    def slow(self, table, path):
        if "part-00002" in str(path):
            Path(path).write_bytes(b"PAR1 half a file")
            print("half written", flush=True)
            time.sleep(600)
        save(self, table, path)
    parquet.Parquet.save = slow
    parquet.SHARD_ROWS = 4
    suite = load_suite(manifest, systems=systems).where(context=256, system="brewery")
    export(suite.take(range(16)), out, batch_size=12, progress=False)
"""


def test_resumes_after_a_kill(tmp_path, monkeypatch):
    out = tmp_path / "out"
    arguments = [out, folder() / "small.parquet", *system_files(folder())]
    process = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(KILLED), *map(str, arguments)],
        stdout=subprocess.PIPE,
        cwd=Path(__file__).parents[2],
    )
    try:
        assert process.stdout.readline() == b"half written\n"
    finally:
        process.send_signal(signal.SIGKILL)
        process.communicate()
    data = out / "data"
    whole_files = sorted(data.glob("*.parquet"))
    assert [path.name for path in whole_files] == ["part-00000.parquet", "part-00001.parquet"]
    assert [parquet.read_table(path).num_rows for path in whole_files] == [4, 4]
    assert len(list(data.iterdir())) == 3  # the half file has another name
    assert not (out / "manifest.json").exists()

    monkeypatch.setattr(parquet_format, "SHARD_ROWS", 4)
    before = [(path.stat().st_ino, path.stat().st_mtime_ns) for path in whole_files]
    made = []
    save = parquet_format.Parquet.save
    monkeypatch.setattr(
        parquet_format.Parquet,
        "save",
        lambda self, table, path: (made.append(table.num_rows), save(self, table, path)),
    )
    # A finished file that went bad meanwhile is made again.
    whole_files[1].write_bytes(b"not parquet")
    write(tiny(16), out)
    assert made == [4, 4, 4]
    assert (whole_files[0].stat().st_ino, whole_files[0].stat().st_mtime_ns) == before[0]
    assert len(list(data.iterdir())) == 4
    assert parquet.read_table(data).column("task_id").to_pylist() == sorted(
        tiny(16).column("task_id")
    )
    assert not (out / JOURNAL).exists() and not (out / LOCK).exists()


def test_an_interrupted_export_of_something_else_is_refused(tmp_path, monkeypatch):
    def broken(self, table, path):
        raise KeyboardInterrupt

    out = tmp_path / "out"
    with monkeypatch.context() as patch:
        patch.setattr(parquet_format.Parquet, "save", broken)
        with pytest.raises(KeyboardInterrupt):
            write(tiny(8), out)
    assert sorted(files(out)) == [JOURNAL, LOCK]
    with pytest.raises(ExportError, match=r"suite\.fingerprint"):
        write(tiny(4), out)


def test_other_files_are_not_mixed_with(tmp_path):
    (tmp_path / "thesis.tex").write_text("years of work")
    with pytest.raises(ExportError, match=r"holds thesis\.tex and no export; expected a new or"):
        write(tiny(), tmp_path)
    with pytest.raises(ExportError, match=r"thesis\.tex: a file is in the way; expected a"):
        write(tiny(), tmp_path / "thesis.tex")


def test_two_exports_into_one_folder(tmp_path):
    identity = {"suite": {"name": "x"}}
    card = ("README.md", "the card")
    folder = functools.partial(Folder, tmp_path, identity, card, ["README.md"], lambda path: None)
    with folder(), pytest.raises(ExportError, match="another export is writing"):
        folder().__enter__()
    with folder():
        pass


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"format": "csv"}, "format: 'csv'; expected one of parquet, fev, gluonts"),
        ({"batch_size": 0}, "batch_size: 0; expected an integer >= 1"),
        ({"batch_size": 2.5}, r"batch_size: 2\.5; expected an integer >= 1"),
        ({"batch_size": True}, "batch_size: True; expected an integer >= 1"),
    ],
)
def test_arguments_are_checked(tmp_path, arguments, message):
    with pytest.raises(ValueError, match=message):
        write(tiny(), tmp_path / "out", **arguments)
    assert not (tmp_path / "out").exists()
    assert FORMATS == ("parquet", "fev", "gluonts")


def test_suites_are_checked(tmp_path):
    with pytest.raises(ValueError, match="small holds no tasks"):
        write(tiny(0), tmp_path / "out")
    with pytest.raises(ValueError, match=r"task_ids: \[\d+\] more than once"):
        write(tiny().take([0, 1, 1]), tmp_path / "out")


@pytest.fixture
def small_disk(tmp_path):
    """A file system of 64 kB, and a function that mounts it anew with other options."""
    at = tmp_path / "disk"
    at.mkdir()

    def mount(options: str) -> None:
        command = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(at)]
        if subprocess.run(command, capture_output=True, check=False).returncode:
            pytest.skip("mounting needs root")

    mount("size=64k")
    yield at, mount
    subprocess.run(["umount", str(at)], check=False)


def test_a_disk_that_fills_up(small_disk):
    disk, mount = small_disk
    suite = small_suite().where(system="brewery")
    with pytest.raises(ExportError, match="No space left on device; expected a place with room"):
        write(suite, disk / "out")
    for path in (disk / "out").rglob("*.parquet"):
        assert not path.name.startswith(".")
        parquet.read_table(path)
    mount("remount,size=20m")
    write(suite, disk / "out")
    assert parquet.read_table(disk / "out" / "data").num_rows == len(suite)


def test_a_disk_that_cannot_be_written(small_disk):
    disk, mount = small_disk
    mount("remount,ro")
    with pytest.raises(ExportError, match="Read-only file system; expected a place"):
        write(tiny(), disk / "out")
