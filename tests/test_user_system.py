"""A user's own system from two files: suite, tasks, stream and the command line, no code."""

import re
import shutil
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as parquet
import pytest

from whatif_jax import CatalogError, ManifestError, TaskStream, cli, load_suite, load_systems
from whatif_jax.suites.freeze import freeze
from whatif_jax.suites.recipe import read_recipe

FILE = Path(__file__).parent / "data" / "brewery.toml"

RECIPE = """
name = "own"
[[systems]]
name = "brewery.toml"
full_targets = {full}
partial_tasks = 0
"""


def series(generator: np.random.Generator) -> np.ndarray:
    return (5 + generator.normal(0, 0.1, 2880).cumsum() * 0.02).astype(np.float32)


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    at = tmp_path_factory.mktemp("brewery")
    shutil.copy(FILE, at)
    generator = np.random.default_rng(0)
    columns = {"cooling_power": series(generator), "tank_temperature": series(generator)}
    parquet.write_table(pa.table(columns), at / "brewery.parquet")
    (at / "recipe.toml").write_text(RECIPE.format(full=2))
    return at


@pytest.fixture(scope="module")
def suite(folder):
    freeze(folder / "own.parquet", folder / "recipe.toml", most_seeds=3)
    return load_suite(folder / "own.parquet", systems=[folder / "brewery.toml"])


def test_freezes_a_suite_of_its_own(suite):
    # 2 targets x 2 K x 1 context x 2 event lengths x 2 settings x 2 futures
    assert len(suite) == 32
    assert suite.metadata["suite"] == "own"
    assert suite.count("k") == {1: 16, 2: 16}
    assert suite.count("future") == {"novel": 16, "replay": 16}


def test_a_suite_of_ones_own_is_called_what_its_recipe_calls_it(folder, suite):
    shutil.copy(folder / "own.parquet", folder / "another.parquet")
    again = load_suite(folder / "another.parquet", systems=[folder / "brewery.toml"])
    assert again.name == suite.name == "own"


def changed_constant(folder: Path) -> str:
    text = (folder / "brewery.toml").read_text("utf-8")
    (folder / "brewery.toml").write_text(text.replace("exponent = 0.8", "exponent = 0.9"), "utf-8")
    return "the constants of brewery"


def changed_series(folder: Path) -> str:
    generator = np.random.default_rng(1)
    columns = {"cooling_power": series(generator), "tank_temperature": series(generator)}
    parquet.write_table(pa.table(columns), folder / "brewery.parquet")
    return "the series of brewery"


def changed_rows(folder: Path) -> str:
    table = parquet.read_table(folder / "own.parquet")
    factors = [[2 * value for value in row] for row in table["future_factors"].to_pylist()]
    at = table.schema.get_field_index("future_factors")
    field = table.schema.field(at)
    changed = table.set_column(at, field, pa.array(factors, field.type))
    parquet.write_table(changed.replace_schema_metadata(table.schema.metadata),
                        folder / "own.parquet")  # fmt: skip
    return "its rows"


@pytest.mark.parametrize("change", [changed_constant, changed_series, changed_rows])
def test_a_frozen_suite_is_refused_once_its_system_is_another(
    folder, suite, tmp_path, monkeypatch, capsys, change
):
    for name in ("brewery.toml", "brewery.parquet", "own.parquet"):
        shutil.copy(folder / name, tmp_path)
    what = change(tmp_path)
    message = (
        f"fingerprint: own was frozen with {suite.fingerprint} and has [0-9a-f]{{64}} now, "
        f"since {what} changed; expected"
    )
    with pytest.raises(ManifestError, match=message):
        load_suite(tmp_path / "own.parquet", systems=[tmp_path / "brewery.toml"])
    code, _, err = run(
        monkeypatch, capsys, "export", tmp_path / "x", "--suite", tmp_path / "own.parquet",
        "--system", tmp_path / "brewery.toml",
    )  # fmt: skip
    assert (code, err.count("\n"), (tmp_path / "x").exists()) == (2, 1, False)
    assert re.search(message, err)


def test_a_manifest_of_an_own_system_asks_for_its_file(folder, suite):
    message = (
        "own.parquet: systems: name = 'brewery'; expected a system of the package, or its catalog "
        "file: --system FILE, systems=[FILE]"
    )
    with pytest.raises(CatalogError, match=f"^{re.escape(message)}$"):
        load_suite(folder / "own.parquet")


