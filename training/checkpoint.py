"""Checkpoints of a run: `latest` to go on from, `best` to keep, each whole or not there.

orbax writes a checkpoint under another name and renames it when it is on the disk, so that one that
was cut short is never offered; what is left of it is removed when the run goes on.
"""

import logging
import math
from pathlib import Path
from typing import Any, NamedTuple, Self

import jax
import jax.numpy as jnp
import numpy as np
import orbax.checkpoint as ocp

from .config import FitConfig
from .record import Record

__all__ = ["Checkpoint", "CheckpointError", "Checkpoints"]

FORMAT = "1"  # of what is below; raised when older checkpoints cannot be read
# fields that may change when a run goes on: none of them changes what is trained
FREE = ("evaluate_every", "save_every", "suite_tasks")


class CheckpointError(ValueError):
    """A checkpoint of another run than the one that was asked for."""


class Checkpoint(NamedTuple):
    """What is kept of a run at one step."""

    state: Any  # parameters, optimiser, moving average
    key: jax.Array  # of the stream, which with the number of steps is its position
    record: Record


class Checkpoints:
    """The checkpoints below a run's folder. A context manager.

    Every process of a run makes one and calls its methods together.

    Args:
        folder: of the run.
        config: of the run.
        stream: what its stream draws from, see `described`.
        writing: whether half-written checkpoints may be removed.
    """

    def __init__(
        self, folder: Path, config: FitConfig, stream: dict[str, Any], *, writing: bool = True
    ):
        logging.getLogger("absl").setLevel(logging.ERROR)
        self.config, self.stream = config, stream
        common: dict[str, Any] = {
            "create": writing,
            "read_only": not writing,
            "cleanup_tmp_directories": writing,
            "enable_async_checkpointing": False,  # on the disk when `save` returns
        }
        place = folder.absolute() / "checkpoints"
        self._managers = {
            "latest": _manager(place / "latest", max_to_keep=2, **common),
            "best": _manager(
                place / "best",
                max_to_keep=1,
                best_fn=lambda metrics: metrics["validation"],
                best_mode="min",
                **common,
            ),
        }

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for manager in self._managers.values():
            manager.close()

    def save(self, which: str, checkpoint: Checkpoint) -> None:
        """Write one of `latest` or `best`; returns when it is on the disk."""
        state, key, record = checkpoint
        manager = self._managers[which]
        if record.steps in manager.all_steps():
            return
        about = {
            "format": FORMAT,
            "config": self.config.model_dump(mode="json"),
            "stream": self.stream,
            "record": record.model_dump(mode="json"),
            "key_implementation": str(jax.random.key_impl(key)),
        }
        words = np.asarray(jax.random.key_data(key))
        manager.save(
            record.steps,
            args=ocp.args.Composite(
                state=ocp.args.StandardSave({"state": state, "key": words}),
                about=ocp.args.JsonSave(about),
            ),
            metrics={"validation": record.validation} if which == "best" else None,
        )

    def about(self, which: str) -> dict[str, Any] | None:
        """What the last checkpoint says of itself; None where there is none."""
        manager = self._managers[which]
        step = manager.best_step() if which == "best" else manager.latest_step()
        if step is None:
            return None
        return manager.restore(step, args=ocp.args.Composite(about=ocp.args.JsonRestore()))["about"]

    def best_loss(self) -> float:
        """Validation loss of `best`; infinite where there is none."""
        about = self.about("best")
        return math.inf if about is None else about["record"]["validation"]

    def restore(self, which: str, like: Any) -> Checkpoint | None:
        """The last checkpoint, or None where there is none.

        Args:
            which: latest or best.
            like: a state of the same structure and sharding.

        Raises:
            CheckpointError: it is of another model, split, prior version or budget; names which.
        """
        about = self.about(which)
        if about is None:
            return None
        self._check(about)
        record = Record(**about["record"])
        key = jax.random.key_data(jax.random.key(0, impl=about["key_implementation"]))
        found = self._managers[which].restore(
            record.steps,
            args=ocp.args.Composite(
                state=ocp.args.StandardRestore({"state": like, "key": np.asarray(key)})
            ),
        )["state"]
        words = jnp.asarray(found["key"])
        restored = jax.random.wrap_key_data(words, impl=about["key_implementation"])
        return Checkpoint(found["state"], restored, record)

    def _check(self, about: dict[str, Any]) -> None:
        if about["format"] != FORMAT:
            raise CheckpointError(f"checkpoint: format {about['format']}; expected {FORMAT}")
        wanted = self.config.model_dump(mode="json")
        for name, value in wanted.items():
            kept = about["config"].get(name)
            if name not in FREE and kept != value:
                raise CheckpointError(
                    f"{name}: the checkpoint has {kept}, this run {value}; expected the same, or "
                    f"another folder"
                )
        for name in sorted(self.stream.keys() | about["stream"].keys()):
            kept, value = about["stream"].get(name), self.stream.get(name)
            if kept != value:
                raise CheckpointError(
                    f"{name} of the stream: the checkpoint was trained on {kept}, this version "
                    f"draws from {value}; expected the same, or another folder"
                )


def _manager(folder: Path, **options: Any) -> ocp.CheckpointManager:
    return ocp.CheckpointManager(
        folder,
        item_names=("state", "about"),
        options=ocp.CheckpointManagerOptions(**options),
    )
