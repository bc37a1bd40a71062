"""What a language model is asked, and which of its answers are forecasts."""

import datetime
import itertools
import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eval.forecasters.llm.answer import AnswerError, parse
from eval.forecasters.llm.prompt import INSTRUCTIONS, PROMPT_HASH, number, time_stamps, write
from tests.eval.llm.llm_server import answer, read_prompt

STAMPS = ["2000-01-01T00:00", "2000-01-01T01:00", "2000-01-01T02:00"]
RIGHT = answer(list(zip(STAMPS, (1.5, -2, "3e-4"), strict=True)))
VALUES = np.array([1.5, -2, 3e-4], np.float32)


def values(text: str, **keywords) -> np.ndarray:
    found = parse(text, STAMPS, **keywords)
    assert found.dtype == np.float32
    return found


@pytest.mark.parametrize(
    "text",
    [
        RIGHT,
        f"Let me think. The level is (roughly) 1.5, see <b>this</b>.\n{RIGHT}\nHope this helps!",
        f"```\n{RIGHT}\n```",
        RIGHT.replace("<target_1>", "<target_1>\n```csv").replace(
            "</target_1>", "```\n</target_1>"
        ),
        RIGHT.replace(", (", ",\n   ("),
        RIGHT.replace(", (", "\n("),
        RIGHT.replace("1.5", "+15.0E-1").replace("-2", "\u22122.").replace("3e-4", ".0003"),
        RIGHT.replace("T", " ").replace(":00,", ":00:00,"),
        RIGHT.replace(":00,", ":00:00Z,"),
        RIGHT.replace("(2000", "('2000").replace("0,", "0',"),
        RIGHT.replace("\n(", "[(").replace(")\n", ")]"),
        answer(list(zip(STAMPS[::-1], ("3e-4", -2, 1.5), strict=True))),
        RIGHT.replace("\n</", f", ({STAMPS[0]}, 1.50)\n</"),  # repeated, the same value
        "A draft: <target_1>(2000-01-01T00:00, 7)</target_1>. Finally:\n" + RIGHT,
        "I shall write into <target_1> now. " + RIGHT,
        answer([(STAMPS[0], 9)], "covariate_1") + RIGHT,
    ],
)
def test_a_right_answer_is_read_whatever_surrounds_it(text):
    np.testing.assert_array_equal(values(text), VALUES)


@pytest.mark.parametrize(
    "reason, text",
    [
        ("empty", ""),
        ("empty", " \n"),
        ("no_tags", "I cannot forecast this."),
        ("no_tags", RIGHT.replace("<target_1>", "").replace("</target_1>", "")),
        ("wrong_variable", RIGHT.replace("target_1", "target_2")),
        ("wrong_variable", RIGHT.replace("target_1", "covariate_1")),
        ("wrong_variable", RIGHT.replace("target_1", "Target_1")),
        ("truncated", RIGHT[:60]),
        ("truncated", RIGHT.removesuffix("</target_1>")),
        ("unreadable", RIGHT.replace("), (2000-01-01T02:00, 3e-4)", "), ...")),
        ("unreadable", RIGHT.replace("1.5", "1.5 or so")),
        ("unreadable", RIGHT.replace("1.5", "1,500.0")),
        ("unreadable", RIGHT.replace("2000-01-01T00:00", "Monday")),
        ("unreadable", RIGHT.replace("(2000-01-01T02:00, 3e-4)", "(2000-01-01T02")),
        ("not_finite", RIGHT.replace("1.5", "NaN")),
        ("not_finite", RIGHT.replace("1.5", "-inf")),
        ("not_finite", RIGHT.replace("1.5", "null")),
        ("not_finite", RIGHT.replace("1.5", "")),
        ("not_finite", RIGHT.replace("1.5", "1e39")),  # beyond float32
        ("repeated_timestamp", RIGHT.replace("\n</", f", ({STAMPS[0]}, 1.6)\n</")),
        ("wrong_count", RIGHT.replace("\n</", ", (2000-01-01T03:00, 1)\n</")),
        ("missing_timestamp", RIGHT.replace("(2000-01-01T01:00, -2), ", "")),
        ("missing_timestamp", RIGHT.replace("T01:00", "T01:30")),
        ("missing_timestamp", RIGHT.replace("T01:00", "T01:00+05:00")),
        ("missing_timestamp", "<target_1></target_1>"),
    ],
)
def test_a_wrong_answer_is_refused_by_name(reason, text):
    with pytest.raises(AnswerError, match=f"^{reason}: ") as refused:
        values(text)
    assert refused.value.reason == reason


