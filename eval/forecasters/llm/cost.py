"""What calls cost: an estimate before they are made, and a limit that stops them."""

import threading
from dataclasses import dataclass, field

from .cache import Cache
from .client import Client, Reply, Tokens, litellm
from .prompt import Prompt

__all__ = ["REASONING_TOKENS", "Budget", "CostLimit", "count_tokens"]

# Tokens a model writes before its answer. Our assumption, used until calls have been made: those
# then say what this model needs.
REASONING_TOKENS = {
    "none": 0, "minimal": 500, "low": 2_000, "medium": 8_000, "high": 20_000, "xhigh": 40_000,
    "max": 60_000,
}  # fmt: skip


class CostLimit(RuntimeError):  # noqa: N818 - a clean stop, not a mistake
    """The next call might go beyond `max_cost`. Answers so far are in the cache."""


def count_tokens(prompt: Prompt) -> Tokens:
    """Tokens of a prompt and of a bare answer to it, in litellm's default tokenizer.

    The model's own tokenizer may differ by tens of percent, above all on digits.
    """
    answer = ", ".join(f"({stamp}, 1.2345)" for stamp in prompt.time_stamps)
    count = litellm().token_counter
    # the name picks the tokenizer that comes with litellm; others would be fetched
    return Tokens(*(count(model="gpt-4o", text=text) for text in (prompt.text, answer)))


@dataclass
class Budget:
    """What a call is expected to cost, and the most that all may. Threads may share it."""

    client: Client  # knows the prices
    cache: Cache  # knows the calls so far
    limit: float | None  # US dollars for this model with these parameters; None: no limit
    reasoning_tokens: int  # expected beside a bare answer, until a call has been made
    _under_way: float = 0.0  # US dollars that calls under way are expected to cost
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def expected(self, counted: Tokens) -> Tokens:
        """What a call is expected to use: as past calls did, else the count plus reasoning."""
        used = self.cache.used()
        if used is None:
            return Tokens(counted.prompt, counted.completion + self.reasoning_tokens)
        return Tokens(counted.prompt * used.prompt, counted.completion * used.completion)

    def start(self, counted: Tokens) -> float | None:
        """Hold back what a call is expected to cost, None where no price is known; then `finish`.

        Raises:
            CostLimit: with this call and those under way, more than the limit might be spent.
        """
        with self._lock:
            expected = self.client.cost(self.expected(counted))
            cost, spent = expected or 0.0, self.cache.spent()
            if self.limit is not None and spent + self._under_way + cost > self.limit:
                raise CostLimit(
                    f"max_cost: {self.limit:g} USD; {spent:.4f} USD are spent, calls under way "
                    f"are expected to cost {self._under_way:.4f} and the next one {cost:.4f}. "
                    f"Answers so far are kept: run again to go on, with a higher max_cost if "
                    f"that is spent"
                )
            self._under_way += cost
            return expected

    def finish(self, expected: float | None, key: str, counted: Tokens, reply: Reply) -> None:
        """Record what a call has cost instead of what was held back for it."""
        uncounted = reply.text is not None and reply.tokens is None
        if uncounted or reply.outcome == "timeout":  # which a provider may charge for
            reply = reply._replace(cost=expected)
        with self._lock:
            self._under_way -= expected or 0.0
            self.cache.add(key, counted, reply)

    def basis(self) -> str:
        """What estimates rest on."""
        if self.cache.used() is None:
            basis = "tokens by litellm's default tokenizer plus an assumed number for reasoning"
        else:
            basis = "tokens as past calls of this model used them"
        if self.client.cost(Tokens(0, 0)) is None:
            basis += (
                f"; litellm knows no price of {self.client.model}: set input_price and "
                f"output_price, US dollars for a million tokens"
            )
        return basis
