"""Whole files, held folders, and one line for what the operating system says."""

import multiprocessing
import os
import signal

import pytest

from whatif_jax.files import LOCK, HeldFolder, explained, write_whole


class Held(HeldFolder):
    error = ValueError
    what = "shelf"
    holder = "another librarian"


def test_a_file_that_is_not_finished_leaves_nothing(tmp_path):
    path = tmp_path / "folder" / "book"
    write_whole(path, lambda at: at.write_text("first"))

    def half(at):
        at.write_text("half")
        raise KeyboardInterrupt

    def refuse(at):
        assert at.read_text() == "second"
        raise ValueError("no")

    with pytest.raises(KeyboardInterrupt):
        write_whole(path, half)
    with pytest.raises(ValueError, match="no"):
        write_whole(path, lambda at: at.write_text("second"), refuse)
    assert [each.name for each in path.parent.iterdir()] == ["book"]
    assert path.read_text() == "first"


@pytest.mark.parametrize(
    "error, reason",
    [
        (OSError(28, "No space left on device"), "No space left on device"),
        (OSError("[Errno 28] Error writing bytes to file"), "Error writing bytes to file"),
        (PermissionError(13, "Permission denied"), "Permission denied"),
    ],
)
def test_errors_of_the_system_are_one_line_of_ours(tmp_path, error, reason):
    expected = pytest.raises(ValueError, match=f"^shelf: {tmp_path}: .*{reason}; expected a place")
    with expected as caught, explained(ValueError, "shelf", tmp_path):
        raise error
    assert caught.value.__cause__ is error
    assert "\n" not in str(caught.value)


def _hold(path, ready, kill):
    with Held(path) as held:
        (path / ".book.unfinished").write_text("half")
        ready.set()
        if kill:
            os.kill(os.getpid(), signal.SIGKILL)
        held.complete = True


def test_a_folder_is_held_by_one_and_a_killed_process_lets_go(tmp_path):
    with (
        Held(tmp_path),
        pytest.raises(
            ValueError, match=f"^shelf: {tmp_path}: another librarian is writing here; expected"
        ),
    ):
        Held(tmp_path).__enter__()
    context = multiprocessing.get_context("spawn")
    ready = context.Event()
    process = context.Process(target=_hold, args=(tmp_path, ready, True))
    process.start()
    assert ready.wait(60)
    process.join()
    assert process.exitcode == -signal.SIGKILL
    assert (tmp_path / ".book.unfinished").exists()
    with Held(tmp_path) as held:
        assert [each.name for each in tmp_path.iterdir()] == [LOCK]
        held.write_text(tmp_path / "book", "whole")
        held.complete = True
    assert [each.name for each in tmp_path.iterdir()] == ["book"]


def test_a_refusal_on_entry_lets_go(tmp_path):
    class Refusing(Held):
        def open(self):
            raise self.error("not this one")

    with pytest.raises(ValueError, match="not this one"):
        Refusing(tmp_path).__enter__()
    with Held(tmp_path):
        pass
