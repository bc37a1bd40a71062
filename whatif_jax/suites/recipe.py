"""Recipes of suites: which systems, and the composition that their draws must have.

References:
    whatif-v1.md §6.
"""

import tomllib
from pathlib import Path
from typing import Annotated

from pydantic import ValidationError

from ..catalog.entry import Entry
from ..catalog.fields import NotEmpty, Text, Whole

__all__ = ["Recipe", "SystemRecipe", "read_recipe"]


class SystemRecipe(Entry):
    """One system's share of a suite."""

    name: Text
    """A string: a built-in system, or the path of a catalog file from the recipe's folder."""
    full_targets: Whole
    """A whole number: targets that keep all their tasks."""
    partial_tasks: Whole
    """A whole number: tasks that the catalog's partial targets keep between them."""


class Recipe(Entry):
    """A suite to be frozen."""

    name: Text
    """A string: the name of the suite."""
    systems: Annotated[tuple[SystemRecipe, ...], NotEmpty]
    """[[systems]] tables of name, full_targets, partial_tasks: see `suite build --help`."""


def read_recipe(path: Path) -> Recipe:
    """Read a recipe.

    Raises:
        ValueError: the file cannot be read, is no TOML, or has faults: all of them, each with its
            field, its value and what was expected.
    """
    try:
        return Recipe.model_validate(tomllib.loads(path.read_text("utf-8")))
    except ValidationError as error:
        faults = []
        for line in error.errors(include_url=False):
            value = "missing" if line["input"] is None else repr(line["input"])[:100]
            field = "".join(f"[{at}]" if isinstance(at, int) else f".{at}" for at in line["loc"])
            faults.append(f"{field[1:]}: {value}; expected {line['ctx']['error']}")
    except OSError as error:
        faults = [f"{error.strerror}; expected a readable TOML file"]
    except (ValueError, RecursionError) as error:  # of the parser, and of the decoder
        faults = [f"{error}; expected TOML in UTF-8"]
    raise ValueError(f"{path}: {'; and '.join(faults)}")
