"""`pycomms run` as users start it: a process of its own, whose output is waited for and whose children are found."""

from __future__ import annotations

import json
import os
import re
import secrets
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from typing_extensions import Self

ROOT = Path(__file__).parents[3]
PATIENCE_S = 110.0
"""Long, for machines that are busy: what is waited for takes milliseconds."""

_MARK = "PYCOMMS_TEST_MARK"


class Running:
    """Ended, with all that it has started, at the end of the ``with``; fails if anything had to be ended."""

    def __init__(
        self,
        folder: Path,
        script: str,
        *options: str,
        arguments: Sequence[str] = (),
        environment: dict[str, str] | None = None,
        launcher: Sequence[str] = (),
        name: str = "job.py",
    ) -> None:
        self.script = folder / name
        self.script.write_text(textwrap.dedent(script))
        self._mark = secrets.token_hex(8)
        base = {name: value for name, value in os.environ.items() if not name.startswith(("PET_", "PYCOMMS_TEST_"))}
        more = dict(environment or {})
        more["PYTHONPATH"] = os.pathsep.join([more.get("PYTHONPATH", ""), str(ROOT), base.get("PYTHONPATH", "")])
        self.process = subprocess.Popen(
            [*launcher, sys.executable, "-m", "pycomms", "run", *options, str(self.script), *arguments],
            cwd=folder,
            env={**base, **more, _MARK: self._mark},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        self.lines: list[str] = []
        self.out: list[str] = []
        self.err: list[str] = []
        self._news = threading.Condition()
        assert self.process.stdout is not None
        assert self.process.stderr is not None
        self._readers = [
            threading.Thread(target=self._read, args=(self.process.stdout, self.out)),
            threading.Thread(target=self._read, args=(self.process.stderr, self.err)),
        ]
        for reader in self._readers:
            reader.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.process.kill()
        self.process.wait()
        left = [] if wait_for(lambda: not self.processes(), 5.0) else self.processes()
        for pid in left:
            os.kill(pid, signal.SIGKILL)
        for reader in self._readers:
            reader.join()
        for pipe in (self.process.stdout, self.process.stderr):
            assert pipe is not None
            pipe.close()
        if kind is not None:
            print("\n".join(self.lines))
        elif left:
            raise AssertionError(f"processes {left} have outlived the agent")

    def _read(self, pipe: Any, lines: list[str]) -> None:
        for line in pipe:
            with self._news:
                text = line.decode(errors="replace").rstrip("\r\n")
                lines.append(text)
                self.lines.append(text)
                self._news.notify_all()
        with self._news:
            self._news.notify_all()

    def line(self, pattern: str, count: int = 1, within: float = PATIENCE_S) -> re.Match[str]:
        """Waits for the ``count``-th line in which the pattern is found."""

        def found() -> list[re.Match[str]]:
            return [match for line in self.lines if (match := re.search(pattern, line))]

        with self._news:
            ended = self._news.wait_for(
                lambda: len(found()) >= count or not any(reader.is_alive() for reader in self._readers), within
            )
            matches = found()
        if len(matches) < count:
            why = "its output has ended" if ended else "in time"
            raise AssertionError("\n".join([f"{len(matches)} of {count} lines {pattern!r}: {why}", *self.lines]))
        return matches[count - 1]

    def count(self, pattern: str) -> int:
        return sum(bool(re.search(pattern, line)) for line in self.lines)

    def end(self, within: float = PATIENCE_S) -> int:
        """Waits for its end and returns its exit code."""
        code = self.process.wait(within)
        for reader in self._readers:
            reader.join(within)
        return code

    def summary(self) -> dict[str, Any]:
        summary: dict[str, Any] = json.loads(self.out[-1])
        return summary

    def processes(self) -> list[int]:
        """All processes that stem from it, but for itself."""
        return [pid for pid in marked(self._mark) if pid != self.process.pid]


def marked(mark: str) -> list[int]:
    found = []
    for path in Path("/proc").iterdir():
        if path.name.isdecimal():
            try:
                if f"{_MARK}={mark}".encode() in (path / "environ").read_bytes().split(b"\0"):
                    found.append(int(path.name))
            except OSError:
                continue  # it has ended
    return found


def wait_for(condition: Callable[[], bool], within: float = PATIENCE_S) -> bool:
    """Asks again and again: for what nobody tells."""
    until = time.monotonic() + within
    while not condition():
        if time.monotonic() > until:
            return False
        threading.Event().wait(0.01)
    return True
