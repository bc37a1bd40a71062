"""Train a model on the stream: the loop. What a run keeps lies in its folder.

    RUN/config.json             what the run is
    RUN/steps.csv               a row a step; evaluations.csv: a row an evaluation
    RUN/tensorboard/            the same for TensorBoard
    RUN/loss.png, skill.png     the same as pictures
    RUN/checkpoints/latest/     to go on from
    RUN/checkpoints/best/       of the smallest loss on the validation stream

Where its budget is a number of steps a run is a pure function of its config: one that was stopped,
however, goes on as if it had not been.
"""

import contextlib
import inspect
import shlex
import time
from pathlib import Path
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from whatif_jax import LEVELS, inputs_from, root_key
from whatif_jax.evaluation.trained import WIDTH
from whatif_jax.files import HeldFolder, write_whole

from .checkpoint import Checkpoint, CheckpointError, Checkpoints
from .config import FitConfig, model_factory
from .data import TRAINING, VALIDATION, described, open_stream, stream_key
from .logs import Logs
from .record import Record, versions
from .step import StepReport, TrainState, make_step, start
from .stopping import Clock, NonFiniteLossError, stop_signals
from .validation import SuitePart, Validation

__all__ = ["begin", "fit", "rows_of_devices"]

MODEL_KEY = 2  # the run's key folded with it is the model's; streams take 0 and 1


class RunFolder(HeldFolder):
    """The folder of a run, held against other processes."""

    error = CheckpointError
    what = "run"
    holder = "another run"


def fit(config: FitConfig, folder: Path, *, progress: bool = True) -> tuple[Record, int]:
    """Train until the budget is spent or a signal comes. Goes on where the folder's run stopped.

    Several processes of `jax.distributed` call it together, with a folder that they share.

    Args:
        config: of the run.
        folder: of the run; made if missing.
        progress: show a bar on a terminal, lines elsewhere.

    Returns:
        The record, and the signal that stopped the run, 0 where the budget is spent.

    Raises:
        CheckpointError: the folder's run is another one, or another process writes to it.
        NonFiniteLossError: a loss or gradient is not finite; nothing of that step is saved.
        ValueError: a field of the config that the stream or the model refuses.
    """
    sharding = rows_of_devices()
    stream = open_stream(config, TRAINING, sharding=sharding)
    validation_stream = open_stream(config, VALIDATION, sharding=sharding)
    state, static, record = begin(config, sharding)
    step = make_step(static, config, sharding)
    validation = Validation(validation_stream, static, config)
    suite = SuitePart(config.suite_tasks)
    first = jax.process_index() == 0

    with contextlib.ExitStack() as stack:
        stop = stack.enter_context(stop_signals())
        if first:
            stack.enter_context(RunFolder(folder))
        checkpoints = stack.enter_context(Checkpoints(folder, config, described(stream)))
        key = stream_key(config, TRAINING)
        state, key, record = checkpoints.restore("latest", state) or Checkpoint(state, key, record)
        best = checkpoints.best_loss()
        logs = None
        if first:
            write_config(config, folder)
            logs = stack.enter_context(Logs(folder, config, record, progress=progress))
        clock = Clock(config, record.seconds)
        batches = stream.iterate(record.steps)  # makes the next batch while a step is taken

        while True:
            stopped, share = clock.look(stop, record.steps)
            due = share >= 1 or (record.steps > 0 and record.steps % config.evaluate_every == 0)
            if due and record.evaluated < record.steps and not stopped:
                loss = validation.loss(state.average)
                skill = suite.skill(state.average, static) if first and not stop.signal else {}
                record = record.now(
                    evaluated=record.steps, validation=loss, skill=skill, seconds=clock.seconds()
                )
                if logs is not None:
                    logs.evaluation(record)
                if loss < best:
                    checkpoints.save("best", Checkpoint(state, key, record))
                    best = loss
            saved = due or record.steps % config.save_every == 0
            if record.steps and (saved or stopped):
                checkpoints.save("latest", Checkpoint(state, key, record))
            if stopped or share >= 1:
                return record, stop.signal

            began = time.perf_counter()
            tasks = next(batches).task
            waited = time.perf_counter() - began
            state, report = step(state, tasks, np.float32(share))
            told = checked(jax.device_get(report), record.steps, folder)
            record = record.now(
                steps=record.steps + 1,
                tasks=record.tasks + config.batch_size,
                seconds=clock.seconds(),
                waited=record.waited + waited,
            )
            if logs is not None:
                row = {name: float(getattr(told, name)) for name in StepReport.numbers}
                row |= {"seconds": time.perf_counter() - began, "waited": waited}
                logs.step(record, {"step": record.steps, **row, "share": float(np.float32(share))})


