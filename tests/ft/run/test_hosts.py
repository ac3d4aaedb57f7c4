"""Several agents, which are hosts, on this machine: they start together, and again together."""

from __future__ import annotations

import json
import os
import signal
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from pycomms.ft.core.messages import Announce, Died, Leaving, Settled
from pycomms.ft.run.spawning import free_port

from ._fake_coordinator import FakeCoordinator
from ._running import Running
from ._trainers import TRAIN, end_all, pid_of

if TYPE_CHECKING:
    from types import TracebackType

    from typing_extensions import Self


class Hosts:
    """Agents with the same command line, but for the number of the host."""

    def __init__(self, folder: Path, script: str, coordinator: FakeCoordinator, token: Path, *options: str) -> None:
        self._stack = ExitStack()
        self._folder, self._script = folder, script
        self._options = (f"--coordinator={coordinator.address}", f"--token-file={token}", "--no-prefix", *options)
        self.jobs: list[Running] = []

    def start(self, *options: str) -> Running:
        folder = self._folder / f"host{len(self.jobs)}"
        folder.mkdir()
        job = self._stack.enter_context(Running(folder, self._script, *self._options, *options))
        self.jobs.append(job)
        return job

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.__exit__(kind, error, trace)


NAMES = (
    "RANK",
    "LOCAL_RANK",
    "GROUP_RANK",
    "GROUP_WORLD_SIZE",
    "WORLD_SIZE",
    "LOCAL_WORLD_SIZE",
    "MASTER_ADDR",
    "MASTER_PORT",
)
SHOW = f"import json, os; print(json.dumps([os.environ[name] for name in {NAMES}]))"


def test_hosts_start_together(tmp_path: Path, coordinator: FakeCoordinator, token: Path) -> None:
    with Hosts(tmp_path, SHOW, coordinator, token, "--nnodes=2", "--rdzv-id=both") as hosts:
        one = hosts.start("--node-rank=1", "--nproc-per-node=1")
        other = hosts.start("--node-rank=0", "--nproc-per-node=2", "--master-port=1234")
        assert (one.end(), other.end()) == (0, 0)
        told = sorted(json.loads(line) for job in hosts.jobs for line in job.out)
    master = ["127.0.0.1", "1234"]
    assert told == [
        ["0", "0", "0", "2", "3", "2", *master],
        ["1", "1", "0", "2", "3", "2", *master],
        ["2", "0", "1", "2", "3", "1", *master],
    ]


def test_as_they_come(tmp_path: Path, coordinator: FakeCoordinator, token: Path) -> None:
    with Hosts(tmp_path, SHOW, coordinator, token, "--nnodes=2", "--rdzv-backend=c10d") as hosts:
        jobs = [hosts.start(), hosts.start()]
        assert [job.end() for job in jobs] == [0, 0]
        told = sorted(json.loads(line) for job in jobs for line in job.out)
    assert [(one[0], one[2], one[6]) for one in told] == [("0", "0", "127.0.0.1"), ("1", "1", "127.0.0.1")]
    assert told[0][7] == told[1][7]


def test_a_death_starts_all_hosts_again(tmp_path: Path, coordinator: FakeCoordinator, token: Path) -> None:
    script = """
        import os, signal
        if os.environ["TORCHELASTIC_RESTART_COUNT"] == "0":
            print("ready", flush=True)
            if os.environ["RANK"] == "1":
                os.kill(os.getpid(), signal.SIGKILL)
            signal.pause()
        print("finished")
    """
    with Hosts(tmp_path, script, coordinator, token, "--nnodes=2", "--max-restarts=1") as hosts:
        jobs = [hosts.start(f"--node-rank={rank}") for rank in range(2)]
        assert [job.end() for job in jobs] == [0, 0]
        for job in jobs:
            job.line(r"rank 1 has ended with signal 9 \(SIGKILL\): all workers are started again \(round 1\)")
            assert job.count("finished") == 1


def test_when_the_job_fails_all_hosts_end_with_1(tmp_path: Path, coordinator: FakeCoordinator, token: Path) -> None:
    script = "import os, signal, sys; sys.exit(3) if os.environ['RANK'] == '1' else signal.pause()"
    with Hosts(tmp_path, script, coordinator, token, "--nnodes=2", "--max-restarts=0") as hosts:
        jobs = [hosts.start(f"--node-rank={rank}") for rank in range(2)]
        assert [job.end() for job in jobs] == [1, 1]
        for job in jobs:
            job.line("the job has failed: rank 1 has ended with exit code 3")


def test_only_the_dead_one_is_started_again(tmp_path: Path, coordinator: FakeCoordinator, token: Path) -> None:
    with Hosts(tmp_path, TRAIN, coordinator, token, "--nnodes=2", "--nproc-per-node=2") as hosts:
        jobs = [hosts.start(f"--node-rank={rank}") for rank in range(2)]
        coordinator.wait(Settled, 4)
        os.kill(pid_of(jobs[1], 3, 0), signal.SIGKILL)
        coordinator.wait(Died)
        coordinator.wait(Settled, 5)
        assert coordinator.wait(Announce, 5)[4].slot == 3
        end_all(coordinator, 4)
        assert [job.end() for job in jobs] == [0, 0]
    assert len(coordinator.wait(Leaving)) == 4


def test_a_host_that_comes_later_trains_with_the_others(
    tmp_path: Path, coordinator: FakeCoordinator, token: Path
) -> None:
    more = ("--nnodes=1:2", "--rdzv-backend=c10d", "--rdzv-conf=last_call_timeout=0.1")
    with Hosts(tmp_path, TRAIN, coordinator, token, *more) as hosts:
        first = hosts.start()
        coordinator.wait(Settled)
        second = hosts.start()
        assert {one.slot for one in coordinator.wait(Announce, 2)} == {0, 1}
        coordinator.wait(Settled, 2)
        end_all(coordinator, 2)
        assert (first.end(), second.end()) == (0, 0)
        assert first.count("start 1") == 0


def test_no_coordinator(tmp_path: Path, token: Path) -> None:
    options = ("--nnodes=2", f"--coordinator=127.0.0.1:{free_port()}", f"--token-file={token}")
    with Running(tmp_path, "", *options, "--rdzv-conf=join_timeout=0.5") as job:
        assert job.end() == 1
        job.line("no coordinator has answered at 127.0.0.1")


def test_too_few_hosts(tmp_path: Path, coordinator: FakeCoordinator, token: Path) -> None:
    with Hosts(tmp_path, "", coordinator, token, "--nnodes=2", "--rdzv-conf=join_timeout=0.5") as hosts:
        job = hosts.start()
        assert job.end() == 1
        job.line(r"1 hosts were ready within 0\.5 s, expected 2")


def test_hosts_with_other_ideas_of_the_job(tmp_path: Path, coordinator: FakeCoordinator, token: Path) -> None:
    with Hosts(tmp_path, "", coordinator, token) as hosts:
        jobs = [hosts.start("--nnodes=2"), hosts.start("--nnodes=3")]
        assert [job.end() for job in jobs] == [1, 1]
        jobs[0].line("have to be the same on all hosts")


def test_two_hosts_with_one_number(tmp_path: Path, coordinator: FakeCoordinator, token: Path) -> None:
    with Hosts(tmp_path, "", coordinator, token, "--nnodes=2") as hosts:
        jobs = [hosts.start(), hosts.start()]
        assert [job.end() for job in jobs] == [1, 1]
        jobs[0].line("--node-rank 0 was given on several hosts")
