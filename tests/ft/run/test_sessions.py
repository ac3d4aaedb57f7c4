"""Workers that use pycomms.ft: only the one that has died is started again."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from pycomms.ft.coordinator.auth import make_token
from pycomms.ft.core.messages import (
    ALL_DONE,
    Announce,
    Beat,
    Change,
    Died,
    EpochId,
    Evict,
    Form,
    Leaving,
    MemberId,
    Ready,
    Refused,
    Seat,
    Settled,
    Teach,
    Verdict,
)

from ._fake_coordinator import FakeCoordinator
from ._running import Running, wait_for


@pytest.fixture
def token(tmp_path: Path) -> Path:
    make_token(tmp_path / "token")
    return tmp_path / "token"


@pytest.fixture
def coordinator(token: Path) -> Iterator[FakeCoordinator]:
    with FakeCoordinator(token) as coordinator:
        yield coordinator


def options(coordinator: FakeCoordinator, token: Path, *more: str) -> tuple[str, ...]:
    return (f"--coordinator={coordinator.address}", f"--token-file={token}", "--no-prefix", *more)


TRAIN = """
    import os, signal, sys
    from tests.ft.run.member import *
    from pycomms.ft.core.messages import Change
    member = Member()
    member.announce()
    member.settle()
    print("rank", SLOT, "start", INCARNATION, "pid", os.getpid(), flush=True)
    member.hear(Change)
    member.leave()
