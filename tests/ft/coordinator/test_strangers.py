"""Whoever does not belong to the job, or talks nonsense, gets an answer that says why, and is in nobody's way."""

from __future__ import annotations

import asyncio
import resource
import socket
import time
from collections.abc import Callable
from datetime import timedelta

import pytest

from pycomms.ft.coordinator import calls
from pycomms.ft.coordinator.auth import proof
from pycomms.ft.coordinator.calls import ATTACH
from pycomms.ft.coordinator.service import Limits
from pycomms.ft.core.messages import Beat, Change, Died, Evict
from pycomms.ft.wire import Hello, Welcome, encode
from pycomms.ft.wire.framing import LIMIT

from ._jobs import TOKEN, Host, announce, coordinator, formed, member, run, within

NORTH = [member("north", number) for number in range(2)]
IDLE = 1000

Metadata = list[tuple[str, str | bytes]]


async def still_works(north: Host) -> None:
    await north.say(Died(member=NORTH[0], how="x"))
    await north.expect(Change)


@pytest.mark.parametrize(
    "metadata, expected",
    [
        (lambda: proof(bytes(32), ATTACH, "south", time.time()), "host 'south' has another token"),
        (lambda: proof(TOKEN, ATTACH, "south", time.time() - 70), "s old, expected up to 60 s"),
        (lambda: proof(TOKEN, ATTACH, "south", time.time() + 70), "s old, expected up to 60 s"),
        (lambda: proof(TOKEN, "/another/Method", "south", time.time()), "has another token"),
        (lambda: [("pycomms-host-bin", b"west"), *proof(TOKEN, ATTACH, "south", time.time())[1:]], "has another token"),
        (lambda: [("pycomms-host-bin", b"\xff"), *proof(TOKEN, ATTACH, "south", time.time())[1:]], "expected UTF-8"),
        (list, "the call has no pycomms-host-bin"),
    ],
    ids=["wrong", "old", "early", "other method", "other host", "no text", "absent"],
)
def test_who_proves_nothing_is_refused(metadata: Callable[[], Metadata], expected: str) -> None:
    async def test() -> None:
        async with coordinator(2) as it, Host(it.address) as north:
            await formed([north], NORTH)
            stranger = Host(it.address, "south", metadata=metadata())
            code, details = await stranger.ended()
            await stranger.close()
            assert code == "UNAUTHENTICATED"
            assert expected in details
            assert sum(it.snapshot().counts.denied.values()) == 1
            await still_works(north)

    run(test())


def test_a_proof_is_good_for_one_call() -> None:
    async def test() -> None:
        async with coordinator(2) as it, Host(it.address) as north:
            await formed([north], NORTH)
            metadata = proof(TOKEN, ATTACH, "south", time.time())
            async with Host(it.address, "south", metadata=metadata):
                pass
            thief = Host(it.address, "south", metadata=metadata)
            code, details = await thief.ended()
            await thief.close()
            assert (code, it.snapshot().counts.denied) == ("UNAUTHENTICATED", {"replayed": 1})
            assert "was used before" in details
            await still_works(north)

    run(test())


HELLO = Hello(host="south", instance="i")


