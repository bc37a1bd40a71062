"""What a checkpoint says of the training that made it."""

import importlib.metadata

import pydantic

__all__ = ["Record", "versions"]

PACKAGES = ("whatif-jax", "jax", "equinox", "optax", "orbax-checkpoint")


class Record(pydantic.BaseModel):
    """The training so far."""

    model_config = pydantic.ConfigDict(frozen=True, extra="forbid")

    steps: int = 0  # taken: the position in the stream
    tasks: int = 0  # trained on
    seconds: float = 0.0  # compilation and evaluation included
    waited: float = 0.0  # of them, for data
    evaluated: int = 0  # the step of the last evaluation
    validation: float | None = None  # its loss
    skill: dict[str, float] = {}  # on a part of the frozen suite, in percent: suite, replay, novel
    parameters: int = 0
    devices: str = ""
    versions: dict[str, str] = {}

    def now(self, **changes: object) -> "Record":
        """The same with some fields changed."""
        return Record(**{**self.model_dump(), **changes})


def versions() -> dict[str, str]:
    """Of the packages that decide the numbers."""
    return {name: importlib.metadata.version(name) for name in PACKAGES}
