"""A provider on this machine: speaks the OpenAI protocol, and misbehaves on demand."""

import contextlib
import importlib.util
import json
import sqlite3
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

TARGET = "target_1"
KEY = "sk-a-secret-that-nobody-may-see"
HORIZON = 4
CACHE = "llm.sqlite"
PRICES = {"input_price": 1.0, "output_price": 2.0}  # 0.002 dollars for 1,000 and 500 tokens
needs_litellm = pytest.mark.skipif(
    importlib.util.find_spec("litellm") is None, reason="needs the extra llm"
)


class Question(NamedTuple):
    """What a prompt of ours holds, read back from its text."""

    stamps: list[str]  # of the plan
    history: list[float]  # the target
    past: list[list[float]]  # covariates
    plan: list[list[float]]


def read_prompt(text: str) -> Question:
    _, _, tables = text.partition("\nhistory:\n")
    past, _, plan = tables.partition("\n\nplan:\n")
    past_rows = [row.split(",") for row in past.splitlines()[1:]]
    plan_rows = [row.split(",") for row in plan.splitlines()[1:]]
    return Question(
        [row[0] for row in plan_rows],
        [float(row[1]) for row in past_rows],
        [[float(value) for value in row[2:]] for row in past_rows],
        [[float(value) for value in row[1:]] for row in plan_rows],
    )


def answer(pairs: list[tuple[str, object]], variable: str = TARGET) -> str:
    return f"<{variable}>\n{', '.join(f'({a}, {b})' for a, b in pairs)}\n</{variable}>"


class Response(NamedTuple):
    """What the server does with one request."""

    body: dict | str
    status: int = 200
    headers: tuple[tuple[str, str], ...] = ()
    hang: bool = False


def written(text: str | None, finish_reason: str = "stop", usage: bool = True) -> Response:
    message = {"role": "assistant", "content": text}
    body = {
        "id": "1",
        "object": "chat.completion",
        "created": 1,
        "model": "fake",
        "choices": [{"index": 0, "finish_reason": finish_reason, "message": message}],
    }
    if usage:
        body["usage"] = {"prompt_tokens": 1000, "completion_tokens": 500, "total_tokens": 1500}
    return Response(body)


def failing(status: int, message: str = "no", wait: float | None = None, code=None) -> Response:
    headers = () if wait is None else (("Retry-After", str(wait)),)
    error = {"message": message, "type": "error", "code": code}
    return Response({"error": error}, status, headers)


Behaviour = Callable[[Question], Response]


def repeats_last(question: Question) -> Response:
    """A well-behaved model that is no better than naive."""
    return written(answer([(stamp, question.history[-1]) for stamp in question.stamps]))


class FakeProvider:
    """Answers requests by `script`, one behaviour each, then by `usual`."""

    def __init__(self):
        self.reset()
        provider = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_):
                pass

            def do_POST(self):
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                response = provider.respond(body, {k.lower(): v for k, v in self.headers.items()})
                if response.hang:
                    provider.release.wait(20)
                    self.close_connection = True
                    return
                content = response.body
                content = (content if isinstance(content, str) else json.dumps(content)).encode()
                self.send_response(response.status)
                for name, value in response.headers:
                    self.send_header(name, value)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()
        self.address = f"http://127.0.0.1:{self._server.server_address[1]}/v1"

    def reset(self) -> None:
        self.script: list[Behaviour] = []
        self.usual: Behaviour = repeats_last
        self.requests: list[dict] = []
        self.headers: list[dict] = []
        self.under_way = self.most_under_way = 0
        self.release = threading.Event()
        self.lock = threading.Lock()

    def respond(self, body: dict, headers: dict) -> Response:
        with self.lock:
            self.requests.append(body)
            self.headers.append(headers)
            behaviour = self.script.pop(0) if self.script else self.usual
            self.under_way += 1
            self.most_under_way = max(self.most_under_way, self.under_way)
        try:
            return behaviour(read_prompt(body["messages"][-1]["content"]))
        finally:
            with self.lock:
                self.under_way -= 1

    def close(self) -> None:
        self.release.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def maker(provider: FakeProvider, folder: Path) -> Callable:
    """Makes forecasters of the provider that do not wait, all with one cache in the folder."""
    from eval.forecasters.llm import make

    provider.reset()

    def ask(pause=lambda seconds: None, **settings):
        defaults = dict(
            model="openai/fake",
            api_base=provider.address,
            api_key=KEY,
            cache=folder / CACHE,
            timeout=20,
        )
        forecaster = make(**{**defaults, **settings})
        forecaster.pause = pause
        return forecaster

    return ask


def recorded(folder: Path) -> list[sqlite3.Row]:
    """The attempts in the cache, first one first."""
    with contextlib.closing(sqlite3.connect(folder / CACHE)) as connection:
        connection.row_factory = sqlite3.Row
        return connection.execute("SELECT * FROM attempts ORDER BY id").fetchall()


def outcomes(folder: Path) -> list[str]:
    return [attempt["outcome"] for attempt in recorded(folder)]


def rows(count: int = 1, context: int = 12, k: int = 2):
    """History, covariates, horizon, levels; the rows differ."""
    random = np.random.default_rng(count)
    history = random.lognormal(size=(count, context)).astype(np.float32)
    covariates = random.normal(size=(count, context + HORIZON, k)).astype(np.float32)
    return history, covariates, HORIZON, (0.1, 0.5, 0.9)


def last(history) -> np.ndarray:
    return np.repeat(history[:, -1:, None], HORIZON, axis=1)


def nan(question: Question) -> Response:
    return written(answer([(stamp, "NaN") for stamp in question.stamps]))


def hang(_: Question) -> Response:
    return failing(200)._replace(hang=True)
