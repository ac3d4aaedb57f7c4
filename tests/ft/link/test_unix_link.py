"""A worker's link to its agent: what is said arrives, also when the connection does not last."""

from __future__ import annotations

import os
import queue
import secrets
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from pycomms._config import Membership as Told
from pycomms.ft.core.messages import (
    Announce,
    Change,
    EpochId,
    Leaving,
    Notice,
    Position,
    Progress,
    Refused,
    Settled,
    Verdict,
)
from pycomms.ft.core.timeouts import derive
from pycomms.ft.link import Link, LinkClosed, connect
from pycomms.ft.wire import AnnounceAgain, SendWhole, Welcome, delta, frame

from ._agent import DEADLINE_S, ME, Agent, form, ready

TIMEOUTS = derive(timedelta(seconds=10))
LONG = timedelta(seconds=DEADLINE_S)
ANNOUNCE = Announce(member=ME, slot=0, pid=1, handle="h", position=Position())
SEATED = replace(ANNOUNCE, epoch=EpochId(9, 1), seats=form(1).seats)
CHANGE = Change(epoch=EpochId(9, 1), reason="somebody comes")


@pytest.fixture
def address() -> str:
    return f"@pycomms-test-{os.getpid()}-{secrets.token_hex(4)}"


@pytest.fixture
def agent(address: str) -> Iterator[Agent]:
    with Agent(address) as agent:
        yield agent


@pytest.fixture
def link(address: str) -> Iterator[Link]:
    link = connect(Told(agent=address), ME, TIMEOUTS)
    yield link
    link.close()


def test_both_ways(agent: Agent, link: Link) -> None:
    hello = agent.accept()
    assert (hello.host, hello.nonce) == ME
    link.send(ANNOUNCE)
    assert agent.hear() == ANNOUNCE
    agent.say(form(1))
    assert link.receive(LONG) == form(1)
    assert link.receive(timedelta(0)) is None


def test_what_is_said_before_there_is_an_agent_is_not_lost(address: str, link: Link) -> None:
    link.send(ANNOUNCE)
    link.send(Progress(member=ME, committed=1, steps_per_second=1))
    link.send(Progress(member=ME, committed=2, steps_per_second=1))
    with Agent(address) as agent:
        agent.accept()
        assert agent.hear() == ANNOUNCE
        assert agent.hear() == Progress(member=ME, committed=2, steps_per_second=1)


def test_a_path_is_an_address_too(tmp_path_factory: pytest.TempPathFactory) -> None:
    address = str(tmp_path_factory.mktemp("agent") / "socket")
    with Agent(address) as agent:
        link = connect(Told(agent=address), ME, TIMEOUTS)
        assert agent.accept().nonce == ME.nonce
        link.close()
        assert agent.is_left()


def test_notices_go_to_a_callback(agent: Agent, link: Link) -> None:
    heard: queue.SimpleQueue[tuple[Notice, str]] = queue.SimpleQueue()
    link.on_notice(lambda notice: heard.put((notice, threading.current_thread().name)))
    agent.accept()
    agent.say(CHANGE)
    assert heard.get(timeout=DEADLINE_S) == (CHANGE, "pycomms-link")


def test_it_connects_again_and_repeats_what_matters(agent: Agent, link: Link) -> None:
    agent.accept()
    link.on_reconnect(lambda: SEATED)
    link.send(ANNOUNCE)
    link.send(ready(1))
    assert [agent.hear(), agent.hear()] == [ANNOUNCE, ready(1)]
    agent.accept()  # drops the first
    assert [agent.hear(), agent.hear()] == [replace(SEATED, seats=()), ready(1)]
    agent.say(form(2))
    assert link.receive(LONG) == form(2)
    agent.accept()
    link.send(Leaving(member=ME, reason="done"))
    assert [agent.hear(), agent.hear()] == [replace(SEATED, seats=()), Leaving(member=ME, reason="done")]


def test_who_has_not_announced_himself_is_not_announced(agent: Agent, link: Link) -> None:
    link.on_reconnect(lambda: SEATED)
    agent.accept()
    agent.accept()
    link.send(ANNOUNCE)
    assert agent.hear() == ANNOUNCE


