"""Inputs made by hand for models: a season times a power law, and histories hard to scale."""

from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np

from whatif_jax import ForecastInputs

STEPS, PERIOD, WIDTH = 192, 24, 8
EVENTS = ((60, 72), (84, 96), (110, 122), (140, 152), (170, 182))
FACTORS = np.array(
    [[2.0, 0.6, 1.5], [0.5, 1.6, 0.7], [3.0, 2.2, 2.0], [1.4, 0.4, 0.5], [0.3, 1.2, 1.3]]
)  # of the events, by covariate
EXPONENTS = np.array([0.7, -0.3, 0.2])
AHEAD = np.array([2.5, 1.8, 0.8])  # factors of the future's event


def season(steps: int) -> np.ndarray:
    """Level 10, amplitude 2."""
    return 10.0 + 2.0 * np.sin(2 * np.pi * np.arange(steps) / PERIOD)


def factors(k: int, horizon: int, ahead: Sequence[float] | None = None) -> np.ndarray:
    """Factors [T + H, 8] of k covariates; 1 where no event holds and where padded."""
    found = np.ones((STEPS + horizon, WIDTH))
    columns = np.arange(k) % 3
    for (begin, end), values in zip(EVENTS, FACTORS, strict=True):
        found[begin:end, :k] = values[columns] ** (1.0 + np.arange(k) // 3 / 4)
    found[STEPS:, :k] = AHEAD[columns] if ahead is None else ahead
    return found


def made(history: np.ndarray, moved: np.ndarray, k: int) -> ForecastInputs:
    """Inputs of a history and of covariates' factors; the base of covariate i is 2**i."""
    mask = np.arange(WIDTH) < k
    return ForecastInputs(
        history=jnp.asarray(history, jnp.float32),
        history_mask=jnp.ones(len(history), bool),
        covariates=jnp.asarray(np.where(mask, moved * 2.0 ** np.arange(WIDTH), 0.0), jnp.float32),
        covariate_mask=jnp.asarray(mask),
        future_mask=jnp.ones(len(moved) - len(history), bool),
    )


def power_law(k: int = 3, horizon: int = 8, ahead: Sequence[float] | None = None) -> tuple:
    """Inputs whose target is the season times a power law of three factors, and their future."""
    moved = factors(k, horizon, ahead)
    values = season(STEPS + horizon) * np.prod(moved[:, :3] ** EXPONENTS, axis=1)
    return made(values[:STEPS], moved, k), values[STEPS:]


def hard_cases(horizon: int) -> dict[str, ForecastInputs]:
    """By name; all of one shape."""
    moved = factors(3, horizon)
    history = power_law(horizon=horizon)[0].history
    still = np.where(np.arange(len(moved))[:, None] < STEPS, 1.0, moved)
    cases = {
        "constant": made(np.full(STEPS, 5.0), moved, 3),
        "zero": made(np.zeros(STEPS), moved, 3),
        "negative": made(-np.asarray(history), moved, 3),
        "huge": made(np.asarray(history) * 1e29, moved, 3),
        "tiny": made(np.asarray(history) * 1e-31, moved, 3),
        "no events": made(season(STEPS), still, 3),
        "noise": made(np.random.default_rng(0).normal(0, 1, STEPS), moved, 3),
    }
    cases["nothing known"] = with_gaps(cases["zero"], np.ones(STEPS, bool))
    return cases | {f"k = {k}": power_law(k, horizon)[0] for k in range(1, WIDTH + 1)}


def with_gaps(inputs: ForecastInputs, missing: np.ndarray, rubbish: float = 0.0) -> ForecastInputs:
    """The same with steps of the history missing; what stands in their place is rubbish."""
    return ForecastInputs(
        history=jnp.where(jnp.asarray(missing), rubbish, inputs.history),
        history_mask=inputs.history_mask & ~jnp.asarray(missing),
        covariates=inputs.covariates,
        covariate_mask=inputs.covariate_mask,
        future_mask=inputs.future_mask,
    )


def from_step(inputs: ForecastInputs, step: int) -> ForecastInputs:
    """The same without what lies before a step."""
    return ForecastInputs(
        history=inputs.history[step:],
        history_mask=inputs.history_mask[step:],
        covariates=inputs.covariates[step:],
        covariate_mask=inputs.covariate_mask,
        future_mask=inputs.future_mask,
    )


def padded_before(inputs: ForecastInputs, step: int, rubbish: float) -> ForecastInputs:
    """The same as `from_step`, padded on the left to the old length."""
    gone = np.arange(STEPS) < step
    kept = with_gaps(inputs, gone, rubbish)
    covariates = jnp.where(
        jnp.asarray(np.arange(inputs.covariates.shape[0]) < step)[:, None],
        rubbish,
        inputs.covariates,
    )
    return ForecastInputs(
        kept.history, kept.history_mask, covariates, kept.covariate_mask, kept.future_mask
    )


def stacked(cases: Sequence[ForecastInputs], rows: int) -> ForecastInputs:
    """A batch of so many rows; the last case fills it."""
    filled = [*cases, *[cases[-1]] * (rows - len(cases))]
    assert len(filled) == rows
    return jax.tree.map(lambda *leaves: jnp.stack(leaves), *filled)
