"""What calls cost: an estimate before they are made, and a limit that stops them."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import NamedTuple

from .prompt import Prompt, expected_answer
from .provider import litellm

__all__ = ["Budget", "CostLimit", "Estimate", "Meter", "Prices", "Tokens", "find_prices"]

# Tokens a model writes before its answer. Our assumption, used until calls have been made: the
# log of those then says what this model needs.
REASONING_TOKENS = {
    "none": 0,
    "minimal": 500,
    "low": 2_000,
    "medium": 8_000,
    "high": 20_000,
    "xhigh": 40_000,
    "max": 60_000,
}
COUNTED = 6_000  # characters of a text that are counted; a CSV table goes on as it began


class CostLimit(RuntimeError):  # noqa: N818 - a clean stop, not a mistake
    """The next call would go beyond `max_cost`. Answers so far are in the cache."""


@dataclass(frozen=True)
class Estimate:
    """Tokens and cost of forecasts not yet made; estimates add up, `sum` included.

    Attributes:
        prompt_tokens: sent.
        completion_tokens: written by the model, reasoning included.
        cost: in US dollars, None where the model's price is unknown.
        requests: calls, if each is answered at the first attempt.
        cached: forecasts that need no call.
        note: what the numbers rest on.
    """

    prompt_tokens: int = 0
    completion_tokens: int = 0
    cost: float | None = 0.0
    requests: int = 0
    cached: int = 0
    note: str = ""

    def __add__(self, other: "Estimate | int") -> "Estimate":
        if not isinstance(other, Estimate):
            return self if other == 0 else NotImplemented  # `sum` starts from 0
        known = self.cost is not None and other.cost is not None
        return Estimate(
            self.prompt_tokens + other.prompt_tokens,
            self.completion_tokens + other.completion_tokens,
            self.cost + other.cost if known else None,  # type: ignore[operator]
            self.requests + other.requests,
            self.cached + other.cached,
            self.note or other.note,
        )

    __radd__ = __add__


class Tokens(NamedTuple):
    """Tokens of one call."""

    prompt: float
    completion: float


class Prices(NamedTuple):
    """US dollars for one token. `given` says that the user set them."""

    prompt: float
    completion: float
    given: bool = False

    def cost(self, tokens: Tokens) -> float:
        """US dollars for one call."""
        return self.prompt * tokens.prompt + self.completion * tokens.completion


def find_prices(
    model: str, input_price: float | None = None, output_price: float | None = None
) -> Prices | None:
    """Prices as given, else as litellm's own table has them, else None.

    Args:
        model: litellm's name for the model, provider first.
        input_price: US dollars for a million tokens of prompts.
        output_price: the same for tokens that the model writes.

    Raises:
        ValueError: one price without the other, or a negative one.
    """
    if (input_price is None) != (output_price is None):
        raise ValueError(
            f"input_price: {input_price}, output_price: {output_price}; expected both or neither"
        )
    if input_price is not None and output_price is not None:
        for name, price in (("input_price", input_price), ("output_price", output_price)):
            if not 0 <= price < float("inf"):
                raise ValueError(f"{name}: {price!r}; expected US dollars for a million tokens")
        return Prices(input_price / 1e6, output_price / 1e6, given=True)
    module = litellm()
    try:
        known = module.get_model_info(model)
    except Exception:  # noqa: BLE001 - litellm raises its own and plain ones alike
        return None
    prompt, completion = known.get("input_cost_per_token"), known.get("output_cost_per_token")
    return None if prompt is None or completion is None else Prices(prompt, completion)


class Meter:
    """Counts the tokens of a call before it is made, and learns from the calls that were."""

    def __init__(self, reasoning_tokens: int):
        self._reasoning_tokens = reasoning_tokens
        self._lock = threading.Lock()
        self._expected = [0.0, 0.0]
        self._actual = [0.0, 0.0]

    def count(self, prompt: Prompt) -> Tokens:
        """Tokens of prompt and bare answer, in litellm's default tokenizer.

        The model's own tokenizer may differ by tens of percent, above all on digits.
        """
        return Tokens(_count(prompt.text), _count(expected_answer(prompt)))

    def learn(self, counted: Tokens, actual: Tokens) -> None:
        """Take note of what a call that `count` was asked about has really used."""
        with self._lock:
            for side in range(2):
                self._expected[side] += counted[side]
                self._actual[side] += actual[side]

    @property
    def learned(self) -> bool:
        """Whether estimates rest on calls of this model."""
        return self._actual[0] > 0

    def estimate(self, counted: Tokens) -> Tokens:
        """What a call is expected to use: as past calls did, else the count plus reasoning."""
        with self._lock:
            if not self.learned:
                return Tokens(counted.prompt, counted.completion + self._reasoning_tokens)
            prompt, completion = (
                count * actual / max(expected, 1.0)
                for count, actual, expected in zip(
                    counted, self._actual, self._expected, strict=True
                )
            )
            return Tokens(prompt, completion)


def _count(text: str) -> float:
    if len(text) <= COUNTED:
        return _tokens(text)
    half = COUNTED // 2  # the instructions are at the start, and words take fewer tokens
    middle = text[len(text) // 2 :][:half]
    return _tokens(text[:half]) + _tokens(middle) * (len(text) - half) / len(middle)


def _tokens(text: str) -> int:
    # the name picks the tokenizer that comes with litellm; others would be fetched
    return litellm().token_counter(model="gpt-4o", text=text)


class Budget:
    """Money spent, money promised to calls under way, and the most that may be spent.

    Args:
        spent: US dollars of earlier sessions.
        limit: US dollars in all, None for no limit.
    """

    def __init__(self, spent: float, limit: float | None):
        self.spent = spent
        self._limit = limit
        self._promised = 0.0
        self._under_way = 0
        self._changed = threading.Condition()

    @contextmanager
    def promise(self, cost: Callable[[], float]) -> Iterator[None]:
        """Hold back what a call is expected to cost while it is under way.

        Where calls under way hold back what this one needs, it waits for them: they often cost
        less than expected.

        Args:
            cost: gives US dollars for the call, by all that is known when it is asked.

        Raises:
            CostLimit: with it, more than the limit might be spent.
        """
        with self._changed:
            while self._limit is not None:
                if self.spent + self._promised + cost() <= self._limit:
                    break
                if not self._under_way:
                    raise CostLimit(
                        f"max_cost: {self._limit:g} USD; {self.spent:.4f} USD are spent, and the "
                        f"next call is expected to cost {cost():.4f}. Answers so far are kept: "
                        f"run again with a higher max_cost to go on"
                    )
                self._changed.wait()
            held = cost()
            self._promised += held
            self._under_way += 1
        try:
            yield
        finally:
            with self._changed:
                self._promised -= held
                self._under_way -= 1
                self._changed.notify_all()

    def spend(self, cost: float) -> None:
        """Count what a call has cost."""
        with self._changed:
            self.spent += cost
