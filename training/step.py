"""One step of training: the loss of a batch, and what the optimiser makes of its gradient."""

from collections.abc import Callable
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jax.sharding import NamedSharding, PartitionSpec

from whatif_jax import LEVELS, ForecastInputs, Task, inputs_of, quantile_loss, scale_inputs
from whatif_jax._types import Array, Bool, BoolScalar, Float, FloatScalar

from .config import FitConfig

__all__ = ["StepReport", "TrainState", "loss_scale", "make_losses", "make_step", "start"]


LARGE_LOSS = 8.0  # of a task; from about here on its logarithm counts
SMALLEST_LOSS = 0.003  # relative; errors below it count as alike


class TrainState(eqx.Module):
    """What a step changes. All of it is float32, whatever the computation is in."""

    parameters: Any
    optimiser: Any
    average: Any  # moving average of the parameters, which forecasts are made with
    steps: Array  # int32 []


class StepReport(eqx.Module):
    """What a step says of itself."""

    numbers: ClassVar = ("loss", "learning_rate", "gradient_norm")

    losses: Float[Array, " B"]
    loss: FloatScalar  # their mean
    learning_rate: FloatScalar
    gradient_norm: FloatScalar  # before clipping
    finite: BoolScalar  # whether the parameters it made are


def loss_scale(
    inputs: ForecastInputs, truth: Float[Array, " H"], mask: Bool[Array, " H"]
) -> FloatScalar:
    """What the loss of a task is divided by, so that no task decides a batch's gradient.

    The standard deviation of its history, or the mean distance of its future from the history's
    mean where that is larger: futures reach 126 standard deviations, and an error of such a size
    would count as a hundred tasks. A forecast of the mean has a loss of at most about 1.
    """
    scaled = scale_inputs(inputs)
    counted = mask & jnp.isfinite(truth)
    far = jnp.where(counted, jnp.abs(truth - scaled.location), 0.0)
    mean = jnp.sum(far) / jnp.maximum(jnp.sum(counted, dtype=far.dtype), 1.0)
    # a history of zeros has no scale, nor has a future of them
    scale = jnp.maximum(scaled.scale, mean)
    return jnp.where(scale > 0, scale, 1.0)


def make_losses(
    static: Any, config: FitConfig, *, relative: bool = False
) -> Callable[[Any, Task], Float[Array, " B"]]:
    """The function of parameters and a batch that gives the loss of each task.

    Args:
        static: the model without its parameters. It may have a method `forecast_and_scale(inputs)`,
            which returns the size of the error to be expected too, from inputs alone: then that is
            what its loss is divided by, so that easy tasks are not drowned by hard ones.
        config: its precision is that of the computation.
        relative: the logarithm of the loss over `loss_scale`, whatever the model: what runs are
            compared by, since a skill score is a geometric mean.
    """
    kind = jnp.dtype(config.precision)

    def one(parameters: Any, task: Task) -> Array:
        model, inputs = eqx.combine(parameters, static), inputs_of(task)
        scale = loss_scale(inputs, task.future, task.future_mask)
        if hasattr(model, "forecast_and_scale") and not relative:
            forecast, scale = model.forecast_and_scale(inputs)
        else:
            forecast = model(inputs)
        loss = quantile_loss(
            forecast.astype(jnp.float32), task.future, task.future_mask, LEVELS
        ) / jax.lax.stop_gradient(scale.astype(jnp.float32))
        if relative:
            return jnp.log(loss + SMALLEST_LOSS)
        return LARGE_LOSS * jnp.log1p(loss / LARGE_LOSS)  # a few far tasks do not decide a batch

    def losses(parameters: Any, tasks: Task) -> Array:
        computed = jax.tree.map(lambda leaf: leaf.astype(kind), parameters)
        return jax.vmap(one, (None, 0))(computed, tasks)

    return losses


def make_optimiser(config: FitConfig) -> optax.GradientTransformation:
    """AdamW without its learning rate: matrices decay, biases and scales do not."""

    def matrices(parameters: Any) -> Any:
        return jax.tree.map(lambda leaf: leaf.ndim > 1, parameters)

    return optax.chain(
        optax.clip_by_global_norm(config.clip),
        optax.scale_by_adam(b2=0.99),
        optax.add_decayed_weights(config.weight_decay, matrices),
    )


def start(model: Any, config: FitConfig) -> tuple[TrainState, Any]:
    """The state before the first step, and the model without its parameters."""
    parameters, static = eqx.partition(model, eqx.is_inexact_array)
    average = jax.tree.map(jnp.copy, parameters)  # a buffer of its own, since steps donate theirs
    optimiser = make_optimiser(config).init(parameters)
    return TrainState(parameters, optimiser, average, jnp.zeros((), jnp.int32)), static


def make_step(
    static: Any, config: FitConfig, sharding: NamedSharding | None = None
) -> Callable[[TrainState, Task, Any], tuple[TrainState, StepReport]]:
    """The compiled step: (state, tasks, share of the budget spent) to (state, report).

    The state that is given is used up. Compiled once a bucket.

    Args:
        static: the model without its parameters.
        config: of the run.
        sharding: of the rows of a batch over devices; the state is on all of them.
    """
    losses_of, optimiser = make_losses(static, config), make_optimiser(config)
    schedule = optax.warmup_cosine_decay_schedule(
        0.1 * config.learning_rate,
        config.learning_rate,
        max(config.warmup, 1e-6),
        1.0,
        0.01 * config.learning_rate,
    )

    def step(state: TrainState, tasks: Task, share: Array) -> tuple[TrainState, StepReport]:
        def mean_loss(parameters: Any) -> tuple[Array, Array]:
            losses = losses_of(parameters, tasks)
            return jnp.mean(losses), losses

        (loss, losses), gradient = jax.value_and_grad(mean_loss, has_aux=True)(state.parameters)
        updates, kept = optimiser.update(gradient, state.optimiser, state.parameters)
        rate = jnp.asarray(schedule(share), jnp.float32)
        updates = jax.tree.map(lambda update: -rate * update, updates)
        parameters = optax.apply_updates(state.parameters, updates)
        # young averages forget sooner, so that they do not remember the start
        count = state.steps.astype(jnp.float32)
        decay = jnp.minimum(jnp.float32(config.averaging), (1.0 + count) / (10.0 + count))
        average = optax.incremental_update(parameters, state.average, 1.0 - decay)
        finite = jax.tree.map(lambda leaf: jnp.all(jnp.isfinite(leaf)), parameters)
        whole = jnp.all(jnp.stack(jax.tree.leaves(finite)))
        report = StepReport(losses, loss, rate, optax.tree.norm(gradient), whole)
        return TrainState(parameters, kept, average, state.steps + jnp.int32(1)), report

    if sharding is None:
        return jax.jit(step, donate_argnums=0)
    everywhere = NamedSharding(sharding.mesh, PartitionSpec())
    return jax.jit(step, donate_argnums=0, out_shardings=(everywhere, everywhere))
