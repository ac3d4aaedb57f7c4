"""The jobs of all contestants: started, tended while they run, ended. Each has a folder of its own.

`tend` does what a supervisor does where a contestant leaves that to its user: it starts what has died again, at once.
"""

from __future__ import annotations

import argparse
import itertools
import json
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from bench.contestants.base import environment
from bench.environments import Environment
from bench.gathering import Gathering, Participant
from pycomms.bench.contestants import free_port
from pycomms.bench.ending import end, with_end_of
from pycomms.bench.protocol import Hub

TORCHFT = Environment("torchft", ("torchft-nightly",), borrows=True)
END_WITHIN_S = 30.0


class JobError(Exception):
    """A job has ended, or cannot be started."""


class Job:
    """One program that does it all, unless a method says otherwise."""

    def __init__(self, folder: Path, arguments: argparse.Namespace) -> None:
        self.folder, self.arguments = folder, arguments
        self.log = folder / "log"
        self.log.touch()
        self.output = folder / "output"
        self.processes: list[subprocess.Popen[bytes]] = []

    def worker(self, name: str) -> list[str]:
        arguments = self.arguments
        return [
            *("-m", f"bench.ft.workers.{name}", str(self.log), "--step-ms", str(arguments.step_ms)),
            *("--megabytes", str(arguments.megabytes), "--compute", arguments.compute),
        ]

    def spawn(self, command: Sequence[str], **more: str) -> subprocess.Popen[bytes]:
        told = {"OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo", "TORCH_CPP_LOG_LEVEL": "ERROR", **more}
        with self.output.open("ab") as output:
            process = subprocess.Popen(
                command,
                env=environment(**told),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        self.processes.append(process)
        return process

    def start(self) -> None:
        raise NotImplementedError

    def tend(self) -> None:
        """To be called again and again. Raises JobError."""
        for process in self.processes:
            if process.poll() is not None:
                raise JobError(with_end_of(self.output, f"the job has ended with {process.returncode}"))

    def spare_is_ready(self) -> bool:
        """Whether the next kill may come, as far as this contestant prepares for it."""
        return True

    def close(self) -> None:
        for process in self.processes:
            process.send_signal(signal.SIGTERM)
        deadline = time.monotonic() + END_WITHIN_S
        for process in self.processes:
            with suppress(subprocess.TimeoutExpired):
                process.wait(max(0.0, deadline - time.monotonic()))
        end(self.processes, END_WITHIN_S)


class Ours(Job):
    def start(self) -> None:
        arguments = self.arguments
        self.spawn(
            [
                *(sys.executable, "-m", "pycomms", "run", "--nproc-per-node", str(arguments.workers)),
                *("--max-restarts", "1000000", "--spares", str(arguments.spares), *self.worker("ours")),
            ]
        )

    def spare_is_ready(self) -> bool:
        text = self.output.read_text(errors="replace")
        waiting = text.count("a spare is ready") - text.count("a spare takes its place")
        return waiting >= int(self.arguments.spares)


class Torchrun(Job):
    """Sharing its store with the workers, as it does by default, no restart of gloo succeeds: they meet old keys."""

    def start(self) -> None:
        self.spawn(
            [
                *(sys.executable, "-m", "torch.distributed.run", "--standalone", "--max-restarts", "1000000"),
                *("--nproc-per-node", str(self.arguments.workers), *self.worker("with_torchrun")),
            ],
            TORCH_DISABLE_SHARE_RDZV_TCP_STORE="1",
        )


@dataclass(frozen=True, kw_only=True)
class TorchftTimes:
    """Of the lighthouse in ms, of the replicas in s."""

    heartbeat_ms: int
    tick_ms: int
    join_ms: int
    gloo: float
    manager: float


#: The lighthouse as torchft's README starts it, the replicas with the timeouts of its train_ddp.py.
TORCHFT_DEFAULT = TorchftTimes(heartbeat_ms=5000, tick_ms=100, join_ms=10000, gloo=5.0, manager=30.0)
#: Half a second of silence is a death, and nothing waits much longer than that.
TORCHFT_TUNED = TorchftTimes(heartbeat_ms=500, tick_ms=10, join_ms=500, gloo=1.0, manager=5.0)


class Torchft(Job):
    times = TORCHFT_DEFAULT

    def start(self) -> None:
        python = Path(self.arguments.torchft_python or TORCHFT.folder(self.arguments.env_dir) / "bin" / "python")
        if not python.exists():
            raise JobError("no torchft here: python -m bench setup, or --torchft-python")
        self._python = str(python)
        port = free_port()
        self.spawn(
            [
                *(str(python.with_name("torchft_lighthouse")), "--bind", f"0.0.0.0:{port}", "--min_replicas", "1"),
                *("--quorum_tick_ms", str(self.times.tick_ms), "--join_timeout_ms", str(self.times.join_ms)),
                *("--heartbeat_timeout_ms", str(self.times.heartbeat_ms)),
            ]
        )
        self._lighthouse = f"http://127.0.0.1:{port}"
        self._replicas = {slot: self._replica(slot) for slot in range(self.arguments.workers)}

    def tend(self) -> None:
        if self.processes[0].poll() is not None:
            raise JobError(with_end_of(self.output, "the lighthouse has ended"))
        for slot, process in self._replicas.items():
            if process.poll() is not None:
                self.processes.remove(process)
                self._replicas[slot] = self._replica(slot)

    def _replica(self, slot: int) -> subprocess.Popen[bytes]:
        times = ("--gloo-timeout", str(self.times.gloo), "--timeout", str(self.times.manager))
        return self.spawn(
            [self._python, *self.worker("with_torchft"), *times],
            TORCHFT_LIGHTHOUSE=self._lighthouse,
            REPLICA_GROUP_ID=str(slot),
        )


class TorchftTuned(Torchft):
    times = TORCHFT_TUNED


class GlooReconfigure(Job):
    """Who starts the workers is their coordinator too: it knows who has died, and gives all others the list."""

    def start(self) -> None:
        self._hub = Hub(self.folder / "hub")
        self._numbers = itertools.count()
        self._booting: dict[int, tuple[int, subprocess.Popen[bytes]]] = {}  # by pid
        self._members: dict[Participant, subprocess.Popen[bytes]] = {}
        self._gathering = Gathering(self.arguments.workers)
        store = ["-m", "bench.recovery.store", "--socket", str(self._hub.path), "--job", "store"]
        self.spawn([sys.executable, *store])
        reported = self._hub.accept(time.monotonic() + END_WITHIN_S)
        if reported is None:
            raise JobError(with_end_of(self.output, "no store"))
        self._store = reported[1]
        self._port = json.loads(self._store.receive(time.monotonic() + END_WITHIN_S))["port"]
        for slot in range(self.arguments.workers):
            self._boot(slot)

    def _boot(self, slot: int) -> None:
        own = ("--number", str(next(self._numbers)), "--slot", str(slot), "--job", "gloo")
        common = ("--store-port", str(self._port), "--socket", str(self._hub.path))
        process = self.spawn([sys.executable, *self.worker("with_gloo"), *own, *common])
        self._booting[process.pid] = (slot, process)

    def tend(self) -> None:
        self._bury()
        while (reported := self._hub.accept(time.monotonic())) is not None:
            slot, process = self._booting.pop(reported[0].pid)
            self._members[Participant(slot=slot, link=reported[1])] = process
        for member in self._members:
            member.hear()  # whoever is gone is buried the next time
        self._gathering.look(list(self._members))

    def _bury(self) -> None:
        for pid, (slot, process) in list(self._booting.items()):
            if process.poll() is not None:
                del self._booting[pid]
                self._replace(slot, process)
        for member, process in list(self._members.items()):
            if process.poll() is not None:
                del self._members[member]
                member.link.close()
                self._replace(member.slot, process)

    def _replace(self, slot: int, process: subprocess.Popen[bytes]) -> None:
        self.processes.remove(process)
        self._boot(slot)

    def close(self) -> None:
        super().close()
        for member in self._members:
            member.link.close()
        self._hub.close()


CONTESTANTS: Mapping[str, type[Job]] = {
    "pycomms": Ours,
    "torchft": Torchft,
    "torchft-tuned": TorchftTuned,
    "gloo-reconfigure": GlooReconfigure,
    "torchrun": Torchrun,
}
