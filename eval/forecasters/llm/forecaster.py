"""A language model as a forecaster: ask, check the answer, ask again, keep what was paid for."""

import logging
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import numpy as np

from .answer import AnswerError, parse
from .cache import Answer, Cache
from .client import CallFailed, Client, ProviderError, Reply
from .cost import Budget, Estimate, Meter, Prices, Tokens
from .prompt import Prompt, write

__all__ = ["LLMForecaster"]

LOG = logging.getLogger("eval.forecasters.llm")
STEP_SECONDS = 3600.0  # of time stamps where nobody says what a step is
OUTAGE_ROWS = 20  # rows in a row without a single answer: the provider is down, not the model bad
ESTIMATED_ROWS = 8  # of a batch; the others are of the same lengths


class _Stopped(Exception):  # noqa: N818 - another row ended the batch
    pass


class LLMForecaster:
    """Point forecasts (medians) of a language model. Made by `make`; evaluation/scores.md.

    A row whose answer is refused, or whose call fails in a way that may pass, is asked again after
    a wait that doubles. After `attempts` attempts it is None, which evaluation replaces by naive
    and counts. Answers that were refused count as attempts in later sessions too, so that a rerun
    costs nothing; failed calls do not, so that a rerun after an outage asks again.

    Attributes:
        name: short name of the model and its reasoning effort.
        version: of prompt and parser.
        settings: what changes the forecasts.
        wants_info: its time stamps need the step of each row.
        point: it gives medians alone.
        row_seconds: of the calls for each row of the last batch, failed ones left out.
        statistics: counts of this session: rows, cached, given_up, requests, attempts by outcome,
            tokens, seconds of calls, cost.
    """

    version = "1"
    wants_info = True
    point = True
    parallel = False  # has its own threads

    def __init__(
        self,
        *,
        name: str,
        settings: dict[str, Any],
        client: Client,
        cache: Cache,
        meter: Meter,
        prices: Prices | None,
        max_cost: float | None,
        attempts: int,
        concurrency: int,
        first_wait: float,
        longest_wait: float,
        sleep: Callable[[float], object] | None,
    ):
        self.name = name
        self.settings = settings
        self._client, self._cache, self._meter, self._prices = client, cache, meter, prices
        self._attempts, self._concurrency = attempts, concurrency
        self._waits = (first_wait, longest_wait)
        self._sleep = sleep
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._given_up: set[str] = set()
        self._outage = 0
        self._counts: Counter[str] = Counter()
        self.row_seconds: np.ndarray | None = None
        self._outcomes: Counter[str] = Counter()
        spent = 0.0
        for attempt in cache.attempts():
            spent += attempt.get("cost") or 0.0
            if attempt.get("measured"):
                meter.learn(
                    Tokens(*attempt["expected"]),
                    Tokens(attempt["prompt_tokens"], attempt["completion_tokens"]),
                )
        self._budget = Budget(spent, max_cost)

    def __repr__(self) -> str:
        return f"LLMForecaster({self.name!r}, {self.settings})"

    @property
    def spent(self) -> float:
        """US dollars spent on this model with these parameters, earlier sessions included."""
        return self._budget.spent

    @property
    def statistics(self) -> dict[str, Any]:
        """Counts of this session."""
        with self._lock:
            names = ("rows", "cached", "given_up", "requests", "prompt_tokens", "completion_tokens")
            return {
                **{name: int(self._counts[name]) for name in names},
                "attempts": dict(sorted(self._outcomes.items())),
                "seconds": float(self._counts["seconds"]),
                "spent": self.spent,
            }

    def __call__(
        self,
        history: np.ndarray,
        covariates: np.ndarray,
        horizon: int,
        levels: Sequence[float],
        info: Any = None,
    ) -> list[np.ndarray | None]:
        """Forecast every row, `concurrency` of them at a time.

        Args:
            history: [B, T].
            covariates: [B, T + H, K], primary first.
            horizon: H.
            levels: not used; a median answers for them.
            info: has `step_seconds` [B]; without it a step is an hour.

        Returns:
            for each row [H, 1], or None where no attempt gave a forecast.

        Raises:
            CostLimit: the next call may go beyond `max_cost`; answers so far are in the cache.
            ProviderError: the provider refuses for good, or has not answered 20 rows in a row.
        """
        prompts = self._prompts(history, covariates, horizon, info)
        self._stop = threading.Event()
        futures: dict[str, Future] = {}
        keys = [self._cache.key(prompt.text) for prompt in prompts]
        with ThreadPoolExecutor(self._concurrency, thread_name_prefix="llm") as threads:
            try:
                for key, prompt in zip(keys, prompts, strict=True):
                    if key not in futures:  # equal questions get one answer
                        futures[key] = threads.submit(self._row, key, prompt)
                for future in futures.values():
                    future.result()
            except BaseException:  # Ctrl-C too
                # calls under way are paid for: let them end, and start no other
                self._stop.set()
                threads.shutdown(wait=True, cancel_futures=True)
                self._raise_first(list(futures.values()))
                raise
        # as the calls were made, cached or not: this batch made several at once
        self.row_seconds = np.array(
            [sum(answer.seconds for answer in self._cache.answers(key)) for key in keys], float
        )
        return [futures[key].result() for key in keys]

    @staticmethod
    def _raise_first(futures: list[Future]) -> None:
        """Raise what stopped the batch, not what the stop did to other rows."""
        for future in futures:
            error = None if future.cancelled() or not future.done() else future.exception()
            if error is not None and not isinstance(error, _Stopped):
                raise error

    def _prompts(
        self, history: np.ndarray, covariates: np.ndarray, horizon: int, info: Any
    ) -> list[Prompt]:
        history, covariates = np.asarray(history), np.asarray(covariates)
        if covariates.shape[1] != history.shape[1] + horizon:
            raise ValueError(
                f"covariates: {covariates.shape[1]} steps; expected history {history.shape[1]} + "
                f"horizon {horizon}"
            )
        steps = [STEP_SECONDS] * len(history) if info is None else info.step_seconds
        return [
            write(history[row], covariates[row], float(steps[row])) for row in range(len(history))
        ]

    def _row(self, key: str, prompt: Prompt) -> np.ndarray | None:
        try:
            return self._ask(key, prompt)
        except _Stopped:
            raise
        except BaseException:
            self._stop.set()
            raise

    def _ask(self, key: str, prompt: Prompt) -> np.ndarray | None:
        """The forecast of one row, from the cache or from as many attempts as it takes."""
        self._count(rows=1)
        stored = self._cache.answers(key)
        for answer in stored:
            try:
                forecast = self._parse(answer, prompt)
            except AnswerError:
                continue
            self._count(cached=1)
            return forecast
        if key in self._given_up or len(stored) >= self._attempts:
            self._count(cached=1, given_up=1)
            return None
        counted = self._meter.count(prompt)
        failed_calls, wait = 0, 0.0
        for attempt in range(len(stored), self._attempts):
            if attempt > len(stored):
                self._pause(max(wait, self._wait(attempt - 1)))
            if self._stop.is_set():
                raise _Stopped
            try:
                return self._attempt(key, prompt, counted, attempt)
            except CallFailed as failure:
                failed_calls, wait = failed_calls + 1, failure.wait
                LOG.info("%s: attempt %d of %s: %s", self.name, attempt + 1, key[:12], failure)
            except AnswerError as refused:
                wait = 0.0
                LOG.info("%s: attempt %d of %s: %s", self.name, attempt + 1, key[:12], refused)
        self._give_up(key, answered=bool(stored) or failed_calls < self._attempts)
        return None

    def _attempt(self, key: str, prompt: Prompt, counted: Tokens, attempt: int) -> np.ndarray:
        prices = self._prices

        def expected_cost() -> float:
            return prices.cost(self._meter.estimate(counted)) if prices else 0.0

        line: dict[str, Any] = {"key": key, "attempt": attempt + 1, "expected": list(counted)}
        with self._budget.promise(expected_cost):
            if self._stop.is_set():  # while this waited for money
                raise _Stopped
            self._count(requests=1)
            try:
                reply = self._client.send(prompt.text)
            except CallFailed as failure:
                # a provider may charge for a call that nobody waited for
                charged = expected_cost() if failure.reason == "timeout" else 0.0
                self._record(line, failure.reason, charged, message=str(failure)[:300])
                raise
            except ProviderError as error:
                self._record(line, "refused", 0.0, message=str(error)[:300])
                raise
            answer = Answer(reply.text, reply.cut_short, round(reply.seconds, 3))
            used = reply.tokens or self._meter.estimate(counted)
            cost = self._cost(reply, used)
            line |= {"prompt_tokens": used.prompt, "completion_tokens": used.completion}
            line |= {"measured": reply.tokens is not None, "seconds": answer.seconds}
            try:
                return self._parse(answer, prompt)
            except AnswerError as refused:
                line |= {"reason": refused.reason, "message": str(refused)[:300]}
                raise
            finally:
                # the money first: if this is killed in between, it is not forgotten
                self._record(line, line.pop("reason", "ok"), cost)
                self._cache.add(key, answer)
                self._settle(answer, reply, used, counted)

    def _cost(self, reply: Reply, used: Tokens) -> float | None:
        if self._prices is None:
            return reply.cost
        if self._prices.given or not reply.cost or reply.tokens is None:
            return self._prices.cost(used)
        return reply.cost  # knows of cached prompts

    def _record(self, line: dict[str, Any], reason: str, cost: float | None, **more: Any) -> None:
        self._cache.log(**line, reason=reason, cost=cost, **more)
        self._budget.spend(cost or 0.0)
        with self._lock:
            self._outcomes[reason] += 1

    def _settle(self, answer: Answer, reply: Reply, used: Tokens, counted: Tokens) -> None:
        self._count(
            prompt_tokens=used.prompt, completion_tokens=used.completion, seconds=answer.seconds
        )
        if reply.tokens is not None:
            self._meter.learn(counted, reply.tokens)
        with self._lock:
            self._outage = 0

    def _give_up(self, key: str, *, answered: bool) -> None:
        self._count(given_up=1)
        LOG.warning(
            "%s: no forecast in %d attempts for prompt %s", self.name, self._attempts, key[:12]
        )
        with self._lock:
            self._given_up.add(key)
            self._outage = 0 if answered else self._outage + 1
            outage = self._outage
        if outage >= OUTAGE_ROWS:
            raise ProviderError(
                f"{self.name}: the provider has answered none of {outage} forecasts in a row, "
                f"{self._attempts} attempts each; see {self._cache.folder}. Run again later: "
                f"answers so far are kept"
            )

    def _parse(self, answer: Answer, prompt: Prompt) -> np.ndarray:
        return parse(answer.text, prompt.time_stamps, cut_short=answer.cut_short)[:, None]

    def _count(self, **numbers: float) -> None:
        with self._lock:
            for name, value in numbers.items():
                self._counts[name] += value  # type: ignore[assignment]

    def _wait(self, attempt: int) -> float:
        first, longest = self._waits
        return min(first * 2.0**attempt, longest)

    def _pause(self, seconds: float) -> None:
        if self._sleep is None:
            self._stop.wait(seconds)  # a stop ends it
        else:
            self._sleep(seconds)

    def estimate(
        self,
        history: np.ndarray,
        covariates: np.ndarray,
        horizon: int,
        levels: Sequence[float],
        info: Any = None,
    ) -> Estimate:
        """What forecasting these rows will take. Makes no call.

        Arguments as for a forecast. Where nothing was ever answered, a few rows are measured and
        stand for the others, which have the same lengths; else rows in the cache are left out.

        Returns:
            the estimate, assuming that the first attempt is answered.
        """
        rows, scale = np.arange(len(history)), 1.0
        if self._cache.empty and len(rows) > ESTIMATED_ROWS:
            rows = np.unique(np.linspace(0, len(rows) - 1, ESTIMATED_ROWS).astype(int))
            scale = len(history) / len(rows)
            info = None if info is None else info.take(rows)
        prompts = self._prompts(
            np.asarray(history)[rows], np.asarray(covariates)[rows], horizon, info
        )
        missing = [prompt for prompt in prompts if not self._known(prompt)]
        tokens = [self._meter.estimate(self._meter.count(prompt)) for prompt in missing]
        total = Tokens(
            scale * sum(each.prompt for each in tokens),
            scale * sum(each.completion for each in tokens),
        )
        requests = round(scale * len(missing))
        return Estimate(
            prompt_tokens=round(total.prompt),
            completion_tokens=round(total.completion),
            cost=self._prices.cost(total) if self._prices else (None if missing else 0.0),
            requests=requests,
            cached=len(history) - requests,
            note=self._note(),
        )

    def _known(self, prompt: Prompt) -> bool:
        if self._cache.empty:
            return False
        stored = self._cache.answers(self._cache.key(prompt.text))
        for answer in stored:
            try:
                self._parse(answer, prompt)
            except AnswerError:
                continue
            return True
        return len(stored) >= self._attempts

    def _note(self) -> str:
        basis = (
            "tokens as past calls of this model used them"
            if self._meter.learned
            else "tokens by litellm's default tokenizer plus an assumed number for reasoning"
        )
        if self._prices is None:
            basis += (
                f"; litellm knows no price of {self.settings['model']}: set input_price and "
                f"output_price, US dollars for a million tokens"
            )
        return basis
