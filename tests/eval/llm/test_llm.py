"""The language-model forecaster against a provider on this machine that misbehaves in every way."""

import json
import logging
import sys
import time
import traceback

import numpy as np
import pytest

from eval.forecasters import make_forecaster
from eval.forecasters.llm import ProviderError, make
from eval.forecasters.llm.attempts import OUTAGE_ROWS
from tests.eval.llm.llm_server import (
    HORIZON,
    KEY,
    answer,
    failing,
    hang,
    last,
    nan,
    needs_litellm,
    outcomes,
    read_prompt,
    repeats_last,
    rows,
    written,
)
from whatif_jax import BatchInfo, evaluate, load_suite

pytestmark = needs_litellm


def of_ones(change, finish_reason="stop", variable="target_1"):
    """Answers 1 at every time stamp, but for a change to the pairs."""

    def behave(question):
        pairs = change([(stamp, 1) for stamp in question.stamps])
        return written(answer(pairs, variable), finish_reason)

    return behave


def says(text):
    return lambda _: written(text)


# Each way in which a provider misbehaves: what it does, and the name of it among the outcomes.
MISBEHAVIOUR = {
    "429": (lambda _: failing(429, wait=7), "rate_limited"),
    "500": (lambda _: failing(500), "server_error"),
    "503": (lambda _: failing(503), "server_error"),
    "no JSON": (lambda _: failing(200)._replace(body="<html>gateway</html>"), "server_error"),
    "hang": (hang, "timeout"),
    "truncated": (says("<target_1>\n(2000-01-01T12:00, 1), (2000-01-01T13"), "truncated"),
    "length limit": (of_ones(lambda pairs: pairs, finish_reason="length"), "truncated"),
    "missing time stamp": (of_ones(lambda pairs: pairs[1:]), "missing_timestamp"),
    "contradiction": (of_ones(lambda pairs: [*pairs, (pairs[0][0], 2)]), "repeated_timestamp"),
    "wrong variable": (of_ones(lambda pairs: pairs, variable="covariate_1"), "wrong_variable"),
    "wrong count": (of_ones(lambda pairs: [*pairs, ("2031-01-01T00:00", 1)]), "wrong_count"),
    "NaN": (nan, "not_finite"),
    "no text": (says(None), "empty"),
    "refusal": (says("I would rather not."), "no_tags"),
    "ellipsis": (says("<target_1>(2000-01-01T00:00, 1), ...</target_1>"), "unreadable"),
}


def test_importing_and_counting_fetch_nothing(tmp_path):
    if "litellm" in sys.modules:
        pytest.skip("another test has imported litellm already")
    reached, armed = [], [True]

    def watch(event, arguments):
        if armed and event in ("socket.connect", "socket.getaddrinfo"):
            reached.append((event, arguments[-1]))

    sys.addaudithook(watch)  # for good, so it is disarmed below
    for model in ("anthropic/claude-opus-4-8", "together_ai/meta-llama/Llama-3-70b-chat-hf"):
        make(model=model, reasoning_effort="high", cache=tmp_path / "none").estimate(*rows())
    armed.clear()
    assert "litellm" in sys.modules
    assert reached == []


@pytest.mark.parametrize("way", MISBEHAVIOUR)
def test_misbehaviour_is_asked_again_and_named(way, ask, provider, tmp_path):
    behaviour, outcome = MISBEHAVIOUR[way]
    provider.script = [behaviour]
    history, *rest = rows()
    (forecast,) = ask(timeout=0.3 if way == "hang" else 20)(history, *rest)
    np.testing.assert_allclose(forecast, last(history)[0], rtol=1e-5)
    assert outcomes(tmp_path) == [outcome, "ok"]
    assert len(provider.requests) == 2


def test_text_around_the_tags_does_no_harm(ask, provider):
    def chatty(question):
        pairs = answer([(stamp, 2.5) for stamp in question.stamps])
        return written(f"Thinking about <target_1>...\n```xml\n{pairs}\n```\nAnything else?")

    provider.usual = chatty
    (forecast,) = ask()(*rows())
    np.testing.assert_array_equal(forecast, np.full((HORIZON, 1), 2.5, np.float32))
    assert len(provider.requests) == 1


