"""The service that hosts attach to: one stream each, of envelopes in both directions. For the event loop.

Whoever cannot prove that he has the job's token gets no further than that. A message that makes no sense ends the
stream that it came on, and nothing else.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, NoReturn

import grpc
import grpc.aio

from pycomms.ft.coordinator.auth import AuthError, Guard
from pycomms.ft.coordinator.calls import ATTACH
from pycomms.ft.coordinator.conductor import Conductor
from pycomms.ft.coordinator.delivery import Delivery
from pycomms.ft.coordinator.launching import Launching
from pycomms.ft.coordinator.outbox import Outbox
from pycomms.ft.coordinator.tally import Tally
from pycomms.ft.core.launch import HostReport
from pycomms.ft.core.messages import Beat, Event
from pycomms.ft.wire import Hello, SendWhole, Welcome, WireError, decode, encode
from pycomms.ft.wire.envelope import VERSION

_LOG = logging.getLogger("pycomms.ft")
_LARGE, _LARGE_AT_ONCE = 1 << 18, 32
"""Bytes of a message of which grpc holds so many copies at most: each host of a large job is told its first epoch."""

_LOGGED_EVERY = 5.0
"""Seconds between two lines of the log about refused calls: strangers do not fill the disk."""


@dataclass(frozen=True, kw_only=True)
class Limits:
    """Attributes:
    hosts: attached at the same time, at most.
    hello: from the beginning of a call to its first message.
    """

    hosts: int = 20_000
    hello: timedelta = timedelta(seconds=5)


class Service(grpc.GenericRpcHandler):  # type: ignore[misc]  # grpc has no types
    """outboxes: those of attached hosts are put in here and taken out again. ``superseded`` is told the boot of a later
    coordinator that a host has been with: then this one must not decide any more."""

    def __init__(
        self,
        conductor: Conductor,
        delivery: Delivery,
        launching: Launching,
        outboxes: dict[str, Outbox],
        tally: Tally,
        guard: Guard,
        limits: Limits,
        superseded: Callable[[int], None],
    ) -> None:
        self._conductor = conductor
        self._delivery = delivery
        self._launching = launching
        self._outboxes = outboxes
        self._tally = tally
        self._guard = guard
        self._limits = limits
        self._superseded = superseded
        self._handler = grpc.stream_stream_rpc_method_handler(self._attach)
        self._large = asyncio.Semaphore(_LARGE_AT_ONCE)
        self._logged_at = -_LOGGED_EVERY
        self._unlogged = 0

    def service(self, handler_call_details: Any) -> Any:
        """Which method of ours a call is for."""
        return self._handler if handler_call_details.method == ATTACH else None

    def release(self) -> None:
        """The coordinator ends: hosts are told by the end of their streams."""
        for outbox in self._outboxes.values():
            outbox.close("the coordinator ends")

    async def _attach(self, _: Any, context: Any) -> None:
        host = await self._prove(context)
        hello = await self._greet(context, host)
        outbox = await self._admit(context, hello)
        self._tally.attached += 1
        talking = asyncio.ensure_future(self._talk(context, outbox))
        how, code = "its connection was lost", None
        try:
            await self._listen(context, outbox, talking)
            how, code = "it has ended its connection", None
            if outbox.why_closed is not None:
                how, code = outbox.why_closed, grpc.StatusCode.UNAVAILABLE
        except WireError as error:
            how, code = str(error), grpc.StatusCode.INVALID_ARGUMENT
            self._tally.bad_messages += 1
            _LOG.warning("pycomms.ft: host %s says what makes no sense: %s", host, error)
        finally:
            outbox.close(how)
            if self._outboxes.get(host) is outbox:
                del self._outboxes[host]
                self._conductor.host_lost(host, how)
                self._launching.disconnected(host)
        # grpc sends no status beside a message. The keepalive ends a connection that does not take it.
        await talking
        if code is not None:
            await _abort(context, code, how)

    async def _prove(self, context: Any) -> str:
        try:
            return self._guard.check(ATTACH, _metadata(context), time.time())
        except AuthError as error:
            self._tally.denied[error.kind] += 1
            self._log_denied(context, error)
            await _abort(context, grpc.StatusCode.UNAUTHENTICATED, f"{error}: is it the token of this job?")

    async def _greet(self, context: Any, host: str) -> Hello:
        try:
            data = await asyncio.wait_for(context.read(), self._limits.hello.total_seconds())
            message = decode(data).message if isinstance(data, bytes) else None
            if not isinstance(message, Hello):
                raise WireError("message", type(message).__name__, "a Hello")
            if message.host != host:
                raise WireError("hello.host", message.host, f"{host}, which the call has proved")
        except asyncio.TimeoutError:
            await _abort(context, grpc.StatusCode.DEADLINE_EXCEEDED, f"no Hello within {self._limits.hello}")
        except WireError as error:
            self._tally.bad_messages += 1
            await _abort(context, grpc.StatusCode.INVALID_ARGUMENT, str(error))
        if message.version != VERSION:
            text = f"host {host} speaks version {message.version} of the protocol, the coordinator {VERSION}"
            await _abort(context, grpc.StatusCode.FAILED_PRECONDITION, text)
        boot = self._conductor.boot
        if message.heard >= boot:
            self._superseded(message.heard)
            text = f"host {host} was with the later coordinator {message.heard}: this one, {boot}, begins again"
            await _abort(context, grpc.StatusCode.UNAVAILABLE, text)
        return message

    async def _admit(self, context: Any, hello: Hello) -> Outbox:
        """A host that connects again takes the place of its own connection, and nobody else's."""
        before = self._outboxes.get(hello.host)
        if before is not None and before.instance != hello.instance:
            text = f"host {hello.host} is attached already, by another process: does every host have its own name?"
            await _abort(context, grpc.StatusCode.ALREADY_EXISTS, text)
        if before is None and len(self._outboxes) >= self._limits.hosts:
            text = f"{len(self._outboxes)} hosts are attached, that is the most"
            await _abort(context, grpc.StatusCode.RESOURCE_EXHAUSTED, text)
        if before is not None:
            before.close("it has connected again")
        outbox = Outbox(hello.host, hello.instance)
        outbox.put(encode(Welcome(boot=self._conductor.boot)))
        self._outboxes[hello.host] = outbox
        return outbox

    async def _listen(self, context: Any, outbox: Outbox, talking: asyncio.Task[None]) -> None:
        """Until the host ends the stream, or the outbox is closed, which ends `talking`."""
        listening = asyncio.ensure_future(self._hear_all(context, outbox))
        try:
            await asyncio.wait([listening, talking], return_when=asyncio.FIRST_COMPLETED)
            if listening.done():
                listening.result()
        finally:
            listening.cancel()

    async def _hear_all(self, context: Any, outbox: Outbox) -> None:
        while isinstance(data := await context.read(), bytes):
            self._hear(data, outbox.host)

    def _hear(self, data: bytes, host: str) -> None:
        self._tally.bytes_received += len(data)
        message = decode(data).message
        if isinstance(message, SendWhole):
            self._delivery.send_whole(message.member, message.epoch)
            return
        if not isinstance(message, (Event, HostReport)):
            raise WireError("message", type(message).__name__, "an event")
        speaker = message.host if isinstance(message, (Beat, HostReport)) else message.member.host
        if speaker != host:
            raise WireError("host", speaker, f"{host}, whose stream this is")
        if isinstance(message, HostReport):
            self._launching.heard(message)
        else:
            self._conductor.apply(message)

    async def _talk(self, context: Any, outbox: Outbox) -> None:
        with suppress(grpc.aio.AbortError, grpc.aio.UsageError, grpc.RpcError):  # the stream has ended
            while (parts := await outbox.get()) is not None:
                if sum(map(len, parts)) < _LARGE:
                    await context.write(b"".join(parts))
                    continue
                async with self._large:
                    await context.write(b"".join(parts))

    def _log_denied(self, context: Any, error: AuthError) -> None:
        self._unlogged += 1
        now = time.monotonic()
        if now - self._logged_at >= _LOGGED_EVERY:
            more = f" (and {self._unlogged - 1} more)" if self._unlogged > 1 else ""
            _LOG.warning("pycomms.ft: refused a call from %s: %s%s", context.peer(), error, more)
            self._logged_at, self._unlogged = now, 0


def _metadata(context: Any) -> Iterable[tuple[str, str | bytes]]:
    return [(str(key), value) for key, value in context.invocation_metadata() or ()]


async def _abort(context: Any, code: grpc.StatusCode, details: str) -> NoReturn:
    """grpc ends the handler with an exception of its own."""
    await context.abort(code, details)
    raise AssertionError("abort() has returned")
