"""The agent's connection to the coordinator."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import grpc

from pycomms.ft.core.timeouts import derive
from pycomms.ft.run.upstream import Upstream


class Ended:
    """A call whose other end has died: grpc says so in this way until it is read from."""

    def __init__(self) -> None:
        self.written = 0

    async def write(self, envelope: bytes) -> None:
        self.written += 1
        raise asyncio.InvalidStateError("RPC already finished.")


def test_what_is_said_into_a_call_that_has_ended_is_lost_without_a_word() -> None:
    async def talk() -> int:
        upstream = Upstream(
            "host",
            ["127.0.0.1:1"],
            b"",
            derive(timedelta(seconds=10)),
            up=lambda: None,
            heard=lambda data, envelope: None,
            missing=lambda seconds: None,
            complain=lambda text: None,
        )
        call = Ended()
        upstream.connected = True
        upstream.send(b"news")
        await asyncio.wait_for(upstream._talk(call, grpc.RpcError), 60.0)
        return call.written

    assert asyncio.run(talk()) == 1
