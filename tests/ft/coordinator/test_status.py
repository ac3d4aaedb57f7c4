"""What a coordinator shows: the page's data, metrics that Prometheus can read, and a pulse."""

from __future__ import annotations

import asyncio
import json
import re
import socket
import threading
import time
import urllib.request
from collections.abc import Callable
from typing import Any
from urllib.error import HTTPError

import pytest

from pycomms.ft.core.messages import Change, Died, Form, Progress

from ._jobs import DEADLINE_S, Host, announce, coordinator, formed, member, run

NORTH = [member("north", number) for number in range(2)]
HTTP = ("127.0.0.1", 0)


def get(url: str) -> tuple[str, str]:
    """Content type and text."""
    with urllib.request.urlopen(url, timeout=DEADLINE_S) as answer:
        return answer.headers["Content-Type"], answer.read().decode()


async def fetched(url: str) -> tuple[str, str]:
    return await asyncio.to_thread(get, url)


def watched(check: Callable[[str, Any], Any]) -> None:
    """Calls the check, a coroutine function, with the address of the page of a job that has lost one of two members."""

    async def test() -> None:
        async with coordinator(2, http=HTTP) as it, Host(it.address) as north:
            await formed([north], NORTH)
            await north.say(Progress(member=NORTH[1], committed=7, steps_per_second=2.5))
            await north.say(Died(member=NORTH[0], how="signal 9 (SIGKILL)"))
            await north.expect(Change)
            await check(it.http, it)

    run(test())


def test_the_data_of_the_page() -> None:
    async def check(http: str, it: Any) -> None:
        kind, text = await fetched(f"{http}/status.json")
        assert kind == "application/json"
        told = json.loads(text)
        assert (told["phase"], told["generation"], told["hosts"], told["address"]) == (
            "changing", 1, ["north"], it.address,
        )  # fmt: skip
        (left,) = told["members"]
        assert (left["nonce"], left["rank"], left["committed"], left["steps_per_second"]) == ("north-1", 1, 7, 2.5)
        assert [one["kind"] for one in told["incidents"]] == ["change", "death", "form"]
        death = told["incidents"][1]
        assert (death["who"], death["reason"], death["epoch"]) == ("north/north-0", "signal 9 (SIGKILL)", told["epoch"])
        assert abs(death["time"] - told["time"]) < DEADLINE_S
        assert told["decisions"][0]["phase"] == "changing"
        assert told["steps_per_second"] == 2.5

    watched(check)


def test_the_page_tells_the_min_ranks_that_counts() -> None:
    async def check() -> None:
        async with coordinator(2, http=HTTP) as it, Host(it.address) as north:
            await north.say(announce(NORTH[0], 0, min_ranks=2))
            await north.say(announce(NORTH[1], 1))
            await north.expect(Form)
            assert json.loads((await fetched(f"{it.http}/status.json"))[1])["min_ranks"] == 2

    run(check())


def test_a_clock_that_is_set_back_does_not_stop_the_page(monkeypatch: pytest.MonkeyPatch) -> None:
    async def check(http: str, _: Any) -> None:
        before = json.loads((await fetched(f"{http}/status.json"))[1])["time"]
        true_time = time.time
        monkeypatch.setattr(time, "time", lambda: true_time() - 3600)
        until = time.monotonic() + DEADLINE_S
        while json.loads((await fetched(f"{http}/status.json"))[1])["time"] >= before:
            assert time.monotonic() < until

    watched(check)


SAMPLE = re.compile(r'^([a-z_]+)(?:\{([a-z]+)="([^"\\\n]*)"\})? ([0-9.e+-]+|\+Inf)$')