def test_its_tasks_follow_its_responses(suite):
    # cooling power with coolant_flow alone: y f^0.8 held over the future; rtol float32
    part = suite.where(target="cooling_power", k=1)
    for batch in part.batches(8):
        fields = batch.to_numpy()
        for row, task_id in enumerate(fields["task_id"].tolist()):
            factor = part.where(task_id=task_id).table.column("future_factors")[0].as_py()[0]
            np.testing.assert_allclose(
                fields["future"][row], fields["future_baseline"][row] * factor**0.8, rtol=1e-5
            )
            np.testing.assert_allclose(
                fields["future_covariates"][row, 0], 12.0 * factor, rtol=1e-6
            )


def test_a_batch_needs_no_more_rows_than_the_largest_bucket(suite):
    ids = suite.batch_ids(8)[0]
    largest = max(map(len, suite.batch_ids(10**20)))
    batch = suite.batch(ids, 10**20)
    assert batch.rows == len(ids) and batch.task.history.shape[0] == len(batch.mask) == largest


def test_its_stream(folder):
    stream = TaskStream(
        0, batch_size=4, buckets=[(512, 64)], systems=[folder / "brewery.toml"],
        event_lengths=(32, 64),
    )  # fmt: skip
    assert stream.k == (1, 2)  # as many covariates as there are
    batch = stream.check(stream.batch_at(0))
    assert batch.task.history_covariates.shape == (4, 2, 512)


def test_a_composition_that_is_not_there_writes_nothing(folder):
    (folder / "never.toml").write_text(RECIPE.format(full=1))
    with pytest.raises(ValueError, match=r"brewery: no seed in range\(0, 2\) gives 1 full targets"):
        freeze(folder / "never.parquet", folder / "never.toml", most_seeds=2)
    assert not (folder / "never.parquet").exists()


@pytest.mark.parametrize(
    "text, faults",
    [
        (
            '[[systems]]\nname = "brewery.toml"\nfull_targets = -1\nseed = 3',
            ["bad.toml: name: missing; expected a string: the name of the suite; and ",
             "systems[0].full_targets: -1; expected a number of 0 or more",
             "systems[0].partial_tasks: missing; expected a whole number: tasks that the",
             "systems[0].seed: 3; expected no such field here: one of 'name', 'full_targets'"],
        ),
        ('name = "own"\nsystems = 5', ["systems: 5; expected a list"]),
        ('name = "own"\nsystems = ["a"]', ["systems[0]: 'a'; expected a table of fields"]),
        ('name = "own"\nsystems = []', ["systems: []; expected a list that is not empty"]),
        (
            'name = "own"',
            ["systems: missing; expected [[systems]] tables of name, full_targets, partial_tasks",
             "`suite build --help`"],
        ),
        ("name = ", ["expected TOML in UTF-8"]),
        (None, ["bad.toml: No such file or directory; expected a readable TOML file"]),
    ],
)  # fmt: skip
def test_a_bad_recipe_says_all_its_faults_in_one_line(tmp_path, text, faults):
    if text is not None:
        (tmp_path / "bad.toml").write_text(text)
    with pytest.raises(ValueError, match=r"^/.*/bad\.toml: ") as error:
        read_recipe(tmp_path / "bad.toml")
    assert "\n" not in str(error.value)
    assert [fault for fault in faults if fault not in str(error.value)] == []


@pytest.mark.parametrize(
    "change, message",
    [
        (
            lambda c: c.pop("tank_temperature"),
            "target 'tank_temperature': column is missing; expected one float32",
        ),
        (lambda c: c["cooling_power"].__setitem__(7, np.nan), "row 7 = nan; expected finite"),
        (
            lambda c: c.update(cooling_power=np.arange(2880)),
            "'cooling_power': type = 'int64'; expected float32",
        ),
        (
            lambda c: c.update({name: values[:-1] for name, values in c.items()}),
            "rows = 2879; expected steps = 2880",
        ),
    ],
)
def test_baseline_files_that_do_not_hold_what_they_must(tmp_path, change, message):
    shutil.copy(FILE, tmp_path)
    generator = np.random.default_rng(0)
    columns = {name: series(generator) for name in ("cooling_power", "tank_temperature")}
    change(columns)
    parquet.write_table(pa.table(columns), tmp_path / "brewery.parquet")
    with pytest.raises(CatalogError, match=message):
        load_systems([tmp_path / "brewery.toml"])