def test_it_announces_again_when_it_is_asked_to(agent: Agent, link: Link) -> None:
    agent.accept()
    link.on_reconnect(lambda: SEATED)
    link.send(ANNOUNCE)
    settled = Settled(member=ME, epoch=EpochId(9, 1), seconds=0.1)
    link.send(settled)
    assert [agent.hear(), agent.hear()] == [ANNOUNCE, settled]
    agent.say(AnnounceAgain())
    assert [agent.hear(), agent.hear()] == [replace(SEATED, seats=()), settled]
    agent.say(AnnounceAgain(with_seats=True))
    assert [agent.hear(), agent.hear()] == [SEATED, settled]


def test_a_difference_becomes_a_form_or_is_asked_for(agent: Agent, link: Link) -> None:
    agent.accept()
    first, second = form(1), form(2, members=4, before=1)
    difference = delta(first, second)
    assert difference is not None
    agent.say(difference)  # it does not know the first
    assert agent.hear() == SendWhole(member=ME, epoch=second.epoch)
    agent.say(first)
    agent.say(difference)
    assert [link.receive(LONG), link.receive(LONG)] == [first, second]


@pytest.mark.parametrize(
    "nonsense", [bytes(4), b"\xff\xff\xff\xff", frame(b"\x00" * 20), frame(b"\xff")], ids=["0", "huge", "zeros", "ff"]
)
def test_nonsense_ends_the_connection_and_nothing_else(nonsense: bytes, agent: Agent, link: Link) -> None:
    agent.accept()
    agent.say(CHANGE)
    agent.say_bytes(nonsense)
    assert agent.is_left()
    agent.accept()
    agent.say(CHANGE)
    assert [link.receive(LONG), link.receive(LONG)] == [CHANGE, CHANGE]


def test_a_welcome_is_no_notice(agent: Agent, link: Link) -> None:
    agent.accept()
    agent.say(Welcome(boot=3))
    agent.say(Refused(member=ME, verdict=Verdict.FULL, reason="r"))
    assert link.receive(LONG) == Refused(member=ME, verdict=Verdict.FULL, reason="r")


def test_closed_is_closed(agent: Agent, link: Link) -> None:
    agent.accept()
    link.send(Leaving(member=ME, reason="done"))
    receiver = threading.Thread(target=_receive_until_closed, args=(link,))
    receiver.start()
    link.close()
    link.close()
    receiver.join(DEADLINE_S)
    assert not receiver.is_alive()
    assert agent.hear() == Leaving(member=ME, reason="done")
    assert agent.is_left()
    with pytest.raises(LinkClosed, match="the link of north/a1 is closed"):
        link.send(ANNOUNCE)
    with pytest.raises(LinkClosed, match="the link of north/a1 is closed"):
        link.receive(LONG)
    assert "pycomms-link" not in {thread.name for thread in threading.enumerate()}


def test_no_descriptor_stays_open(address: str) -> None:
    with Agent(address) as agent:
        before = set(Path("/proc/self/fd").iterdir())
        for _ in range(3):
            link = connect(Told(agent=address), ME, TIMEOUTS)
            agent.accept()
            agent.accept()
            link.close()
            agent.drop()
        assert set(Path("/proc/self/fd").iterdir()) == before


def test_a_child_has_no_link(agent: Agent, link: Link) -> None:
    agent.accept()
    link.send(ANNOUNCE)
    assert agent.hear() == ANNOUNCE
    child = os.fork()
    if child == 0:
        outcome = 1
        try:
            link.send(ANNOUNCE)
        except LinkClosed as error:
            outcome = 0 if "was forked off" in str(error) else 2
        link.close()
        os._exit(outcome)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    agent.say(CHANGE)
    assert link.receive(LONG) == CHANGE


def test_an_agent_that_does_not_read_does_not_hold_the_worker(address: str) -> None:
    timeouts = derive(timedelta(seconds=0.8))  # host_silence: 0.2 s
    with Agent(address) as agent:
        link = connect(Told(agent=address), ME, timeouts)
        agent.accept()
        begin = time.monotonic()
        for _ in range(2000):
            link.send(replace(ready(1), reason="x" * 2000))
        assert time.monotonic() - begin < DEADLINE_S / 2
        link.close()


def test_nowhere_to_connect_to() -> None:
    with pytest.raises(ValueError, match="neither PYCOMMS_AGENT nor PYCOMMS_COORDINATOR is set"):
        connect(Told(), ME, TIMEOUTS)
    with pytest.raises(ValueError, match="PYCOMMS_JOB_TOKEN_FILE is not set"):
        connect(Told(coordinator="127.0.0.1:1"), ME, TIMEOUTS)


def _receive_until_closed(link: Link) -> None:
    with pytest.raises(LinkClosed):
        link.receive(LONG)
