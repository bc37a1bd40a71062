"""Chronos-2 on batches of the stream: its own model, loss and trainer.

Its dataset cuts a window out of a long series wherever it likes; a task of the stream is one window
already, whose future is where its event begins. So batches are made here, as its dataset makes them
of the last window of a series.

References:
    Ansari et al., Chronos-2: from univariate to universal forecasting. arXiv:2510.15821.
"""

import dataclasses
import importlib.metadata
import math
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
from chronos import Chronos2Pipeline
from chronos.chronos2.trainer import Chronos2Trainer
from torch.utils.data import IterableDataset
from transformers import TrainerCallback
from transformers.trainer_callback import PrinterCallback
from transformers.training_args import TrainingArguments

from eval.forecasters.foundation import loading
from eval.forecasters.training_record import TrainingRecord, read_training
from whatif_jax.files import UNFINISHED
from whatif_jax.tasks.stream_arrays import Stream
from whatif_jax.tasks.torch_source import StreamDataset

__all__ = ["ChronosBatches", "NonFiniteLossError", "TuningConfig", "chronos_batch", "fine_tune"]

PACKAGES = ("whatif-jax", "chronos-forecasting", "torch", "transformers")


class NonFiniteLossError(RuntimeError):
    """A loss, or the weights it left, is not finite; says which batches make it again."""


@dataclasses.dataclass(frozen=True)
class TuningConfig:
    """How a model is fine-tuned."""

    steps: int
    start: int = 0  # step of the stream to begin at
    learning_rate: float = 1e-6  # at the first step, then linearly to 0: Chronos-2's own default
    seed: int = 0  # of what torch draws, such as dropout


def chronos_batch(tensors: Mapping[str, Any], patch: int) -> dict[str, Any]:
    """A batch of the stream as the arguments of `Chronos2Model.forward`.

    A task becomes a group of 1 + K rows, the target and then its covariates, each over T steps of
    context and H of future. NaN is what is missing, unknown, or not asked for.

    Args:
        tensors: of `StreamDataset`.
        patch: steps of a patch of the model's output.
    """
    history, future = tensors["history"], tensors["future"]
    mask, ahead = tensors["history_mask"], tensors["future_mask"]
    steps, horizon = history.shape[1], future.shape[1]
    missing = history.new_tensor(math.nan)
    begun = mask.cumsum(1) > 0  # a history is padded on its left, covariates with it
    known = torch.where(
        torch.cat([begun, ahead], 1).unsqueeze(1), tensors["covariates"].transpose(1, 2), missing
    )
    target = torch.where(mask, history, missing).unsqueeze(1)
    wanted = torch.where(ahead, future, missing).unsqueeze(1)
    nothing = torch.full_like(wanted, math.nan)
    there = torch.cat([torch.ones_like(ahead[:, :1]), tensors["covariate_mask"]], 1)
    groups = torch.arange(len(history), device=history.device).unsqueeze(1).expand_as(there)
    return {
        "context": torch.cat([target, known[..., :steps]], 1)[there],
        "future_target": torch.cat([wanted, nothing.expand_as(known[..., steps:])], 1)[there],
        "future_covariates": torch.cat([nothing, known[..., steps:]], 1)[there],
        "group_ids": groups[there],
        "num_output_patches": math.ceil(horizon / patch),
    }


class ChronosBatches(IterableDataset):
    """Batches of the stream for `Chronos2Trainer`, in order.

    Args:
        batches: of the stream.
        patch: steps of a patch of the model's output.
    """

    def __init__(self, batches: StreamDataset, patch: int):
        self.batches, self.patch = batches, patch
        self.batch_size = batches.stream.batch_size  # read by the trainer
        self.longest = (0, 0)  # context and horizon so far

    def __iter__(self) -> Iterator[dict[str, Any]]:
        for tensors in self.batches:
            shape = (tensors["history"].shape[1], tensors["future"].shape[1])
            self.longest = tuple(map(max, self.longest, shape))
            yield chronos_batch(tensors, self.patch)


class _Losses(TrainerCallback):
    """Prints the losses that the trainer logs, and stops at one that is not finite."""

    def __init__(self, batches: str):
        self.batches, self.last = batches, math.nan

    def on_log(self, arguments: Any, state: Any, control: Any, logs: Any = None, **_: Any) -> None:
        if "loss" not in (logs or {}):
            return
        self.last = float(logs["loss"])
        if not math.isfinite(self.last):
            raise NonFiniteLossError(
                f"loss: {self.last} by step {state.global_step} of {self.batches}"
            )
        if state.is_world_process_zero:
            print(f"step {state.global_step}: loss {self.last:.5f}", flush=True)


