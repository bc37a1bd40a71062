"""`whatif-jax export`."""

import signal
import subprocess
import sys
import textwrap
from pathlib import Path

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


SLOW = """
    import sys, time
    from whatif_jax import cli
    from whatif_jax.export import parquet

    save = parquet.Parquet.save
    def slow(self, table, path):
        save(self, table, path)
        if "part-00001" in str(path):
            print("second part", flush=True)
            time.sleep(1)
    parquet.Parquet.save = slow
    parquet.SHARD_ROWS = 4
    cli.main()
"""


def test_an_export_that_is_stopped_says_what_is_kept(tmp_path):
    own = [f"--system={path}" for path in system_files(folder())]
    words = ["export", tmp_path / "out", f"--suite={folder() / 'small.parquet'}", *own]
    process = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(SLOW), *map(str, words)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parents[2],
    )
    assert process.stdout.readline() == "second part\n"
    process.send_signal(signal.SIGINT)
    _, said = process.communicate()
    assert process.returncode == 130
    kept, parts = len(list((tmp_path / "out" / "data").iterdir())), len(small_suite()) // 4
    assert said.strip() == (
        f"stopped: {kept} of {parts} parts are kept in {tmp_path / 'out'}; the same command goes on"
    )
