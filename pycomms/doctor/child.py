"""Children of the doctor: what may hang or crash does so in them. Each ends by its deadline, with all that it started.

A child that is ours writes one JSON object a line to its standard output: ``{"begins": stage}``, and
``{"stage": stage, …}`` when that is known. So it is told how far it came, however it ended.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pycomms._config import inherited

_LAST_LINES = 2
_REAP_SECONDS = 5.0


@dataclass(frozen=True, kw_only=True)
class Ended:
    """code: as of Popen; None: it cannot be ended, as in a driver that hangs."""

    out: str
    err: str
    code: int | None
    is_late: bool


@dataclass(frozen=True, kw_only=True)
class Told:
    """What a child has told. stages: by name. broke_in: the stage that it began and did not end; empty: none.

    ended: how, for a sentence that begins with the child; empty: in order.
    """

    stages: Mapping[str, dict[str, Any]]
    broke_in: str
    ended: str
    last_words: str

    def of(self, stage: str) -> dict[str, Any] | None:
        return self.stages.get(stage)

    def why_not(self, stage: str) -> str:
        """Why it has told nothing of this stage."""
        place = f" in {self.broke_in!r}" if self.broke_in and self.broke_in != stage else ""
        words = f"; it said: {self.last_words}" if self.last_words else ""
        return f"the process that looked {self.ended or 'told nothing'}{place}{words}"


class Child:
    """One process that leads a group."""

    def __init__(self, command: Sequence[str], changes: Mapping[str, str | None] | None = None) -> None:
        """changes: to the environment; None: without that variable. Raises OSError: it cannot be started."""
        environment = inherited()
        for name, value in (changes or {}).items():
            environment.pop(name, None)
            if value is not None:
                environment[name] = value
        with contextlib.ExitStack() as opening:
            self._out = opening.enter_context(tempfile.TemporaryFile())
            self._err = opening.enter_context(tempfile.TemporaryFile())
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=self._out,
                stderr=self._err,
                env=environment,
                start_new_session=True,
            )
            self._files = opening.pop_all()
        self._is_over = False

    def finish(self, deadline: float) -> Ended:
        """deadline: of time.monotonic(). Returns when the process and all that it has started are gone. Once."""
        is_late = False
        try:
            self._process.wait(timeout=max(deadline - time.monotonic(), 0))
        except subprocess.TimeoutExpired:
            is_late = True
        finally:
            self.kill()
        with self._files:
            out, err = self._all_of(self._out), self._all_of(self._err)
        return Ended(out=out, err=err, code=self._process.poll(), is_late=is_late)

    def kill(self) -> None:
        """With all that it started, which may outlive it."""
        if self._is_over:  # the number of its group may be another one's by now
            return
        self._is_over = True
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout=_REAP_SECONDS)

    @staticmethod
    def _all_of(file: Any) -> str:
        file.seek(0)
        text: str = file.read().decode(errors="replace")
        return text


def python(module: str, arguments: Sequence[str], seconds: float) -> list[str]:
    """The command that runs `main(arguments)` of a module, with this process's module path.

    seconds: after which it ends also where the doctor was killed meanwhile.
    """
    # Not -m: that would look in the current folder first, where this process may not look at all. The name keeps
    # `import pycomms` from importing torch.
    code = (
        f"import signal, sys; signal.alarm({int(seconds) + 5})\n"
        f"sys.path[:] = {sys.path!r}; sys.argv = ['pycomms', *{[*arguments]!r}]\n"
        f"from {module} import main; main(sys.argv[1:])"
    )
    return [sys.executable, "-c", code]


def read(ended: Ended) -> Told:
    """How a child of ours ended, as what it has told. Pure."""
    stages: dict[str, dict[str, Any]] = {}
    begun = ""
    for line in ended.out.splitlines():
        try:
            said = json.loads(line)
        except ValueError:
            continue  # a library that prints
        if not isinstance(said, dict):
            continue
        if "begins" in said:
            begun = str(said["begins"])
        elif "stage" in said:
            stages[str(said.pop("stage"))] = said
    lines = [re.sub(r"^\[rank\d+\]: *", "", line).strip() for line in ended.err.splitlines() if line.strip()]
    how = _how(ended)
    return Told(
        stages=stages,
        broke_in="" if begun in stages else begun,
        ended=how,
        last_words=" | ".join(lines[-_LAST_LINES:]) if how else "",
    )


def _how(ended: Ended) -> str:
    if ended.code is None:
        return "cannot be ended"
    if ended.is_late:
        return "did not end in time"
    if ended.code < 0:
        number = -ended.code
        return f"was ended by {next((one.name for one in signal.Signals if one == number), f'signal {number}')}"
    return f"ended with exit code {ended.code}" if ended.code else ""


def tell(stage: str, **facts: object) -> None:
    """For the child: what it knows now."""
    print(json.dumps({"stage": stage, **facts}), flush=True)


def begin(stage: str) -> None:
    """For the child: what it does next."""
    print(json.dumps({"begins": stage}), flush=True)
