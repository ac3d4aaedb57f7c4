"""The status page in a real browser: it shows the job, keeps up with it, says when it cannot; no complaint."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterator
from typing import Any

import pytest

from pycomms.ft.core.messages import Change, Died, MemberId
from tests.flight_recorder._browser import Page, browser, find

from ._jobs import DEADLINE_S, Host, coordinator, formed, run

PROGRAM = find()
pytestmark = pytest.mark.skipif(
    PROGRAM is None, reason="no chromium or chrome on this machine (Debian: apt install chromium)"
)
EVIL = "<img src=x onerror='window.owned=1'></script>\"'\u202e"
MEMBERS = [MemberId("north", f"{EVIL[:20]}{number}") for number in range(3)]
REFRESHES = "Number(document.body.dataset.refreshes ?? 0)"


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    with browser(str(PROGRAM), tmp_path_factory.mktemp("profile")) as opened:
        yield opened


def text(page: Page, selector: str) -> str:
    return str(page.evaluate(f"document.querySelector({json.dumps(selector)}).innerText"))


def await_true(page: Page, script: str) -> None:
    """Waits in the page itself, whose timers then decide how often it looks."""
    limit = int(DEADLINE_S * 1000)
    wait = (
        f"new Promise((done) => {{ const until = Date.now() + {limit}; const look = () => "
        f"({script}) ? done(true) : Date.now() > until ? done(false) : setTimeout(look, 20); look(); }})"
    )
    assert page.evaluate(wait), f"not within {DEADLINE_S} s: {script}"


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_the_page_shows_the_job_and_keeps_up(dark: bool, page: Page) -> None:
    async def test() -> None:
        async with coordinator(3, http=("127.0.0.1", 0)) as it, Host(it.address) as north:
            await formed([north], MEMBERS)
            await asyncio.to_thread(page.visit, it.http, width=1280, height=900, dark=dark)
            await asyncio.to_thread(await_true, page, f"{REFRESHES} > 0")
            assert await asyncio.to_thread(text, page, "h1") in ("The job is stable", "The job is forming")
            rows = "[...document.querySelectorAll('#members tbody tr')].map((row) => row.cells[0].textContent)"
            assert await asyncio.to_thread(page.evaluate, rows) == ["0", "1", "2"]
            await north.say(Died(member=MEMBERS[0], how=EVIL))
            await north.expect(Change)
            changed = "document.querySelector('h1').textContent === 'The job is changing'"
            await asyncio.to_thread(await_true, page, changed)
            assert await asyncio.to_thread(page.evaluate, rows) == ["1", "2"]
            incidents = await asyncio.to_thread(text, page, "#incidents")
            assert EVIL in incidents
            assert await asyncio.to_thread(page.evaluate, "typeof window.owned") == "undefined"
            assert await asyncio.to_thread(page.evaluate, "document.images.length") == 0
            assert page.problems == []
        stale = "!document.getElementById('stale').hidden"
        await asyncio.to_thread(await_true, page, stale)
        assert "does not answer" in await asyncio.to_thread(text, page, "#stale")

    page.problems.clear()
    begin = time.monotonic()
    run(test())
    assert time.monotonic() - begin < 4 * DEADLINE_S


def test_nothing_is_asked_of_anybody_else(page: Page) -> None:
    async def test() -> None:
        async with coordinator(3, http=("127.0.0.1", 0)) as it:
            await asyncio.to_thread(page.visit, it.http, width=400, height=800)
            await asyncio.to_thread(await_true, page, f"{REFRESHES} > 1")
            assert await asyncio.to_thread(text, page, "h1") == "The job is gathering"
            names = "performance.getEntriesByType('resource').map((one) => new URL(one.name).pathname)"
            asked: Any = await asyncio.to_thread(page.evaluate, names)
            assert set(asked) <= {"/status.json", ","}
            wider = "document.documentElement.scrollWidth > document.documentElement.clientWidth"
            assert await asyncio.to_thread(page.evaluate, wider) is False
            assert page.problems == []

    page.problems.clear()
    run(test())
