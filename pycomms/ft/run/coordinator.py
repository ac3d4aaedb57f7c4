"""The coordinator as a child of the agent: on the same port and with the same log when it has to be started again."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from pycomms.ft.run.logs import Destination
from pycomms.ft.run.output import Stream
from pycomms.ft.run.process import Ending
from pycomms.ft.run.spawning import STDERR, STDOUT, Child, spawn
from pycomms.ft.run.words import Voice
from pycomms.ft.run.writer import Writer

_QUICK = 1.0
"""Seconds: one that ends sooner than that is started again after a pause only."""

_LONGEST_PAUSE = 5.0
_END_WITHIN = 3.0
_NEVER_SERVED = frozenset({4, 5})
"""Exit codes for wrong usage, and that it cannot listen. A busy machine takes longer than `_QUICK` for them."""

SUPERSEDED = 7  # exit code of ``pycomms coordinator``: another one has served the hosts meanwhile
_TRIES = 10


class Coordinator:
    """For the event loop."""

    def __init__(
        self, arguments: list[str], state: Path, environment: Mapping[str, str], log: Path, writer: Writer, voice: Voice
    ) -> None:
        """arguments: of ``pycomms coordinator``, but for the folder of its state, which is a new one in each round."""
        self._arguments, self._state, self._environment = arguments, state, dict(environment)
        self._log, self._writer, self._voice = log, writer, voice
        self._child: Child | None = None
        self._quick = 0
        self._round = 0
        self._started = 0.0
        self._ending = False
        self._renewing = False  # it was ended here, for a new round
        self._timer: asyncio.TimerHandle | None = None
        self._gone = asyncio.Event()

    def start(self) -> None:
        """Raises OSError."""
        loop = asyncio.get_running_loop()
        state = self._state / f"round{self._round}"
        state.mkdir(parents=True, exist_ok=True)
        command = [sys.executable, "-m", "pycomms", "coordinator", *self._arguments, f"--state-dir={state}"]
        destination = Destination(file=self._log, console=False)
        child = spawn(
            command,
            self._environment,
            Stream(destination, self._writer, STDOUT, b""),
            Stream(destination, self._writer, STDERR, b""),
        )
        self._child, self._started = child, loop.time()
        self._gone.clear()
        child.process.watch(lambda ending: self._ended(child, ending))

    def begin_round(self, number: int) -> None:
        """All workers are started again: what it knows of the old ones is of no use."""
        self._round = number
        if self._child is not None and self._child.process.ending is None and not self._ending:
            self._renewing = True
            self._child.process.kill()

    def _ended(self, child: Child, ending: Ending) -> None:
        self._gone.set()
        if self._ending:
            return
        if self._renewing:
            self._renewing, self._quick = False, 0
            self._start_later()
            return
        loop = asyncio.get_running_loop()
        at_once = loop.time() - self._started < _QUICK or ending.code in _NEVER_SERVED
        quick = at_once and ending.code != SUPERSEDED
        self._quick = self._quick + 1 if quick else 0
        if ending.code == SUPERSEDED:
            self._voice.say("hosts were with a later coordinator: the one here begins again")
        else:
            self._voice.say(f"the coordinator has ended with {ending}: started again")
        if self._quick:
            for line in dict.fromkeys(child.stderr.tail[-3:]):  # the log has those of earlier tries, too
                self._voice.say(f"  | {line}")
        if self._quick >= _TRIES:
            self._voice.say(f"the coordinator has ended {self._quick} times at once: it is given up, see {self._log}")
            return
        self._start_later()

    def _start_later(self) -> None:
        pause = min(0.1 * (1 << self._quick), _LONGEST_PAUSE) if self._quick else 0.0
        self._timer = asyncio.get_running_loop().call_later(pause, self._start_again)

    def _start_again(self) -> None:
        try:
            self.start()
        except OSError as error:  # a full disk may have room again
            self._quick += 1
            self._voice.say(f"the coordinator cannot be started: {error}")
            self._start_later()

    async def stop(self) -> None:
        """When it returns the process does not live any more."""
        self._ending = True
        if self._timer is not None:
            self._timer.cancel()
        if self._child is None or self._child.process.ending is not None:
            return
        self._child.process.send(signal.SIGTERM)
        with suppress(asyncio.TimeoutError):
            await asyncio.wait_for(self._gone.wait(), _END_WITHIN)
            return
        self._child.process.kill()
        with suppress(asyncio.TimeoutError):
            await asyncio.wait_for(self._gone.wait(), _END_WITHIN)
