"""`whatif-jax export`."""

import sys

import pytest
from pyarrow import parquet

from tests.export_helpers import folder, small_suite, system_files
from whatif_jax import cli


def command(monkeypatch, capsys, *arguments: object) -> tuple[int, str, str]:
    own = [f"--system={path}" for path in system_files(folder())]
    arguments = ("export", *arguments, "--suite", folder() / "small.parquet", *own)
    monkeypatch.setattr(sys, "argv", ["whatif-jax", *map(str, arguments)])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    return ended.value.code, *capsys.readouterr()


def test_a_sample_is_the_suites_own(tmp_path, monkeypatch, capsys):
    out = tmp_path / "out"
    where = ("--where", "context=256")
    assert command(monkeypatch, capsys, out, "--sample", 6, *where)[0] == 0
    found = parquet.read_table(out / "data").column("task_id").to_pylist()
    wanted = small_suite().where(context=256).sample(6)
    assert found == sorted(wanted.column("task_id").tolist())
    assert set(wanted.count("system")) == {"brewery", "bakery"}
    code, _, error = command(monkeypatch, capsys, tmp_path / "b", "--sample", 9999, *where)
    assert code == 2 and error.startswith("whatif-jax: sample: 9999; expected a whole number in 1")
    assert not (tmp_path / "b").exists()
