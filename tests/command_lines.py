"""Calls of the command lines in this process, and what people may type."""

import contextlib
import io
import itertools
import sys
from collections.abc import Callable, Mapping, Sequence
from unittest import mock

from hypothesis import strategies as st

# What any option may be given. A NUL cannot be in an argument; a byte that is no UTF-8 can.
TEXTS = st.text(st.characters(exclude_characters="\0", exclude_categories=()), max_size=8)
NUMBERS = st.one_of(
    st.integers().map(str),
    st.floats().map(str),
    st.sampled_from(["", " ", "-1", "0", "1e400", "nan", "9" * 400, "9" * 5000, "0x10", "½", "٣"]),
)
OTHERS = st.sampled_from(
    ["null", "[1]", "{}", "=", "a=", "--", "-", "~", "\udcff", "x\ny", "..", "[" * 5000]
)
# Names in the current folder, which the fixture `files` makes.
FILES = {"a folder": None, "empty": b"", "bytes.toml": bytes(range(256)), "few.toml": b"steps = 5"}
ANYTHING = st.one_of(TEXTS, NUMBERS, OTHERS, st.sampled_from([*FILES, "none/x", "empty/x"]))


def arguments(
    commands: Mapping[tuple[str, ...], Mapping[str, Sequence[str] | None]], most: int = 4
) -> list[st.SearchStrategy[list[str]]]:
    """Calls of every command with some of its options.

    Args:
        commands: by the words of a command its options, "" for an argument, with values that are
            right; None for a flag.
        most: options of a call.
    """

    def given(option: str, right: Sequence[str] | None) -> st.SearchStrategy[list[str]]:
        if right is None:
            return st.just([option])
        values = st.one_of(ANYTHING, st.sampled_from(right)) if right else ANYTHING
        return values.map(lambda value: [f"{option}={value}"] if option else [value])

    def call(words: tuple[str, ...]) -> st.SearchStrategy[list[str]]:
        options = commands[words]
        one = st.sampled_from(sorted(options)).flatmap(lambda name: given(name, options[name]))
        return st.lists(one, max_size=most).map(lambda found: [*words, *itertools.chain(*found)])

    return [call(words) for words in commands]


def called(main: Callable[[], None], program: str, *typed: str) -> tuple[int, str]:
    """Exit code and standard error of a call; an exception that escapes is raised."""
    out, err = (
        io.TextIOWrapper(io.BytesIO(), "utf-8", errors) for errors in ("strict", "backslashreplace")
    )
    with (
        mock.patch.object(sys, "argv", [program, *typed]),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
    ):
        try:
            main()
        except SystemExit as stopped:
            code = stopped.code
    out.flush()
    err.seek(0)
    return code, err.read()


def refused(main: Callable[[], None], program: str, *typed: str) -> str:
    """What is said of wrong input: exit 2, and one line."""
    code, said = called(main, program, *typed)
    assert code == 2, said
    assert said.startswith(f"{program}: ") and said.count("\n") == 1, said
    return said


def ended_well(code: int, said: str, program: str) -> None:
    """Assert that a call ended in its result, or in exit 2 and one line of the program's."""
    assert code in (0, 2)
    first, *more = said.splitlines() or [""]
    if code and first:  # without arguments the help stands on standard output
        assert first.startswith(f"{program}: ")
        assert all(line.startswith("  - ") for line in more)  # faults of one catalog file