def test_an_answer_at_the_length_limit_is_refused_even_if_it_looks_whole():
    with pytest.raises(AnswerError, match="^truncated: "):
        values(RIGHT, cut_short=True)


@settings(deadline=None, max_examples=60)
@given(
    st.lists(st.floats(width=32, allow_nan=False, allow_infinity=False), min_size=1, max_size=20),
    st.sampled_from([0.25, 1.0, 30.0, 60.0, 300.0, 3600.0, 86400.0]),
    st.randoms(use_true_random=False),
)
def test_any_forecast_survives_the_way_through_text(forecast, step, random):
    stamps = time_stamps(7 + len(forecast), step)[7:]
    pairs = list(zip(stamps, forecast, strict=True))
    random.shuffle(pairs)
    np.testing.assert_array_equal(parse(answer(pairs), stamps), np.array(forecast, np.float32))


@settings(deadline=None, max_examples=60)
@given(st.text(alphabet="<>/()target_1, .0123456789T:-\n`eE", max_size=80))
def test_no_text_makes_the_parser_fail_in_another_way(text):
    with pytest.raises(AnswerError):  # three right pairs do not come up by chance
        values(text)
    with pytest.raises(AnswerError):
        values(f"<target_1>{text}</target_1>")


def test_time_stamps_are_even_and_as_short_as_the_step_allows():
    assert time_stamps(3, 3600.0) == STAMPS
    assert time_stamps(2, 1.0)[1] == "2000-01-01T00:00:01"
    assert time_stamps(2, 0.5)[1] == "2000-01-01T00:00:00.500"
    moments = [datetime.datetime.fromisoformat(stamp) for stamp in time_stamps(10_000, 300.0)]
    steps = {after - before for before, after in itertools.pairwise(moments)}
    assert steps == {datetime.timedelta(minutes=5)}
    for step in (0.0, -1.0, float("nan")):
        with pytest.raises(ValueError, match="step_seconds: "):
            time_stamps(2, step)


def test_numbers_have_six_digits_and_no_waste():
    shown = {
        -0.0: "0", 1.0: "1", 1 / 3: "0.333333", 1234567.0: "1.23457e6", 1e-7: "1e-7",
        -2.5e-5: "-2.5e-5", 123456.0: "123456", 0.1 + 0.2: "0.3",
    }  # fmt: skip
    assert {value: number(value) for value in shown} == shown


@settings(deadline=None, max_examples=100)
@given(st.floats(width=32, allow_nan=False, allow_infinity=False))
def test_numbers_keep_six_digits(value):
    assert float(number(value)) == pytest.approx(value, rel=5.0001e-6, abs=0)


def test_a_prompt_holds_the_whole_history_and_the_plan():
    random = np.random.default_rng(0)
    history = random.lognormal(size=300).astype(np.float32)
    covariates = random.normal(size=(324, 3)).astype(np.float32)
    prompt = write(history, covariates, 24, 300.0)
    question = read_prompt(prompt.text)
    np.testing.assert_allclose(question.history, history, rtol=1e-5)
    np.testing.assert_allclose(question.past, covariates[:300], rtol=1e-5)
    np.testing.assert_allclose(question.plan, covariates[300:], rtol=1e-5)
    assert question.stamps == prompt.time_stamps == time_stamps(324, 300.0)[300:]
    header = "time_stamp,target_1,covariate_1,covariate_2,covariate_3\n"
    assert prompt.text.count(header) == 1
    assert "24" in prompt.text.partition("history:")[0]


def test_a_replay_and_a_novel_prompt_share_all_but_the_plan():
    history, covariates = np.arange(50.0), np.ones((60, 2))
    other = covariates.copy()
    other[50:] = 3.0
    one, two = (
        write(history, each, 10, 60.0).text.partition("\nplan:\n") for each in (covariates, other)
    )
    assert one[0] == two[0]
    assert one[2] != two[2]


def test_a_prompt_names_no_system_and_works_without_covariates():
    text = write(np.arange(5.0), np.zeros((6, 0)), 1, 60.0).text
    assert "no covariate" in text
    for word in ("opendc", "gridlab", "epanet", "sumo", "event", "simulat"):
        assert word not in INSTRUCTIONS.lower()
    assert not re.search(r"[{}]", text)
    for horizon in (0, 1):
        with pytest.raises(ValueError, match=rf"covariates: 5 steps; .* 5 \+ horizon {horizon}"):
            write(np.arange(5.0), np.zeros((5, 1)), horizon, 60.0)


def test_the_words_are_those_that_results_are_keyed_by():
    assert PROMPT_HASH == "7992b34f0b11"
