"""What forecasters declare: the words there are, and how a score on some systems is to be read."""

import dataclasses
from types import SimpleNamespace

import numpy as np
import pytest

from eval.forecasters import FORECASTERS, declared_of, make_forecaster, needs
from whatif_jax.evaluation import (
    TRAINED_ON,
    Declaration,
    DeclarationError,
    declaration_of,
    evaluate,
)


@pytest.mark.parametrize(
    "declared, systems, split",
    [
        (dict(trained_on="nothing"), ["epanet", "sumo"], "zero-shot"),
        (dict(trained_on="randomised", training={"prior": 1}), ["epanet"], "zero-shot"),
        (dict(trained_on="published"), ["epanet"], "zero-shot"),
        (dict(trained_on="left-out-system", training={"left_out": ["epanet"]}), ["epanet"],
         "left-out system"),
        (dict(trained_on="left-out-system", training={"left_out": ["epanet"]}), ["sumo"],
         "in distribution"),
        (dict(trained_on="left-out-system", training={"left_out": ["epanet"]}), ["epanet", "sumo"],
         "in distribution"),
        (dict(trained_on="in-distribution", training={"systems": ["sumo"]}), ["epanet"],
         "in distribution"),
        (dict(), ["epanet"], "unknown"),
    ],
)  # fmt: skip
def test_a_score_is_read_by_what_the_forecaster_has_seen(declared, systems, split):
    found = declaration_of(SimpleNamespace(name="mine", **declared))
    assert found.split_of(systems) == split
    assert found.trained_on in TRAINED_ON
    assert declaration_of(SimpleNamespace(**dataclasses.asdict(found))) == found


@pytest.mark.parametrize(
    "declared, said",
    [
        (dict(trained_on="zero-shot"), "trained_on of forecaster mine: 'zero-shot'; expected one"),
        (dict(trained_on=None), "trained_on of forecaster mine: 'None'"),
        (dict(training={"loss": float("nan")}), "training of forecaster mine: .*expected JSON"),
        (dict(training=3), "training of forecaster mine: 3 .*expected JSON values by name"),
        (dict(trained_on="left-out-system"), r"training\['left_out'\].*None; expected the names"),
        (dict(trained_on="left-out-system", training={"left_out": "epanet"}), "epanet; expected"),
        (dict(trained_on="in-distribution", training={"systems": []}), r"training\['systems'\]"),
        (dict(informed=1), "informed of forecaster mine: '1'; expected true, false, or what it"),
        (dict(informed="one\ntwo"), "informed of forecaster mine: .*in one line"),
    ],
)
def test_what_cannot_be_declared_is_refused_by_name(declared, said):
    with pytest.raises(DeclarationError, match=said) as caught:
        declaration_of(SimpleNamespace(name="mine", **declared))
    assert "\n" not in str(caught.value)


def test_a_reason_is_kept_and_a_plain_yes_gets_one():
    assert declaration_of(SimpleNamespace(informed="it knows K")).informed == "it knows K"
    assert "measures the suite" in declaration_of(SimpleNamespace(informed=True)).informed
    assert declaration_of(SimpleNamespace(informed=False)) == Declaration()


def test_evaluate_refuses_a_wrong_word_before_any_forecast(few):
    def never(*_):
        raise AssertionError("called")

    never.trained_on = "the suite"
    with pytest.raises(DeclarationError, match="trained_on of forecaster never: 'the suite'"):
        evaluate(never, few)


@pytest.mark.parametrize(
    "name", [name for name in FORECASTERS if not needs(name)[0] and name != "ours"]
)  # "ours" is of whatever checkpoint it is given
def test_the_list_says_what_a_forecaster_declares(name):
    assert declaration_of(make_forecaster(name)).trained_on == declared_of(name)


def test_weights_from_a_folder_may_be_anyones(tmp_path):
    from eval.forecasters.foundation import FoundationForecaster

    def predict(*_):
        return np.zeros(0)

    for model, word in (("amazon/chronos-2", "published"), (str(tmp_path), "unknown")):
        made = FoundationForecaster(
            "mine", predict, model=model, distribution="numpy", batch_size=1
        )
        assert declaration_of(made).trained_on == word