def fine_tune(
    model: str,
    stream: Stream,
    out: Path,
    config: TuningConfig,
    *,
    trained_on: str,
    training: Mapping[str, Any],
    device: str = "cpu",
) -> TrainingRecord:
    """Fine-tune all weights of a model on a stream, and save it with a record.

    One process makes the stream's steps from `config.start` on; started by torchrun, each process
    makes its share of them.

    Args:
        model: hub id or local folder.
        stream: of tasks.
        out: folder to write, which does not exist yet.
        config: budget and learning rate.
        trained_on: what the record declares.
        training: more of it.
        device: of torch, "cpu" or "cuda".

    Returns:
        The record, which is in the folder too.

    Raises:
        ModelError: the model cannot be loaded.
        ValueError: the folder exists, or several GPUs are seen by one process; or the model was
            fine-tuned before, on what the new record would not tell of.
        NonFiniteLossError: nothing is saved.
    """
    if out.exists():
        raise ValueError(f"out: {str(out)!r} exists; expected a new folder")
    _refuse_other_training(model, trained_on, training)
    with loading(model) as source:
        network = Chronos2Pipeline.from_pretrained(source, device_map=device).model
    settings = network.chronos_config
    out.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch:
        arguments = TrainingArguments(
            output_dir=scratch,
            max_steps=config.steps,
            learning_rate=config.learning_rate,
            lr_scheduler_type="linear",
            per_device_train_batch_size=stream.batch_size,
            logging_steps=max(1, min(100, config.steps // 10)),
            logging_nan_inf_filter=False,
            save_strategy="no",
            report_to="none",
            seed=config.seed,
            disable_tqdm=True,
            dataloader_pin_memory=False,
            use_cpu=device == "cpu",
            bf16=device != "cpu" and torch.cuda.get_device_capability()[0] >= 8,  # as its `fit`
        )
        if arguments.n_gpu > 1:
            raise ValueError(
                f"device: {arguments.n_gpu} GPUs; expected one, by CUDA_VISIBLE_DEVICES=0, or one "
                f"process each, by torchrun"
            )
        share = dict(rank=arguments.process_index, world_size=arguments.world_size)
        batches = StreamDataset(stream, config.start, **share)
        dataset = ChronosBatches(batches, settings.output_patch_size)
        losses = _Losses(f"the stream from step {config.start} on: {stream!r}")
        trainer = Chronos2Trainer(
            model=network, args=arguments, train_dataset=dataset, callbacks=[losses]
        )
        trainer.remove_callback(PrinterCallback)
        trainer.train()
    if not all(bool(torch.isfinite(weight).all()) for weight in network.parameters()):
        raise NonFiniteLossError(f"weights: not finite after {config.steps} steps; nothing saved")
    _note_sizes(network, *dataset.longest)
    record = TrainingRecord(
        trained_on=trained_on,
        training={
            **training,
            "model": model,
            **dataclasses.asdict(config),
            "batch_size": stream.batch_size,
            "processes": arguments.world_size,
            "next_step": config.start + config.steps * arguments.world_size,
            "loss": losses.last,
            "versions": {name: importlib.metadata.version(name) for name in PACKAGES},
        },
    )
    if trainer.is_world_process_zero():
        _save(network, record, out)
    return record


def _refuse_other_training(model: str, trained_on: str, training: Mapping[str, Any]) -> None:
    """Refuse weights that have seen the catalog where the new record would hide it."""
    before = read_training(model)
    if before is None or before.trained_on in ("randomised", "published"):
        return

    def seen(word: str, more: Mapping[str, Any]) -> list[Any]:
        return [word, more.get("systems"), more.get("left_out")]

    was, now = seen(before.trained_on, before.training), seen(trained_on, training)
    if was != now:
        told = ", ".join(str(each) for each in was if each is not None)
        raise ValueError(
            f"model: {model}: its weights were trained on {told}; expected the same split, or "
            f"weights that have not seen the catalog"
        )


def _note_sizes(network: Any, context: int, horizon: int) -> None:
    """Let the model's settings say what it was fine-tuned on, as its own `fit` does."""
    settings = network.chronos_config
    settings.context_length = max(settings.context_length, context)
    patches = math.ceil(horizon / settings.output_patch_size)
    settings.max_output_patches = max(settings.max_output_patches, patches)
    network.config.chronos_config = dict(vars(settings))


def _save(network: Any, record: TrainingRecord, out: Path) -> None:
    """The folder, whole or not at all."""
    unfinished = out.with_name(out.name + UNFINISHED)
    shutil.rmtree(unfinished, ignore_errors=True)
    Chronos2Pipeline(network).save_pretrained(unfinished)
    record.write(unfinished)
    os.replace(unfinished, out)
