"""A worker without an agent speaks to the coordinator itself: the same promises, and a host of one member."""

from __future__ import annotations

import logging
import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any, TypeVar

import pytest

from pycomms._config import Membership as Told
from pycomms.ft.coordinator.auth import make_token
from pycomms.ft.coordinator.tls import Tls
from pycomms.ft.core.messages import Announce, Change, Form, Leaving, MemberId, Notice, Position, Ready, Settled
from pycomms.ft.core.timeouts import LONGEST, Timeouts, derive
from pycomms.ft.link import LinkClosed, LinkRefused, connect
from tests.ft.coordinator._certificates import needs_openssl, of_coordinator_and_host
from tests.ft.coordinator._process import serving

DEADLINE_S = 60.0
LONG = timedelta(seconds=DEADLINE_S)
TIMEOUTS = derive(timedelta(seconds=10))
T = TypeVar("T", bound=Notice)


def told(address: str, token: Path, tls: Tls | None) -> Told:
    ca, cert, key = (str(file or "") for file in (tls.ca, tls.cert, tls.key)) if tls else ("", "", "")
    return Told(coordinator=address, token_file=str(token), tls_ca=ca, tls_cert=cert, tls_key=key)


class Member:
    """One that announces itself, and again when it is asked to."""

    def __init__(
        self, address: str, token: Path, number: int, *, tls: Tls | None = None, timeouts: Timeouts = TIMEOUTS
    ) -> None:
        self.id = MemberId(f"host-{number}", f"nonce-{number}")
        self.slot = number
        self.form: Form | None = None
        self.announced = threading.Event()
        self.link = connect(told(address, token, tls), self.id, timeouts)
        self.link.on_reconnect(self.announcement)

    def announcement(self) -> Announce:
        form = self.form
        self.announced.set()
        return Announce(
            member=self.id,
            slot=self.slot,
            pid=1,
            handle=f"nccl2:1:{self.slot}:0:-1:a",
            position=Position(),
            epoch=form.epoch if form else None,
            seats=form.seats if form else (),
        )

    def hear(self, kind: type[T]) -> T:
        while True:
            notice = self.link.receive(LONG)
            assert notice is not None, f"no {kind.__name__} within {DEADLINE_S} s"
            if isinstance(notice, kind):
                return notice

    def ready(self) -> None:
        assert self.form is not None
        told = Ready(member=self.id, epoch=self.form.epoch, handle="h", position=Position())
        self.link.send(told)

    def settle(self) -> Form:
        self.form = self.hear(Form)
        self.link.send(Settled(member=self.id, epoch=self.form.epoch, seconds=0.0))
        return self.form


@contextmanager
def members(address: str, token: Path, count: int, tls: Tls | None = None) -> Iterator[list[Member]]:
    with ExitStack() as stack:
        made = []
        for number in range(count):
            member = Member(address, token, number, tls=tls)
            stack.callback(member.link.close)
            made.append(member)
        yield made


def formed(found: list[Member]) -> Form:
    for member in found:
        member.link.send(member.announcement())
    forms = [member.settle() for member in found]
    assert all(form == forms[0] for form in forms)
    return forms[0]


def test_members_form_epochs(tmp_path: Path) -> None:
    token = tmp_path / "token"
    with serving(token, "--max-ranks", "3") as (_, told), members(told["listening"], token, 3) as found:
        first = formed(found)
        found[2].link.send(Leaving(member=found[2].id, reason="told to"))
        found[2].link.close()
        for member in found[:2]:
            assert list(member.hear(Change).died) == [found[2].id]
            member.ready()
        second = [member.settle() for member in found[:2]]
        assert second[0] == second[1]
        assert [seat.member for seat in second[0].seats] == [found[0].id, found[1].id]
        assert second[0].epoch > first.epoch


def test_the_longest_deadline_is_one_that_a_connection_can_hold(tmp_path: Path) -> None:
    token, seconds = tmp_path / "token", str(LONGEST.total_seconds())
    with (
        serving(token, "--max-ranks", "1", "--recovery-deadline", seconds) as (_, told),
        closing(Member(told["listening"], token, 0, timeouts=derive(LONGEST)).link) as link,
    ):
        link.send(Announce(member=MemberId("host-0", "nonce-0"), slot=0, pid=1, handle="h", position=Position()))
        assert isinstance(link.receive(LONG), Form)


def test_the_coordinator_dies_and_comes_back(tmp_path: Path) -> None:
    token = tmp_path / "token"
    with ExitStack() as stack:
        with serving(token, "--max-ranks", "3") as (process, told):
            address = told["listening"]
            found = stack.enter_context(members(address, token, 3))
            first = formed(found)
            process.kill()
            process.wait(DEADLINE_S)
        found[0].ready()  # there is nobody to hear it
        with serving(token, "--max-ranks", "3", listen=address):
            for member in found[1:]:
                assert member.hear(Change).epoch == first.epoch
                member.ready()
            second = [member.settle() for member in found]
            assert second[1:] == [second[0], second[0]]
            assert (second[0].previous, len(second[0].seats)) == (first.epoch, 3)


