"""The one file that keeps what was paid for."""

import contextlib
import re
import sqlite3
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pytest

import eval.forecasters.llm.cache
from eval.forecasters.llm import make
from eval.forecasters.llm.cache import Cache, default_path
from eval.forecasters.llm.client import Reply, Tokens
from tests.eval.llm.llm_server import (
    CACHE,
    PRICES,
    failing,
    hang,
    needs_litellm,
    outcomes,
    recorded,
    repeats_last,
    rows,
    written,
)

CHECKOUT = Path(__file__).parents[3]


@needs_litellm
def test_a_rerun_costs_nothing_and_other_parameters_are_other_questions(ask, provider):
    first = ask()(*rows(3))
    assert len(provider.requests) == 3
    np.testing.assert_array_equal(ask()(*rows(3)), first)
    np.testing.assert_array_equal(ask(attempts=2, timeout=5, concurrency=1)(*rows(3)), first)
    assert len(provider.requests) == 3
    for changed in ({"temperature": 0.5}, {"reasoning_effort": "high"}, {"model": "openai/other"}):
        provider.requests.clear()
        ask(**changed)(*rows(3))
        assert len(provider.requests) == 3
        sent = provider.requests[0]
        assert sent["model"] == changed.get("model", "openai/fake").partition("/")[2]
        assert sent.get("temperature") == changed.get("temperature")
        assert sent.get("reasoning_effort") == changed.get("reasoning_effort")


@needs_litellm
def test_every_attempt_is_recorded_with_its_outcome_tokens_cost_and_seconds(
    ask, provider, tmp_path
):
    def slow(question):
        time.sleep(0.02)
        return repeats_last(question)

    provider.script = [lambda _: failing(429, "too fast"), lambda _: written("Well,"), slow]
    ask(**PRICES)(*rows())
    failed, refused, ok = recorded(tmp_path)
    assert [each["outcome"] for each in (failed, refused, ok)] == ["rate_limited", "no_tags", "ok"]
    assert failed["text"] is None and "too fast" in failed["message"]
    assert refused["text"] == "Well," and refused["message"].startswith("'Well,'...; expected <ta")
    assert [failed["cost"], failed["prompt_tokens"]] == [0, None]
    for answered in (refused, ok):
        assert answered["cost"] == pytest.approx(0.002)
        assert (answered["prompt_tokens"], answered["completion_tokens"]) == (1000, 500)
    assert ok["seconds"] >= 0.02
    assert len({each["key"] for each in (failed, refused, ok)}) == 1


@needs_litellm
def test_a_killed_process_loses_at_most_the_call_under_way(ask, provider, tmp_path):
    provider.script = [repeats_last, repeats_last, hang]
    code = (
        "from eval.forecasters.llm import make; from tests.eval.llm.llm_server import rows\n"
        f"make('openai/fake', {provider.address!r}, 'sk', cache={str(tmp_path / CACHE)!r}, "
        "concurrency=1)(*rows(4))"
    )
    with subprocess.Popen([sys.executable, "-c", code], cwd=CHECKOUT) as process:
        while len(provider.requests) < 3 and process.poll() is None:
            time.sleep(0.05)
        process.kill()
    assert outcomes(tmp_path) == ["ok", "ok"]
    assert all(forecast is not None for forecast in ask()(*rows(4)))
    assert len(provider.requests) == 5


def test_processes_and_threads_share_the_file(tmp_path):
    code = (
        "import sys; from concurrent.futures import ThreadPoolExecutor\n"
        "from eval.forecasters.llm.cache import Cache\n"
        "from eval.forecasters.llm.client import Reply, Tokens\n"
        f"cache = Cache({str(tmp_path / 'deep' / CACHE)!r}, 'a/b', {{}})\n"
        "add = lambda n: cache.add('key', Tokens(1, 2), Reply('ok', text=str(n), cost=0.5))\n"
        "with ThreadPoolExecutor(4) as threads: list(threads.map(add, range(25)))"
    )
    processes = [subprocess.Popen([sys.executable, "-c", code], cwd=CHECKOUT) for _ in range(3)]
    assert [process.wait() for process in processes] == [0] * 3
    cache = Cache(tmp_path / "deep" / CACHE, "a/b", {})
    assert cache.spent() == 37.5
    texts = [answer.text for answer in cache.answers("key")]
    assert sorted(texts) == sorted([str(n) for n in range(25)] * 3)
    assert Cache(tmp_path / "deep" / CACHE, "a/b", {"temperature": 0}).spent() == 0
    with contextlib.closing(sqlite3.connect(tmp_path / "deep" / CACHE)) as connection:
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)


