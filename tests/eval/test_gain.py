"""The closed form's response around other forecasters: what they are given, what comes back."""

import numpy as np
import pytest

from eval.forecasters import make_forecaster, needs, takes
from eval.forecasters.gain import ROWS, _parts, with_gain
from whatif_jax.evaluation.declaration import declaration_of

T, H = 512, 64
LEVELS = (0.1, 0.9)


def _rows():
    """Histories [2, T], a power law of one covariate over a season, and covariates."""
    steps = np.arange(T + H)
    factors = np.ones((T + H, 1))
    for start, factor in ((250, 2.0), (330, 4.0), (420, 0.5)):
        factors[start : start + 40] = factor
    factors[T:] = 8.0
    season = 5.0 + 2.0 * np.sin(2 * np.pi * steps / 24)
    series = np.stack([season, 3.0 * season]) * factors[:, 0] ** 0.5
    covariates = np.stack([4.0 * factors, 9.0 * factors])
    return series[:, :T].astype(np.float32), covariates.astype(np.float32)


@pytest.mark.slow  # compiles the closed form, most of a minute
def test_events_are_hidden_and_the_answer_is_moved():
    history, covariates = _rows()
    seen = {}

    def inner(past, known, horizon, levels):
        seen.update(past=past, known=known, levels=levels)
        event_free = past[:, -72 : -72 + horizon]
        return np.repeat(event_free[:, :, None], len(levels), axis=2)

    answer = with_gain(inner)(history, covariates, H, LEVELS)
    factor = np.asarray(covariates[:, :T, 0] / covariates[:, :1, 0])
    np.testing.assert_allclose(seen["past"], history / factor**0.5, rtol=2e-3)
    np.testing.assert_array_equal(
        seen["known"], np.broadcast_to(covariates[:, :1], covariates.shape)
    )
    assert seen["levels"] == (0.1, 0.5, 0.9)
    expected = seen["past"][:, -72 : -72 + H] * 8.0**0.5
    for row in range(2):
        assert answer[row].shape == (H, 2)
        np.testing.assert_allclose(answer[row].mean(axis=1), expected[row], rtol=5e-3)
        assert (answer[row][:, 1] > answer[row][:, 0]).all()  # the response is not known exactly


def test_a_row_without_forecast_stays_without_one():
    history, covariates = _rows()

    def inner(past, known, horizon, levels):
        return [None, np.full((horizon, 1), 5.0)]

    first, second = with_gain(inner)(history, covariates, H, LEVELS)
    assert first is None
    assert second.shape == (H, 2)


def test_what_a_forecaster_was_trained_on_is_declared_with_the_systems():
    def inner(past, known, horizon, levels):
        return np.zeros((len(past), horizon, len(levels)), np.float32)

    inner.trained_on, inner.training = "left-out-system", {"left_out": ["sumo"]}
    declared = declaration_of(with_gain(inner))
    assert declared.split_of(["sumo"]) == "left-out system"
    assert declared.split_of(["epanet"]) == "in distribution"


def test_what_is_missing_is_given_as_the_event_free_course():
    history, covariates = _rows()
    seen = {}

    def inner(past, known, horizon, levels):
        seen.update(past=past)
        return np.repeat(past[:, -72 : -72 + horizon, None], len(levels), axis=2)

    gained = with_gain(inner)
    whole = gained(history, covariates, H, LEVELS)
    event_free = seen["past"]
    lost = history.copy()
    lost[:, 20:30] = lost[:, 345:350] = np.nan
    assert gained.takes_missing
    answer = gained(lost, covariates, H, LEVELS)
    np.testing.assert_allclose(seen["past"], event_free, rtol=5e-3)
    np.testing.assert_allclose(np.mean(answer, axis=2), np.mean(whole, axis=2), rtol=5e-3)


def test_seconds_are_those_of_the_forecaster_and_the_responses_of_its_rows():
    """What the forecaster says of its rows stays; what compiling took is in no row."""
    history, covariates = _rows()

    def inner(past, known, horizon, levels):
        inner.row_seconds = np.array([100.0, 300.0])
        return [None, np.full((horizon, 1), 5.0)]

    inner.fixed_batch = True
    gained = with_gain(inner)
    assert gained.fixed_batch
    gained(history, covariates, H, LEVELS)
    np.testing.assert_allclose(np.diff(gained.row_seconds), 200.0)
    assert gained.row_seconds[0] >= 100.0 and gained.row_seconds.shape == (2,)


def test_names_of_the_registry_take_the_settings_of_what_they_wrap():
    assert takes("fracast-gain") == takes("fracast")
    assert needs("fracast-gain") == needs("fracast")
    forecaster = make_forecaster("naive-gain")
    assert forecaster.name == "naive-gain"
    history, covariates = _rows()
    answer = forecaster(history, covariates, H, (0.5,))
    np.testing.assert_allclose(answer[0][:, 0], history[0, -1] * 8.0**0.5, rtol=5e-3)


@pytest.mark.parametrize("count", [1, 3, 32, 33, 256])
def test_parts_of_a_batch_have_one_size_and_every_row_in_its_place(count):
    """Another size would be another program to compile."""
    parts = _parts(count)
    assert len({len(part) for part in parts}) == 1 and len(parts[0]) <= ROWS
    np.testing.assert_array_equal(np.concatenate(parts)[:count], np.arange(count))
    assert max(part.max() for part in parts) == count - 1
