"""A coordinator that meets a host which was with a later one ends, and comes back as the latest."""

from __future__ import annotations

from pathlib import Path

from pycomms.ft.coordinator.auth import read_token
from pycomms.ft.wire import Hello

from ._jobs import DEADLINE_S, Host, run
from ._process import serving


def test_it_ends_and_begins_again_behind_the_later_one(tmp_path: Path) -> None:
    token, later = tmp_path / "token", []
    options = ("--state-dir", str(tmp_path / "state"))

    async def greet(address: str, heard: int) -> int:
        async with Host(address, token=read_token(token), heard=heard) as host:
            return host.boot

    async def contradict(address: str) -> None:
        boot = await greet(address, 0)
        assert await greet(address, boot - 1) == boot
        later.append(boot + 1000)
        host = Host(address, token=read_token(token))
        await host.say(Hello(host="north", instance="i", heard=later[0]))
        code, words = await host.ended()
        await host.close()
        assert code == "UNAVAILABLE"
        assert f"was with the later coordinator {later[0]}" in words

    async def look(address: str) -> None:
        assert await greet(address, later[0]) > later[0]

    with serving(token, *options) as (process, told):
        run(contradict(told["listening"]))
        assert process.wait(DEADLINE_S) == 7
    with serving(token, *options) as (_, told):
        run(look(told["listening"]))