def begin(
    config: FitConfig, sharding: NamedSharding | None = None
) -> tuple[TrainState, object, Record]:
    """State before the first step, the model without its parameters, and an empty record."""
    model_key = jax.random.fold_in(root_key(config.seed), MODEL_KEY)
    state, static = start(made_model(config, model_key), config)
    if sharding is not None:
        state = jax.device_put(state, NamedSharding(sharding.mesh, PartitionSpec()))
    sizes = [leaf.size for leaf in jax.tree.leaves(state.parameters)]
    devices = f"{jax.device_count()} x {jax.devices()[0].device_kind}"
    return state, static, Record(parameters=sum(sizes), devices=devices, versions=versions())


def made_model(config: FitConfig, key: jax.Array) -> Any:
    """The model of a run before its first step.

    Raises:
        ValueError: the factory cannot be called as FACTORY(size, key=...), or its model does not
            return quantiles [H, 9].
    """
    factory = model_factory(config.model)
    try:
        inspect.signature(factory).bind(config.size, key=key)
    except TypeError as error:
        raise ValueError(
            f"model: {config.model!r}: {error}; expected to be called as FACTORY(size, key=...)"
        ) from None
    model = factory(config.size, key=key)
    context, horizon = config.buckets[0]
    answer = jax.eval_shape(
        lambda history, covariates: model(inputs_from(history, covariates, horizon)),
        jax.ShapeDtypeStruct((context,), np.float32),
        jax.ShapeDtypeStruct((context + horizon, WIDTH), np.float32),
    )
    shape, wanted = getattr(answer, "shape", type(answer).__name__), (horizon, len(LEVELS))
    if shape != wanted:
        raise ValueError(
            f"model: {config.model!r} returns {shape}; expected quantiles {wanted}, one for each "
            f"of whatif_jax.LEVELS"
        )
    return model


def rows_of_devices() -> NamedSharding | None:
    """Rows of a batch over all devices of all processes; None where there is one."""
    devices = np.array(jax.devices())
    return (
        None if devices.size == 1 else NamedSharding(Mesh(devices, "data"), PartitionSpec("data"))
    )


def checked(report: StepReport, step: int, folder: Path) -> StepReport:
    """The report of a step; NonFiniteLossError where it is none to go on from."""
    rows = np.flatnonzero(~np.isfinite(report.losses)).tolist()
    if not rows and np.isfinite(report.gradient_norm) and report.finite:
        return report
    what = "loss" if rows else "parameters" if np.isfinite(report.gradient_norm) else "gradient"
    where = f" --rows {','.join(map(str, rows))}" if rows else ""
    raise NonFiniteLossError(
        f"{what}: not finite at step {step}, rows {rows or 'unknown'} of the batch; nothing of it "
        f"is saved; see it: python -m training rows {shlex.quote(str(folder))} --step {step}{where}"
    )


def write_config(config: FitConfig, folder: Path) -> None:
    """Write config.json of a run."""
    text = config.model_dump_json(indent=1)
    write_whole(folder / "config.json", lambda at: at.write_text(text + "\n", "utf-8"))
