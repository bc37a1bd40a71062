"""What `evaluate` refuses by name: answers, levels, batch sizes and attributes that are none."""

from decimal import Decimal
from fractions import Fraction

import jax.numpy as jnp
import numpy as np
import pytest

from tests.evaluation_helpers import BATCH, batches_of, named
from whatif_jax import ForecasterError, check_rows, evaluate, evaluate_batch


class Unreadable:
    """As an array of another package that lies on another device."""

    def __init__(self, shape):
        self.shape = shape

    def __array__(self, *_, **__):
        raise RuntimeError("on a device")


# What NumPy takes for numbers, or casts to them, though it is none that a forecast can be.
NO_NUMBERS = {
    "whole numbers of 400 digits": 10**400,
    "complex numbers": 1 + 2j,
    "texts that look like numbers": "1.5",
    "bytes that look like numbers": b"1.5",
    "times": np.datetime64("2000-01-01"),
    "spans": np.timedelta64(5, "s"),
    "truth values": True,
    "objects": Fraction(1, 2),
    "decimals": Decimal("1.5"),
    "None among numbers": None,
}


@pytest.mark.parametrize("in_rows", [False, True])
@pytest.mark.parametrize("value", NO_NUMBERS.values(), ids=NO_NUMBERS)
def test_what_is_no_real_number_is_refused_not_read_as_one(few, value, in_rows):
    def forecast(history, covariates, horizon, levels):
        rows = [[[value]] * horizon] * len(history)
        return rows if in_rows else np.array(rows)

    ids = batches_of(few)[0][:2]
    with pytest.raises(ForecasterError, match="^forecaster forecast.*expected an array of number"):
        evaluate_batch(forecast, few, ids, batch_size=BATCH)


@pytest.mark.parametrize("in_rows", [False, True])
def test_a_masked_array_is_refused_and_any_real_type_is_taken(few, in_rows):
    def forecaster(make):
        def forecast(history, covariates, horizon, levels):
            shape = (len(history), horizon, 1)
            return [*make(shape)] if in_rows else make(shape)

        return named(forecast)

    ids = batches_of(few)[0][:2]
    with pytest.raises(ForecasterError, match="a masked array; expected an array of numbers"):
        evaluate_batch(forecaster(lambda s: np.ma.masked_all(s)), few, ids, batch_size=BATCH)
    scores = []
    for kind in (np.int8, np.uint64, np.float16, np.longdouble, jnp.bfloat16, np.float32):
        ones = forecaster(lambda shape, kind=kind: np.ones(shape, kind))
        scores.append(evaluate_batch(ones, few, ids, batch_size=BATCH).scores)
    assert all(each.equals(scores[0]) for each in scores)
    on_device = forecaster(lambda shape: jnp.ones(shape, jnp.int32))
    assert evaluate_batch(on_device, few, ids, batch_size=BATCH).scores.equals(scores[0])


@pytest.mark.parametrize(
    "levels",
    [
        [], [0.5, 0.1], [0.1, 0.1, 0.5], [0.0, 0.5], [0.5, 1.0], [0.1, 0.9], [float("nan"), 0.5],
        [0.5, float("inf")], ["0.5"], "0.5", None, 0.5, [[0.5]], [True], [0.5 + 0j], [None, 0.5],
        [10**400], {0.5},
    ],
)  # fmt: skip
def test_levels_that_are_none_are_refused_before_the_first_forecast(few, levels):
    def never(*_, **__):
        raise AssertionError("called")

    ids = batches_of(few)[0]
    for call in (evaluate, evaluate_batch, check_rows):
        chosen = () if call is evaluate else (ids,)
        with pytest.raises(ValueError, match="^levels: .*; expected (an array|ascending)"):
            call(never, few, *chosen, levels=levels)


@pytest.mark.parametrize("batch_size", [0, -1, 1.5, "8", None, True, [8]])
def test_batch_sizes_that_are_none_are_refused_before_the_first_forecast(few, batch_size):
    def never(*_, **__):
        raise AssertionError("called")

    with pytest.raises(ValueError, match="^batch_size: .*; expected an integer >= 1"):
        evaluate(never, few, batch_size=batch_size)


def test_an_array_that_cannot_be_read_says_why(few):
    def forecast(history, covariates, horizon, levels):
        return Unreadable((len(history), horizon, 1))

    with pytest.raises(ForecasterError, match="forecast: RuntimeError: on a device; expected an"):
        evaluate_batch(forecast, few, batches_of(few)[0], batch_size=BATCH)


def test_what_cannot_be_called_is_no_forecaster(few):
    with pytest.raises(ForecasterError, match="^forecaster: 5; expected a callable"):
        evaluate(5, few)


@pytest.mark.parametrize(
    "attributes, message",
    [
        ({"row_seconds": "long"}, "row_seconds: values of type <U4; expected an array of numbers"),
        ({"row_seconds": [float("inf")] * 2}, "row_seconds .*expected 2 numbers >= 0"),
        ({"row_tolerance": "0.1"}, "row_tolerance: values of type <U3; expected an array"),
        ({"row_tolerance": -1.0}, "row_tolerance -1.0; expected at least 0"),
        ({"row_tolerance": float("nan")}, "row_tolerance nan; expected at least 0"),
        ({"settings": 5}, "settings of forecaster wrong: 5 .*; expected JSON values by name"),
        ({"settings": {"a": 1j}}, "settings of forecaster wrong: .*; expected JSON values"),
    ],
)
def test_attributes_that_are_none_are_refused_by_name(few, attributes, message):

    def last_value(history, covariates, horizon, levels):
        return np.repeat(history[:, -1:, None], horizon, axis=1)

    forecaster = named(last_value, name="wrong", **attributes)
    with pytest.raises(ForecasterError, match=message):
        check_rows(forecaster, few, batches_of(few)[0][:2], batch_size=BATCH)
