"""Episodes exported: rows, files, and readers of them."""

import dataclasses
import hashlib
import json
import os
import subprocess
import sys

import jax
import numpy as np
import pytest
from pyarrow import parquet

from tests.tscm.made import made_episodes
from whatif_jax import cli
from whatif_jax.export import ExportError, episodes, export_episodes
from whatif_jax.export.episode_rows import EPISODE_COLUMNS, SCHEMA_COLUMNS, rows_of
from whatif_jax.tscm import episode_suites, load_episode_suite, load_prior, structures

DOTIME = os.environ.get("DOTIME", "")
RUNS = {"x_obs": "factual", "x_int": "interventional", "x_counterfactual": "counterfactual"}
# of dotime 0.2.0, as pyarrow infers it from its rows
SCHEMA = {
    "scm_id": "int64", "structure": "string", "tier": "int64", "n_vars": "int64",
    "length": "int64", "x_obs": "list<double>", "x_int": "list<double>",
    "intervention_json": "string", "query_target": "list<int64>", "query_time": "list<double>",
    "y_true": "list<double>", "metadata_json": "string",
}  # fmt: skip


@pytest.fixture
def made(monkeypatch):
    """Episodes of random numbers in place of simulated ones; files of 16 of them."""
    monkeypatch.setattr("whatif_jax.tscm.suite.sample_episodes", made_episodes)
    monkeypatch.setattr(episodes, "SHARD_ROWS", 16)


def some(suite, each=3):
    """Numbers of some episodes of every part."""
    return [number for part in suite.parts for number in part.numbers[:each]]


def write(suite, numbers, out):
    return export_episodes(suite, out, numbers=numbers, batch_size=4, progress=False)


def nodes_of(episode, part):
    """Nodes in the order of their columns, worked out here: treatment, others, outcome."""
    if part.structure:
        names = structures()[part.structure].names()
        inner = [name for name in names if name not in ("A", "Y")]
        return [names.index(name) for name in ("A", *inner, "Y")]
    return np.flatnonzero(episode.scm.node & ~episode.scm.latent).tolist()


def value_at(said, step, place):
    """What an exported intervention sets or adds at a step, by dotime's own rules."""
    values = said["values"]
    if values["kind"] == "scalar":
        return values["data"]
    if values["kind"] == "tensor":
        return values["data"][step - said["times"][0]][place]
    own = values["params"]
    if values["name"] == "StepIntervention":
        return 2.0 if step >= own["step_time"] else -2.0
    since = step - own["start_time"]
    if values["name"] == "RampIntervention":
        return -2.0 + 4.0 * since / own["intervention_length"]
    return 2.0 * np.sin(own["freq"] * since)


