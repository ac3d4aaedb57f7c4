"""What a process has said of its end is found in the last lines of its stderr."""

from __future__ import annotations

import pytest

from pycomms.ft.run.last_words import last_words

TRACEBACK = ["Traceback (most recent call last):", '  File "train.py", line 3, in <module>', "    main()", "    ^^^^^^"]


@pytest.mark.parametrize(
    "lines, words",
    [
        ([*TRACEBACK, "KeyError: 'lr'"], "KeyError: 'lr'"),
        ([*TRACEBACK, "pycomms.PeerFailure: rank 3 is gone"], "pycomms.PeerFailure: rank 3 is gone"),
        ([f"[rank3]: {line}" for line in [*TRACEBACK, "MemoryError"]], "MemoryError"),
        ([*TRACEBACK, "KeyboardInterrupt"], "KeyboardInterrupt"),
        ([*TRACEBACK, "ValueError: two", "lines"], "ValueError: two"),
        ([*TRACEBACK, "OSError: full", "[W1202 Module.cpp] destroy was not called", "a: b"], "OSError: full"),
        ([*TRACEBACK, "OSError: full", "UserWarning: late"], "OSError: full"),
        (["terminate called after throwing an instance of 'std::bad_alloc'", "  what():  std::bad_alloc"],
         "terminate called after throwing an instance of 'std::bad_alloc'"),
        (["a.c:3: main: Assertion `0' failed."], "a.c:3: main: Assertion `0' failed."),
        (["Fatal Python error: Aborted", "", "Current thread 0x1:", '  File "x"'], "Fatal Python error: Aborted"),
        (["epoch 3", "loss: 0.2", "    Indented: x"], ""),
        ([], ""),
        ([f"ValueError: {'x' * 300}"], f"ValueError: {'x' * 185}..."),
    ],
)  # fmt: skip
def test_the_last_line_that_says_what_was_wrong(lines: list[str], words: str) -> None:
    assert last_words(lines) == words
