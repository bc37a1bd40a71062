"""What calls of language models cost: said before, counted, and stopped at a limit."""

import time

import numpy as np
import pytest

from eval.forecasters.llm import CostLimit, make
from tests.eval.llm.llm_server import (
    CACHE,
    PRICES,
    hang,
    last,
    nan,
    needs_litellm,
    recorded,
    repeats_last,
    rows,
    written,
)

pytestmark = needs_litellm


def spent(folder) -> float:
    return sum(attempt["cost"] for attempt in recorded(folder))


def later(question):
    time.sleep(0.1)
    return repeats_last(question)


def test_max_cost_stops_before_it_is_passed_and_counts_earlier_sessions(ask, provider, tmp_path):
    prices = {**PRICES, "concurrency": 1}
    costly = ask(max_cost=0.0001, **prices)
    with pytest.raises(CostLimit, match="max_cost: 0.0001 USD"):
        costly(*rows(5))
    assert provider.requests == []
    some = ask(max_cost=0.0075, **prices)
    with pytest.raises(CostLimit, match="0.0060 USD are spent"):
        some(*rows(5))
    assert len(provider.requests) == 3
    assert spent(tmp_path) == pytest.approx(0.006)
    with pytest.raises(CostLimit):  # a new session remembers what was spent
        ask(max_cost=0.0075, **prices)(*rows(5))
    assert len(provider.requests) == 3
    more = ask(max_cost=0.0105, **prices)
    np.testing.assert_allclose(np.stack(more(*rows(5))), last(rows(5)[0]), rtol=1e-5)
    assert len(provider.requests) == 5  # answers before the stop were kept
    assert spent(tmp_path) == pytest.approx(0.010)


def test_calls_side_by_side_do_not_pass_max_cost_together(ask, provider, tmp_path):
    ask(**PRICES)(*rows(1))  # teaches what a call takes
    provider.usual = later
    with pytest.raises(CostLimit, match="under way are expected to cost 0.0040 and the next one 0"):
        ask(max_cost=0.0075, concurrency=8, **PRICES)(*rows(8))
    assert spent(tmp_path) == pytest.approx(0.006)
    assert len(provider.requests) == 3  # those under way ended and are kept


def test_what_calls_under_way_hold_back_stops_others_but_not_a_rerun(ask, provider, tmp_path):
    # high effort: 20,000 tokens are held back for the first call, 500 are what it takes
    provider.usual = later
    settings = dict(reasoning_effort="high", max_cost=0.05, concurrency=4, **PRICES)
    with pytest.raises(CostLimit, match="0.0000 USD are spent, calls under way"):
        ask(**settings)(*rows(6))
    assert len(provider.requests) == 1
    np.testing.assert_allclose(np.stack(ask(**settings)(*rows(6))), last(rows(6)[0]), rtol=1e-5)
    assert spent(tmp_path) == pytest.approx(0.012)


def test_refused_answers_and_hanging_calls_count_as_money(ask, provider, tmp_path):
    provider.script = [nan, hang]
    ask(timeout=0.3, **PRICES)(*rows())
    # two answers at 0.002; the call that hung is charged as the answer before it
    assert spent(tmp_path) == pytest.approx(0.006, rel=1e-3)


def test_an_estimate_makes_no_call_and_no_file(ask, provider, tmp_path):
    forecaster = ask(**PRICES)
    one, many = forecaster.estimate(*rows(1)), forecaster.estimate(*rows(20))
    assert provider.requests == [] and not (tmp_path / CACHE).exists()
    assert one.requests == 1 and many.requests == 20
    assert many.prompt_tokens == pytest.approx(20 * one.prompt_tokens, rel=0.05)
    expected = (one.prompt_tokens + 2 * one.completion_tokens) / 1e6
    assert one.cost == pytest.approx(expected, rel=0.01)
    assert many.cost == pytest.approx(20 * one.cost, rel=0.05)
    high = ask(reasoning_effort="high", **PRICES).estimate(*rows(1))
    assert high.completion_tokens == one.completion_tokens + 20_000


@pytest.mark.parametrize("context, k", [(12, 2), (2000, 4)])
def test_an_estimate_counts_what_would_be_sent(context, k, ask, provider):
    import litellm

    estimate = ask().estimate(*rows(1, context, k))
    ask()(*rows(1, context, k))
    text = provider.requests[0]["messages"][0]["content"]
    assert estimate.prompt_tokens == litellm.token_counter(model="gpt-4o", text=text)


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


def test_prices_come_from_litellm_or_the_user_or_are_said_to_be_unknown(ask, tmp_path):
    unknown = ask().estimate(*rows())
    assert unknown.cost is None and unknown.prompt_tokens > 0
    assert "litellm knows no price of openai/fake" in unknown.note
    known = make("anthropic/claude-opus-4-8", cache=tmp_path / CACHE).estimate(*rows())
    import litellm

    price = litellm.model_cost["claude-opus-4-8"]
    assert known.cost == pytest.approx(
        known.prompt_tokens * price["input_cost_per_token"]
        + known.completion_tokens * price["output_cost_per_token"],
        rel=0.01,
    )
    with pytest.raises(ValueError, match="max_cost: 5, but litellm knows no price of openai/fake"):
        ask(max_cost=5)


def test_a_server_that_counts_no_tokens_is_charged_the_estimate(ask, provider, tmp_path):
    def silent(question):
        text = repeats_last(question).body["choices"][0]["message"]["content"]
        return written(text, usage=False)

    provider.usual = silent
    forecaster = ask(**PRICES)
    estimate = forecaster.estimate(*rows())
    forecaster(*rows())
    assert spent(tmp_path) == pytest.approx(estimate.cost, rel=0.01)