def test_a_wrong_token_is_said_and_not_tried_again(tmp_path: Path) -> None:
    token, other = tmp_path / "token", tmp_path / "other"
    make_token(other)
    with serving(token) as (_, told), members(told["listening"], other, 1) as (member,):
        for call in (lambda: member.link.receive(LONG), lambda: member.link.send(member.announcement())):
            with pytest.raises(LinkRefused, match="UNAUTHENTICATED: host 'host-0' has another token"):
                expect_none(call)


def expect_none(call: Callable[[], object]) -> None:
    assert call() is None


def test_a_child_has_no_link(tmp_path: Path) -> None:
    token = tmp_path / "token"
    with serving(token, "--max-ranks", "2") as (_, told), members(told["listening"], token, 2) as found:
        formed(found)
        child = os.fork()
        if child == 0:
            outcome = 1
            try:
                found[0].link.receive(LONG)
            except LinkClosed as error:
                outcome = 0 if "was forked off" in str(error) else 2
            found[0].link.close()
            os._exit(outcome)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        found[0].ready()
        assert found[1].hear(Change).broken


def test_closed_in_time_with_nobody_there(tmp_path: Path) -> None:
    token = tmp_path / "token"
    make_token(token)
    with members("127.0.0.1:1", token, 1) as (member,):
        assert member.link.receive(timedelta(0)) is None
        member.link.close()
        with pytest.raises(LinkClosed):
            member.link.receive(LONG)
    assert "pycomms-link" not in {thread.name for thread in threading.enumerate()}


@contextmanager
def noticed(words: str) -> Iterator[threading.Event]:
    """Set when the link logs these words."""
    found = threading.Event()

    class Handler(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            if words in record.getMessage():
                found.set()

    log, handler = logging.getLogger("pycomms.ft"), Handler()
    level = log.level
    log.addHandler(handler)
    log.setLevel(logging.DEBUG)
    try:
        yield found
    finally:
        log.setLevel(level)
        log.removeHandler(handler)


def test_a_frozen_coordinator_is_left_and_found_again(tmp_path: Path) -> None:
    token = tmp_path / "token"
    fast = replace(TIMEOUTS, host_silence=timedelta(seconds=0.4), beat=timedelta(seconds=0.1))
    with serving(token, "--max-ranks", "1") as (process, told):
        member = Member(told["listening"], token, 0, timeouts=fast)
        try:
            formed([member])
            member.announced.clear()
            with noticed("connection lost") as lost:
                process.send_signal(signal.SIGSTOP)
                assert lost.wait(DEADLINE_S)
            process.send_signal(signal.SIGCONT)
            assert member.announced.wait(DEADLINE_S)
        finally:
            member.link.close()


@needs_openssl
def test_tls(tmp_path: Path) -> None:
    token = tmp_path / "token"
    mine, theirs = of_coordinator_and_host(tmp_path)
    options = ("--tls-cert", str(mine.cert), "--tls-key", str(mine.key), "--tls-ca", str(mine.ca), "--max-ranks", "2")
    with serving(token, *options) as (_, told), members(told["listening"], token, 2, theirs) as found:
        formed(found)


@needs_openssl
def test_what_is_missing_for_tls_is_named(tmp_path: Path) -> None:
    token = tmp_path / "token"
    mine, theirs = of_coordinator_and_host(tmp_path)
    other = tmp_path / "other"
    other.mkdir()
    stranger, _ = of_coordinator_and_host(other)
    options = ("--tls-cert", str(mine.cert), "--tls-key", str(mine.key), "--tls-ca", str(mine.ca))
    cases = [
        (None, "speaks TLS, and no authority to believe it was given"),
        (Tls(ca=theirs.ca), "speaks TLS, and wants a certificate that its authority has signed"),
        (Tls(ca=stranger.ca), "does not prove who it is: "),
        (Tls(ca=theirs.ca, cert=theirs.cert, key=stranger.key), "cannot be used"),
    ]
    with serving(token, *options) as (_, told):
        for tls, words in cases:
            with members(told["listening"], token, 1, tls) as (member,), pytest.raises(LinkRefused, match=words):
                member.link.receive(LONG)
    with (
        serving(token) as (_, told),
        members(told["listening"], token, 1, theirs) as (member,),
        pytest.raises(LinkRefused, match=r"does not speak TLS .*PYCOMMS_TLS_CA"),
    ):
        member.link.receive(LONG)


@pytest.mark.parametrize(
    "files, words",
    [
        ({"tls_cert": "c"}, "PYCOMMS_TLS_CERT is 'c' and PYCOMMS_TLS_KEY is missing"),
        ({"tls_key": "k"}, "PYCOMMS_TLS_KEY is 'k' and PYCOMMS_TLS_CERT is missing"),
        ({"tls_ca": "/nowhere"}, "PYCOMMS_TLS_CA is '/nowhere': No such file"),
    ],
)
def test_files_of_tls_that_are_not_there(tmp_path: Path, files: dict[str, Any], words: str) -> None:
    make_token(tmp_path / "token")
    where = Told(coordinator="127.0.0.1:1", token_file=str(tmp_path / "token"), **files)
    with pytest.raises(ValueError, match=words):
        connect(where, MemberId("h", "n"), TIMEOUTS)