"""


def pid_of(job: Running, rank: int, start: int) -> int:
    return int(job.line(rf"rank {rank} start {start} pid (\d+)")[1])


def nonce_of(coordinator: FakeCoordinator, slot: int) -> str:
    return next(one.member.nonce for one in coordinator.heard if isinstance(one, Announce) and one.slot == slot)


def end_all(coordinator: FakeCoordinator, count: int) -> None:
    """Tells the members that live to end, when there are so many."""

    def living() -> set[MemberId]:
        heard = list(coordinator.heard)
        dead = {one.member for one in heard if isinstance(one, Died)}
        return {one.member for one in heard if isinstance(one, Announce)} - dead

    assert wait_for(lambda: len(living()) == count), living()
    for member in living():
        coordinator.send(member.host, Change(epoch=EpochId(1, 1), reason="end"), (member.nonce,))


def test_a_coordinator_that_does_not_know_the_epoch_is_told_its_seats(
    tmp_path: Path, coordinator: FakeCoordinator, token: Path
) -> None:
    script = TRAIN + (
        "    from pycomms.ft.wire import AnnounceAgain\n"
        "    while not member.hear(AnnounceAgain).with_seats: pass\n"
        "    print('asked for the seats', flush=True)\n"
        "    member.leave()\n"
    )
    script = script.replace("    member.hear(Change)\n    member.leave()\n", "")
    with Running(tmp_path, script, *options(coordinator, token, "--nproc-per-node=2")) as job:
        host = coordinator.wait(Settled, 2)[0].member.host
        coordinator.send(host, Teach(epoch=EpochId(1, 1)))
        job.line("asked for the seats", 2)
        assert job.end() == 0


def test_only_the_dead_one_is_started_again(tmp_path: Path, coordinator: FakeCoordinator, token: Path) -> None:
    with Running(tmp_path, TRAIN, *options(coordinator, token, "--nproc-per-node=3", "--json")) as job:
        coordinator.wait(Settled, 3)
        pids = [pid_of(job, rank, 0) for rank in range(3)]
        os.kill(pids[1], signal.SIGKILL)
        (died,) = coordinator.wait(Died)
        assert died.how == "signal 9 (SIGKILL)"
        announced = coordinator.wait(Announce, 4)
        assert died.member == next(one.member for one in announced if one.pid == pids[1])
        assert announced[3].slot == 1
        assert announced[3].member.nonce not in {one.member.nonce for one in announced[:3]}
        coordinator.wait(Settled, 4)
        again = pid_of(job, 1, 1)
        assert {pids[0], pids[2], again} <= set(job.processes())
        end_all(coordinator, 3)
        assert job.end() == 0
        summary = job.summary()
    assert len(coordinator.wait(Leaving, 3)) == 3
    assert (summary["replaced"], summary["rounds"], len(summary["deaths"])) == (1, 1, 1)
    assert summary["deaths"][0]["settled"]


def test_one_that_is_stopped_is_ended_unless_it_goes_on_at_once(
    tmp_path: Path, coordinator: FakeCoordinator, token: Path
) -> None:
    with Running(tmp_path, TRAIN, *options(coordinator, token, "--nproc-per-node=2", "--json")) as job:
        coordinator.wait(Settled, 2)
        pids = [pid_of(job, rank, 0) for rank in range(2)]
        os.kill(pids[0], signal.SIGSTOP)
        os.kill(pids[0], signal.SIGCONT)
        os.kill(pids[1], signal.SIGSTOP)
        (died,) = coordinator.wait(Died)
        assert died.how == "stopped by a signal for 25 ms, then signal 9 (SIGKILL)"
        coordinator.wait(Settled, 3)
        assert {pids[0], pid_of(job, 1, 1)} <= set(job.processes())
        end_all(coordinator, 2)
        assert job.end() == 0
        summary = job.summary()
    assert (summary["replaced"], summary["evicted"], len(summary["deaths"])) == (1, 1, 1)


def test_a_death_that_another_worker_has_noticed_is_told_with_its_words(
    tmp_path: Path, coordinator: FakeCoordinator, token: Path
) -> None:
    script = """
        import os, signal
        from tests.ft.run.member import *
        from pycomms.ft.core.messages import Change, Form
        member = Member()
        member.announce()
        if SLOT == 1 and INCARNATION == 0:
            memory = bytearray(1 << 28)  # so that its end takes a while
        member.settle()
        if SLOT == 0:
            form = member.hear(Form)
            dead = form.seats[1].member
            os.kill(int(form.reason), signal.SIGKILL)
            member.ready(EPOCH, (dead,))
        member.hear(Change)
        member.leave()
    """
    with Running(tmp_path, script, *options(coordinator, token, "--nproc-per-node=2")) as job:
        coordinator.wait(Settled, 2)
        members = sorted(coordinator.wait(Announce, 2), key=lambda one: one.slot or 0)
        seats = tuple(Seat(member=one.member, slot=one.slot or 0, handle="h", position=one.position) for one in members)
        form = Form(epoch=EpochId(1, 2), previous=None, seats=seats, reason=str(members[1].pid))
        coordinator.send(members[0].member.host, form, (members[0].member.nonce,))
        coordinator.wait(Ready)
        told = [one for one in coordinator.heard if isinstance(one, (Died, Ready))]
        assert [(type(one), one.member) for one in told[:2]] == [(Died, members[1].member), (Ready, members[0].member)]
        assert coordinator.wait(Died)[0].how == "signal 9 (SIGKILL)"
        coordinator.wait(Settled, 3)
        end_all(coordinator, 2)
        assert job.end() == 0


def test_evict_ends_a_worker_that_does_not_answer(tmp_path: Path, coordinator: FakeCoordinator, token: Path) -> None:
    with Running(tmp_path, TRAIN, *options(coordinator, token, "--nproc-per-node=2")) as job:
        announced = coordinator.wait(Announce, 2)
        coordinator.wait(Settled, 2)
        os.kill(announced[0].pid, signal.SIGSTOP)
        member = announced[0].member
        coordinator.send(member.host, Evict(member=member, reason="it does not answer"))
        (died,) = coordinator.wait(Died)
        assert died.member == member
        job.line(rf"rank {announced[0].slot} is ended: it does not answer")
        coordinator.wait(Settled, 3)
        end_all(coordinator, 2)
        assert job.end() == 0


def test_one_that_dies_again_and_again_ends_the_job(tmp_path: Path, coordinator: FakeCoordinator, token: Path) -> None:
    script = TRAIN.replace("member.hear(Change)", "sys.exit(3) if SLOT == 1 else member.hear(Change)")
    with Running(tmp_path, script, *options(coordinator, token, "--nproc-per-node=2", "--max-restarts=2")) as job:
        assert job.end() == 1
        job.line(r"the job has failed: rank 1 has ended with exit code 3; its slot has been started again 2 times")
        assert len(coordinator.wait(Died, 3, lambda died: died.how == "exit code 3")) == 3
        assert job.count("rank 0 start") == 1


def test_a_death_is_told_with_the_last_words(tmp_path: Path, coordinator: FakeCoordinator, token: Path) -> None:
    script = TRAIN.replace("member.hear(Change)", "assert SLOT or INCARNATION, 'no data'; member.hear(Change)")
    with Running(tmp_path, script, *options(coordinator, token, "--nproc-per-node=2")) as job:
        (died,) = coordinator.wait(Died)
        assert died.how == "exit code 1: AssertionError: no data"
        coordinator.wait(Settled, 3)
        end_all(coordinator, 2)
        assert job.end() == 0


def test_with_min_ranks_the_others_go_on_without_it(tmp_path: Path, coordinator: FakeCoordinator, token: Path) -> None:
    script = TRAIN.replace("member.hear(Change)", "sys.exit(3) if SLOT == 1 else member.hear(Change)")
    more = ("--nproc-per-node=2", "--max-restarts=1", "--min-ranks=1")
    with Running(tmp_path, script, *options(coordinator, token, *more)) as job:
        job.line("after 1 restarts; its slot stays empty")
        end_all(coordinator, 1)
        assert job.end() == 0


def test_when_the_training_is_over_nobody_is_started_again(
    tmp_path: Path, coordinator: FakeCoordinator, token: Path
) -> None:
    script = TRAIN.replace("member.leave()", "os.kill(os.getpid(), signal.SIGKILL) if SLOT else member.leave()")
    script = script.replace(
        "member.hear(Change)", "member.hear(Change); print('told', flush=True); SLOT or sys.exit(member.leave())"
    )
    with Running(tmp_path, script, *options(coordinator, token, "--nproc-per-node=2")) as job:
        announced = coordinator.wait(Announce, 2)
        coordinator.wait(Settled, 2)
        one, other = sorted(announced, key=lambda message: message.slot or 0)
        coordinator.send(one.member.host, Change(epoch=EpochId(1, 1)), (one.member.nonce,))
        coordinator.wait(Leaving)
        assert wait_for(lambda: not Path(f"/proc/{one.pid}").exists())
        coordinator.send(other.member.host, Change(epoch=EpochId(1, 1)), (other.member.nonce,))
        assert job.end() == 0
        job.line("rank 1 has ended with signal 9 .*; the training was over")
        assert len(coordinator.wait(Announce)) == 2


def test_a_program_that_fails_behind_the_training_fails_the_job(
    tmp_path: Path, coordinator: FakeCoordinator, token: Path
) -> None:
    script = TRAIN.replace("member.leave()", "member.leave()\n    if SLOT: raise ValueError('no room')")
    with Running(tmp_path, script, *options(coordinator, token, "--nproc-per-node=2")) as job:
        coordinator.wait(Settled, 2)
        end_all(coordinator, 2)
        assert job.end() == 1
        job.line("the job has failed: rank 1 has ended with exit code 1 behind the training, which is complete")
        job.line("ValueError: no room")
        assert len(coordinator.wait(Announce)) == 2


def test_who_comes_late_does_not_disturb_what_others_do_behind_the_training(
    tmp_path: Path, coordinator: FakeCoordinator, token: Path
) -> None:
    script = """
        import sys
        from tests.ft.run.member import *
        from pycomms.ft.core.messages import Change, Refused
        member = Member()
        member.announce()
        if SLOT == 1:
            if INCARNATION > 0:
                member.hear(Refused)
            sys.exit(1)
        member.settle()
        member.leave()
        member.hear(Change)
        print("all is saved", flush=True)
    """
    with Running(tmp_path, script, *options(coordinator, token, "--nproc-per-node=2")) as job:
        coordinator.wait(Leaving)
        late = coordinator.wait(Announce, 2, lambda one: one.slot == 1)[-1].member
        coordinator.send(late.host, Refused(member=late, verdict=Verdict.ENDED, reason=ALL_DONE), (late.nonce,))
        job.line("rank 1 has ended with exit code 1; the training was over")
        end_all(coordinator, 1)
        assert job.end() == 0
        job.line("all is saved")


def test_a_membership_that_cannot_be_saved_starts_all_again(
    tmp_path: Path, coordinator: FakeCoordinator, token: Path
) -> None:
    script = """
        import sys
        from tests.ft.run.member import *
        from pycomms.ft.core.messages import Change, Refused
        member = Member()
        member.announce()
        member.settle()
        if INCARNATION == 0:
            print("refused:", member.hear(Refused).reason, flush=True)
            sys.exit(1)
        member.leave()
    """
    with Running(tmp_path, script, *options(coordinator, token, "--nproc-per-node=2", "--json")) as job:
        announced = coordinator.wait(Announce, 2)
        coordinator.wait(Settled, 2)
        for one in announced:
            refused = Refused(member=one.member, verdict=Verdict.ENDED, reason="too few for too long")
            coordinator.send(one.member.host, refused, (one.member.nonce,))
        assert job.end() == 0
        job.line(
            "exit code 1: too few for too long: all workers are started again .*no worker has the state of the training"
        )
        assert job.summary()["rounds"] == 2


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
