"""Baselines that cannot be read: an error that names the file, whatever the reader raises."""

import shutil
import warnings
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from tests.catalog_helpers import BREWERY
from whatif_jax.catalog import CatalogError, System, load_system
from whatif_jax.catalog.series import read_series

NAMES = ("cooling_power", "tank_temperature")


@pytest.fixture(scope="module")
def columns() -> dict[str, np.ndarray]:
    generator = np.random.default_rng(0)
    return {name: generator.uniform(5, 9, 2880).astype(np.float32) for name in NAMES}


@pytest.fixture
def system(tmp_path, columns) -> System:
    """A system with a baseline that can be read."""
    shutil.copy(BREWERY, tmp_path)
    parquet.write_table(pa.table(columns), tmp_path / "brewery.parquet", compression="zstd")
    return load_system(tmp_path / BREWERY.name)


def refused(system: System) -> str:
    with pytest.raises(CatalogError) as caught:
        read_series(system)
    said = str(caught.value)
    assert "\n" not in said and "brewery.parquet" in said and "; expected " in said
    return said


def test_a_file_that_is_cut_is_no_parquet_file(system):
    content = system.baseline.read_bytes()
    for length in (0, 3, 4, 500, len(content) // 2, len(content) - 8, len(content) - 1):
        system.baseline.write_bytes(content[:length])
        assert "expected a parquet file" in refused(system)


def test_what_is_no_parquet_file_is_named(system):
    for content in (b"PAR1", b"PAR1PAR1", b"{}" * 100, bytes(range(256)) * 9):
        system.baseline.write_bytes(content)
        assert "expected a parquet file" in refused(system)
    system.baseline.unlink()
    assert "a parquet that exists" in refused(system)
    system.baseline.mkdir()
    assert "a parquet that exists" in refused(system)


def test_damage_anywhere_is_named_or_does_no_harm(system):
    """Pages that do not unpack, metadata that is none, names that are no text."""
    content = system.baseline.read_bytes()
    generator, kinds = np.random.default_rng(1), set()
    for number in range(400):
        changed = bytearray(content)
        first = len(content) - 1200 if number % 2 else 0  # the metadata lies at the end
        changed[generator.integers(first, len(content))] = generator.integers(256)
        system.baseline.write_bytes(changed)
        try:
            series = read_series(system)
        except CatalogError:
            kinds.add("refused")
        else:
            kinds.add("read")
            assert all(len(series[name]) == 2880 for name in NAMES)
            assert all(np.isfinite(values).all() for values in series.values())
    assert kinds == {"refused", "read"}


def test_pages_that_do_not_unpack_are_named(system):
    content = bytearray(system.baseline.read_bytes())
    content[40:4000] = bytes(3960)
    system.baseline.write_bytes(content)
    assert "file: content" in refused(system)


@pytest.mark.parametrize(
    "change, expected",
    [
        (lambda c: pa.table([*c.values(), c[NAMES[0]]], [*NAMES, NAMES[0]]), "column = 2"),
        (lambda c: pa.table({**c, NAMES[0]: c[NAMES[0]].astype(str)}), "type = 'string'"),
        (lambda c: pa.table({**c, NAMES[0]: pa.array([None, *c[NAMES[0]][1:]])}), "row 0 = nan"),
        (lambda c: pa.table({**c, NAMES[0]: c[NAMES[0]].astype(float) * 1e39}), "row 0 = inf"),
        (lambda c: pa.table({**c, NAMES[0]: c[NAMES[0]].reshape(-1, 1).tolist()}), "type = 'list"),
        (lambda c: pa.table({NAMES[0]: c[NAMES[0]]}), "column is missing"),
    ],
)
def test_columns_that_are_no_series_are_named(system, columns, change, expected):
    parquet.write_table(change(columns), system.baseline)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert expected in refused(system)


def test_columns_that_no_target_has_are_not_read(system, columns):
    table = pa.table({**columns, "note": ["x"] * 2880})
    parquet.write_table(table, system.baseline)
    assert set(read_series(system)) == set(NAMES)


@pytest.mark.parametrize("text", ["9" * 400, "9" * 5000, "9999999999999"])
def test_numbers_of_any_length_are_refused_before_the_baseline_is_opened(tmp_path, text):
    source = BREWERY.read_text("utf-8")
    for old, new in (("steps = 2880 ", f"steps = {text} "), ("base = 12.0", f"base = {text}")):
        if new == f"base = {'9999999999999'}":
            continue  # a number that float32 holds
        assert old in source
        path = Path(tmp_path / "brewery.toml")
        path.write_text(source.replace(old, new, 1), "utf-8")
        with pytest.raises(CatalogError, match=r"^brewery\.toml: "):
            load_system(path)
