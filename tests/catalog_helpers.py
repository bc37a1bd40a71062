"""Catalog files with changed text, and what reading them says."""

from pathlib import Path

import pytest

from whatif_jax.catalog import CatalogError, load_system

BREWERY = Path(__file__).parent / "data" / "brewery.toml"
POWER = (
    'primary = { covariate = "coolant_flow", direction = "direct", form = "power", exponent = 0.8 }'
)


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