def test_rows_are_counted_before_anything_as_long_as_steps_is_made(tmp_path, folder, monkeypatch):
    text = FILE.read_text("utf-8").replace("steps = 2880 ", "steps = 2147483647 ")
    (tmp_path / "brewery.toml").write_text(text, "utf-8")
    shutil.copy(folder / "brewery.parquet", tmp_path)
    monkeypatch.setattr(np, "zeros", lambda shape, *_: pytest.fail(f"zeros of {shape}"))
    with pytest.raises(CatalogError, match="rows = 2880; expected steps = 2147483647"):
        load_systems([tmp_path / "brewery.toml"])


def test_systems_that_are_not_there_or_never_vary(tmp_path):
    with pytest.raises(CatalogError, match="systems: name = 'nope'; expected one of 'opendc'"):
        TaskStream(0, 4, systems=["nope"])
    shutil.copy(FILE, tmp_path)
    still = {name: np.ones(2880, np.float32) for name in ("cooling_power", "tank_temperature")}
    parquet.write_table(pa.table(still), tmp_path / "brewery.parquet")
    with pytest.raises(ValueError, match="every target of brewery is constant"):
        TaskStream(0, 4, systems=[tmp_path / "brewery.toml"])


def test_a_missing_baseline_and_doubled_systems(tmp_path, folder):
    shutil.copy(FILE, tmp_path)
    with pytest.raises(CatalogError, match="brewery.parquet'; expected a parquet that exists"):
        load_systems([tmp_path / "brewery.toml"])
    with pytest.raises(ValueError, match="distinct names"):
        load_systems([folder / "brewery.toml", folder / "brewery.toml"])


def run(monkeypatch, capsys, *arguments) -> tuple[int, str, str]:
    """The command line in this process: exit code, standard output, standard error."""
    monkeypatch.setattr(sys, "argv", ["whatif-jax", *map(str, arguments)])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    code = ended.value.code
    output = capsys.readouterr()
    return code or 0, output.out, output.err


def test_command_line_describes_and_lists(monkeypatch, capsys):
    code, out, _ = run(monkeypatch, capsys, "describe", "epanet/flowrate_9")
    assert code == 0
    assert "pump_9_setting" in out
    assert "0.09" in out
    code, out, _ = run(monkeypatch, capsys, "suite", "list")
    assert (code, "37,665 tasks" in out) == (0, True)
    code, _, err = run(monkeypatch, capsys, "describe", "epnet")
    assert code == 2
    assert "did you mean 'epanet'" in err
    assert "Traceback" not in err


def test_command_line_shows_a_suite(monkeypatch, capsys, folder, suite):
    code, out, err = run(
        monkeypatch, capsys, "suite", "show", folder / "own.parquet", "--system",
        folder / "brewery.toml",
    )  # fmt: skip
    assert code == 0, err
    assert "cooling_power" in out
    assert suite.fingerprint in out


def test_command_line_exports_what_it_is_asked_for(monkeypatch, capsys, folder, suite, tmp_path):
    arguments = [
        "export", tmp_path / "tasks", "--suite", folder / "own.parquet", "--system",
        folder / "brewery.toml", "--where", "k=1,2", "--where", "future=novel", "--limit", "5",
        "--no-progress",
    ]  # fmt: skip
    code, out, err = run(monkeypatch, capsys, *arguments)
    assert code == 0, err
    assert "5 tasks" in out
    rows = [
        row
        for path in sorted((tmp_path / "tasks").rglob("*.parquet"))
        for row in parquet.read_table(path, partitioning=None).to_pylist()
    ]
    expected = suite.where(future="novel").column("task_id")[:5].tolist()
    assert [row["task_id"] for row in rows] == expected


@pytest.mark.parametrize(
    "where, message",
    [
        ("k", "expected AXIS=VALUE"),
        ("size=3", "expected AXIS=VALUE"),
        ("k=one", "expected whole numbers for k"),
        ("k=9", "k=9; expected one of"),
    ],
)
def test_command_line_refuses_conditions_in_one_line(
    monkeypatch, capsys, folder, tmp_path, where, message
):
    code, _, err = run(
        monkeypatch, capsys, "export", tmp_path / "x", "--suite", folder / "own.parquet",
        "--system", folder / "brewery.toml", "--where", where,
    )  # fmt: skip
    assert code == 2
    assert message in err
    assert err.count("\n") == 1
    assert not (tmp_path / "x").exists()
