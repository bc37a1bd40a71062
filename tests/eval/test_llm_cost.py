"""What calls of language models cost: said before, counted, and stopped at a limit."""

import time

import numpy as np
import pytest

from eval.forecasters.llm import CostLimit, Estimate, make
from tests.eval.llm_server import (
    PRICES,
    FakeProvider,
    hang,
    last,
    maker,
    nan,
    needs_litellm,
    repeats_last,
    rows,
    written,
)

pytestmark = needs_litellm


@pytest.fixture(scope="module")
def provider():
    server = FakeProvider()
    yield server
    server.close()


@pytest.fixture
def ask(provider, tmp_path):
    yield maker(provider, tmp_path)
    provider.release.set()


def test_max_cost_stops_before_it_is_passed_and_counts_earlier_sessions(ask, provider):
    prices = {**PRICES, "concurrency": 1}
    costly = ask(max_cost=0.0001, **prices)
    with pytest.raises(CostLimit, match="max_cost: 0.0001 USD"):
        costly(*rows(5))
    assert provider.requests == []
    some = ask(max_cost=0.0075, **prices)
    with pytest.raises(CostLimit, match="0.0060 USD are spent"):
        some(*rows(5))
    assert len(provider.requests) == 3
    assert some.spent == pytest.approx(0.006)
    with pytest.raises(CostLimit):  # a new session remembers what was spent
        ask(max_cost=0.0075, **prices)(*rows(5))
    assert len(provider.requests) == 3
    more = ask(max_cost=0.0105, **prices)
    assert more.spent == pytest.approx(0.006)
    np.testing.assert_allclose(np.stack(more(*rows(5))), last(rows(5)[0]), rtol=1e-5)
    assert len(provider.requests) == 5  # answers before the stop were kept
    assert more.spent == pytest.approx(0.010)


def test_calls_side_by_side_do_not_pass_max_cost_together(ask, provider):
    ask(**PRICES)(*rows(1))  # teaches what a call takes
    provider.usual = lambda question: (time.sleep(0.1), repeats_last(question))[1]
    forecaster = ask(max_cost=0.0075, concurrency=8, **PRICES)
    with pytest.raises(CostLimit):
        forecaster(*rows(8))
    assert forecaster.spent == pytest.approx(0.006)
    assert len(provider.requests) == 3


def test_a_call_waits_for_money_that_others_hold_back(ask, provider):
    # high effort: 20,000 tokens are held back for the first calls, 500 are what they take
    provider.usual = lambda question: (time.sleep(0.05), repeats_last(question))[1]
    forecaster = ask(reasoning_effort="high", max_cost=0.05, **PRICES, concurrency=4)
    np.testing.assert_allclose(np.stack(forecaster(*rows(6))), last(rows(6)[0]), rtol=1e-5)
    assert forecaster.spent == pytest.approx(0.012)


def test_refused_answers_and_hanging_calls_count_as_money(ask, provider):
    provider.script = [nan, hang]
    forecaster = ask(timeout=0.3, **PRICES)
    forecaster(*rows())
    # two answers at 0.002; the call that hung is charged as the answer before it
    assert forecaster.spent == pytest.approx(0.006, rel=1e-3)


def test_an_estimate_makes_no_call_and_adds_up(ask, provider):
    forecaster = ask(**PRICES)
    one, many = forecaster.estimate(*rows(1)), forecaster.estimate(*rows(20))
    assert provider.requests == []
    assert one.requests == 1 and many.requests == 20
    assert many.prompt_tokens == pytest.approx(20 * one.prompt_tokens, rel=0.05)
    expected = (one.prompt_tokens + 2 * one.completion_tokens) / 1e6
    assert one.cost == pytest.approx(expected, rel=0.01)
    total = sum([one, many])
    assert total.cost == pytest.approx(one.cost + many.cost) and total.requests == 21
    high = ask(reasoning_effort="high", **PRICES).estimate(*rows(1))
    assert high.completion_tokens == one.completion_tokens + 20_000


@pytest.mark.parametrize("context, k, tolerance", [(12, 2, 1e-9), (400, 1, 0.03), (2000, 4, 0.03)])
def test_a_long_prompt_is_estimated_from_a_part_of_it(context, k, tolerance, ask, provider):
    import litellm

    estimate = ask().estimate(*rows(1, context, k))
    ask()(*rows(1, context, k))
    text = provider.requests[0]["messages"][0]["content"]
    counted = litellm.token_counter(model="gpt-4o", text=text)
    assert estimate.prompt_tokens == pytest.approx(counted, rel=tolerance)


def test_an_estimate_leaves_out_what_is_cached_and_learns(ask, provider):
    forecaster = ask(**PRICES)
    history, covariates, *rest = rows(12)
    forecaster(history[:3], covariates[:3], *rest)
    for each in (forecaster, ask(**PRICES)):  # this and a later session
        estimate = each.estimate(history, covariates, *rest)
        assert (estimate.requests, estimate.cached) == (9, 3)
        assert estimate.cost == pytest.approx(9 * 0.002, rel=0.02)
        assert "past calls" in estimate.note
    forecaster(history, covariates, *rest)
    done = forecaster.estimate(history, covariates, *rest)
    assert (done.requests, done.cached, done.cost) == (0, 12, 0)


def test_prices_come_from_litellm_or_the_user_or_are_said_to_be_unknown(ask):
    unknown = ask().estimate(*rows())
    assert unknown.cost is None and unknown.prompt_tokens > 0
    assert "litellm knows no price of openai/fake" in unknown.note
    assert (unknown + Estimate(cost=1.0)).cost is None
    known = make(model="anthropic/claude-opus-4-8").estimate(*rows())
    import litellm

    price = litellm.model_cost["claude-opus-4-8"]
    assert known.cost == pytest.approx(
        known.prompt_tokens * price["input_cost_per_token"]
        + known.completion_tokens * price["output_cost_per_token"],
        rel=0.01,
    )
    with pytest.raises(ValueError, match="max_cost: 5, but litellm knows no price of openai/fake"):
        ask(max_cost=5)


def test_a_server_that_counts_no_tokens_is_charged_the_estimate(ask, provider):
    def silent(question):
        text = repeats_last(question).body["choices"][0]["message"]["content"]
        return written(text, usage=False)

    provider.usual = silent
    forecaster = ask(**PRICES)
    estimate = forecaster.estimate(*rows())
    forecaster(*rows())
    assert forecaster.spent == pytest.approx(estimate.cost, rel=0.01)
