"""An in-context regressor over events that corrects a closed form, or works without one.

Tokens are past events (the factors they set and the change they made), the last patches of the
history (what is left when the baseline is taken away) and segments of the future (the factors that
will be set). What the model gives for a segment mixes candidate forecasts, scales them, shifts them
and spreads quantiles around them; without training it is the closed form itself.
"""

from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp

from whatif_jax._types import Array, Float, FloatScalar, PRNGKeyArray
from whatif_jax.tasks.inputs import ForecastInputs

from .blocks import LEVELS, Block, enter, offsets
from .closed import FORMS, ClosedForm, closed_form

__all__ = ["EventModel"]

SEGMENTS = 8  # of the future; what is between their middles is interpolated
PATCH = 16
PATCHES = 32  # of the history, the last ones
WIDEST = 8  # covariates
FARTHEST = 6.0  # of a logarithm of a ratio


class EventModel(eqx.Module):
    """See the module; unbatched."""

    enter_patch: eqx.nn.Linear
    enter_event: eqx.nn.Linear
    enter_segment: eqx.nn.Linear
    blocks: tuple[Block, ...]
    norm: eqx.nn.LayerNorm
    leave: eqx.nn.Linear
    with_gain: bool = eqx.field(static=True)
    informed: ClassVar[str] = (
        "it begins with fits that know that responses are smooth, vanish at base and resemble "
        "power laws, so its number measures the suite as much as itself"
    )

    def __init__(
        self, width: int, heads: int, depth: int, *, with_gain: bool = True, key: PRNGKeyArray
    ):
        keys = jax.random.split(key, 5)
        self.enter_patch = eqx.nn.Linear(3 * PATCH + 1, width, key=keys[0])
        self.enter_event = eqx.nn.Linear(3 * WIDEST + 7 + len(FORMS), width, key=keys[1])
        self.enter_segment = eqx.nn.Linear(2 * WIDEST + 3 * len(FORMS) + 11, width, key=keys[2])
        self.blocks = tuple(Block(width, heads, key=k) for k in jax.random.split(keys[3], depth))
        self.norm = eqx.nn.LayerNorm(width)
        leave = eqx.nn.Linear(width, len(FORMS) + 3 + len(LEVELS), key=keys[4])
        # begins at the closed form
        leave = eqx.tree_at(lambda layer: layer.weight, leave, 0.01 * leave.weight)
        self.leave = eqx.tree_at(lambda layer: layer.bias, leave, jnp.zeros_like(leave.bias))
        self.with_gain = with_gain

    def __call__(self, inputs: ForecastInputs) -> Float[Array, "H Q"]:
        """Quantiles at `LEVELS`, in the target's unit."""
        return self.forecast_and_scale(inputs)[0]

    def forecast_and_scale(self, inputs: ForecastInputs) -> tuple[Float[Array, "H Q"], FloatScalar]:
        """The quantiles, and the size of the error that the closed form itself expects."""
        closed = closed_form(inputs)
        patches, patch_mask = self._patches(inputs, closed)
        events, event_mask = self._events(closed)
        segments = self._segments(inputs, closed)
        tokens = jnp.concatenate([segments, events, patches])
        mask = jnp.concatenate([jnp.ones(SEGMENTS, bool), event_mask, patch_mask])
        for block in self.blocks[:-1]:
            tokens = block(tokens, mask)
        tokens = self.blocks[-1](tokens, mask, SEGMENTS)  # the others would not be read
        found = jax.vmap(self.leave)(jax.vmap(self.norm)(tokens))
        found = found.astype(closed.future.dtype)  # tokens may be of fewer bits, forecasts not
        forecast = self._forecast(_along(found, inputs.horizon), closed)
        forecast = forecast.astype(inputs.history.dtype)
        return forecast, jnp.mean(closed.spread) + 0.02 * jnp.mean(jnp.abs(closed.future))

    def _patches(self, inputs: ForecastInputs, closed: ClosedForm) -> tuple[Array, Array]:
        """Tokens of the last steps: the residual, the level, and where events hold."""
        steps = PATCH * PATCHES
        residual = jnp.where(closed.free, inputs.history - closed.past, 0.0) / closed.unit
        level = jnp.where(closed.free, inputs.history - closed.level, 0.0) / closed.unit

        def cut(values: Array) -> Array:
            values = values[-steps:]
            return jnp.pad(values, (steps - values.shape[0], 0)).reshape(PATCHES, PATCH)

        free = cut(closed.free.astype(residual.dtype))
        place = jnp.linspace(-1.0, 0.0, PATCHES, dtype=residual.dtype)[:, None]
        shown = jnp.concatenate(
            [jnp.arcsinh(cut(residual)), jnp.arcsinh(cut(level)), free, place], axis=1
        )
        return enter(self.enter_patch, shown), jnp.any(free > 0, axis=1)

    def _events(self, closed: ClosedForm) -> tuple[Array, Array]:
        """Tokens of past events: their factors and the change they made."""
        peaks, doses = _wide(closed.event_peaks), _wide(closed.event_doses)
        count = jnp.log1p(jnp.sum(closed.event_mask, dtype=peaks.dtype))
        facts = [
            jnp.clip(closed.event_ratio, -FARTHEST, FARTHEST),
            jnp.arcsinh(closed.event_change / closed.unit),
            closed.event_place,
            jnp.log1p(closed.event_steps) / 6.0,
            jnp.broadcast_to(count, closed.event_ratio.shape),
            jnp.max(jnp.abs(peaks), axis=1),
            jnp.arcsinh(jnp.abs(closed.event_change) / closed.unit),
        ]
        errors = jnp.arcsinh(10.0 * closed.event_errors) / 3.0
        parts = [peaks, doses, jnp.abs(peaks), errors, jnp.stack(facts, axis=1)]
        shown = jnp.where(closed.event_mask[:, None], jnp.concatenate(parts, axis=1), 0.0)
        return enter(self.enter_event, shown), closed.event_mask

    def _segments(self, inputs: ForecastInputs, closed: ClosedForm) -> Array:
        """Tokens of the future: factors to come, what each form makes of them, how sure it is."""
        middles = _middles(inputs.horizon)

        def read(rows: Array) -> Array:  # [..., H] at the middles
            return rows[..., middles]

        logs = _wide(closed.future_logs[middles])
        base = read(closed.future)
        ratios = _log_ratio(read(closed.candidates), base, closed.unit).T  # [S, F]
        spread = read(closed.spread)
        width = jnp.broadcast_to
        shape = base.shape
        known = jnp.sum(inputs.history_mask, dtype=base.dtype)  # may be none
        seen = jnp.max(jnp.where(closed.event_mask[:, None], jnp.abs(closed.event_peaks), 0.0), 0)
        beyond = jnp.max(jnp.abs(closed.future_logs[middles]) - seen[None, :], axis=1)
        facts = [
            jnp.arcsinh((base - closed.level) / closed.unit),
            jnp.arcsinh(base / closed.unit),
            jnp.log(spread / closed.unit),
            jnp.linspace(-1.0, 1.0, SEGMENTS, dtype=base.dtype),
            beyond,
            width(jnp.log1p(jnp.sum(closed.event_mask, dtype=base.dtype)), shape),
            width(jnp.sum(inputs.covariate_mask, dtype=base.dtype) / WIDEST, shape),
            width(jnp.log(inputs.horizon / 128.0), shape).astype(base.dtype),
            width(jnp.log(jnp.maximum(known, 1.0) / 1024.0), shape),
            width(closed.periodic, shape),
            read(closed.memory),
        ]
        forms = jnp.concatenate([closed.log_weights, jnp.log(closed.errors)])
        forms = jnp.broadcast_to(forms, (SEGMENTS, forms.shape[0]))
        shown = [logs, jnp.abs(logs), ratios, forms, jnp.stack(facts, axis=1)]
        return enter(self.enter_segment, jnp.concatenate(shown, axis=1))

    def _forecast(self, found: Float[Array, "H outputs"], closed: ClosedForm) -> Array:
        """Quantiles from what the tokens gave for each step."""
        forms = len(FORMS)
        weights, rest = found[:, :forms], found[:, forms:]
        if self.with_gain:
            share = jax.nn.softmax(closed.log_weights[None, :] + weights, axis=-1)
            mixed = jnp.sum(share * closed.candidates.T, axis=-1)
        else:
            mixed = closed.future
        log_gain = FARTHEST * jnp.tanh(rest[:, 0] / FARTHEST)
        middle = mixed * jnp.exp(log_gain) + closed.unit * jnp.sinh(jnp.clip(rest[:, 1], -6.0, 6.0))
        # what scales the middle scales what is uncertain about it
        grown = jnp.maximum(jnp.exp(log_gain), 1.0)
        spread = closed.spread * grown * jnp.exp(jnp.clip(rest[:, 2], -4.0, 4.0))
        return middle[:, None] + spread[:, None] * offsets(rest[:, 3:])