def parsed(text: str) -> dict[tuple[str, str], float]:
    """Name and value of the label → value; every sample has its family's HELP and TYPE before it."""
    kinds: dict[str, str] = {}
    samples: dict[tuple[str, str], float] = {}
    assert text.endswith("\n")
    for line in text.splitlines():
        if line.startswith("# HELP "):
            assert line.split(" ", 3)[3]
        elif line.startswith("# TYPE "):
            _, _, name, kind = line.split(" ")
            assert name not in kinds
            kinds[name] = kind
        else:
            found = SAMPLE.match(line)
            assert found, line
            name, _, value, number = found.groups()
            family = re.sub(r"_(bucket|sum|count)$", "", name) if name not in kinds else name
            assert kinds[family] in ("gauge", "counter", "histogram")
            assert (name, value or "") not in samples, line
            samples[name, value or ""] = float(number)
    return samples


def test_metrics() -> None:
    async def check(http: str, _: Any) -> None:
        kind, text = await fetched(f"{http}/metrics")
        assert kind == "text/plain; version=0.0.4; charset=utf-8"
        told = parsed(text)
        prefix = "pycomms_coordinator"
        expected = {
            ("hosts", ""): 1, ("world_size", ""): 1, ("phase", "changing"): 1, ("phase", "stable"): 0,
            ("members", "training"): 1, ("deaths_total", ""): 1, ("forms_total", ""): 1, ("epoch_counter", ""): 1,
            ("committed_step", ""): 7, ("steps_per_second", ""): 2.5, ("messages_received_total", "Announce"): 2,
            ("recovery_seconds_bucket", "0.05"): 0, ("recovery_seconds_bucket", "0.1"): 2,
            ("recovery_seconds_bucket", "+Inf"): 2, ("recovery_seconds_count", ""): 2,
        }  # fmt: skip
        assert {(name, label): told[f"{prefix}_{name}", label] for name, label in expected} == expected

    watched(check)


def test_every_metric_is_documented() -> None:
    from tests.ft.coordinator._process import ROOT

    async def check(http: str, _: Any) -> None:
        _, text = await fetched(f"{http}/metrics")
        page = (ROOT / "docs" / "ft_coordinator.md").read_text()
        names = re.findall(r"^# TYPE pycomms_coordinator_(\S+)", text, re.MULTILINE)
        assert [name for name in names if f"`{name}`" not in page] == []

    watched(check)


def test_there_is_nothing_else_and_nothing_to_write() -> None:
    async def check(http: str, _: Any) -> None:
        assert await fetched(f"{http}/healthz") == ("text/plain; charset=utf-8", "ok\n")
        for path, method, code in (("/etc/passwd", "GET", 404), ("/", "POST", 405), ("/status.json", "DELETE", 405)):
            request = urllib.request.Request(http + path, method=method)
            with pytest.raises(HTTPError) as raised:
                await asyncio.to_thread(urllib.request.urlopen, request, timeout=DEADLINE_S)
            assert raised.value.code == code
            raised.value.close()

    watched(check)


@pytest.mark.parametrize(
    "nonsense", [b"\r\n\r\n", b"\x00" * 20000, b"GET\r\n\r\n", b"GET " + b"/" * 9000 + b"\r\n\r\n"]
)
def test_nonsense_gets_no_further(nonsense: bytes) -> None:
    async def check(http: str, _: Any) -> None:
        host, _, port = http.removeprefix("http://").rpartition(":")

        def talk() -> bytes:
            with socket.create_connection((host, int(port)), timeout=DEADLINE_S) as connection:
                connection.sendall(nonsense)
                try:
                    return connection.recv(1000)
                except ConnectionResetError:
                    return b""

        assert (await asyncio.to_thread(talk))[:12] in (b"", b"HTTP/1.1 405", b"HTTP/1.1 404")
        assert (await fetched(f"{http}/healthz"))[1] == "ok\n"

    watched(check)


def test_a_coordinator_that_hangs_is_not_healthy() -> None:
    async def check(http: str, _: Any) -> None:
        answers: list[int] = []

        def ask() -> None:
            try:
                get(f"{http}/healthz")
                answers.append(200)
            except HTTPError as error:
                answers.append(error.code)
                error.close()

        asking = threading.Thread(target=ask)
        asking.start()
        asking.join(DEADLINE_S)  # this thread is the coordinator's
        assert answers == [503]

    watched(check)
