"""Recipes of suites: which systems, and the composition that their draws must have.

References:
    whatif-v1.md §6.
"""

import tomllib
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, ValidationError

__all__ = ["Recipe", "SystemRecipe", "read_recipe"]

Text = Annotated[str, Field(min_length=1)]
Count = Annotated[int, Field(ge=0)]


class _Table(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class SystemRecipe(_Table):
    """One system's share of a suite."""

    name: Text  # a built-in system, or the path of a catalog file from the recipe's folder
    full_targets: Count  # targets that keep all their tasks
    partial_tasks: Count  # tasks that the catalog's partial targets keep between them


class Recipe(_Table):
    """A suite to be frozen."""

    name: Text
    systems: Annotated[list[SystemRecipe], Field(min_length=1)]


def read_recipe(path: Path) -> Recipe:
    """Read a recipe.

    Raises:
        OSError: the file cannot be read.
        ValueError: it is no TOML, or its faults: all of them, each with its field.
    """
    try:
        return Recipe.model_validate(tomllib.loads(path.read_text("utf-8")))
    except ValidationError as error:
        faults = [
            f"{'.'.join(map(str, fault['loc']))}: {fault['msg']}"
            + ("" if fault["type"] == "missing" else f", not {fault['input']!r}")
            for fault in error.errors()
        ]
    except ValueError as error:  # of the parser, and of the decoder
        faults = [f"{error}; expected TOML in UTF-8"]
    raise ValueError(f"{path}: {'; '.join(faults)}")
