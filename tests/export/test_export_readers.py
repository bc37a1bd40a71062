"""Exports read back with the libraries they are for: fev, GluonTS, mlcroissant."""

import json
import re
import sys
import types
import warnings
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from tests.export_helpers import close, expected, small_suite, write
from whatif_jax.export import ExportError, shapes
from whatif_jax.export.shapes import Group, frequency, grouped, step_microseconds


def some_suite():
    """Both systems, both shapes, every number of covariates, both futures."""
    suite = small_suite()
    return suite.take(np.flatnonzero(suite.column("pair_id") % 3 != 1))


@pytest.fixture(scope="module")
def fev_folder(tmp_path_factory) -> Path:
    """The suite for fev."""
    return write(some_suite(), tmp_path_factory.mktemp("fev") / "out", format="fev")


@pytest.fixture(scope="module")
def gluonts_folder(tmp_path_factory) -> Path:
    """The suite for GluonTS."""
    return write(some_suite(), tmp_path_factory.mktemp("gluonts") / "out", format="gluonts")


def parquet_suite():
    """A part of it with both numbers of covariates."""
    return some_suite().take(range(0, 81, 9))


@pytest.fixture(scope="module")
def parquet_folder(tmp_path_factory) -> Path:
    """A part of the suite as Parquet."""
    return write(parquet_suite(), tmp_path_factory.mktemp("parquet") / "out")


@pytest.fixture
def fev(fev_folder, tmp_path, monkeypatch):
    """The library, reading the folder and caching nowhere else."""
    library = pytest.importorskip("fev")
    import datasets

    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(datasets.config, "HF_DATASETS_OFFLINE", True)
    monkeypatch.setenv("FEV_DATASETS_PREFIX", str(fev_folder))
    return library


def parts(task) -> tuple[np.ndarray, np.ndarray]:
    """A task's target and covariates over history and future."""
    target = np.concatenate([task["history"], task["future"]])
    covariates = [task["history_covariates"], task["future_covariates"]]
    return target, np.concatenate(covariates, axis=1)


def test_fev_reads_every_task(fev, fev_folder):
    benchmark = fev.Benchmark.from_yaml(fev_folder / "tasks.yaml")
    names = [task.dataset_config for task in benchmark.tasks]
    assert names == [group.name for group in grouped(some_suite())]
    assert len(set(names)) == len(names) == 16  # 2 systems, 2 shapes, 2 numbers, 2 futures
    steps = {"brewery": 60, "bakery": 1800}
    seen = []
    for task in benchmark.tasks:
        assert task.eval_metric == "WQL"
        assert task.extra_metrics == ["WAPE"]
        assert task.quantile_levels == [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9]
        window = task.get_window(0, num_proc=0)
        past, future = window.get_input_data()
        truth = window.get_ground_truth()
        # fev drops what is too short and says so only in its log
        assert len(past) == len(future) == len(truth) == len(window.full_dataset)
        assert str(past.features["timestamp"].feature.dtype) == "timestamp[us]"
        assert set(future.column_names) == {"id", "timestamp", *task.known_dynamic_columns}
        assert past["id"] == sorted(past["id"])
        for before, after, answer in zip(past, future, truth, strict=True):
            row = expected()[int(before["id"])]
            seen.append(row["task_id"])
            assert task.dataset_config == (
                f"{row['system']}_c{row['context']}_h{row['horizon']}_k{row['k']}_{row['kind']}"
            )
            assert task.horizon == row["horizon"]
            close(before["target"], row["history"])
            close(answer["target"], row["future"])
            for number in range(row["k"]):
                close(before[f"cov_{number + 1}"], row["history_covariates"][number])
                close(after[f"cov_{number + 1}"], row["future_covariates"][number])
            times = np.concatenate([before["timestamp"], after["timestamp"]])
            assert times[0] == np.datetime64("2000-01-01T00:00:00")
            assert set(np.diff(times)) == {np.timedelta64(steps[row["system"]], "s")}
    assert sorted(seen) == sorted(some_suite().column("task_id"))


# What fev's adapter to each needs installed; its extras ask for none of the last two
ADAPTERS = {
    "pandas": "pandas",
    "datasets": "datasets",
    "gluonts": "gluonts",
    "nixtla": "pandas",
    "darts": "darts",
    "autogluon": "autogluon.timeseries",
}