def test_waits_grow_up_to_a_limit_and_heed_retry_after(ask, provider):
    provider.script = [
        *[lambda _: failing(500)] * 3, lambda _: failing(429, wait=33), nan,
        *[lambda _: failing(429)] * 3, nan,
    ]  # fmt: skip
    waits = []
    (forecast,) = ask(pause=waits.append)(*rows())
    assert forecast is not None
    assert waits == [1, 2, 4, 33, 16, 32, 60, 60, 60]
    assert len(provider.requests) == 10


def test_no_answer_in_all_attempts_is_none_and_counted_and_free_to_rerun(
    ask, provider, caplog, tmp_path
):
    history, covariates, *rest = rows(4)

    def hopeless_for_the_second(question):
        hopeless = question.history[0] == pytest.approx(float(history[1, 0]), rel=1e-4)
        return (nan if hopeless else repeats_last)(question)

    provider.usual = hopeless_for_the_second
    with caplog.at_level(logging.WARNING):
        forecasts = ask(attempts=4)(history, covariates, *rest)
    assert [forecast is None for forecast in forecasts] == [False, True, False, False]
    assert "no forecast in 4 attempts" in caplog.text
    assert sorted(outcomes(tmp_path)) == ["not_finite"] * 4 + ["ok"] * 3
    # refused answers were paid for too: a new session asks nothing again
    repeated = ask(attempts=4)(history, covariates, *rest)
    assert len(provider.requests) == 7
    for one, other in zip(forecasts, repeated, strict=True):
        np.testing.assert_array_equal(one, other)
    # two more attempts are two more attempts
    assert ask(attempts=6)(history, covariates, *rest)[1] is None
    assert len(provider.requests) == 9


def test_failed_calls_are_asked_again_by_a_later_session_alone(ask, provider):
    provider.usual = lambda _: failing(500)
    forecaster = ask(attempts=3)
    assert forecaster(*rows()) == [None]
    assert forecaster(*rows()) == [None]  # such as a check of rows: no waiting a second time
    assert len(provider.requests) == 3
    provider.usual = repeats_last
    assert ask(attempts=3)(*rows())[0] is not None
    assert len(provider.requests) == 4


def test_rows_run_side_by_side_and_keep_their_order(ask, provider):
    def slow(question):
        time.sleep(0.02 + 0.1 * (question.history[0] % 1))
        return repeats_last(question)

    provider.usual = slow
    history, covariates, *rest = rows(9)
    history, covariates = np.repeat(history, 2, axis=0), np.repeat(covariates, 2, axis=0)
    forecaster = ask(concurrency=3)
    forecasts = forecaster(history, covariates, *rest)
    np.testing.assert_allclose(np.stack(forecasts), last(history), rtol=1e-5)
    assert len(provider.requests) == 9  # equal rows are one question
    assert provider.most_under_way == 3
    assert forecaster.row_seconds.shape == (18,) and np.all(forecaster.row_seconds >= 0.02)


@pytest.mark.parametrize(
    "status, code",
    [(400, None), (401, None), (403, None), (404, None), (402, None), (429, "insufficient_quota")],
)
def test_permanent_errors_are_loud_at_once(status, code, ask, provider):
    provider.usual = lambda _: failing(status, "the provider's own words", code=code)
    with pytest.raises(
        ProviderError, match=rf"openai/fake.*\({status}\).*the provider's own words"
    ):
        ask(concurrency=1)(*rows(5))
    assert len(provider.requests) == 1