@pytest.mark.parametrize("name", ["identifiability", "regime", "continuous", "generic"])
def test_a_row_is_its_episode(made, tmp_path, name):
    suite = load_episode_suite(name)
    numbers = some(suite, 8)
    folder = write(suite, numbers, tmp_path / "out")
    files = sorted(folder.glob("shard-*.parquet"))
    assert len(files) == -(-len(numbers) // 16)
    found = [row for file in files for row in parquet.read_table(file).to_pylist()]
    assert [row["scm_id"] for row in found] == sorted(numbers)
    kinds = set()
    for row in found:
        part = suite.part_of(row["scm_id"])
        one = first(suite.episodes_of([row["scm_id"]]))
        nodes = nodes_of(one, part)
        assert row["part"] == part.name and row["length"] == 200 and row["n_vars"] == len(nodes)
        hidden = one.scm.latent[nodes]
        for column, run in RUNS.items():
            wanted = np.where(hidden, 0.0, getattr(one, run)[:, nodes])
            np.testing.assert_array_equal(np.reshape(row[column], wanted.shape), wanted)
        assert row["hidden"] == hidden.tolist()
        asked = nodes.index(one.query.node)
        steps = one.query.steps.tolist()
        assert row["query_target"] == [asked] * len(steps) and row["query_time"] == steps
        assert row["y_true"] == one.interventional[steps, one.query.node].tolist()
        assert row["y_counterfactual"] == one.counterfactual[steps, one.query.node].tolist()
        said, about = json.loads(row["intervention_json"]), json.loads(row["metadata_json"])
        act = one.intervention
        targets = [target for target in act.targets.tolist() if target >= 0]
        assert [nodes[target] for target in said["targets"]] == targets
        assert said["times"] == np.flatnonzero(act.active).tolist()
        assert [row["onset"], row["window"]] == [act.onset, act.length]
        assert said["intervention_type"] == ("hard", "soft", "time_varying")[act.kind]
        for step in said["times"]:
            for place in range(len(targets)):
                np.testing.assert_allclose(
                    value_at(said, step, place), act.values[step, place], rtol=1e-5, atol=1e-5
                )
        kinds.add(said["values"].get("name", said["values"]["kind"]))
        assert about["tier"] == row["tier"] and about["query_time_idx"] == steps
        assert about["n_regimes"] == one.scm.regimes and about["diverged"] is False
        assert about["window_end_idx"] == said["times"][-1]
        assert row["redraws"] == one.redraws
        if name == "regime":
            assert row["structure"] == f"regime_{one.scm.regimes}"
        else:
            assert row["structure"] == part.structure
    if name == "generic":
        profiles = {"StepIntervention", "RampIntervention", "SineIntervention"}
        assert kinds == {"scalar", "tensor", *profiles}


def first(episode):
    """The first of a batch."""
    return jax.tree.map(lambda leaf: leaf[0], episode)


def test_the_columns_are_the_packages_and_ours(made):
    suite = load_episode_suite("generic")
    table = rows_of(suite.parts[0], np.arange(3), suite.episodes_of([0, 1, 2]))
    found = {
        field.name: str(field.type).replace("item: ", "").replace("element: ", "")
        for field in table.schema
    }
    assert (
        dict(list(found.items())[:12])
        == SCHEMA
        == {column.name: found[column.name] for column in SCHEMA_COLUMNS}
    )
    assert not {"obs_times", "obs_mask"} & set(found), "names that the package's loader would read"
    assert [column.name for column in EPISODE_COLUMNS] == list(found)


def test_no_value_of_a_hidden_node_is_in_any_file(made, tmp_path):
    for name in ("identifiability", "generic"):
        suite = load_episode_suite(name)
        numbers, secret = some(suite), set()
        for number in numbers:
            one = first(suite.episodes_of([number]))
            for run in RUNS.values():
                secret |= set(getattr(one, run)[:, one.scm.latent].ravel().tolist())
        assert len(secret) > 1000
        seen: set = set()
        for file in write(suite, numbers, tmp_path / name).glob("shard-*.parquet"):
            for column in parquet.read_table(file).columns:
                flat = column.combine_chunks()
                while hasattr(flat, "flatten") and hasattr(flat, "values"):
                    flat = flat.flatten()
                seen |= set(flat.to_pylist())
        # float32 numbers of so many draws meet by chance
        assert len(seen) > 1000 and len(seen & secret) < len(secret) / 100


def test_the_manifest_is_the_packages(made, tmp_path):
    suite = load_episode_suite("regime", values="observed_normal")
    numbers = some(suite, 7)
    folder = write(suite, numbers, tmp_path / "out")
    said = json.loads((folder / "manifest.json").read_text())
    assert (said["name"], said["schema_version"]) == ("regime-v1+observed_normal", "1")
    assert said["n_episodes"] == len(numbers) == sum(one["n_episodes"] for one in said["shards"])
    assert said["seed"] == suite.seed
    for one in said["shards"]:
        assert hashlib.md5((folder / one["file"]).read_bytes()).hexdigest() == one["md5"]
        assert parquet.read_metadata(folder / one["file"]).num_rows == one["n_episodes"]
    redraws = {part.name: [0, 0, 0] for part in suite.parts}
    for number in numbers:
        count = int(suite.episodes_of([number]).redraws[0])
        for place, more in enumerate((1, count > 0, count)):
            redraws[suite.part_of(number).name][place] += more
    found = {name: list(one.values()) for name, one in said["redrawn"].items()}
    assert found == redraws


def test_an_export_goes_on_and_mends_itself(made, tmp_path, monkeypatch):
    suite = load_episode_suite("identifiability")
    numbers = some(suite, 4)
    whole = write(suite, numbers, tmp_path / "whole")
    wanted = {path.name: path.read_bytes() for path in whole.iterdir()}
    out, made_rows = tmp_path / "out", episodes.rows_of

    def stops(part, own, episode):
        if own[0] >= numbers[24]:
            raise KeyboardInterrupt
        return made_rows(part, own, episode)

    monkeypatch.setattr(episodes, "rows_of", stops)
    with pytest.raises(KeyboardInterrupt, match="1 of 3 parts are kept in"):
        write(suite, numbers, out)
    assert not (out / "manifest.json").exists()
    monkeypatch.setattr(episodes, "rows_of", made_rows)
    for damage in (lambda: None, (out / "shard-0001.parquet").unlink, lambda: None):
        damage()
        write(suite, numbers, out)
        assert {path.name: path.read_bytes() for path in out.iterdir()} == wanted
    with pytest.raises(ExportError, match="holds an export of identifiability-v1 .36 episodes"):
        write(suite, [*numbers[:-1], 10_799], out)
    with pytest.raises(ExportError, match="expected a new or an empty folder"):
        write(suite, numbers, tmp_path)


def test_an_episode_that_left_the_limit_is_not_written(made, tmp_path, monkeypatch):
    def failing(**given):
        found = made_episodes(**given)
        return dataclasses.replace(found, finite=np.arange(len(found.finite)) != 1)

    monkeypatch.setattr("whatif_jax.tscm.suite.sample_episodes", failing)
    with pytest.raises(ExportError, match=r"episodes \[1\] left the limit at every attempt"):
        write(load_episode_suite("regime"), [0, 1, 2, 3], tmp_path / "out")
    assert not (tmp_path / "out" / "manifest.json").exists()
    with pytest.raises(ValueError, match="expected each episode once"):
        write(load_episode_suite("regime"), [0, 0], tmp_path / "b")
    assert not (tmp_path / "b").exists()


def test_irregular_times_are_refused_as_the_files_have_none(tmp_path):
    suite = load_episode_suite("continuous")
    prior = load_prior(suite.parts[1].prior, {"time": {"observations": {"poisson": 1.0}}})
    parts = (suite.parts[0], dataclasses.replace(suite.parts[1], prior=prior))
    with pytest.raises(ValueError, match="^suite: continuous-v1: part front_door .*; expected"):
        write(dataclasses.replace(suite, parts=parts), [0], tmp_path / "out")
    assert not (tmp_path / "out").exists()


def command(monkeypatch, capsys, *words):
    monkeypatch.setattr(sys, "argv", ["whatif-jax", "tscm", *map(str, words)])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    return ended.value.code, *capsys.readouterr()


def test_the_command_line_lists_and_exports(made, tmp_path, monkeypatch, capsys):
    code, said, _ = command(monkeypatch, capsys, "suites")
    assert code == 0 and len(said.splitlines()) == len(episode_suites())
    assert "generic-v1: 100,000 episodes of 200 steps" in said
    out = tmp_path / "out"
    words = ("--suite", "generic", "--sample", 20, "--no-progress")
    code, said, _ = command(monkeypatch, capsys, "export", out, *words)
    assert code == 0 and said == f"20 episodes in {out}\n"
    rows = [parquet.read_table(file) for file in sorted(out.glob("*.parquet"))]
    found = [part for table in rows for part in table.column("part").to_pylist()]
    suite = load_episode_suite("generic")
    assert found == [suite.part_of(int(number)).name for number in suite.sample(20)]
    code, _, error = command(monkeypatch, capsys, "export", tmp_path / "b", "--suite", "whatif")
    assert code == 2 and error.startswith("whatif-jax: suite: 'whatif'; expected")
    assert not (tmp_path / "b").exists()


@pytest.mark.parametrize("reader", ["pandas", "duckdb", "polars", "datasets", "mlcroissant"])
def test_readers_take_it(made, tmp_path, monkeypatch, reader):
    library = pytest.importorskip(reader)
    suite = load_episode_suite("generic")
    numbers = some(suite, 4)
    folder = write(suite, numbers, tmp_path / "out")
    pattern = f"{folder}/shard-*.parquet"
    if reader == "pandas":
        found = library.read_parquet(sorted(folder.glob("*.parquet"))).to_dict("records")
    elif reader == "duckdb":
        found = library.sql(f"select * from '{pattern}' order by scm_id").fetchdf()
        found = found.to_dict("records")
    elif reader == "polars":
        found = library.scan_parquet(pattern).collect().to_dicts()
    elif reader == "datasets":
        monkeypatch.setattr(library.config, "HF_DATASETS_CACHE", str(tmp_path / "cache"))
        found = list(library.load_dataset("parquet", data_files=pattern, split="train"))
    else:
        monkeypatch.setenv("CROISSANT_CACHE", str(tmp_path / "cache"))
        dataset = library.Dataset(folder / "croissant.json")
        assert not dataset.metadata.issues.errors
        found = [
            {name.removeprefix("episodes/"): value for name, value in row.items()}
            for row in dataset.records("episodes")
        ]
        found.sort(key=lambda row: row["scm_id"])
    assert [row["scm_id"] for row in found] == sorted(numbers)
    for row in found:
        one = first(suite.episodes_of([row["scm_id"]]))
        nodes = nodes_of(one, suite.part_of(row["scm_id"]))
        wanted = one.counterfactual[:, nodes].ravel()
        np.testing.assert_array_equal(np.asarray(row["x_counterfactual"], np.float64), wanted)


READS = """
import json, sys
import numpy as np
from dotime import baselines
from dotime._release_io import read_suite
from dotime.benchmarks import SuiteMetadata, load_benchmark
from dotime.evaluation import evaluate

out, cache = sys.argv[1:]
found = {}
for name in ("dot-Identifiability-v1-1.2.0", "dot-Continuous-v1-1.0.0", "dot-Generic-100k-1.0.0"):
    suite = load_benchmark(name.rpartition("-")[0], cache_dir=cache)
    assert len(suite) == len(read_suite(suite.meta, f"{cache}/{name}"))
    scores = {
        one: evaluate(baselines.get(one), suite).pooled["rmse"]
        for one in ("Oracle", "Zero", "BackDoorOLS", "IV2SLS")
    }
    rows = [
        {
            "id": each.scm_id, "shape": list(each.x_obs.shape), "structure": each.structure,
            "obs": float(each.x_obs.double().sum()), "int": float(each.x_int.double().sum()),
            "targets": each.intervention.targets, "times": each.intervention.times,
            "rows": each.query_time_idx.tolist(), "target": each.query_target.tolist(),
            "y": each.y_true.tolist(), "self": each.is_self_query,
        }
        for each in suite
    ]
    found[name] = {"scores": scores, "rows": rows}
json.dump(found, open(out, "w"))
"""


@pytest.mark.slow
@pytest.mark.skipif(not DOTIME, reason="DOTIME: the folder of the unpacked dotime wheel")
def test_the_packages_loader_and_baselines_read_it(tmp_path):
    """The folder of the unpacked wheel is on the path of a process of its own."""
    folders = {
        "dot-Identifiability-v1-1.2.0": ("identifiability", 1),
        "dot-Continuous-v1-1.0.0": ("continuous", 2),
        "dot-Generic-100k-1.0.0": ("generic", 2),
    }
    for name, (suite, each) in folders.items():
        write(load_episode_suite(suite), some(load_episode_suite(suite), each), tmp_path / name)
    out = tmp_path / "found.json"
    subprocess.run(
        [sys.executable, "-c", READS, str(out), str(tmp_path)],
        check=True,
        env=os.environ | {"PYTHONPATH": DOTIME},
        cwd=tmp_path,
    )
    for name, found in json.loads(out.read_text()).items():
        table = parquet.read_table(tmp_path / name / "shard-0000.parquet").to_pylist()
        assert found["scores"]["Oracle"] == 0 < found["scores"]["Zero"]
        assert np.isfinite(list(found["scores"].values())).all()
        assert len(found["rows"]) == len(table)
        for read, row in zip(found["rows"], table, strict=True):
            said = json.loads(row["intervention_json"])
            assert read["id"] == row["scm_id"]
            assert read["shape"] == [row["length"], row["n_vars"]]
            assert (read["structure"] or "") == row["structure"]
            assert (read["targets"], read["times"]) == (said["targets"], said["times"])
            assert read["rows"] == row["query_time"] and read["target"] == row["query_target"]
            assert read["y"] == row["y_true"] and not read["self"]
            np.testing.assert_allclose(read["obs"], np.sum(row["x_obs"]), rtol=1e-9, atol=1e-9)
            np.testing.assert_allclose(read["int"], np.sum(row["x_int"]), rtol=1e-9, atol=1e-9)