@pytest.mark.parametrize("adapter", ADAPTERS)
def test_every_adapter_of_fev_takes_it(fev, fev_folder, adapter):
    pytest.importorskip(ADAPTERS[adapter])
    task = fev.Benchmark.from_yaml(fev_folder / "tasks.yaml").tasks[-1]
    window = task.get_window(0, num_proc=0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # GluonTS's of a zone that it drops
        warnings.filterwarnings("ignore", category=FutureWarning)
        warnings.filterwarnings("ignore", message="Using `json`")
        past, future, *_ = fev.convert_input_data(window, adapter=adapter)
        assert len(past) and len(future)
        if adapter == "gluonts":
            assert len(list(past)) == len(list(future)) == len(window.full_dataset)


def test_fevs_adapter_to_autogluon_is_given_what_autogluon_takes(fev, fev_folder, monkeypatch):
    """AutoGluon's own check of time stamps, without the package."""
    pandas = pytest.importorskip("pandas")
    seen = []

    class TimeSeriesDataFrame:
        @classmethod
        def from_data_frame(cls, frame, *, id_column, timestamp_column, **_):
            assert pandas.api.types.is_datetime64_dtype(frame[timestamp_column])
            seen.append(frame[[id_column, timestamp_column]])

    module = types.ModuleType("autogluon.timeseries")
    module.TimeSeriesDataFrame = TimeSeriesDataFrame
    monkeypatch.setitem(sys.modules, "autogluon", types.ModuleType("autogluon"))
    monkeypatch.setitem(sys.modules, "autogluon.timeseries", module)
    task = fev.Benchmark.from_yaml(fev_folder / "tasks.yaml").tasks[-1]
    fev.convert_input_data(task.get_window(0, num_proc=0), adapter="autogluon")
    past, future = seen
    assert past["timestamp"].iloc[0].isoformat() == "2000-01-01T00:00:00"
    assert future["timestamp"].min() > past["timestamp"].min()


def code_of(card: Path, folder: Path) -> list[str]:
    """The blocks of Python in an export's card, for this folder."""
    blocks = re.findall(r"^```python\n(.*?)^```$", card.read_text("utf-8"), re.M | re.S)
    return [block.replace("/path/to/this/folder", str(folder)) for block in blocks]


@pytest.mark.parametrize("form", ["parquet", "fev", "gluonts"])
@pytest.mark.parametrize("library", ["datasets", "duckdb", "pandas", "polars"])
def test_the_code_of_a_card_loads_the_tasks(request, form, library):
    pytest.importorskip(library)
    if library == "datasets":
        request.getfixturevalue("fev")  # caches nowhere else, asks no hub
    at = request.getfixturevalue(f"{form}_folder")
    first, *parts = re.split(r"^(?=import )", code_of(at / "README.md", at)[-1], flags=re.M)
    names: dict = {}
    for part in [first, *(part for part in parts if part.startswith(f"import {library}\n"))]:
        exec(part, names)
    found = next(names[name] for name in ("tasks", "series", "entries") if name in names)
    column = "id" if form == "fev" else "item_id" if form == "gluonts" else "task_id"
    ids = found.fetchdf()[column] if library == "duckdb" else found[column]
    suite = parquet_suite() if form == "parquet" else some_suite()
    if form == "parquet":
        kept = {"duckdb": {"future": "novel"}, "polars": {"k": 2}}.get(library, {})
        expected_ids = suite.where(**kept).column("task_id")
    elif library == "duckdb":
        expected_ids = suite.column("task_id")
    else:
        expected_ids = suite.column("task_id")[next(iter(grouped(suite).values()))]
    assert sorted(map(int, ids)) == sorted(expected_ids.tolist()) and len(expected_ids)


@pytest.mark.parametrize("form", ["fev", "gluonts"])
def test_the_code_of_a_card_runs_with_its_own_library(request, form):
    pytest.importorskip(form)
    if form == "fev":
        request.getfixturevalue("fev")
    at = request.getfixturevalue(f"{form}_folder")
    names: dict = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # their own deprecations
        exec(code_of(at / "README.md", at)[0], names)
    assert len(names["past"]) if form == "fev" else len(list(names["pairs"]))


@pytest.mark.parametrize("form", ["parquet", "fev", "gluonts"])
def test_a_whole_folder_holds_no_other_tables(request, form):
    """Whoever reads every parquet below it finds tasks alone."""
    duckdb = pytest.importorskip("duckdb")
    at = request.getfixturevalue(f"{form}_folder")
    query = f"select task_id from read_parquet('{at}/**/*.parquet', union_by_name = true)"
    with duckdb.connect() as connection:
        ids = [row[0] for row in connection.sql(query).fetchall()]
    suite = parquet_suite() if form == "parquet" else some_suite()
    assert sorted(ids) == sorted(suite.column("task_id").tolist())


def test_fev_scores_forecasts(fev, fev_folder):
    task = fev.Benchmark.from_yaml(fev_folder / "tasks.yaml").tasks[3]
    window = task.get_window(0, num_proc=0)
    keys = ["predictions", *map(str, task.quantile_levels)]
    truth = window.get_ground_truth()
    exact = [dict.fromkeys(keys, row["target"]) for row in truth]
    naive = [
        {key: np.full(task.horizon, row["target"][-1]) for key in keys}
        for row in window.get_input_data()[0]
    ]
    summary = task.evaluation_summary([exact], model_name="exact")
    assert summary["test_error"] == summary["WAPE"] == 0
    summary = task.evaluation_summary([naive], model_name="naive")
    answers = np.array([row["target"] for row in truth], np.float64)
    last = np.array([row["predictions"][0] for row in naive], np.float64)[:, None]
    wape = np.abs(answers - last).sum() / np.abs(answers).sum()
    assert summary["WAPE"] == pytest.approx(wape, rel=1e-6)
    assert summary["num_forecasts"] == len(truth)


def test_fev_needs_no_environment_variable(fev, fev_folder, monkeypatch):
    """An absolute path does too."""
    monkeypatch.delenv("FEV_DATASETS_PREFIX")
    group = next(iter(grouped(some_suite())))
    task = fev.Task(
        dataset_path=f"{fev_folder}/{group.name}/part-00000.parquet",
        horizon=group.horizon,
        known_dynamic_columns=["cov_1"],
    )
    assert len(task.load_full_dataset(num_proc=0)) == len(grouped(some_suite())[group])


def test_fev_facts_name_the_covariates(fev_folder):
    tables = [parquet.read_table(path) for path in sorted(fev_folder.rglob("*.parquet"))]
    for table in tables:
        for row in table.to_pylist():
            task = expected()[row["task_id"]]
            names = [row[f"cov_{number + 1}_name"] for number in range(task["k"])]
            assert names == task["covariates"]
            assert (row["target_name"], row["future_kind"]) == (task["target"], task["kind"])
            assert f"cov_{task['k'] + 1}" not in row
    assert sum(table.num_rows for table in tables) == len(some_suite())


def test_gluonts_reads_every_task(gluonts_folder):
    common = pytest.importorskip("gluonts.dataset.common")
    pandas = pytest.importorskip("pandas")
    seen = []
    for group, rows in grouped(some_suite()).items():
        at = gluonts_folder / group.name
        about = common.load_datasets(at, at / "data", at / "data").metadata
        assert about.freq == {"brewery": "1min", "bakery": "30min"}[group.system]
        assert about.prediction_length == group.horizon
        assert [feature.name for feature in about.feat_dynamic_real] == ["cov_1", "cov_2"][
            : group.k
        ]
        dataset = common.FileDataset(at / "data", freq=about.freq)
        assert len(dataset) == len(rows)
        for entry in dataset:
            row = expected()[int(entry["item_id"])]
            seen.append(row["task_id"])
            target, covariates = parts(row)
            assert entry["start"] == pandas.Period("2000-01-01", about.freq)
            assert entry["target"].dtype == entry["feat_dynamic_real"].dtype == np.float32
            close(entry["target"], target)
            assert entry["feat_dynamic_real"].shape == covariates.shape
            close(entry["feat_dynamic_real"], covariates)
            assert entry["covariates"].tolist() == row["covariates"]
            assert entry["future_kind"] == group.future == row["kind"]
    assert sorted(seen) == sorted(some_suite().column("task_id"))


def test_gluonts_splits_off_the_future(gluonts_folder):
    common = pytest.importorskip("gluonts.dataset.common")
    split = pytest.importorskip("gluonts.dataset.split")
    group = list(grouped(some_suite()))[-1]
    dataset = common.FileDataset(gluonts_folder / group.name / "data", freq="1min")
    _, template = split.split(dataset, offset=-group.horizon)
    pairs = list(template.generate_instances(group.horizon))
    assert len(pairs) == len(dataset)
    for given, label in pairs:
        row = expected()[int(given["item_id"])]
        close(given["target"], row["history"])
        close(label["target"], row["future"])
        assert given["feat_dynamic_real"].shape == (group.k, group.context + group.horizon)


@pytest.mark.parametrize("form", ["parquet", "fev", "gluonts"])
def test_croissant_is_valid(request, form):
    mlcroissant = pytest.importorskip("mlcroissant")
    at = request.getfixturevalue(f"{form}_folder")
    dataset = mlcroissant.Dataset(at / "croissant.json")  # raises where there are errors
    assert not dataset.metadata.ctx.issues.errors
    listed = {entry.content_url: entry.sha256 for entry in dataset.metadata.file_objects}
    manifest = json.loads((at / "manifest.json").read_text())
    assert listed == {
        entry["path"]: entry["sha256"]
        for entry in manifest["files"]
        if entry["path"] != "croissant.json"
    }
    fields = {field.name for records in dataset.metadata.record_sets for field in records.fields}
    columns = {name for path in at.rglob("*.parquet") for name in parquet.read_schema(path).names}
    assert fields == columns


def test_croissant_reads_parquet(parquet_folder):
    mlcroissant = pytest.importorskip("mlcroissant")
    dataset = mlcroissant.Dataset(parquet_folder / "croissant.json")
    records = list(dataset.records("tasks"))
    assert len(records) == 9
    for record in records:
        record = {key.removeprefix("tasks/"): value for key, value in record.items()}
        row = expected()[record["task_id"]]
        # mlcroissant gives text as bytes
        assert record["system"].decode() == row["system"]
        assert [name.decode() for name in record["covariates"]] == row["covariates"]
        assert record["future_kind"].decode() == row["kind"]
        assert record["event_starts"] == row["event_starts"]
        for name in ("factors", "future_factors", "history", "future", "future_baseline",
                     "history_covariates", "future_covariates"):  # fmt: skip
            close(record[name], row[name])


@pytest.mark.parametrize(("form", "records"), [("fev", "series_k2"), ("gluonts", "entries")])
def test_croissant_reads_series(request, form, records):
    mlcroissant = pytest.importorskip("mlcroissant")
    at = request.getfixturevalue(f"{form}_folder")
    dataset = mlcroissant.Dataset(at / "croissant.json")
    suite = some_suite() if form == "gluonts" else some_suite().where(k=2)
    found = list(dataset.records(records))
    assert sorted(int(record[f"{records}/task_id"]) for record in found) == sorted(
        suite.column("task_id")
    )
    record = found[5]
    row = expected()[record[f"{records}/task_id"]]
    target, covariates = parts(row)
    close(record[f"{records}/target"], target)
    if form == "fev":
        close(record[f"{records}/cov_2"], covariates[1])
        assert len(record[f"{records}/timestamp"]) == len(target)
    else:
        close(record[f"{records}/feat_dynamic_real"], covariates.ravel())


def test_files_of_one_group_are_split(monkeypatch):
    monkeypatch.setattr(shapes, "SHARD_ROWS", 3)
    suite = some_suite()
    shards = shapes.group_shards(suite, "{group}/data")
    ids = suite.column("task_id")
    assert max(len(shard.rows) for shard in shards) == 3
    assert sorted(ids[np.concatenate([shard.rows for shard in shards])]) == sorted(ids)
    assert len({shard.path for shard in shards}) == len(shards)
    for shard in shards:
        group = Group(*(suite.column(name)[shard.rows[0]] for name in Group._fields))
        assert shard.path.startswith(f"{group.name}/data/part-0000")


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(60, "1min"), (300, "5min"), (600, "10min"), (90, "90s"), (3600, "1h"), (86400, "1D"),
     (0.5, "500ms"), (0.000001, "1us")],
)  # fmt: skip
def test_frequencies(seconds, text):
    system = small_suite().catalog[0].model_copy(update={"step_seconds": seconds})
    assert frequency(system) == text
    pandas = pytest.importorskip("pandas")
    assert pandas.tseries.frequencies.to_offset(text) == pandas.Timedelta(seconds=seconds)


def test_a_step_finer_than_timestamps_is_refused():
    system = small_suite().catalog[0].model_copy(update={"step_seconds": 1e-7})
    with pytest.raises(ExportError, match=r"step_seconds: 1e-07 \(.*\); expected whole micro"):
        step_microseconds(system)


def test_names_that_are_no_folders_are_refused(tmp_path):
    suite = some_suite()
    names = pa.array(["../up"] * len(suite))
    table = suite.table.set_column(suite.table.schema.get_field_index("system"), "system", names)
    with pytest.raises(ExportError, match=r"system: '\.\./up'; expected letters, digits"):
        grouped(type(suite)("odd", table, suite.catalog))
