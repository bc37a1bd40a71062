"""Catalog files with changed text, and what reading them says."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from whatif_jax.catalog import CatalogError, load_system

BREWERY = Path(__file__).parent / "data" / "brewery.toml"
POWER = (
    'primary = { covariate = "coolant_flow", direction = "direct", form = "power", exponent = 0.8 }'
)


def write_baseline(folder: Path, rows: int = 2880, **changes: np.ndarray | None) -> None:
    """The brewery's parquet; columns may be changed, added, or left out by None."""
    day = np.arange(rows) / 1440 * 2 * np.pi
    columns = {
        "cooling_power": np.float32(5 + np.sin(day)),
        "tank_temperature": np.float32(14 + 2 * np.cos(day)),
    }
    kept = {name: each for name, each in (columns | changes).items() if each is not None}
    parquet.write_table(pa.table(kept), folder / "brewery.parquet")


def changed(folder: Path, *changes: tuple[str, str]) -> Path:
    """The brewery file with some of its text replaced, once each."""
    text = BREWERY.read_text("utf-8")
    for old, new in changes:
        assert text.count(old) >= 1, old
        text = text.replace(old, new, 1)
    path = folder / "broken.toml"
    path.write_text(text, "utf-8")
    return path


def broken(folder: Path, *changes: tuple[str, str]) -> CatalogError:
    """The error of such a file."""
    with pytest.raises(CatalogError) as caught:
        load_system(changed(folder, *changes))
    return caught.value
