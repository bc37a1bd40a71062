"""Language models of any provider as forecasters, through litellm.

`make` builds one. Needs the extra `llm`; nothing of litellm is imported before it is used.

References:
    evaluation/scores.md. litellm: https://docs.litellm.ai
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from .cache import Cache, default_folder, file_name
from .client import Client, ProviderError, public_address
from .cost import REASONING_TOKENS, CostLimit, Estimate, Meter, find_prices
from .forecaster import LLMForecaster
from .prompt import PROMPT_HASH
from .provider import litellm

__all__ = ["CostLimit", "Estimate", "LLMForecaster", "ProviderError", "make"]


def make(
    model: str | None = None,
    api_base: str | None = None,
    api_key: str | None = None,
    reasoning_effort: str | None = None,
    temperature: float | None = None,
    max_tokens: int | None = None,
    attempts: int = 10,
    timeout: float = 1200.0,
    cache: str | Path | None = None,
    max_cost: float | None = None,
    input_price: float | None = None,
    output_price: float | None = None,
    reasoning_tokens: int | None = None,
    concurrency: int = 8,
    first_wait: float = 1.0,
    longest_wait: float = 60.0,
    sleep: Callable[[float], object] | None = None,
    name: str | None = None,
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
        cache: folder for answers and the log of attempts; None for `~/.cache/whatif-jax/llm`.
        max_cost: US dollars for this model with these parameters, all sessions with this cache.
        input_price: US dollars for a million tokens of prompts; None for litellm's own table.
        output_price: the same for what the model writes.
        reasoning_tokens: expected for one forecast, in estimates made before the first call.
        concurrency: calls at a time.
        first_wait: seconds before the second attempt; each later wait is twice as long, or as
            long as the provider asks.
        longest_wait: seconds that a doubled wait may reach.
        sleep: called with the seconds of each wait instead of waiting.
        name: for the leaderboard; None makes one of model and effort.

    Returns:
        a forecaster for `whatif_jax.evaluation.evaluate.evaluate`.

    Raises:
        ImportError: litellm is not installed; names the extra.
        ValueError: a setting is not what it should be, or `max_cost` without a known price.
    """
    if not isinstance(model, str) or not model:
        raise ValueError(
            f"model: {model!r}; expected litellm's name of one, such as anthropic/claude-opus-4-8"
        )
    _whole("attempts", attempts, 1)
    _whole("concurrency", concurrency, 1)
    for setting, whole in (("max_tokens", max_tokens), ("reasoning_tokens", reasoning_tokens)):
        if whole is not None:
            _whole(setting, whole, 0)
    for setting, seconds in (
        ("timeout", timeout),
        ("first_wait", first_wait),
        ("longest_wait", longest_wait),
        ("max_cost", 1.0 if max_cost is None else max_cost),
    ):
        if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not seconds >= 0:
            raise ValueError(f"{setting}: {seconds!r}; expected a number of at least 0")
    litellm()  # where it is missing, say so now
    prices = find_prices(model, input_price, output_price)
    if max_cost is not None and prices is None:
        raise ValueError(
            f"max_cost: {max_cost}, but litellm knows no price of {model}; expected input_price "
            f"and output_price too, US dollars for a million tokens"
        )
    parameters = {
        key: value
        for key, value in (
            ("reasoning_effort", reasoning_effort),
            ("temperature", temperature),
            ("max_tokens", max_tokens),
        )
        if value is not None
    }
    address = {} if api_base is None else {"api_base": public_address(api_base)}
    settings: dict[str, Any] = {"model": model, **parameters, **address}
    if reasoning_tokens is None:
        reasoning_tokens = REASONING_TOKENS.get(reasoning_effort or "none", 20_000)
    readable = "-".join(filter(None, [file_name(model), reasoning_effort]))
    return LLMForecaster(
        name=name or readable,
        settings={**settings, "attempts": attempts, "prompt": PROMPT_HASH},
        client=Client(model, api_base, api_key, parameters, timeout),
        cache=Cache(default_folder() if cache is None else cache, model, {**parameters, **address}),
        meter=Meter(reasoning_tokens),
        prices=prices,
        max_cost=max_cost,
        attempts=attempts,
        concurrency=concurrency,
        first_wait=first_wait,
        longest_wait=longest_wait,
        sleep=sleep,
    )


def _whole(name: str, value: Any, least: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise ValueError(f"{name}: {value!r}; expected an integer >= {least}")
