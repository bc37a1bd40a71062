"""Language models of any provider as forecasters, through litellm.

`make` builds one. Needs the extra `llm`; nothing of litellm is imported before it is used.

References:
    evaluation/scores.md. litellm: https://docs.litellm.ai
"""

import re

from ..settings import (
    Count,
    Dollars,
    LiteLLMModel,
    Place,
    Seconds,
    Secret,
    Temperature,
    TextOrNone,
    Whole,
    checked_settings,
)
from .attempts import LLMForecaster, ProviderError
from .cache import Cache, CacheError, default_path
from .client import Client, Tokens, litellm, public_address
from .cost import REASONING_TOKENS, Budget, CostLimit
from .prompt import PROMPT_HASH

__all__ = ["CacheError", "CostLimit", "LLMForecaster", "ProviderError", "make"]


@checked_settings
def make(
    model: LiteLLMModel = "",
    api_base: TextOrNone = None,
    api_key: Secret = None,
    reasoning_effort: TextOrNone = None,
    temperature: Temperature = None,
    max_tokens: Whole = None,
    attempts: Count = 10,
    timeout: Seconds = 1200.0,
    cache: Place = None,
    max_cost: Dollars = None,
    input_price: Dollars = None,
    output_price: Dollars = None,
    reasoning_tokens: Whole = None,
    concurrency: Count = 8,
    name: TextOrNone = None,
) -> LLMForecaster:
    """A language model as a forecaster of medians.

    Args:
        model: litellm's name, provider first: `anthropic/claude-opus-4-8`, `gemini/...`,
            `openai/...`; any OpenAI-compatible server is `openai/NAME` with `api_base`.
        api_base: address of the server, None for the provider's own.
        api_key: None for the environment variable of the provider, which is the better place.
        reasoning_effort: as the provider names it, such as "medium" or "high"; None says nothing.
        temperature: None says nothing.
        max_tokens: the most that the model may write, reasoning included; None says nothing.
        attempts: for each row, before it is left to naive.
        timeout: seconds for one call; at high effort the paper's models take 300 on average.
        cache: sqlite file of every attempt; None for `~/.cache/whatif-jax/llm.sqlite`.
        max_cost: US dollars for this model with these parameters, all sessions with this cache.
        input_price: US dollars for a million tokens of prompts; None for litellm's own table.
        output_price: the same for what the model writes.
        reasoning_tokens: expected for one forecast, in estimates made before the first call.
        concurrency: calls at a time.
        name: for the leaderboard; None makes one of model and effort.

    Returns:
        a forecaster for `whatif_jax.evaluation.evaluate.evaluate`.

    Raises:
        ImportError: litellm is not installed; names the extra.
        ValueError: a setting is not what it should be, `max_cost` without a known price, or a
            `cache` that is no cache of answers.
    """
    prices = {
        f"{side}_cost_per_token": price / 1e6
        for side, price in (("input", input_price), ("output", output_price))
        if price is not None
    }
    if len(prices) == 1:
        raise ValueError(
            f"input_price: {input_price}, output_price: {output_price}; expected both or neither"
        )
    litellm()  # where it is missing, say so now
    parameters = _given(
        reasoning_effort=reasoning_effort, temperature=temperature, max_tokens=max_tokens
    )
    public = parameters | _given(api_base=api_base and public_address(api_base))
    client = Client(model, api_base, api_key, parameters, timeout, prices or None)
    if max_cost is not None and client.cost(Tokens(0, 0)) is None:
        raise ValueError(
            f"max_cost: {max_cost:g}, but litellm knows no price of {model}; expected input_price "
            f"and output_price too, US dollars for a million tokens"
        )
    if reasoning_tokens is None:
        reasoning_tokens = REASONING_TOKENS.get(reasoning_effort or "none", 20_000)
    kept = Cache(default_path() if cache is None else cache, model, public)
    short = re.sub(r"[^\w.-]", "-", model.rpartition("/")[2])
    return LLMForecaster(
        name=name or "-".join(filter(None, [short, reasoning_effort])),
        settings={"model": model, **public, "attempts": attempts, "prompt": PROMPT_HASH},
        client=client,
        cache=kept,
        budget=Budget(client, kept, max_cost, reasoning_tokens),
        attempts=attempts,
        concurrency=concurrency,
    )


def _given(**settings: object) -> dict[str, object]:
    return {name: value for name, value in settings.items() if value is not None}
