"""Spares: processes that have imported torch and wait."""

from __future__ import annotations

import os
import signal
from pathlib import Path

from pycomms.ft.core.messages import Announce, Died, Settled

from ._fake_coordinator import FakeCoordinator
from ._running import Running, wait_for
from ._trainers import TRAIN, end_all, options, pid_of


def spares(job: Running) -> list[int]:
    return [pid for pid in job.processes() if b"ft.run._spare" in Path(f"/proc/{pid}/cmdline").read_bytes()]


def test_a_spare_takes_the_place_of_one_that_dies(tmp_path: Path, coordinator: FakeCoordinator, token: Path) -> None:
    script = TRAIN + "\n    print('torch' in sys.modules, __name__, sys.argv, sys.path[0], flush=True)"
    more = ("--nproc-per-node=2", "--spares=1", "--json", "--no-prefix")
    with Running(tmp_path, script, *options(coordinator, token, *more), arguments=["x"]) as job:
        coordinator.wait(Settled, 2)
        assert wait_for(lambda: len(spares(job)) == 1)
        (spare,) = spares(job)
        job.line("a spare is ready")
        os.kill(pid_of(job, 1, 0), signal.SIGKILL)
        coordinator.wait(Died)
        coordinator.wait(Settled, 3)
        assert coordinator.wait(Announce, 3)[2].pid == spare
        job.line("rank 1 has ended with signal 9 .*: a spare takes its place")
        assert wait_for(lambda: len(spares(job)) == 2 and spare in spares(job)), "another one is started"
        end_all(coordinator, 2)
        assert job.end() == 0
        assert job.summary()["by_spares"] == 1
        job.line(rf"True __main__ \['pycomms', 'x'\] {tmp_path}")


def test_a_spare_that_is_not_ready_is_not_waited_for(tmp_path: Path, coordinator: FakeCoordinator, token: Path) -> None:
    with Running(tmp_path, TRAIN, *options(coordinator, token, "--spares=1")) as job:
        coordinator.wait(Settled)
        assert wait_for(lambda: bool(spares(job)))
        for spare in spares(job):
            os.kill(spare, signal.SIGSTOP)
        os.kill(pid_of(job, 0, 0), signal.SIGKILL)
        coordinator.wait(Settled, 2)
        job.line("started again")
        end_all(coordinator, 1)
        assert job.end() == 0


def test_spares_that_die_are_given_up(tmp_path: Path, coordinator: FakeCoordinator, token: Path) -> None:
    broken = tmp_path / "torch.py"
    broken.write_text("raise SystemExit(9)")
    environment = {"PYTHONPATH": str(tmp_path)}
    with Running(tmp_path, TRAIN, *options(coordinator, token, "--spares=1"), environment=environment) as job:
        coordinator.wait(Settled)
        job.line("a spare has ended with exit code 9; no more are started")
        end_all(coordinator, 1)
        assert job.end() == 0
