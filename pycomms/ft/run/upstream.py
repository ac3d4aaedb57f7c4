"""The agent's one connection to the coordinator: begun again whenever it ends, without harm to anybody. For the event
loop; grpc itself is imported beside it, for that takes longer than all else that an agent does at its start.

Where there are several coordinators, all hosts want to be with the first one that answers. One that does not answer for
host_silence is left for the next. Whoever is not with the first looks every now and then whether it is back. A host
never goes to one that is older than the one it comes from: it says so, and that one begins again.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from importlib import import_module
from typing import Any

from pycomms.ft.coordinator import calls
from pycomms.ft.coordinator.auth import proof
from pycomms.ft.coordinator.tls import OBJECT_AFTER, OPTIONS, Tls, objection
from pycomms.ft.core.messages import Beat, Form
from pycomms.ft.core.timeouts import Timeouts
from pycomms.ft.wire import Envelope, FormDelta, Hello, Welcome, WireError, decode, encode

_FIRST_PAUSE = 0.005
_HOPELESS = ("UNAUTHENTICATED", "INVALID_ARGUMENT", "FAILED_PRECONDITION", "UNIMPLEMENTED")
_LEAVE_WITHIN = 1.0


class Refused(Exception):
    """The coordinator does not want this host, and will not: a wrong token, another version."""


class Upstream:
    """``heard`` gets each message as bytes and as what they mean; ``up`` is called at each new connection, before
    anything is heard on it; ``missing`` is told after each try in vain for how many seconds there has been none."""

    def __init__(
        self,
        host: str,
        targets: Sequence[str],
        token: bytes,
        timeouts: Timeouts,
        tls: Tls | None = None,
        *,
        up: Callable[[], None],
        heard: Callable[[bytes, Envelope], None],
        missing: Callable[[float], None],
        complain: Callable[[str], None],
    ) -> None:
        self._host, self._all, self._token, self._timeouts, self._tls = host, targets, token, timeouts, tls
        self._number = 0  # of the target
        self._boots: dict[int, int] = {}  # of each target's coordinator, the greatest that this host has heard of
        self._instance = secrets.token_hex(8)
        self._beat = encode(Beat(host=host))
        self._up, self._heard, self._missing, self._complain = up, heard, missing, complain
        self._words: asyncio.Queue[bytes | None] = asyncio.Queue()
        self.connected = False
        self._leaving = False

    @property
    def targets(self) -> str:
        return ", ".join(self._all)

    @property
    def _target(self) -> str:
        return self._all[self._number]

    def send(self, envelope: bytes) -> None:
        """It is lost without a connection: what matters is said again when there is one."""
        if self.connected:
            self._words.put_nowait(envelope)

    async def run(self) -> None:
        """Until it is cancelled, or has left. Raises Refused, but only where there was never a connection."""
        module = await asyncio.to_thread(import_module, "grpc.aio")
        was_welcome = False
        pause = _FIRST_PAUSE
        loop = asyncio.get_running_loop()
        since = here_since = loop.time()
        while True:
            try:
                number = self._number
                if await self._one(module):
                    was_welcome, pause, since = True, _FIRST_PAUSE, loop.time()
                    here_since = since
                elif loop.time() - here_since > self._timeouts.host_silence.total_seconds() and len(self._all) > 1:
                    self._number = (number + 1) % len(self._all)
                    here_since = loop.time()
                    self._complain(f"no coordinator answers at {self._all[number]}: trying {self._target}")
                    self._missing(here_since - since)
                else:
                    missing = loop.time() - since
                    if not was_welcome and missing > OBJECT_AFTER:
                        await self._object()
                    self._missing(missing)
            except Refused as error:
                if not was_welcome:
                    raise
                self._complain(str(error))
            if self._leaving:
                return
            await asyncio.sleep(pause)
            pause = min(2 * pause, self._timeouts.reconnect.total_seconds())

    async def _object(self) -> None:
        """Raises Refused where certificates are the reason why nobody is welcome."""
        why = await asyncio.to_thread(objection, self._target, self._tls, _LEAVE_WITHIN)
        if why:
            raise Refused(f"the coordinator: {why} ({', '.join(OPTIONS)})")

    async def _one(self, module: Any) -> bool:
        """One connection, from its beginning to its end. False: there was none."""
        grpc_error = import_module("grpc").RpcError
        channel = calls.channel(module, self._target, self._timeouts, self._tls)
        talking: asyncio.Task[None] | None = None
        looking: asyncio.Task[None] | None = None
        try:
            call = calls.attach(channel)(metadata=proof(self._token, calls.ATTACH, self._host, time.time()))
            heard = max((boot for number, boot in self._boots.items() if number != self._number), default=0)
            await call.write(encode(Hello(host=self._host, instance=self._instance, heard=heard)))
            first = await call.read()
            if not isinstance(first, bytes):
                return False
            boot = self._expect_welcome(first).boot
            self._is_of(boot)
            self._words = asyncio.Queue()
            self.connected = True
            self._up()
            talking = asyncio.ensure_future(self._talk(call, grpc_error))
            if self._number > 0:
                looking = asyncio.ensure_future(self._look_for_earlier())
            while isinstance(data := await call.read(), bytes):
                self._hear(data)
            return True
        except grpc_error as error:
            if error.code().name in _HOPELESS:
                raise Refused(f"the coordinator at {self._target}: {error.code().name}: {error.details()}") from error
            return self.connected
        finally:
            self.connected = False
            for task in (talking, looking):
                if task is not None:
                    task.cancel()
            with suppress(asyncio.TimeoutError):
                await asyncio.wait_for(channel.close(), _LEAVE_WITHIN)

    async def _look_for_earlier(self) -> None:
        """Goes back to the first one that is there again."""
        within = self._timeouts.host_silence.total_seconds()
        while True:
            await asyncio.sleep(within)
            for number in range(self._number):
                host, _, port = self._all[number].rpartition(":")
                with suppress(OSError, asyncio.TimeoutError):
                    opened = asyncio.open_connection(host.strip("[]"), int(port))
                    _, writer = await asyncio.wait_for(opened, within)
                    writer.close()
                    self._number = number
                    self._words.put_nowait(None)
                    return

    def _expect_welcome(self, data: bytes) -> Welcome:
        try:
            message: object = decode(data).message
        except WireError as error:
            message = error
        if not isinstance(message, Welcome):
            raise Refused(f"{self._target} answers {message}, expected a Welcome: is it a coordinator?")
        return message

    def _hear(self, data: bytes) -> None:
        try:
            envelope = decode(data)
        except WireError as error:
            self._complain(f"the coordinator says what makes no sense: {error}")
            return
        if isinstance(envelope.message, (Form, FormDelta)):
            self._is_of(envelope.message.epoch.boot)
        self._heard(data, envelope)

    def _is_of(self, boot: int) -> None:
        self._boots[self._number] = max(boot, self._boots.get(self._number, 0))

    async def _talk(self, call: Any, grpc_error: type[Exception]) -> None:
        beat = self._timeouts.beat.total_seconds()
        with suppress(grpc_error, asyncio.InvalidStateError):  # the latter: the call has ended already
            while True:
                try:
                    envelope = await asyncio.wait_for(self._words.get(), beat)
                except asyncio.TimeoutError:
                    envelope = self._beat
                if envelope is None:
                    await call.done_writing()
                    return
                await call.write(envelope)

    def leave(self) -> None:
        """Ends the connection after what was said; `run` returns when the coordinator has heard all."""
        self._leaving = True
        if self.connected:
            self._words.put_nowait(None)
