"""Rows of one step again, as the run saw them: to look at a loss that is not finite."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import numpy as np

from whatif_jax import Task, inputs_of

from .checkpoint import Checkpoint, Checkpoints
from .config import read_config
from .data import TRAINING, described, open_stream, stream_key
from .fit import begin
from .logs import read_log
from .step import loss_scale, make_losses, make_step

__all__ = ["describe_rows"]


def describe_rows(run: Path, step: int, rows: Sequence[int] | None = None) -> list[str]:
    """A line a row: its target, its loss, the norm of its gradient, and the size of its numbers.

    Takes the steps again from the last checkpoint to this one, on one device, and saves nothing.

    Args:
        run: folder of a run.
        step: of the run.
        rows: of the batch; None for all.

    Raises:
        ValueError: no run, a step before its last checkpoint, or rows that the batch has not; or,
            under a budget of minutes, a step after the last that was logged.
    """
    config = read_config(run)
    state, static, record = begin(config)
    stream = open_stream(config)
    with Checkpoints(run, config, described(stream), writing=False) as checkpoints:
        found = checkpoints.restore("latest", state)
    state, _, record = found or Checkpoint(state, stream_key(config, TRAINING), record)
    if step < record.steps:
        raise ValueError(f"--step: {step}; expected {record.steps} or later, the last checkpoint")
    chosen = list(range(config.batch_size)) if rows is None else list(rows)
    if not all(0 <= row < config.batch_size for row in chosen):
        raise ValueError(f"--rows: {chosen}; expected some of 0 .. {config.batch_size - 1}")
    take = make_step(static, config)
    logged = {row["step"]: row.get("share", np.nan) for row in read_log(run / "steps.csv")}
    for before in range(record.steps, step):
        share = before / config.steps if config.steps else logged.get(before + 1, np.nan)
        if np.isnan(share):
            raise ValueError(f"--step: {step}; expected one whose steps before are in steps.csv")
        state, _ = take(state, stream.batch_at(before).task, np.float32(share))
    batch, losses = stream.batch_at(step), make_losses(static, config)

    @jax.jit
    def one(parameters: Any, task: Task) -> tuple[jax.Array, ...]:
        task = jax.tree.map(lambda leaf: leaf[None], task)
        loss, gradient = jax.value_and_grad(lambda p: losses(p, task)[0])(parameters)
        squares = [jax.numpy.sum(leaf**2) for leaf in jax.tree.leaves(gradient)]
        return loss, jax.numpy.sqrt(sum(squares))

    lines = []
    for row in chosen:
        task = jax.tree.map(lambda leaf, row=row: leaf[row], batch.task)
        loss, norm = one(state.parameters, task)
        inputs = inputs_of(task)
        scale = loss_scale(inputs, task.future, task.future_mask)
        sizes = {
            "history": inputs.history,
            "future": task.future,
            "covariates": inputs.covariates[:, : int(inputs.covariate_mask.sum())],
        }
        told = ", ".join(
            f"{name} {float(np.min(values)):.4g} .. {float(np.max(values)):.4g}"
            for name, values in sizes.items()
        )
        name = _target(stream, batch, row)
        lines.append(
            f"row {row}{name}: loss {loss:.4g}, gradient {norm:.4g}, scale {scale:.4g}; {told}"
        )
    return lines


def _target(stream: object, batch: eqx.Module, row: int) -> str:
    """The target of a row, where it is of the catalog."""
    systems, spec = getattr(stream, "systems", None), getattr(batch, "spec", None)
    if systems is None or spec is None:
        return ""
    return " " + "/".join(systems.targets[int(spec.target[row])])
