"""What a run trains, on what and for how long: one record, kept beside its checkpoints."""

import importlib
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal, Self

import pydantic
from pydantic import Field

__all__ = ["PRECISIONS", "SPLITS", "FitConfig", "config_of", "model_factory", "read_config"]

SPLITS = ("randomised", "leave-one-system-out", "in-distribution")
PRECISIONS = ("float32", "bfloat16")


class FitConfig(pydantic.BaseModel):
    """Everything that decides a run's numbers. Runs of equal fields are equal, bit for bit."""

    # config.json has no infinite numbers
    model_config = pydantic.ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    # the model
    model: str = "training.model:make_model"  # MODULE:FACTORY
    size: str = "tiny"
    precision: Literal["float32", "bfloat16"] = "float32"  # of the computation; parameters: float32
    seed: int = Field(0, ge=0, lt=2**32)
    # the stream
    split: Literal["randomised", "leave-one-system-out", "in-distribution"] = "randomised"
    left_out: str | None = None
    systems: tuple[str, ...] | None = None  # of the catalog; None: all
    buckets: tuple[tuple[int, int], ...] = ((256, 64), (512, 64), (1024, 128))
    batch_size: int = Field(64, ge=1)
    stream: dict[str, Any] = {}  # other arguments of the stream
    # the budget: one of the two
    steps: int | None = Field(None, ge=1)
    minutes: float | None = Field(None, gt=0)
    # the optimiser
    learning_rate: float = Field(1e-3, gt=0)
    warmup: float = Field(0.05, ge=0, lt=1)  # share of the budget
    weight_decay: float = Field(0.01, ge=0)
    clip: float = Field(1.0, gt=0)  # of the gradient's global norm
    averaging: float = Field(0.999, ge=0, lt=1)  # decay of the moving average of the parameters
    # evaluation and checkpoints
    evaluate_every: int = Field(250, ge=1)  # steps
    validation_batches: int = Field(12, ge=1)
    suite_tasks: int = Field(64, ge=0)  # of the frozen suite; never looked at to choose
    save_every: int = Field(250, ge=1)

    @pydantic.model_validator(mode="after")
    def _together(self) -> Self:
        if (self.steps is None) == (self.minutes is None):
            raise ValueError("steps, minutes: expected one of the two")
        if (self.left_out is None) == (self.split == "leave-one-system-out"):
            raise ValueError(
                f"left_out: {self.left_out}; expected a system's name with the split "
                f"leave-one-system-out, and none with another"
            )
        if self.systems is not None and self.split != "in-distribution":
            raise ValueError(
                f"systems: {', '.join(self.systems)}; expected none but with the split "
                f"in-distribution"
            )
        return self


def config_of(values: dict[str, Any]) -> FitConfig:
    """A config from values by name.

    Raises:
        ValueError: names the first field that is wrong, its value and what was expected.
    """
    try:
        return FitConfig(**values)
    except pydantic.ValidationError as error:
        fault = error.errors()[0]
        if fault["type"] == "value_error":
            raise ValueError(str(fault["ctx"]["error"])) from None
        place = ".".join(str(part) for part in fault["loc"])
        if fault["type"] == "extra_forbidden":
            from whatif_jax.catalog.errors import one_of

            expected = one_of(sorted(FitConfig.model_fields), place)
            more = "; fields of the stream go into --set 'stream={...}'"
            raise ValueError(f"{place}: no field of a run; expected {expected}{more}") from None
        text = fault["msg"].removeprefix("Input should be ")
        raise ValueError(f"{place}: {str(fault['input'])[:80]!r}; expected {text}") from None


def read_config(folder: Path) -> FitConfig:
    """The config of the run in a folder.

    Raises:
        ValueError: there is none, or it cannot be read.
    """
    path = folder / "config.json"
    try:
        values = json.loads(path.read_bytes())
    except OSError as error:
        raise ValueError(f"run: {path}: {error.strerror}; expected a folder of `fit`") from None
    except ValueError as error:
        raise ValueError(f"run: {path}: {error}; expected a folder of `fit`") from None
    if not isinstance(values, dict):
        raise ValueError(f"run: {path}: a {type(values).__name__}; expected fields by name")
    return config_of(values)


def model_factory(name: str) -> Callable[..., Any]:
    """The factory `make(size, *, key)` that MODULE:FACTORY names; looked for here too.

    Raises:
        ValueError: no such module or function.
    """
    module, _, attribute = name.partition(":")
    if not (module and attribute):
        raise ValueError(f"model: {name!r}; expected MODULE:FACTORY, such as mine:make")
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    try:
        return getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError, ValueError) as error:
        raise ValueError(
            f"model: {name!r}: {error}; expected MODULE:FACTORY, looked for here too"
        ) from None
