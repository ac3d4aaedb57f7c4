"""A coordinator in this process, and hosts that speak to it as agents do. Every wait has a deadline."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import AsyncIterator, Awaitable, Coroutine
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Any, TypeVar

import grpc.aio

from pycomms.ft.coordinator import calls
from pycomms.ft.coordinator.auth import proof
from pycomms.ft.coordinator.server import Coordinator, Settings
from pycomms.ft.coordinator.tls import Tls
from pycomms.ft.core.messages import Announce, EpochId, Form, MemberId, Notice, Position, Ready, Settled, Standing
from pycomms.ft.core.rule import Rule
from pycomms.ft.core.timeouts import Timeouts, derive
from pycomms.ft.wire import Envelope, FormDelta, Hello, Message, Welcome, decode, encode, whole

if TYPE_CHECKING:
    from typing_extensions import Self

DEADLINE_S = 30.0
TOKEN = bytes(range(32))
TIMEOUTS = derive(timedelta(seconds=10))
T = TypeVar("T")


def run(test: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(test, 4 * DEADLINE_S))


async def within(awaited: Awaitable[T]) -> T:
    return await asyncio.wait_for(awaited, DEADLINE_S)


def rule(members: int, timeouts: Timeouts = TIMEOUTS) -> Rule:
    return Rule(min_ranks=1, max_ranks=members, expected=members, timeouts=timeouts)


def settings(members: int, **others: Any) -> Settings:
    return Settings(**{"listen": "127.0.0.1:0", "token": TOKEN, "rule": rule(members), **others})


@asynccontextmanager
async def coordinator(members: int, **others: Any) -> AsyncIterator[Coordinator]:
    async with Coordinator(settings(members, **others)) as it:
        yield it


class Host:
    """One connection. metadata: in place of a proof of its own."""

    def __init__(
        self,
        address: str,
        name: str = "north",
        *,
        token: bytes = TOKEN,
        instance: str | None = None,
        heard: int = 0,
        metadata: list[tuple[str, str | bytes]] | None = None,
        tls: Tls | None = None,
    ) -> None:
        self.name = name
        self.instance = instance or secrets.token_hex(4)
        self.boot = 0
        self._heard = heard
        self._channel = calls.channel(grpc.aio, address, TIMEOUTS, tls)
        proved = proof(token, calls.ATTACH, name, time.time()) if metadata is None else metadata
        self.call = calls.attach(self._channel)(metadata=proved)
        self._forms: dict[str, Form] = {}

    async def __aenter__(self) -> Self:
        await self.say(Hello(host=self.name, instance=self.instance, heard=self._heard))
        welcome = (await self.read()).message
        assert isinstance(welcome, Welcome)
        self.boot = welcome.boot
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        self.call.cancel()
        await within(self._channel.close())

    async def say(self, message: Message) -> None:
        await self.say_bytes(encode(message))

    async def say_bytes(self, data: bytes) -> None:
        await within(self.call.write(data))

    async def read(self) -> Envelope:
        data = await within(self.call.read())
        assert isinstance(data, bytes), "the coordinator has ended the stream"
        return decode(data)

    async def hear(self) -> tuple[Notice, tuple[str, ...]]:
        """The next notice, and for which members it is."""
        envelope = await self.read()
        message = envelope.message
        if isinstance(message, FormDelta):
            found = whole(self._forms[envelope.to[0]], message)
            assert found is not None
            message = found
        assert isinstance(message, Notice)
        if isinstance(message, Form):
            self._forms.update(dict.fromkeys(envelope.to, message))
        return message, envelope.to

    async def expect(self, kind: type[T]) -> T:
        """The next notice of that kind."""
        while True:
            notice, _ = await self.hear()
            if isinstance(notice, kind):
                return notice

    async def ended(self) -> tuple[str, str]:
        """Code and details with which the coordinator ends the stream."""
        try:
            while isinstance(await within(self.call.read()), bytes):
                pass
        except grpc.aio.AioRpcError:
            pass
        return (await within(self.call.code())).name, str(await within(self.call.details()))


def member(host: str, number: int) -> MemberId:
    return MemberId(host, f"{host}-{number}")


def announce(who: MemberId, slot: int | None = None, **others: Any) -> Announce:
    given = {"member": who, "slot": slot, "pid": 1, "handle": f"nccl2:1:{who.nonce}:0:-1:a", "position": Position()}
    return Announce(**{**given, **others})


def settled(who: MemberId, epoch: EpochId) -> Settled:
    return Settled(member=who, epoch=epoch, seconds=0.1)


def ready(who: MemberId, form: Form, *suspects: MemberId) -> Ready:
    rank = next(rank for rank, seat in enumerate(form.seats) if seat.member == who)
    return Ready(
        member=who,
        epoch=form.epoch,
        handle=f"nccl2:1:{who.nonce}:{rank}:{form.epoch.uuid}:a",
        position=Position(committed=5, standing=Standing.LOADED),
        suspects=suspects,
    )


async def formed(hosts: list[Host], members: list[MemberId]) -> Form:
    """The first epoch: all announce themselves, each in the slot of its place in the list, and settle."""
    by_name = {host.name: host for host in hosts}
    for slot, who in enumerate(members):
        await by_name[who.host].say(announce(who, slot))
    forms = [await host.expect(Form) for host in hosts]
    assert all(form == forms[0] for form in forms)
    for who in members:
        await by_name[who.host].say(settled(who, forms[0].epoch))
    return forms[0]
