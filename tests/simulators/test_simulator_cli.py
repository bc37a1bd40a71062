"""`python -m simulators build|check`, on the two quickest systems."""

import pytest
from pyarrow import parquet
from typer.testing import CliRunner

from simulators.__main__ import application
from simulators.cache import read_baseline

runner = CliRunner()


@pytest.fixture(scope="module")
def built(data, tmp_path_factory):
    folder = tmp_path_factory.mktemp("baselines")
    arguments = ["--data", str(data), "--baselines", str(folder)]
    return (
        runner.invoke(application, ["build", "opendc", *arguments]),
        folder,
        arguments,
    )


def test_build_writes_the_file_and_says_so(built):
    result, folder, _ = built
    assert result.exit_code == 0, result.output
    assert "8640 steps in" in result.output
    assert "8640/8640" in result.output  # the progress bar
    columns, metadata = read_baseline(folder / "opendc.parquet", "opendc")
    assert len(columns) == 22
    assert metadata["system"] == "opendc"


def test_check_agrees_and_names_what_differs(built):
    _, folder, arguments = built
    result = runner.invoke(application, ["check", "opendc", *arguments])
    assert result.exit_code == 0, result.output
    assert "8640 steps agree within 1e-05" in result.output
    table = parquet.read_table(folder / "opendc.parquet")
    spoiled = table.column("cpu_usage_1026").to_numpy().copy()
    spoiled[17] += 1
    index = table.column_names.index("cpu_usage_1026")
    table = table.set_column(index, "cpu_usage_1026", [spoiled])
    parquet.write_table(table, folder / "opendc.parquet")
    result = runner.invoke(application, ["check", "opendc", *arguments])
    assert result.exit_code == 1
    assert "opendc: cpu_usage_1026:" in result.output
    assert "at row 17" in result.output


def test_refusal_is_one_line_and_exit_1(tmp_path):
    arguments = ["--data", str(tmp_path), "--baselines", str(tmp_path / "baselines")]
    result = runner.invoke(application, ["build", "opendc", *arguments])
    assert result.exit_code == 1
    assert "error: opendc: trace:" in result.output
    assert "Traceback" not in result.output
    assert not (tmp_path / "baselines").exists()


def test_simulator_warnings_are_shown(data, tmp_path):
    arguments = [
        "--data",
        str(data),
        "--baselines",
        str(tmp_path),
        "--keep",
        str(tmp_path / "kept"),
    ]
    result = runner.invoke(application, ["build", "gridlabd", *arguments])
    assert result.exit_code == 0, result.output
    assert "Daylight saving time" in result.output
    assert (tmp_path / "kept" / "gridlabd" / "house.csv").is_file()
