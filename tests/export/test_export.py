"""Exports as Parquet: read back with pyarrow, Polars and DuckDB."""

import hashlib
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from tests.export_helpers import (
    close,
    draw,
    expected,
    files,
    folder,
    small_suite,
    tiny,
    write,
)
from whatif_jax.catalog import load_system as builtin
from whatif_jax.export import parquet as parquet_format
from whatif_jax.export.card import about, card
from whatif_jax.export.folder import JOURNAL
from whatif_jax.export.parquet import Parquet
from whatif_jax.suites import SCHEMA, Suite

COLUMNS = [
    *("future_kind" if name == "future" else name for name in SCHEMA.names),
    *("history", "future", "future_baseline", "history_covariates", "future_covariates"),
]


@pytest.fixture(scope="module", autouse=True)
def short_shards():
    """Several files of a small suite."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(parquet_format, "SHARD_ROWS", 40)
        yield


@pytest.fixture(scope="module")
def whole(tmp_path_factory) -> Path:
    """The small suite, exported."""
    return write(small_suite(), tmp_path_factory.mktemp("whole") / "out")


def check_rows(rows: list[dict]) -> None:
    """Rows, as some library read them, are the suite's tasks in the order of their ids."""
    tasks = expected()
    assert [row["task_id"] for row in rows] == sorted(tasks)
    for row in rows:
        task = tasks[row["task_id"]]
        assert row["future_kind"] == task["kind"]
        for name in ("pair_id", "system", "target", "k", "context_pair", "context", "horizon",
                     "event_length", "n_events", "setting", "window_start"):  # fmt: skip
            assert row[name] == task[name], name
        assert list(row["event_starts"]) == task["event_starts"]
        assert list(row["covariates"]) == task["covariates"]
        assert len(row["history_covariates"]) == task["k"]
        for name in ("factors", "future_factors", "history", "future", "future_baseline",
                     "history_covariates", "future_covariates"):  # fmt: skip
            close(list(map(list, row[name])) if "covariates" in name else list(row[name]),
                  task[name])  # fmt: skip


def test_pyarrow_reads_it(whole):
    table = parquet.read_table(whole / "data")
    assert table.column_names == COLUMNS
    assert table.schema.field("history").type == pa.list_(pa.float32())
    assert table.schema.field("history_covariates").type == pa.list_(pa.list_(pa.float32()))
    check_rows(table.to_pylist())


def test_polars_reads_it(whole):
    polars = pytest.importorskip("polars")
    table = polars.scan_parquet(whole / "data" / "*.parquet").sort("task_id").collect()
    assert table.columns == COLUMNS
    assert table.schema["history_covariates"] == polars.List(polars.List(polars.Float32))
    check_rows(table.to_dicts())
    novel = polars.scan_parquet(whole / "data" / "*.parquet").filter(
        polars.col("future_kind") == "novel", polars.col("k") == 2
    )
    assert novel.collect().height == len(small_suite().where(future="novel", k=2))


def test_duckdb_reads_it(whole):
    duckdb = pytest.importorskip("duckdb")
    query = f"select * from '{whole}/data/*.parquet' order by task_id"
    with duckdb.connect() as connection:
        check_rows(connection.sql(query).to_arrow_table().to_pylist())


