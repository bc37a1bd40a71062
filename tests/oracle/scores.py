"""Scores of one task by hand: scores.md in float64 NumPy, step by step, no code of whatif_jax."""

import itertools
import math

import numpy as np

DEAD_ZONE = 0.01


def _share(error: float, size: float) -> float:
    """Error / size with scores.md's zero policy."""
    if size > 0:
        return error / size
    return math.inf if error > 0 else 0.0


def _steps(mask: np.ndarray, *series: np.ndarray) -> list[np.ndarray]:
    """The series in float64 at the steps where the mask holds and the first is a number."""
    keep = mask & np.isfinite(series[0])
    return [np.asarray(values, np.float64)[keep] for values in series]


def _broken(*forecasts: np.ndarray) -> bool:
    return not all(np.isfinite(forecast).all() for forecast in forecasts)


def wql(target, quantiles, levels, mask) -> float:
    """Weighted quantile loss."""
    x, q = _steps(mask, target, quantiles)
    if _broken(q):
        return math.inf
    losses = [
        math.fsum(2 * np.abs((x - q[:, column]) * ((x <= q[:, column]) - level)))
        for column, level in enumerate(levels)
    ]
    return _share(math.fsum(losses) / len(losses), math.fsum(np.abs(x)))


def wape(target, point, mask) -> float:
    """Weighted absolute percentage error."""
    x, f = _steps(mask, target, point)
    return math.inf if _broken(f) else _share(math.fsum(np.abs(x - f)), math.fsum(np.abs(x)))


def seasonal_error(history, mask, season=1) -> float:
    """Mean |x_t - x_{t - season}| over pairs that are both numbers."""
    past = np.where(mask, np.asarray(history, np.float64), np.nan)
    changes = np.abs(past[season:] - past[:-season])
    changes = changes[np.isfinite(changes)]
    return math.fsum(changes) / len(changes) if len(changes) else math.nan


def mase(target, point, scale, mask) -> float:
    """Mean absolute scaled error."""
    x, f = _steps(mask, target, point)
    if _broken(f):
        return math.inf
    return _share(math.fsum(np.abs(x - f)) / max(len(x), 1), scale)


def rmse(target, point, mask) -> float:
    """Root mean squared error."""
    x, f = _steps(mask, target, point)
    if _broken(f):
        return math.inf
    return math.sqrt(math.fsum((x - f) ** 2) / max(len(x), 1))


def coverage(target, quantiles, mask) -> np.ndarray:
    """Share of steps at or below each quantile."""
    x, q = _steps(mask, target, quantiles)
    if not len(x):
        return np.full(q.shape[1], np.nan)
    return np.where(np.isfinite(q).all(axis=0), (x[:, None] <= q).mean(axis=0), np.nan)


def direction_accuracy(target, point, baseline, mask) -> float:
    """Share of steps with an effect beyond the dead zone whose forecast goes the same way."""
    x, f, y = _steps(mask & np.isfinite(baseline), target, point, baseline)
    dead = DEAD_ZONE * np.abs(y).mean() if len(y) else 0.0
    right = [
        math.isfinite(forecast) and abs(forecast) > dead and (forecast > 0) == (true > 0)
        for true, forecast in zip(x - y, f - y, strict=True)
        if abs(true) > dead
    ]
    return sum(right) / len(right) if right else math.nan


def effect_size_error(target, point, baseline, mask) -> float:
    """|mean forecast effect - mean true effect| / |mean true effect|."""
    x, f, y = _steps(mask & np.isfinite(baseline), target, point, baseline)
    if _broken(f):
        return math.inf
    true, forecast = math.fsum([*x, *-y]), math.fsum([*f, *-y])
    error = abs(math.fsum([*f, *-x]))
    assert math.isclose(error, abs(forecast - true), rel_tol=1e-6, abs_tol=1e-9 * np.abs(x).sum())
    return _share(error, abs(true))


def naive(history, mask) -> float:
    """The last value of the history that is a number."""
    values = np.asarray(history)[mask & np.isfinite(history)]
    return values[-1] if len(values) else 0.0


def score(target, future_baseline, history, quantiles, levels, history_mask, future_mask) -> dict:
    """All scores of one task by the policy of scores.md."""
    quantiles = np.array(quantiles)
    levels = levels if quantiles.shape[1] > 1 else (0.5,)
    imputed = not np.isfinite(quantiles[future_mask]).all()
    if imputed:
        quantiles[:] = naive(history, history_mask)
    real = quantiles[future_mask]
    crossings = sum(int(lower > upper) for row in real for lower, upper in itertools.pairwise(row))
    quantiles = np.sort(quantiles, axis=1)
    point = quantiles[:, levels.index(0.5)]
    return {
        "wql": wql(target, quantiles, levels, future_mask),
        "wape": wape(target, point, future_mask),
        "mase": mase(target, point, seasonal_error(history, history_mask), future_mask),
        "rmse": rmse(target, point, future_mask),
        "coverage": coverage(target, quantiles, future_mask),
        "direction_accuracy": direction_accuracy(target, point, future_baseline, future_mask),
        "effect_size_error": effect_size_error(target, point, future_baseline, future_mask),
        "imputed": imputed,
        "crossings": crossings,
    }
