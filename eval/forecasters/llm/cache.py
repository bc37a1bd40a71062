"""Answers on disk: what was paid for once is not paid for again.

A folder holds one folder for each model with its parameters, and in it one small JSON file for each
prompt that was answered (right or wrong: both cost money), and `attempts.jsonl`, one line for each
attempt with its outcome, tokens and cost. No key of a provider is written.
"""

import hashlib
import json
import os
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

__all__ = ["Answer", "Cache", "default_folder"]

LOG = "attempts.jsonl"


class Answer(NamedTuple):
    """What a model wrote at one attempt."""

    text: str
    cut_short: bool  # the provider says that it hit the length limit
    seconds: float  # the call took


def default_folder() -> Path:
    """Where answers are kept unless said otherwise: the user's cache folder."""
    root = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(root) / "whatif-jax" / "llm"


def canonical(value: Mapping[str, Any]) -> str:
    """JSON that is the same text for the same values."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"))


def file_name(model: str) -> str:
    """The last part of a model's name, in characters that every file system takes."""
    return "".join(c if c.isalnum() or c in "-._" else "-" for c in model.split("/")[-1])


class Cache:
    """Answers and attempts of one model with its parameters. Threads may share it.

    Args:
        folder: of all models.
        model: litellm's name for the model.
        parameters: all else that a request is made of, but for the prompt; JSON-able, no secrets.
    """

    def __init__(self, folder: str | Path, model: str, parameters: Mapping[str, Any]):
        self._identity = canonical({"model": model, "parameters": dict(parameters)})
        digest = hashlib.sha256(self._identity.encode()).hexdigest()[:8]
        self.folder = Path(folder).expanduser() / f"{file_name(model)}-{digest}"
        self._lock = threading.Lock()

    def key(self, prompt: str) -> str:
        """SHA-256 of model, parameters and prompt."""
        return hashlib.sha256(f"{self._identity}\n{prompt}".encode()).hexdigest()

    def _path(self, key: str) -> Path:
        return self.folder / key[:2] / f"{key}.json"

    @property
    def empty(self) -> bool:
        """Whether nothing was ever answered."""
        return not (self.folder / LOG).exists()

    def answers(self, key: str) -> list[Answer]:
        """Every answer to a prompt so far, first one first.

        Raises:
            ValueError: a file that is not as `add` writes it.
        """
        path = self._path(key)
        try:
            stored = json.loads(path.read_text(encoding="utf-8"))
            return [Answer(**answer) for answer in stored["answers"]]
        except FileNotFoundError:
            return []
        except (ValueError, KeyError, TypeError) as error:
            raise ValueError(
                f"cache: {path} is damaged ({error}); delete it to ask again"
            ) from None

    def add(self, key: str, answer: Answer) -> None:
        """Keep one more answer to a prompt. The file appears whole or not at all."""
        with self._lock:
            answers = [*self.answers(key), answer]
            text = json.dumps(
                {**json.loads(self._identity), "answers": [each._asdict() for each in answers]}
            )
            path = self._path(key)
            path.parent.mkdir(parents=True, exist_ok=True)
            unfinished = path.with_name(f".{path.name}.{os.getpid()}.part")
            try:
                unfinished.write_text(text, encoding="utf-8")
                unfinished.replace(path)
            finally:
                unfinished.unlink(missing_ok=True)

    def log(self, **attempt: Any) -> None:
        """Append one attempt to the log, in one write so that processes can share the file."""
        line = (json.dumps(attempt) + "\n").encode()
        with self._lock:
            self.folder.mkdir(parents=True, exist_ok=True)
            descriptor = os.open(
                self.folder / LOG, os.O_WRONLY | os.O_CREAT | os.O_APPEND, mode=0o644
            )
            try:
                os.write(descriptor, line)
            finally:
                os.close(descriptor)

    def attempts(self) -> Iterator[dict[str, Any]]:
        """The log so far. A line that a kill or a full disk cut short is left out."""
        try:
            lines = (self.folder / LOG).read_text(encoding="utf-8").splitlines()
        except FileNotFoundError:
            return
        for line in lines:
            try:
                yield json.loads(line)
            except ValueError:
                continue