def test_shards_hold_ranges_of_ids(whole):
    parts = sorted((whole / "data").iterdir())
    assert len(parts) == -(-len(small_suite()) // 40) > 2
    ids = [parquet.read_table(part).column("task_id").to_numpy() for part in parts]
    assert np.concatenate(ids).tolist() == sorted(expected())
    metadata = parquet.read_schema(parts[0]).metadata
    assert metadata[b"whatif_suite_fingerprint"].decode() == small_suite().fingerprint


def test_manifest_lists_every_file(whole):
    manifest = json.loads((whole / "manifest.json").read_text())
    assert manifest["format"] == "parquet"
    assert manifest["suite"] == {
        "name": "small",
        "chosen": [],
        "fingerprint": small_suite().fingerprint,
        "tasks": len(small_suite()),
    }
    found = files(whole)
    del found["manifest.json"]
    assert {entry["path"] for entry in manifest["files"]} == set(found)
    for entry in manifest["files"]:
        content = found[entry["path"]]
        assert entry["sha256"] == hashlib.sha256(content).hexdigest()
        assert entry["bytes"] == len(content)
    assert sum(entry["rows"] for entry in manifest["files"]) == len(small_suite())
    assert not (whole / JOURNAL).exists()


def test_card(whole):
    text = (whole / "README.md").read_text("utf-8")
    assert text.startswith("---\n")
    for words in (small_suite().fingerprint, "Fermentation tank", "`history_covariates`",
                  "| `coolant_flow` | 12 | L/min | step |", "novel:", "license: other",
                  "1800 s", f"{len(small_suite()):,} tasks",
                  "`whatif-jax describe brewery.toml`"):  # fmt: skip
        assert words in text, words
    assert "C1" not in text and "1 to 5" not in text  # names of other systems' axes
    # Systems of the user's are neither the paper's nor ours to license.
    assert "WhatIf-Bench" not in text
    assert "Apache" not in text


def test_a_card_says_of_what_suite_its_tasks_are_a_part(tmp_path):
    suite = small_suite()
    part = suite.where(system="brewery", k=[1, 2]).sample(20, seed=3).take(range(6))
    out = write(part, tmp_path / "out")
    words = (
        f"`{part.fingerprint}`; chosen by `where(system='brewery', k=[1, 2])`, "
        f"`sample(20, seed=3)`, `take(range(6))` from the {len(suite):,} tasks of `{suite.name}`, "
        f"whose fingerprint is `{suite.fingerprint}`"
    )
    assert f"\n# A part of {suite.name}\n" in (out / "README.md").read_text("utf-8")
    assert f"6 tasks, part of suite `{suite.name}`" in (out / "README.md").read_text("utf-8")
    assert words in (out / "README.md").read_text("utf-8")
    croissant = json.loads((out / "croissant.json").read_text("utf-8"))
    assert words.partition("; ")[2] in croissant["description"]


def test_card_tells_the_papers_from_ours():
    system = builtin("gridlabd")
    rows: list[dict] = []
    draw(system, rows)
    suite = Suite("own", pa.Table.from_pylist(rows, SCHEMA), [system])
    suite.__dict__["fingerprint"] = "f" * 64  # needs no series
    text = card(suite, Parquet())
    for words in ("WhatIf-Bench", "independent implementation", "reconstructed", "[P]", "[R]",
                  "Apache License 2.0", "NREL", "license: apache-2.0", "TMY2", "f" * 64,
                  f"- by `future_kind`: novel: {len(suite) // 2:,}, replay:",
                  "`list<list<float32>>`", "whatif-jax describe gridlabd"):  # fmt: skip
        assert words in text, words
    facts = about(suite)
    assert facts["licence"].startswith("https://www.apache.org/")
    assert "WhatIf-Bench" in facts["cite_as"]


def test_nothing_depends_on_the_machine(whole):
    for path, content in files(whole).items():
        for secret in (str(whole), str(folder()), f"{Path.home()}/"):
            assert secret.encode() not in content, path


def test_again_is_a_verified_no_op(whole):
    before = {path: path.stat().st_mtime_ns for path in whole.rglob("*")}
    assert write(small_suite(), whole) == whole
    assert {path: path.stat().st_mtime_ns for path in whole.rglob("*")} == before


def test_same_export_same_bytes(whole, tmp_path):
    again = write(small_suite(), tmp_path / "again", progress=False)
    assert files(again) == files(whole)


def test_an_export_compiles_one_program_a_bucket_and_no_other(tmp_path):
    script = """
import sys
import jax
from whatif_jax import load_suite
from whatif_jax.export import export, parquet
parquet.SHARD_ROWS = 5
programs = []
def listen(event, seconds, *, fun_name="", **details):
    if event.endswith("backend_compile_duration"):
        programs.append(fun_name)
jax.monitoring.register_event_duration_secs_listener(listen)
tasks = load_suite("whatif-v1").where(context=1024).sample(12)
assert len({tasks.bucket_of(task) for task in tasks.column("task_id")}) == 2
export(tasks, sys.argv[1])
assert programs == ["jit(realize_batch)"] * 2, programs
"""
    done = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path / "out")], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr


def test_progress_only_on_a_terminal(tmp_path, capsys):
    write(tiny(4), tmp_path / "out", progress=True)
    assert capsys.readouterr() == ("", "")


def test_base_installation_is_enough():
    """Writing imports none of the libraries that read the result."""
    code = "import sys, whatif_jax.export; print(sorted(sys.modules))"
    found = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        cwd=Path(__file__).parents[2],
    ).stdout
    for name in ("pandas", "datasets", "fev", "gluonts", "mlcroissant", "torch"):
        assert f"'{name}'" not in found


def test_values_are_finite_float32(whole):
    table = parquet.read_table(whole / "data")
    for name in ("history", "future"):
        values = np.concatenate(table.column(name).to_numpy())
        assert values.dtype == np.float32
        assert np.isfinite(values).all()