def test_a_cache_in_a_place_that_cannot_be_written_is_read():
    """By a user who may write nowhere."""
    with tempfile.TemporaryDirectory() as folder:  # which others may enter
        path = Path(folder) / "kept" / CACHE
        Cache(path, "a/b", {}).add("key", Tokens(1, 2), Reply("ok", text="kept", cost=0.5))
        code = (
            "import os; from eval.forecasters.llm.cache import Cache\n"
            "from eval.forecasters.llm.client import Reply, Tokens\n"
            "if os.getuid() == 0: os.setgid(65534); os.setuid(65534)\n"  # nobody
            f"cache = Cache({str(path)!r}, 'a/b', {{}})\n"
            "print(cache.spent(), cache.answers('key')[0].text)\n"
            "try: cache.add('key', Tokens(1, 2), Reply('ok', text='more'))\n"
            "except ValueError as error: print(error)"
        )
        path.chmod(0o444)
        Path(folder).chmod(0o755)
        path.parent.chmod(0o555)
        done = subprocess.run(
            [sys.executable, "-c", code], cwd=CHECKOUT, text=True, capture_output=True
        )
        path.parent.chmod(0o755)
    read, refused = done.stdout.splitlines() or [done.stderr, ""]
    assert read == "0.5 kept"
    assert re.fullmatch(f"cache: {path} cannot be used .*; expected a place that .*", refused)


def test_a_full_disk_is_not_taken_for_another_file(tmp_path, monkeypatch):
    cache = Cache(tmp_path / CACHE, "a/b", {})
    cache.add("key", Tokens(1, 2), Reply("ok", text="short"))
    opened = eval.forecasters.llm.cache._open

    def full(path):
        connection = opened(path)
        connection.execute("PRAGMA max_page_count = 1")  # as many as there are
        return connection

    monkeypatch.setattr("eval.forecasters.llm.cache._open", full)
    with pytest.raises(ValueError, match=r"disk is full\); expected room on its disk$"):
        cache.add("key", Tokens(1, 2), Reply("ok", text="long" * 10_000))


def test_answers_come_back_as_they_were_and_failures_do_not(tmp_path):
    cache = Cache(tmp_path / CACHE, "a/b", {"temperature": 0.5})
    assert cache.answers("key") == [] and cache.used() is None
    assert not list(tmp_path.iterdir())  # before there is anything to keep
    kept = [
        Reply("truncated", "cut", "a\u2212b\n", True, 1.5),
        Reply("ok", "", "", seconds=0.25),
    ]
    cache.add("key", Tokens(10, 5), kept[0]._replace(tokens=Tokens(30, 5)))
    cache.add("key", Tokens(10, 5), Reply("timeout", "late", cost=2.0))
    cache.add("key", Tokens(10, 5), kept[1]._replace(tokens=Tokens(10, 15), cost=None))
    cache.add("other", Tokens(10, 5), Reply("ok", text="x"))
    again = Cache(str(tmp_path / CACHE), "a/b", {"temperature": 0.5})
    assert [answer._replace(cost=0.0) for answer in again.answers("key")] == kept
    assert (again.spent(), again.used()) == (2.0, (2.0, 2.0))


def test_a_question_is_known_by_model_parameters_and_prompt(tmp_path):
    keys = {
        Cache(tmp_path / CACHE, model, parameters).key(prompt)
        for model in ("a/b", "a/c")
        for parameters in ({}, {"temperature": 0}, {"temperature": 1}, {"api_base": "http://x"})
        for prompt in ("one", "two")
    }
    assert len(keys) == 16 and all(re.fullmatch("[0-9a-f]{64}", key) for key in keys)
    pinned = "cda6266cca51a809d0ac5cd2c5765e32d8011444dcc79b96b45a511d764a0a5f"
    assert Cache(tmp_path / CACHE, "a/b", {"t": 0, "e": "x"}).key("one") == pinned


def test_the_file_lies_in_the_users_cache_unless_said_otherwise(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "own"))
    assert default_path() == tmp_path / "own" / "whatif-jax" / "llm.sqlite"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert default_path() == tmp_path / ".cache" / "whatif-jax" / "llm.sqlite"
    assert Cache("~/x.sqlite", "a/b", {}).path == tmp_path / "x.sqlite"


@needs_litellm
def test_a_file_that_is_no_cache_is_refused_by_name_and_left_alone(ask, tmp_path):
    damaged, foreign = tmp_path / "damaged.sqlite", tmp_path / "foreign.sqlite"
    damaged.write_text("no database" * 100)
    with contextlib.closing(sqlite3.connect(foreign)) as connection:
        connection.execute("CREATE TABLE attempts (id)")
    for path in (damaged, foreign, tmp_path):
        before = path.read_bytes() if path.is_file() else None
        with pytest.raises(ValueError, match=f"^cache: {path} cannot be used .*; expected a cache"):
            make("openai/fake", cache=path)
        assert before is None or path.read_bytes() == before
    forecaster = ask()
    forecaster(*rows())
    whole = (tmp_path / CACHE).read_bytes()
    for content in (b"no database" * 100, whole[: len(whole) // 2]):
        (tmp_path / CACHE).write_bytes(content)
        with pytest.raises(ValueError, match=r"^cache: .*llm.sqlite cannot be used .*$"):
            forecaster(*rows())