@pytest.mark.parametrize(
    "first, then, expected",
    [
        (b"\xff\xff", b"", ("INVALID_ARGUMENT", "envelope is 'ffff', expected bytes of an Envelope")),
        (encode(Beat(host="south")), b"", ("INVALID_ARGUMENT", "message is 'Beat', expected a Hello")),
        (encode(Hello(host="west", instance="i")), b"", ("INVALID_ARGUMENT", "hello.host is 'west', expected south")),
        (encode(Hello(host="south", instance="i", version=2)), b"", ("FAILED_PRECONDITION", "speaks version 2")),
        (encode(HELLO), b"\x00", ("INVALID_ARGUMENT", "envelope is '00'")),
        (encode(HELLO), encode(Beat(host="north")), ("INVALID_ARGUMENT", "host is 'north', expected south")),
        (encode(HELLO), encode(announce(NORTH[0])), ("INVALID_ARGUMENT", "host is 'north', expected south")),
        (encode(HELLO), encode(Evict(member=NORTH[0], reason="")), ("INVALID_ARGUMENT", "message is 'Evict'")),
        (encode(HELLO), encode(Welcome(boot=1)), ("INVALID_ARGUMENT", "message is 'Welcome', expected an event")),
    ],
)
def test_nonsense_ends_its_own_stream(first: bytes, then: bytes, expected: tuple[str, str]) -> None:
    async def test() -> None:
        async with coordinator(2) as it, Host(it.address) as north:
            await formed([north], NORTH)
            stranger = Host(it.address, "south")
            await stranger.say_bytes(first)
            if then:
                await stranger.say_bytes(then)
            code, details = await stranger.ended()
            await stranger.close()
            assert code == expected[0]
            assert expected[1] in details
            assert it.snapshot().hosts == ("north",)
            await still_works(north)

    run(test())


def test_a_message_may_have_so_many_bytes_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test() -> None:
        async with coordinator(2) as it, Host(it.address) as north:
            await formed([north], NORTH)
            monkeypatch.setattr(calls, "options", lambda _: [("grpc.max_send_message_length", -1)])
            async with Host(it.address, "south") as stranger:
                await stranger.say_bytes(bytes(LIMIT + 1))
                code, details = await stranger.ended()
            assert code == "RESOURCE_EXHAUSTED"
            assert "larger than max" in details
            await still_works(north)

    run(test())


def test_who_says_nothing_is_not_waited_for() -> None:
    async def test() -> None:
        async with coordinator(2, limits=Limits(hello=timedelta(milliseconds=50))) as it:
            silent = Host(it.address, "south")
            code, details = await silent.ended()
            await silent.close()
            assert (code, details) == ("DEADLINE_EXCEEDED", "no Hello within 0:00:00.050000")

    run(test())


def test_a_name_belongs_to_one_process() -> None:
    async def test() -> None:
        async with coordinator(2) as it, Host(it.address) as north:
            await formed([north], NORTH)
            other = Host(it.address)
            await other.say(Hello(host="north", instance="another"))
            code, details = await other.ended()
            await other.close()
            assert code == "ALREADY_EXISTS"
            assert "does every host have its own name?" in details
            async with Host(it.address, instance=north.instance) as back:
                assert (await north.ended())[1] == "it has connected again"
                await still_works(back)

    run(test())


def test_no_more_hosts_than_there_may_be() -> None:
    async def test() -> None:
        async with coordinator(2, limits=Limits(hosts=1)) as it, Host(it.address) as north:
            other = Host(it.address, "south")
            await other.say(HELLO)
            assert await other.ended() == ("RESOURCE_EXHAUSTED", "1 hosts are attached, that is the most")
            await other.close()
            await formed([north], NORTH)
            await still_works(north)

    run(test())


def test_idle_connections_do_no_harm() -> None:
    """Half of them say nothing at all, half something that is no HTTP/2."""

    async def test() -> None:
        async with coordinator(2) as it, Host(it.address) as north:
            await formed([north], NORTH)
            host, _, port = it.address.rpartition(":")
            idle = []
            try:
                for number in range(IDLE):
                    connection = socket.create_connection((host, int(port)), timeout=30)
                    idle.append(connection)
                    if number % 2:
                        connection.sendall(b"GET / HTTP/1.1\r\n\r\n")
                    if number % 50 == 0:
                        await asyncio.sleep(0)
                async with Host(it.address, "south"):
                    await within(still_works(north))
            finally:
                for connection in idle:
                    connection.close()

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = 4 * IDLE
    if hard < wanted:
        pytest.skip(f"this process may open {hard} files, the test needs {wanted}")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, wanted), hard))
    try:
        run(test())
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
