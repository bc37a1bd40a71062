"""One call to a provider, and what its failures mean."""

import os
import re
import time
from collections.abc import Mapping
from typing import Any, NamedTuple
from urllib.parse import urlsplit, urlunsplit

from .cost import Tokens
from .provider import litellm

__all__ = ["CallFailed", "Client", "ProviderError", "Reply", "public_address"]

# Failures that pass: worth another attempt. `content_filter`: the provider refused the prompt.
PASSING = ("rate_limited", "server_error", "timeout", "content_filter")
# Client errors that pass nevertheless: request timeout, conflict, too early, too many requests.
_PASSING_STATUS = {408, 409, 425, 429}
_LONGEST_WAIT = 600.0  # of a Retry-After that is believed
# Served as 429 or 500, but no waiting helps.
_PERMANENT = re.compile(r"insufficient_quota|exceeded your current quota|Missing credentials")


class ProviderError(RuntimeError):
    """The provider refuses, and would again: a wrong key, name, parameter or an empty account."""


class CallFailed(Exception):  # noqa: N818 - a failure that passes
    """A call that another attempt may get answered.

    Attributes:
        reason: one of `PASSING`.
        wait: seconds that the provider asks to wait, 0 if it does not.
    """

    def __init__(self, reason: str, message: str, wait: float = 0.0):
        super().__init__(message)
        self.reason = reason
        self.wait = wait


class Reply(NamedTuple):
    """What came back."""

    text: str
    cut_short: bool
    seconds: float
    tokens: Tokens | None  # None where the provider does not say
    cost: float | None  # in US dollars as litellm's prices have it, None if it knows none


def public_address(address: str) -> str:
    """A server's address without the user, password or query that may stand in it."""
    parts = urlsplit(address)
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))


class Client:
    """Sends prompts to one model. Threads may share it. Its own retries are off.

    Args:
        model: litellm's name for the model, provider first.
        api_base: address of the server, None for the provider's own.
        api_key: None for the environment variable that litellm reads for this provider.
        parameters: what goes along with every request.
        timeout: seconds for one call.
    """

    def __init__(
        self,
        model: str,
        api_base: str | None,
        api_key: str | None,
        parameters: Mapping[str, Any],
        timeout: float,
    ):
        self._model = model
        self._fixed: dict[str, Any] = {"model": model, "timeout": timeout, **parameters}
        if api_base is not None:
            self._fixed["api_base"] = api_base
        self._api_key = api_key

    def __repr__(self) -> str:
        return f"Client({self._model!r})"

    def send(self, prompt: str) -> Reply:
        """One request, one reply.

        Raises:
            CallFailed: a failure that may pass.
            ProviderError: one that will not.
        """
        completion = litellm().completion
        secret = {} if self._api_key is None else {"api_key": self._api_key}
        started = time.monotonic()
        try:
            response = completion(
                messages=[{"role": "user", "content": prompt}],
                num_retries=0,
                max_retries=0,  # those of the provider's own package, two by default
                **self._fixed,
                **secret,
            )
        except Exception as error:  # noqa: BLE001 - sorted by what the provider said
            failure = self._sorted(error)
        else:
            return self._reply(response, time.monotonic() - started)
        raise failure  # outside the handler: the provider's own text may hold the key

    def _reply(self, response: Any, seconds: float) -> Reply:
        choice = response.choices[0] if response.choices else None
        usage = getattr(response, "usage", None)
        counts = Tokens(
            getattr(usage, "prompt_tokens", 0) or 0, getattr(usage, "completion_tokens", 0) or 0
        )
        try:
            cost = litellm().completion_cost(completion_response=response, model=self._model)
        except Exception:  # noqa: BLE001 - a model whose price it does not know
            cost = None
        return Reply(
            text=(choice.message.content or "") if choice else "",
            cut_short=choice.finish_reason == "length" if choice else False,
            seconds=seconds,
            tokens=counts if counts.prompt else None,
            cost=cost,
        )

    def _sorted(self, error: Exception) -> CallFailed | ProviderError:
        message = self._redacted(str(error))
        status = getattr(error, "status_code", None)
        exceptions = litellm().exceptions
        if not isinstance(status, int):
            return ProviderError(f"{self._model}: {type(error).__name__}: {message}")
        if isinstance(error, exceptions.ContentPolicyViolationError):
            return CallFailed("content_filter", message)
        details = f"{message} {getattr(error, 'body', None)}"
        if _PERMANENT.search(details) or (400 <= status < 500 and status not in _PASSING_STATUS):
            return ProviderError(f"{self._model}: the provider refuses ({status}): {message}")
        wait = _retry_after(error)
        if status == 429:
            return CallFailed("rate_limited", message, wait)
        if isinstance(error, exceptions.Timeout):
            return CallFailed("timeout", message, wait)
        return CallFailed("server_error", message, wait)

    def _redacted(self, text: str) -> str:
        """Text without any key: providers like to repeat a key that they refuse."""
        secrets = {self._api_key} | {
            value for name, value in os.environ.items() if name.endswith(("_API_KEY", "_TOKEN"))
        }
        for secret in sorted(filter(None, secrets), key=len, reverse=True):
            text = text.replace(secret, "***") if len(secret) > 3 else text
        return text


def _retry_after(error: Exception) -> float:
    headers = getattr(getattr(error, "response", None), "headers", None) or {}
    try:
        wait = float(headers.get("retry-after", ""))
    except ValueError:  # absent, or a date: our own wait then
        return 0.0
    return min(wait, _LONGEST_WAIT) if wait > 0 else 0.0