def _wide(logs: Array) -> Array:
    """[N, K] padded to [N, 8]."""
    return jnp.pad(logs, ((0, 0), (0, WIDEST - logs.shape[1])))


def _middles(horizon: int) -> Array:
    """Steps in the middle of each segment."""
    return ((jnp.arange(SEGMENTS) + 0.5) * horizon / SEGMENTS).astype(jnp.int32)


def _along(found: Array, horizon: int) -> Array:
    """Segments' values at every step: linear between their middles, constant beyond."""
    place = (jnp.arange(horizon) + 0.5) * SEGMENTS / horizon - 0.5
    below = jnp.clip(jnp.floor(place).astype(jnp.int32), 0, SEGMENTS - 2)
    share = jnp.clip(place - below, 0.0, 1.0).astype(found.dtype)[:, None]
    return found[below] * (1.0 - share) + found[below + 1] * share


def _log_ratio(values: Float[Array, "F S"], base: Float[Array, " S"], unit: Array) -> Array:
    """log(value / base), softened near zero and where signs differ; bounded."""
    sign = jnp.where(base < 0, -1.0, 1.0)
    small = 0.1 * unit
    usual = jnp.maximum(base * sign, small)
    ratio = jnp.maximum(values * sign[None, :], small) / usual[None, :]
    return jnp.clip(jnp.log(ratio), -FARTHEST, FARTHEST)
