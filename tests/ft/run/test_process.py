"""A child of the agent, and what the kernel tells of it."""

from __future__ import annotations

import asyncio
import os
import select
import signal
import sys

import pytest

from pycomms.ft.run.process import Ending, Process

pytestmark = pytest.mark.skipif(
    tuple(map(int, os.uname().release.split(".")[:2])) < (5, 17),
    reason="the kernel tells how a process ends at the end",
)


def start(text: str) -> Process:
    return Process([sys.executable, "-c", text], os.environ)


def wait_for_end(process: Process) -> None:
    """Leaves it as it is: the agent has not collected it yet."""
    descriptor = os.pidfd_open(process.pid)
    try:
        assert select.select([descriptor], [], [], 60.0)[0]
    finally:
        os.close(descriptor)


def collect(process: Process) -> Ending:
    async def ended() -> Ending:
        found: asyncio.Future[Ending] = asyncio.get_running_loop().create_future()
        process.watch(found.set_result)
        process.kill()
        return await asyncio.wait_for(found, 60.0)

    return asyncio.run(ended())


def test_the_fate_of_a_process_is_known_as_soon_as_it_is_killed() -> None:
    process = start("import signal; memory = bytearray(1 << 28); signal.pause()")
    assert process.fate() is None
    process.send(signal.SIGSTOP)
    assert os.WIFSTOPPED(os.waitpid(process.pid, os.WUNTRACED)[1])
    assert process.fate() is None, "it may go on"
    process.kill()
    assert process.fate() == Ending(code=137, signal=9)
    assert collect(process) == process.fate() == Ending(code=137, signal=9)


@pytest.mark.parametrize(("text", "ending"), [("raise SystemExit(3)", Ending(code=3)), ("", None)])
def test_the_fate_of_a_process_that_has_ended_by_itself(text: str, ending: Ending | None) -> None:
    process = start(text)
    wait_for_end(process)
    assert process.fate() == ending
    collect(process)


def test_a_process_that_has_ended_is_not_stopped() -> None:
    process = start("")
    wait_for_end(process)
    assert not process.was_stopped(), "before it is collected"
    collect(process)
    assert not process.was_stopped()


def test_a_signal_that_comes_too_late_leaves_the_ending_as_it_is() -> None:
    process = start("raise SystemExit(3)")
    wait_for_end(process)
    process.send(signal.SIGTERM)
    assert collect(process) == Ending(code=3)