def test_a_missing_key_and_an_unknown_provider_are_loud(ask, monkeypatch):
    for name in ("OPENAI_API_KEY", "OPENAI_ADMIN_KEY"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(ProviderError, match="Missing credentials"):
        ask(api_key=None)(*rows())
    with pytest.raises(ProviderError, match="LLM Provider NOT provided"):
        ask(model="no-provider")(*rows())


def test_an_outage_is_not_taken_for_a_bad_model(ask, provider):
    provider.usual = lambda _: failing(503)
    assert OUTAGE_ROWS == 20  # and up to two that were under way
    with pytest.raises(ProviderError, match=r"none of 2[0-2] forecasts in a row"):
        ask(attempts=2, concurrency=2)(*rows(OUTAGE_ROWS + 10))
    assert len(provider.requests) < 2 * (OUTAGE_ROWS + 3)


def test_the_key_is_sent_and_shown_nowhere(ask, provider, tmp_path, caplog, capfd, monkeypatch):
    shown = []
    address = provider.address.replace("//", "//someone:password@") + "?token=hidden"
    for key, where, settings in (
        (KEY, "", {}),
        ("sk-from-the-environment", "", {"api_key": None}),
        ("password", address, {"api_base": address, "api_key": None}),
    ):
        monkeypatch.setenv("OPENAI_API_KEY", "sk-from-the-environment")
        echo = f"bad key {key} at {where}"
        provider.script = [
            lambda _, echo=echo: failing(500, echo), nan,
            lambda _, echo=echo: failing(401, echo),
        ]  # fmt: skip
        forecaster = ask(temperature=len(shown), **settings)
        with caplog.at_level(logging.DEBUG, "eval"), pytest.raises(ProviderError) as refused:
            forecaster(*rows())
        if key != "password":
            assert provider.headers[-1]["authorization"] == f"Bearer {key}"
        assert "bad key ***" in str(refused.value)
        shown += [
            *traceback.format_exception(refused.value),
            repr(forecaster), json.dumps(forecaster.settings),
        ]  # fmt: skip
    assert outcomes(tmp_path) == ["server_error", "not_finite", "refused"] * 3
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    shown += [path.read_bytes().decode(errors="replace") for path in files]
    shown += [caplog.text, *capfd.readouterr()]
    for secret in (KEY, "sk-from-the-environment", "someone", "password", "hidden"):
        assert not [text for text in shown if secret in text]


@pytest.mark.parametrize(
    "settings, message",
    [
        ({"model": None}, "model: None; expected litellm's name"),
        ({"attempts": 0}, "attempts: 0; expected an integer >= 1"),
        ({"attempts": None}, "attempts: None"),
        ({"concurrency": 1.5}, "concurrency: 1.5"),
        ({"max_tokens": True}, "max_tokens: True; expected an integer >= 0"),
        ({"timeout": "long"}, "timeout: 'long'; expected a number >= 0"),
        ({"max_cost": -1}, "max_cost: -1"),
        ({"input_price": 3.0}, "output_price: None; expected both or neither"),
        ({"input_price": 3.0, "output_price": -1.0}, "output_price: -1.0"),
    ],
)
def test_settings_are_checked(settings, message, ask):
    with pytest.raises(ValueError, match=message):
        ask(**settings)


def test_time_stamps_have_the_step_of_the_row(ask, provider):
    forecaster = ask(concurrency=1)
    forecaster(*rows(2), info=BatchInfo(np.arange(2), np.array([60.0, 86400.0])))
    stamps = [read_prompt(each["messages"][0]["content"]).stamps for each in provider.requests]
    assert stamps[0][:2] == ["2000-01-01T00:12", "2000-01-01T00:13"]
    assert stamps[1][:2] == ["2000-01-13T00:00", "2000-01-14T00:00"]
    history, covariates, *_ = rows()
    with pytest.raises(ValueError, match=r"covariates: 16 steps; expected history 12 \+ horizon 5"):
        forecaster(history, covariates, 5, (0.5,))


def test_end_to_end_a_model_that_repeats_the_last_value_scores_as_naive(ask, provider, tmp_path):
    suite = load_suite().where(system="gridlabd", context_pair="C1", k=3, event_length=64)
    suite = suite.take(np.linspace(0, len(suite) - 1, 4).astype(int))
    found = evaluate(ask(reasoning_effort="high"), suite, batch_size=2)
    expected = evaluate(make_forecaster("naive"), suite, batch_size=2, check=False)
    assert outcomes(tmp_path) == ["ok"] * 4 and len(provider.requests) == 4
    assert found.scores.schema.metadata[b"point"] == b"true"
    assert found.scores.schema.metadata[b"forecaster"] == b"fake-high"
    assert KEY.encode() not in b"".join(found.scores.schema.metadata.values())
    assert not any(found.scores.column("imputed").to_pylist())
    for name in ("wql", "wape", "mase", "rmse"):
        np.testing.assert_allclose(
            found.scores.column(name).to_numpy(),
            expected.scores.column(name).to_numpy(),
            rtol=1e-3,
            err_msg=name,
        )
    lengths = [
        len(read_prompt(each["messages"][0]["content"]).history) for each in provider.requests
    ]
    assert lengths == [1024] * 4  # the whole history
    # and where it never answers, evaluation puts naive in its place
    provider.usual = nan
    silent = evaluate(ask(attempts=2, temperature=1.0), suite, batch_size=2)
    assert all(silent.scores.column("imputed").to_pylist())
    np.testing.assert_array_equal(
        silent.scores.column("wape").to_numpy(), expected.scores.column("wape").to_numpy()
    )
