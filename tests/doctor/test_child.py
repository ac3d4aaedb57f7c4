"""Children are ended in time with all that they started, and what they told until then is known."""

from __future__ import annotations

import os
import select
import signal
import time
from pathlib import Path

import pytest

from pycomms.doctor.child import Child, Ended, begin, python, read, tell

HERE = "tests.doctor.test_child"
PATIENCE_S = 60.0


def main(arguments: list[str]) -> None:
    """Of a child that tells something, starts another process, which writes its pid into a file, and hangs."""
    begin("first")
    tell("first", fact=1)
    begin("second")
    if os.fork() == 0:
        Path(arguments[0]).write_text(str(os.getpid()))
    signal.pause()


def test_a_child_that_hangs_is_ended_with_its_own(tmp_path: Path) -> None:
    place = tmp_path / "pid"
    os.mkfifo(place)
    child = Child(python(HERE, [str(place)], PATIENCE_S))
    try:
        with os.fdopen(os.open(place, os.O_RDONLY | os.O_NONBLOCK), "rb") as pipe:
            assert select.select([pipe], [], [], PATIENCE_S)[0]
            grandchild = os.pidfd_open(int(pipe.read()))
        told = read(child.finish(time.monotonic()))
    finally:
        child.kill()
    with os.fdopen(grandchild, "rb") as end:
        assert select.select([end], [], [], PATIENCE_S)[0]
    assert told.of("first") == {"fact": 1}
    assert (told.broke_in, told.ended) == ("second", "did not end in time")
    assert "did not end in time in 'second'" in told.why_not("third")


def test_a_child_that_fails_has_last_words() -> None:
    told = read(Child(["/bin/sh", "-c", "echo '[rank0]: It broke' >&2; exit 3"]).finish(time.monotonic() + PATIENCE_S))
    assert (told.ended, told.last_words) == ("ended with exit code 3", "It broke")


def test_a_child_that_a_signal_ends() -> None:
    told = read(Child(["/bin/sh", "-c", "kill -SEGV $$"]).finish(time.monotonic() + PATIENCE_S))
    assert told.ended == "was ended by SIGSEGV"


def test_changes_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ONE", "1")
    monkeypatch.setenv("TWO", "2")
    child = Child(["/bin/sh", "-c", "echo $ONE-$TWO-$THREE"], {"ONE": None, "THREE": "3"})
    assert child.finish(time.monotonic() + PATIENCE_S).out == "-2-3\n"


def test_no_such_program() -> None:
    with pytest.raises(OSError, match="no-such-program"):
        Child(["/no-such-program"])


def test_what_libraries_print_is_passed_over() -> None:
    out = 'a library\n{"begins": "x"}\n[1]\n{"stage": "x", "fact": 1}\n{"begins": "y"}\n{"stag'
    told = read(Ended(out=out, err="a warning\n", code=0, is_late=False))
    assert (told.stages, told.broke_in) == ({"x": {"fact": 1}}, "y")
    assert (told.ended, told.last_words) == ("", "")


def test_a_child_that_cannot_be_ended() -> None:
    assert read(Ended(out="", err="", code=None, is_late=True)).ended == "cannot be ended"
