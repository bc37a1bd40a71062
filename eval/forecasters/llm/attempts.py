"""A language model as a forecaster: ask, check the answer, ask again, keep what was paid for."""

import logging
import math
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import numpy as np

from whatif_jax import BatchInfo

from ..base import Estimate
from .answer import AnswerError, parse
from .cache import Cache
from .client import Client, Reply
from .cost import Budget, count_tokens
from .prompt import Prompt, write

__all__ = ["LLMForecaster", "ProviderError"]

LOG = logging.getLogger("eval.forecasters.llm")
STEP_SECONDS = 3600.0  # of time stamps where nobody says what a step is
FIRST_WAIT, LONGEST_WAIT = 1.0, 60.0  # seconds; doubled from one to the other
OUTAGE_ROWS = 20  # rows in a row without a single answer: the provider is down, not the model bad
ESTIMATED_ROWS = 16  # of a batch, at most; the others are of the same lengths


class ProviderError(RuntimeError):
    """The provider refuses, and would again: a wrong key, name, parameter or an empty account."""


@dataclass(eq=False, repr=False)
class LLMForecaster:
    """Point forecasts (medians) of a language model. Made by `make`; evaluation/scores.md.

    A row whose answer is refused, or whose call fails in a way that may pass, is asked again after
    a wait that doubles. After `attempts` attempts it is None, which evaluation replaces by naive
    and counts. Answers that were refused count as attempts in later sessions too, so that a rerun
    costs nothing; failed calls do not, so that a rerun after an outage asks again.
    """

    name: str  # short name of the model and its reasoning effort
    settings: Mapping[str, object]  # what changes the forecasts
    client: Client
    cache: Cache
    budget: Budget
    attempts: int
    concurrency: int
    # seconds of the calls for each row of the last batch, failed ones left out
    row_seconds: np.ndarray | None = field(init=False, default=None)
    _given_up: set[str] = field(init=False, default_factory=set)  # keys, in this session
    _silent: set[str] = field(init=False, default_factory=set)  # those since the last answer
    _stop: threading.Event = field(init=False, default_factory=threading.Event)

    version = "1"  # of prompt and parser
    wants_info = True  # its time stamps need the step of each row
    point = True

    @property
    def trained_on(self) -> str:
        """A provider's own model is what it published; behind an address there may be any."""
        return "unknown" if "api_base" in self.settings else "published"

    def __call__(
        self,
        history: np.ndarray,
        covariates: np.ndarray,
        horizon: int,
        levels: Sequence[float],
        info: BatchInfo | None = None,
    ) -> list[np.ndarray | None]:
        """Forecast every row, `concurrency` of them at a time.

        Args:
            history: [B, T].
            covariates: [B, T + H, K], primary first.
            horizon: H.
            levels: not used; a median answers for them.
            info: of the rows; without it a step is an hour.

        Returns:
            for each row [H, 1], or None where no attempt gave a forecast.

        Raises:
            CostLimit: the next call may go beyond `max_cost`; answers so far are in the cache.
            ProviderError: the provider refuses for good, or has not answered 20 rows in a row.
            CacheError: the cache cannot be read or written.
        """
        questions = self._questions(history, covariates, horizon, info)
        asked = dict(questions)  # equal questions get one answer
        self._stop = threading.Event()
        with ThreadPoolExecutor(self.concurrency, thread_name_prefix="llm") as threads:
            try:
                rows = threads.map(self._row, asked, asked.values())
                forecasts = dict(zip(asked, rows, strict=True))
            finally:  # Ctrl-C too: calls under way are paid for, so they end and are kept
                self._stop.set()
        # as the calls were made, cached or not: this batch made several at once
        seconds = [sum(each.seconds for each in self.cache.answers(key)) for key, _ in questions]
        self.row_seconds = np.array(seconds, float)
        return [forecasts[key] for key, _ in questions]

    def estimate(
        self,
        history: np.ndarray,
        covariates: np.ndarray,
        horizon: int,
        levels: Sequence[float],
        info: BatchInfo | None = None,
    ) -> Estimate:
        """What forecasting these rows will take if the first attempt is answered. Makes no call.

        Arguments as for a forecast. A few rows of a large batch stand for the others.
        """
        some = np.arange(len(history))[:: math.ceil(len(history) / ESTIMATED_ROWS)]
        info = None if info is None else info.take(some)
        questions = self._questions(history[some], covariates[some], horizon, info)
        calls = [
            self.budget.expected(count_tokens(prompt))
            for key, prompt in questions
            if self._kept(key, prompt)[1]
        ]
        costs = [self.client.cost(tokens) for tokens in calls]
        times = len(history) / len(some)
        requests = round(times * len(calls))
        return Estimate(
            prompt_tokens=round(times * sum(tokens.prompt for tokens in calls)),
            completion_tokens=round(times * sum(tokens.completion for tokens in calls)),
            cost=None if None in costs else times * sum(filter(None, costs)),
            requests=requests,
            cached=len(history) - requests,
            note=self.budget.basis(),
        )

    def pause(self, seconds: float) -> None:
        """Wait before another attempt; a stop ends it."""
        self._stop.wait(seconds)

    def _questions(
        self, history: np.ndarray, covariates: np.ndarray, horizon: int, info: BatchInfo | None
    ) -> list[tuple[str, Prompt]]:
        """For each row the key of its question, and the question."""
        steps = np.full(len(history), STEP_SECONDS) if info is None else info.step_seconds
        prompts = [
            write(past, known, horizon, float(step))
            for past, known, step in zip(history, covariates, steps, strict=True)
        ]
        return [(self.cache.key(prompt.text), prompt) for prompt in prompts]

    def _kept(self, key: str, prompt: Prompt) -> tuple[np.ndarray | None, range]:
        """The forecast among the answers so far, and the attempts that are left for one."""
        answers = self.cache.answers(key)
        for answer in answers:
            forecast, _ = _read(answer, prompt)
            if forecast is not None:
                return forecast, range(0)
        return None, range(len(answers), self.attempts)

    def _row(self, key: str, prompt: Prompt) -> np.ndarray | None:
        try:
            return self._ask(key, prompt)
        except BaseException:
            self._stop.set()  # here, so that this thread starts no other row
            raise

    def _ask(self, key: str, prompt: Prompt) -> np.ndarray | None:
        """The forecast of one row, from the cache or from as many attempts as it takes."""
        forecast, left = self._kept(key, prompt)
        if not left or key in self._given_up:
            return forecast
        counted = count_tokens(prompt)
        answered, wait = False, 0.0
        for attempt in left:
            if attempt > left.start:
                self.pause(max(wait, min(FIRST_WAIT * 2.0 ** (attempt - 1), LONGEST_WAIT)))
            if self._stop.is_set():
                return None  # `__call__` raises what stopped it
            expected = self.budget.start(counted)
            forecast, reply = _read(self.client.send(prompt.text), prompt)
            self.budget.finish(expected, key, counted, reply)
            if reply.outcome == "refused":
                raise ProviderError(reply.message)
            if reply.text is not None:
                answered = True
                self._silent.clear()
            if forecast is not None:
                return forecast
            wait = reply.wait
            LOG.info("%s: attempt %d of %s: %s: %s", self.name, attempt + 1, key[:12], *reply[:2])
        self._give_up(key, answered)
        return None

    def _give_up(self, key: str, answered: bool) -> None:
        LOG.warning("%s: no forecast in %d attempts for %s", self.name, self.attempts, key[:12])
        self._given_up.add(key)
        if not answered:
            self._silent.add(key)
        if len(self._silent) >= OUTAGE_ROWS:
            raise ProviderError(
                f"{self.name}: the provider has answered none of {len(self._silent)} forecasts in "
                f"a row, {self.attempts} attempts each; see {self.cache.path}. Run again later: "
                f"answers so far are kept"
            )


def _read(reply: Reply, prompt: Prompt) -> tuple[np.ndarray | None, Reply]:
    """The forecast [H, 1] of a reply, None without one; and the reply, which then says why."""
    if reply.text is None:
        return None, reply
    try:
        forecast = parse(reply.text, prompt.time_stamps, reply.cut_short)[:, None]
    except AnswerError as refused:
        message = str(refused).removeprefix(f"{refused.reason}: ")
        return None, reply._replace(outcome=refused.reason, message=message)
    return forecast, reply._replace(outcome="ok")
