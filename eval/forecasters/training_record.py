"""What a folder of weights says of the training that made them, in a file beside them."""

from pathlib import Path
from typing import Any

import pydantic

from whatif_jax.files import explained, write_whole

from .foundation import ModelError

__all__ = ["RECORD", "TrainingRecord", "declare_training", "read_training"]

RECORD = "whatif_training.json"


class TrainingRecord(pydantic.BaseModel):
    """What a forecaster of the weights declares; see `whatif_jax.Forecaster`."""

    model_config = pydantic.ConfigDict(frozen=True, extra="forbid")

    trained_on: str  # one of the words of `trained_on`
    training: dict[str, Any] = {}  # JSON values by name

    def write(self, folder: Path) -> None:
        """Write it into a folder of weights."""
        write_whole(
            folder / RECORD, lambda path: path.write_text(self.model_dump_json(indent=2), "utf-8")
        )


def declare_training(forecaster: Any, model: str) -> None:
    """Let a forecaster declare what the record beside its weights says, where there is one.

    Args:
        forecaster: its attributes `trained_on` and `training` are set.
        model: hub id or local folder.

    Raises:
        ModelError: the record does not hold what it must.
    """
    record = read_training(model)
    if record is not None:
        forecaster.trained_on, forecaster.training = record.trained_on, record.training


def read_training(model: str) -> TrainingRecord | None:
    """The record beside some weights, None where there is none.

    Args:
        model: hub id or local folder.

    Raises:
        ModelError: the record does not hold what it must.
    """
    path = Path(model).expanduser() / RECORD
    if not path.is_file():
        return None
    try:
        with explained(ModelError, "model", path):
            return TrainingRecord.model_validate_json(path.read_bytes())
    except pydantic.ValidationError as error:
        fault = error.errors()[0]
        field = ".".join(map(str, fault["loc"])) or "JSON"
        raise ModelError(f"model: {path}: {field}: {fault['msg']}") from None
