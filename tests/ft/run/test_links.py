"""The agent between its workers and the coordinator: who is heard and who is not, while the coordinator changes."""

from __future__ import annotations

import os
import signal
from contextlib import ExitStack
from pathlib import Path

from pycomms.ft.coordinator.auth import make_token
from pycomms.ft.core.messages import (
    Announce,
    Beat,
    Died,
    Leaving,
    Settled,
)

from ._fake_coordinator import FakeCoordinator
from ._running import Running
from ._trainers import TRAIN, end_all, nonce_of, options, pid_of


def test_a_coordinator_that_goes_and_comes_back_harms_nobody(tmp_path: Path, token: Path) -> None:
    again = "member.hear(AnnounceAgain); member.announce(EPOCH); member.hear(Change)"
    script = TRAIN.replace("member.hear(Change)", again)
    script = script.replace("import Change", "import Change\n    from pycomms.ft.wire import AnnounceAgain")
    with ExitStack() as stack:
        with FakeCoordinator(token) as first:
            job = stack.enter_context(Running(tmp_path, script, *options(first, token, "--nproc-per-node=2")))
            first.wait(Settled, 2)
            pids = {one.pid for one in first.wait(Announce, 2)}
        second = stack.enter_context(FakeCoordinator(token, first.port))
        announced = second.wait(Announce, 2)
        assert {one.pid for one in announced} == pids
        assert all(one.epoch is not None for one in announced)
        end_all(second, 2)
        assert job.end() == 0


def test_another_coordinator_hears_of_the_deaths_too(tmp_path: Path, token: Path) -> None:
    """The one before was told of them, and may have ended before it did anything about them."""
    script = TRAIN.replace(
        "member.hear(Change)", "member.hear(AnnounceAgain); member.announce(EPOCH); member.hear(Change)"
    )
    script = script.replace("import Change", "import Change\n    from pycomms.ft.wire import AnnounceAgain")
    with ExitStack() as stack:
        with FakeCoordinator(token) as first:
            job = stack.enter_context(Running(tmp_path, script, *options(first, token, "--nproc-per-node=2")))
            first.wait(Settled, 2)
            os.kill(pid_of(job, 1, 0), signal.SIGKILL)
            (died,) = first.wait(Died)
            first.wait(Settled, 3)
        second = stack.enter_context(FakeCoordinator(token, first.port))
        assert second.wait(Died) == [died]
        assert died.member not in {one.member for one in second.wait(Announce, 2)}
        end_all(second, 2)
        assert job.end() == 0


def test_who_leaves_while_there_is_no_coordinator_is_heard_by_the_next(tmp_path: Path, token: Path) -> None:
    """Its process may live on for long, as when an exception ends an interpreter that has much to clean up."""
    script = """
        import os, signal
        from tests.ft.run.member import *
        from pycomms.ft.core.messages import Change
        from pycomms.ft.wire import AnnounceAgain
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])
        member = Member()
        member.announce()
        member.settle()
        print("rank", SLOT, "start", INCARNATION, "pid", os.getpid(), flush=True)
        if SLOT == 0:
            signal.sigwait([signal.SIGUSR1])
            member.leave()
            print("has left", flush=True)
            signal.sigwait([signal.SIGUSR1])
        else:
            member.hear(AnnounceAgain)
            member.announce(EPOCH)
            member.hear(Change)
            member.leave()
    """
    with ExitStack() as stack:
        with FakeCoordinator(token) as first:
            job = stack.enter_context(Running(tmp_path, script, *options(first, token, "--nproc-per-node=2")))
            first.wait(Settled, 2)
            pid = pid_of(job, 0, 0)
        os.kill(pid, signal.SIGUSR1)
        job.line("has left")
        second = stack.enter_context(FakeCoordinator(token, first.port))
        assert [left.member.nonce for left in second.wait(Leaving)] == [nonce_of(first, 0)]
        os.kill(pid, signal.SIGUSR1)
        second.wait(Announce)
        end_all(second, 1)
        assert job.end() == 0


def test_the_host_is_heard_of_while_nothing_happens(tmp_path: Path, coordinator: FakeCoordinator, token: Path) -> None:
    with Running(tmp_path, TRAIN, *options(coordinator, token, "--recovery-deadline=2")) as job:
        coordinator.wait(Settled)
        coordinator.wait(Beat, 3)
        end_all(coordinator, 1)
        assert job.end() == 0


def test_a_wrong_token_is_told_at_once(tmp_path: Path, coordinator: FakeCoordinator, token: Path) -> None:
    other = tmp_path / "other"
    make_token(other)
    with Running(tmp_path, TRAIN, *options(coordinator, other)) as job:
        assert job.end() == 1
        job.line("UNAUTHENTICATED: .* has another token")


def test_a_stranger_at_the_agents_socket_is_refused(tmp_path: Path, coordinator: FakeCoordinator, token: Path) -> None:
    script = """
        from tests.ft.run.member import *
        from tests.ft.run import member as module
        member = Member()
        member.announce()
        member.settle()
        module.ME = MemberId(ME.host, "somebody")
        try:
            stranger = Member()
            stranger.announce()
            stranger.hear(Message)
        except ConnectionError:
            print("closed")
        member.leave()
    """
    with Running(tmp_path, script, *options(coordinator, token)) as job:
        assert job.end() == 0
        job.line("^closed")
        job.line("somebody who is no worker of this host has connected")
    assert len(coordinator.wait(Announce)) == 1
