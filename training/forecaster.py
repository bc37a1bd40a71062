"""Trained models as two files: weights.npz and record.json. Written by `export`, read to forecast.

The weights are the moving average of the parameters, by their places in the model.
"""

import hashlib
import json
import zipfile
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import numpy as np
import pydantic

from whatif_jax import TrainedForecaster, root_key
from whatif_jax.evaluation import LEVELS
from whatif_jax.files import write_whole

from .config import FitConfig, model_factory
from .data import trained_on
from .record import Record

__all__ = ["TrainedRecord", "export", "load_forecaster"]

FORMAT = "1"
WEIGHTS, RECORD = "weights.npz", "record.json"


class TrainedRecord(pydantic.BaseModel):
    """record.json: what the weights are of, and how they came about."""

    model_config = pydantic.ConfigDict(frozen=True, extra="forbid")

    format: str
    config: FitConfig
    stream: dict[str, Any]  # what it was trained on
    which: str  # latest or best
    training: Record
    weights: str  # SHA-256 of weights.npz
    levels: tuple[float, ...]


def export(run: Path, folder: Path, *, which: str = "best") -> TrainedRecord:
    """Write the weights of a run's checkpoint, and their record, into a folder.

    Raises:
        ValueError: no run, or one without such a checkpoint.
    """
    from .checkpoint import Checkpoints
    from .config import read_config
    from .data import described, open_stream
    from .fit import begin

    config = read_config(run)
    state, _, _ = begin(config)
    stream = described(open_stream(config))
    with Checkpoints(run, config, stream, writing=False) as checkpoints:
        found = checkpoints.restore(which, state)
    if found is None:
        raise ValueError(
            f"run: {run} has no checkpoint {which!r} yet; expected one: go on with `fit {run}` "
            + ("until it is evaluated, or export `--which latest`" if which == "best" else "")
        )
    leaves = {name: np.asarray(leaf) for name, leaf in named_leaves(found.state.average).items()}

    def save(at: Path) -> None:
        with at.open("wb") as file:  # a name without .npz would get one
            np.savez(file, allow_pickle=False, **leaves)

    write_whole(folder / WEIGHTS, save)
    record = TrainedRecord(
        format=FORMAT,
        config=config,
        stream=stream,
        which=which,
        training=found.record,
        weights=hashlib.sha256((folder / WEIGHTS).read_bytes()).hexdigest(),
        levels=LEVELS,
    )
    text = record.model_dump_json(indent=1) + "\n"
    write_whole(folder / RECORD, lambda at: at.write_text(text, "utf-8"))
    return record


def load_forecaster(folder: str | Path) -> TrainedForecaster:
    """The forecaster of an exported model.

    Called with `(history [B, T], covariates [B, T + H, K], horizon, levels)`, it returns quantiles
    [B, H, Q] in the target's unit; see `whatif_jax.Forecaster`.

    Args:
        folder: that `export` wrote.

    Raises:
        ValueError: no such folder, or files in it that do not belong together.
    """
    folder = Path(folder)
    record = _read_record(folder / RECORD)
    config = record.config
    like = model_factory(config.model)(config.size, key=root_key(0))
    parameters, static = eqx.partition(like, eqx.is_inexact_array)
    model = eqx.combine(_read_weights(folder / WEIGHTS, record, parameters), static)
    settings = {
        "size": config.size,
        "split": config.split,
        "prior": record.stream["prior"],
        "seed": config.seed,
        "steps": record.training.steps,
        "weights": record.weights[:12],
    }
    if config.left_out is not None:
        settings["left_out"] = config.left_out
    declared = trained_on(config, record.stream)
    return TrainedForecaster(
        model,
        "ours",
        trained_on=declared.pop("trained_on"),
        settings=settings,
        training={**declared, "record": record.model_dump(mode="json")},
        levels=record.levels,
        informed=getattr(like, "informed", False),
    )


def named_leaves(parameters: Any) -> dict[str, Any]:
    """Parameters by their places in the model."""
    found, _ = jax.tree.flatten_with_path(parameters)
    return {jax.tree_util.keystr(path).lstrip("."): leaf for path, leaf in found}


def _read_record(path: Path) -> TrainedRecord:
    expected = "expected a folder of `python -m training export`"
    try:
        values = json.loads(path.read_bytes())
    except (OSError, ValueError) as error:
        raise ValueError(f"checkpoint: {path}: {error}; {expected}") from None
    if isinstance(values, dict) and values.get("format", FORMAT) != FORMAT:
        raise ValueError(f"checkpoint: {path}: format {values['format']}; expected {FORMAT}")
    try:
        return TrainedRecord.model_validate(values)
    except pydantic.ValidationError as error:
        fault = error.errors()[0]
        place = ".".join(map(str, fault["loc"]))
        raise ValueError(f"checkpoint: {path}: {place}: {fault['msg']}; {expected}") from None


def _read_weights(path: Path, record: TrainedRecord, like: Any) -> Any:
    """The parameters, in the places of `like`."""
    try:
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
        if digest != record.weights:
            raise ValueError(f"SHA-256 {digest[:12]}, {RECORD} says {record.weights[:12]}")
        with np.load(path, allow_pickle=False) as file:
            arrays = dict(file)
    except (OSError, ValueError, zipfile.BadZipFile) as error:
        raise ValueError(f"checkpoint: {path}: {error}; expected the file of `export`") from None
    wanted = named_leaves(like)
    odd = sorted(arrays.keys() ^ wanted.keys()) or [
        name for name, leaf in wanted.items() if arrays[name].shape != leaf.shape
    ]
    if odd:
        raise ValueError(
            f"checkpoint: {path}: {odd[0]} differs from {record.config.model} of size "
            f"{record.config.size}; expected the weights of the same model"
        )
    leaves = [jax.device_put(arrays[name]) for name in wanted]
    return jax.tree.unflatten(jax.tree.structure(like), leaves)
