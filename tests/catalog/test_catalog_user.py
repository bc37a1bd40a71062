"""A system of the user's own, as the README shows it: one file, one parquet, no code."""

import shutil
from pathlib import Path

import pyarrow.parquet as parquet
import pytest

from tests.catalog_helpers import BREWERY, write_baseline
from whatif_jax.catalog import builtin_systems, describe, load_system


@pytest.fixture
def brewery(tmp_path):
    """The worked example with a parquet beside it, in a folder of its own."""
    path = shutil.copy(BREWERY, tmp_path)
    write_baseline(tmp_path)
    return Path(path)


def test_loads(brewery):
    found = load_system(brewery)
    assert (found.name, found.steps, found.step_seconds) == ("brewery", 2880, 60)
    assert found.baseline == brewery.with_name("brewery.parquet")
    assert found.source == brewery
    assert [target.name for target in found.targets] == ["cooling_power", "tank_temperature"]
    cooling, tank = (target.covariates for target in found.targets)
    assert cooling == ("coolant_flow", "ambient_temperature")
    assert tank == ("ambient_temperature", "coolant_flow")
    assert found.covariate("coolant_flow").base == 12
    assert found.covariate_index("ambient_temperature") == 1
    target = found.target("tank_temperature")
    assert target.directions() == ("direct", "inverse")
    assert target.pool == (0.25, 0.5, 2, 4)
    assert (found.axes.gap, found.axes.prefix, found.axes.end_buffer) == (32, 0.40, 0.02)
    assert (target.class_.damping, target.class_.floor) == (0.5, 0.05)
    assert found.axes.contexts[0].most_events_longest is None


def test_columns_match_the_parquet(brewery):
    found = load_system(brewery)
    table = parquet.read_table(found.baseline)
    assert table.column_names == [target.name for target in found.targets]
    assert table.num_rows == found.steps


def test_relative_path(brewery, monkeypatch):
    monkeypatch.chdir(brewery.parent)
    assert load_system("brewery.toml").baseline == brewery.with_name("brewery.parquet")


def test_describes(brewery):
    text = describe(str(brewery))
    assert "brewery: Fermentation tank" in text
    assert "power [own]: exponent 0.8 [own]" in text
    assert "[own] given by the author of this file" in text
    text = describe(f"{brewery}/tank_temperature")
    assert "ambient_temperature [own]: base 18 degC [own], bell [own], direct [own]" in text
    assert "target = y * (1 + slope*(f-1)) [own]: slope 0.5 [own]" in text


def test_leaves_the_built_in_systems_alone(brewery):
    load_system(brewery)
    assert "brewery" not in builtin_systems()
    assert load_system("opendc") is load_system("opendc")


def test_reads_as_a_baseline(brewery):
    systems = pytest.importorskip("whatif_jax.tasks.systems")
    loaded = systems.load_systems([brewery])
    assert loaded.targets == (("brewery", "cooling_power"), ("brewery", "tank_temperature"))
    series = loaded.series(loaded.row("brewery", "cooling_power"))
    assert series.shape == (2880,)
    assert series.mean() == pytest.approx(5, abs=1e-3)
