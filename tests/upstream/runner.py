"""Runs tests of the suite one after the other in this process, which forks the ranks, and says what each came to."""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
import time
import unittest
from typing import IO, TYPE_CHECKING

from .outcome import Outcome, Verdict

if TYPE_CHECKING:
    from collections.abc import Iterator

_SHOWN_OF_A_FAILURE = 8_000


def names_of(suite: type[unittest.TestCase]) -> list[str]:
    return list(unittest.defaultTestLoader.getTestCaseNames(suite))


def run_one(suite: type[unittest.TestCase], name: str) -> Outcome:
    result = unittest.TestResult()
    began = time.monotonic()
    with tempfile.TemporaryFile() as log:
        with _output_to(log):
            suite(name).run(result)
        seconds = time.monotonic() - began
        log.seek(0)
        written = log.read().decode(errors="replace")
    if result.skipped:
        return Outcome(name, Verdict.SKIPPED, seconds, result.skipped[0][1])
    if result.wasSuccessful():
        return Outcome(name, Verdict.PASSED, seconds, "")
    errors = "\n".join(text for _, text in result.errors + result.failures)
    return Outcome(name, Verdict.FAILED, seconds, errors + "\n" + written[-_SHOWN_OF_A_FAILURE:])


@contextlib.contextmanager
def _output_to(file: IO[bytes]) -> Iterator[None]:
    """Sends what this process and its children write to stdout and stderr to a file."""
    sys.stdout.flush()
    sys.stderr.flush()
    saved = [os.dup(1), os.dup(2)]
    try:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
        yield
        sys.stdout.flush()
        sys.stderr.flush()
    finally:
        for fd, original in zip((1, 2), saved, strict=True):
            os.dup2(original, fd)
            os.close(original)
