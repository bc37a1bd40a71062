"""Demand that is never twice the same: daily profile, weekdays, slow noise. Drawn from a seed."""

import numpy as np

__all__ = ["demand_factors"]

DAY_SECONDS = 86_400


def _profile(hours: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """A smooth daily profile with two or three peaks above a floor, mean one."""
    values = np.full(hours.shape, rng.uniform(0.2, 0.8))
    for _ in range(int(rng.integers(2, 4))):
        distance = np.abs(hours - rng.uniform(0, 24))
        distance = np.minimum(distance, 24 - distance)
        values = values + rng.uniform(0.3, 1.5) * np.exp(
            -0.5 * (distance / rng.uniform(0.8, 3.5)) ** 2
        )
    return values / values.mean()


def demand_factors(
    steps: int,
    step_seconds: int,
    noise: float,
    rng: np.random.Generator,
    day_seconds: int = DAY_SECONDS,
) -> np.ndarray:
    """Factors [steps] on a mean demand: positive, about one on average.

    Args:
        steps: how many.
        step_seconds: time between two.
        noise: standard deviation of their logarithm beside the profile; its correlation falls to
            1/e within a drawn 1 to 48 hours.
        rng: what draws.
        day_seconds: length of a day; a short one makes a short run hold several.
    """
    time = np.arange(steps) * step_seconds
    profile = _profile(time % day_seconds * (24.0 / day_seconds), rng)
    weekday = rng.normal(0.0, 0.12, size=7)
    weekday -= weekday.mean()
    keep = np.exp(-step_seconds / (3600.0 * np.exp(rng.uniform(0.0, np.log(48.0)))))
    shocks = rng.normal(0.0, noise, size=steps)
    level = np.empty(steps)
    level[0] = shocks[0]
    for step in range(1, steps):
        level[step] = keep * level[step - 1] + np.sqrt(1 - keep**2) * shocks[step]
    return profile * np.exp(weekday[time // day_seconds % 7] + level)
