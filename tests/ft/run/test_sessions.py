"""Workers that use pycomms.ft: only the one that has died is started again."""

from __future__ import annotations

import os
import signal
from pathlib import Path

from pycomms.ft.core.messages import (
    ALL_DONE,
    Announce,
    Change,
    Died,
    EpochId,
    Evict,
    Form,
    Leaving,
    Ready,
    Refused,
    Seat,
    Settled,
    Teach,
    Verdict,
)

from ._fake_coordinator import FakeCoordinator
from ._running import Running, wait_for
from ._trainers import TRAIN, end_all, options, pid_of


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
