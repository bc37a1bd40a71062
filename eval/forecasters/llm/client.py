"""One call to a provider through litellm, and what its failures mean."""

import os
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass
from types import ModuleType
from typing import Any, NamedTuple
from urllib.parse import urlsplit, urlunsplit

from ..base import require

__all__ = ["Client", "Reply", "Tokens", "litellm", "public_address"]

# Client errors that pass nevertheless: request timeout, conflict, too early, too many requests.
_PASSING_STATUS = {408, 409, 425, 429}
# Served as 429 or 500, but no waiting helps.
_PERMANENT = re.compile(r"insufficient_quota|exceeded your current quota|Missing credentials")
_LONGEST_WAIT = 600.0  # seconds of a Retry-After that are believed


class Tokens(NamedTuple):
    """Tokens of one call."""

    prompt: float
    completion: float


class Reply(NamedTuple):
    """What came of one call."""

    # answered; or rate_limited, server_error, timeout, content_filter, which another call may get
    # past; or refused, which none will
    outcome: str
    message: str = ""
    text: str | None = None  # None: the call failed
    cut_short: bool = False  # the provider says that the text hit its length limit
    seconds: float = 0.0
    tokens: Tokens | None = None  # None where the provider does not say
    cost: float | None = 0.0  # in US dollars, None where no price is known
    wait: float = 0.0  # seconds that the provider asks for before another call


def litellm() -> ModuleType:
    """The litellm module, imported late and kept quiet.

    Raises:
        ImportError: it is not installed; names the extra.
    """
    # Read while it is imported: else the newest table of prices is fetched over the network.
    os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"
    module = require("litellm", "llm")
    # else it prints an advertisement at every failed call
    vars(module)["suppress_debug_info"] = True
    return module


def public_address(address: str) -> str:
    """A server's address without the user, password or query that may stand in it."""
    parts = urlsplit(address)
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))


@dataclass(frozen=True, repr=False)
class Client:
    """Sends prompts to one model. Threads may share it."""

    model: str  # litellm's name, provider first
    api_base: str | None  # address of the server; None: the provider's own
    api_key: str | None  # None: litellm reads the provider's environment variable
    parameters: Mapping[str, object]  # what goes along with every request
    timeout: float  # seconds for one call
    prices: Mapping[str, float] | None  # of the user, as litellm names them; None: litellm's own

    def send(self, prompt: str) -> Reply:
        """One request, one reply; a failure is one too."""
        started = time.monotonic()
        try:
            response = litellm().completion(
                model=self.model,
                messages=[{"role": "user", "content": prompt}],
                api_base=self.api_base,
                api_key=self.api_key,
                timeout=self.timeout,
                num_retries=0,
                max_retries=0,  # those of the provider's own package, two by default
                **self.parameters,
            )
        except Exception as error:  # noqa: BLE001 - sorted by what the provider said
            reply = self._failure(error)
        else:
            reply = self._answer(response)
        return reply._replace(seconds=round(time.monotonic() - started, 3))

    def cost(self, tokens: Tokens, usage: Any = None) -> float | None:
        """US dollars for one call, None where no price is known.

        Args:
            tokens: of the call.
            usage: litellm's record of one that was made; it knows of cached prompts, for instance.
        """
        try:
            sides = litellm().cost_per_token(
                model=self.model,
                prompt_tokens=round(tokens.prompt),
                completion_tokens=round(tokens.completion),
                usage_object=usage,
                custom_cost_per_token=self.prices,
            )
        except Exception:  # noqa: BLE001 - litellm raises its own and plain ones alike
            return None
        return sum(sides)

    def _answer(self, response: Any) -> Reply:
        reply = Reply("answered", text="", cost=None)
        if response.choices:
            choice = response.choices[0]
            reply = reply._replace(
                text=choice.message.content or "", cut_short=choice.finish_reason == "length"
            )
        usage = getattr(response, "usage", None)
        if usage is None or not usage.prompt_tokens:
            return reply
        tokens = Tokens(usage.prompt_tokens, usage.completion_tokens)
        return reply._replace(tokens=tokens, cost=self.cost(tokens, usage))

    def _failure(self, error: Exception) -> Reply:
        message = self._redacted(str(error))
        status = getattr(error, "status_code", None)
        if not isinstance(status, int):
            return Reply("refused", f"{self.model}: {type(error).__name__}: {message}")
        if isinstance(error, litellm().exceptions.ContentPolicyViolationError):
            return Reply("content_filter", message)
        details = f"{message} {getattr(error, 'body', None)}"
        if _PERMANENT.search(details) or (400 <= status < 500 and status not in _PASSING_STATUS):
            return Reply("refused", f"{self.model}: the provider refuses ({status}): {message}")
        late = isinstance(error, litellm().exceptions.Timeout)
        outcome = "rate_limited" if status == 429 else "timeout" if late else "server_error"
        return Reply(outcome, message, wait=_retry_after(error))

    def _redacted(self, text: str) -> str:
        """Text without what is secret: providers like to repeat a key that they refuse."""
        address = urlsplit(self.api_base or "")
        secrets = {self.api_key, address.password, address.query} | {
            value for name, value in os.environ.items() if name.endswith(("_API_KEY", "_TOKEN"))
        }
        for secret in sorted(filter(None, secrets), key=len, reverse=True):
            text = text.replace(secret, "***") if len(secret) > 3 else text
        return re.sub(r"//[^/@\s]+@", "//", text)  # the user of an address


def _retry_after(error: Exception) -> float:
    headers = getattr(getattr(error, "response", None), "headers", None) or {}
    try:
        wait = float(headers.get("retry-after", ""))
    except ValueError:  # absent, or a date: our own wait then
        return 0.0
    return min(wait, _LONGEST_WAIT) if wait > 0 else 0.0
