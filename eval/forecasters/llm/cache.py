"""Every attempt in one sqlite file: what was paid for once is not paid for again.

The table `attempts` has one row for each call of any model. No key of a provider is written, nor
the user or password of an address.
"""

import contextlib
import hashlib
import json
import os
import sqlite3
from collections.abc import Mapping
from pathlib import Path

from .client import Reply, Tokens

__all__ = ["Cache", "CacheError", "default_path"]

_LAYOUT = 0x6C6C6D31  # "llm1", kept in the file's head; raised whenever the table changes
_TABLE = """
CREATE TABLE IF NOT EXISTS attempts (
    id INTEGER PRIMARY KEY,
    time TEXT DEFAULT CURRENT_TIMESTAMP,  -- UTC
    model TEXT,  -- JSON: its name, and what else a request is made of but for the prompt
    key TEXT,  -- SHA-256 of model and prompt
    counted_prompt REAL,  -- tokens by litellm's default tokenizer, before the call
    counted_completion REAL,  -- of a bare answer
    outcome TEXT,  -- ok, or why there is no forecast
    message TEXT,  -- more on that
    cut_short INTEGER,  -- by the provider's length limit
    seconds REAL,
    prompt_tokens INTEGER,  -- as the provider counts; NULL where it does not
    completion_tokens INTEGER,
    cost REAL,  -- in US dollars, NULL where no price is known
    text TEXT  -- what the model wrote, NULL where the call failed
);
CREATE INDEX IF NOT EXISTS questions ON attempts (key);
CREATE INDEX IF NOT EXISTS sums ON attempts (  -- with all that is summed, so that no text is read
    model, cost, prompt_tokens, completion_tokens, counted_prompt, counted_completion
);
"""


# What to say of the errors of sqlite that are not the file's fault.
_EXPECTED = {
    "SQLITE_BUSY": "other processes to let go of it",
    "SQLITE_FULL": "room on its disk",
    "SQLITE_IOERR": "a disk with room that works",
    "SQLITE_READONLY": "a place that this user may write into, or a path in one",
}


class CacheError(ValueError):
    """The file cannot be used; names it."""


def default_path() -> Path:
    """The file unless said otherwise: in the user's cache folder."""
    root = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(root) / "whatif-jax" / "llm.sqlite"


class Cache:
    """Attempts of one model with its parameters, in a file that others use too.

    Threads and processes may share the file. It appears with the first attempt. One in a place that
    cannot be written is read.

    Args:
        path: the file.
        model: litellm's name for the model.
        parameters: all else that a request is made of, but for the prompt; JSON-able, no secrets.

    Raises:
        CacheError: the file is damaged, another program's, or cannot be read; so does every method.
    """

    def __init__(self, path: str | Path, model: str, parameters: Mapping[str, object]):
        self.path = Path(path).expanduser()
        self._model = json.dumps(
            {"model": model, "parameters": parameters}, sort_keys=True, separators=(",", ":")
        )
        self.spent()  # a file that is no cache is refused now

    def key(self, prompt: str) -> str:
        """SHA-256 of model, parameters and prompt."""
        return hashlib.sha256(f"{self._model}\n{prompt}".encode()).hexdigest()

    def answers(self, key: str) -> list[Reply]:
        """Every answer to a question so far, right or wrong, first one first."""
        rows = self._rows(
            "SELECT outcome, message, text, cut_short, seconds FROM attempts "
            "WHERE key = ? AND text IS NOT NULL ORDER BY id",
            key,
        )
        return [Reply(*row) for row in rows]

    def spent(self) -> float:
        """US dollars for this model with these parameters, other processes included."""
        rows = self._rows("SELECT total(cost) FROM attempts WHERE model = ?", self._model)
        return sum(cost for (cost,) in rows)

    def used(self) -> Tokens | None:
        """Tokens that past calls used for each that was counted before; None without a call."""
        rows = self._rows(
            "SELECT sum(prompt_tokens) / sum(counted_prompt), "
            "sum(completion_tokens) / sum(counted_completion) "
            "FROM attempts WHERE model = ? AND prompt_tokens IS NOT NULL",
            self._model,
        )
        return next((Tokens(*row) for row in rows if row[0] is not None), None)

    def add(self, key: str, counted: Tokens, reply: Reply) -> None:
        """Keep one more attempt. Once this returns, a kill does not lose it."""
        prompt_tokens, completion_tokens = reply.tokens or (None, None)
        row = {
            "model": self._model,
            "key": key,
            "counted_prompt": counted.prompt,
            "counted_completion": counted.completion,
            "prompt_tokens": prompt_tokens,
            "completion_tokens": completion_tokens,
            "outcome": reply.outcome,
            "message": reply.message,
            "cost": reply.cost,
            "seconds": reply.seconds,
            "cut_short": reply.cut_short,
            "text": reply.text,
        }
        self._rows(
            f"INSERT INTO attempts ({', '.join(row)}) VALUES ({', '.join('?' for _ in row)})",
            *row.values(),
            create=True,
        )

    def _rows(self, statement: str, *values: object, create: bool = False) -> list[tuple]:
        """Run one statement. Without a file there are no rows, unless it is to be made."""
        if not create and not self.path.exists():
            return []
        try:
            with contextlib.closing(_open(self.path)) as connection:
                return connection.execute(statement, values).fetchall()
        except (sqlite3.Error, OSError) as error:
            kind = "_".join(getattr(error, "sqlite_errorname", "").split("_")[:2])
            expected = _EXPECTED.get(kind, "a cache of answers, or a path for a new one")
            raise CacheError(
                f"cache: {self.path} cannot be used ({error}); expected {expected}"
            ) from None


def _address(path: Path) -> str:
    """The file as sqlite opens it: without its helper files where those cannot be made."""
    address = path.absolute().as_uri()
    if not path.exists() or os.access(path.parent, os.W_OK):
        return address
    waiting = path.with_name(f"{path.name}-wal")  # attempts that are not in the file yet
    return f"{address}?mode=ro" + ("" if waiting.exists() else "&immutable=1")


def _open(path: Path) -> sqlite3.Connection:
    path.parent.mkdir(parents=True, exist_ok=True)
    # every statement is a transaction of its own, and waits for those of others
    connection = sqlite3.connect(_address(path), timeout=60, isolation_level=None, uri=True)
    (tables,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    (layout,) = connection.execute("PRAGMA application_id").fetchone()
    if layout == _LAYOUT:
        return connection
    if tables or layout:
        raise sqlite3.DatabaseError("it is another program's")
    # No reader waits for a writer then. It stays so, and another process may just be setting it.
    with contextlib.suppress(sqlite3.OperationalError):
        connection.execute("PRAGMA journal_mode = WAL")
    connection.executescript(f"BEGIN IMMEDIATE; PRAGMA application_id = {_LAYOUT}; {_TABLE} COMMIT")
    return connection
