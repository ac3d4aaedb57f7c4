"""The coordinator of a large job on one core: what it costs while nothing happens, and how long a change takes.

    python -m bench.coordinator [--hosts 1250] [--members 8] [--seconds 20] [--changes 10] [--json FILE]

The coordinator has a core of its own. Two other processes are the hosts, on the other cores: most are load; a few are
probes, whose figures are not those of a process that reads a thousand streams. Each host beats once a second.

idle     share of its core that the coordinator takes while all train
change   from the word of a host that a member has died to the other hosts being told, at the probes
form     from the last member that stands still to the hosts being told the next epoch, at the probes
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.argv[0] = "pycomms"  # as the command does, so that pycomms is imported without torch

from pycomms.ft.coordinator.auth import make_token  # noqa: E402  # behind that line

ROOT = Path(__file__).resolve().parents[1]
PROBES = 20
DEADLINE_S = 300.0
BEAT_S = 1.0


@dataclass(frozen=True, kw_only=True)
class Figures:
    """idle: shares of a core, one for each second. change, form: seconds, of all probes and changes."""

    idle: list[float]
    change: list[float]
    form: list[float]
    start: float
    megabytes: float

    def rows(self) -> list[tuple[str, str]]:
        return [
            ("attach, announce, form and settle", f"{self.start:.1f} s"),
            ("memory of the coordinator", f"{self.megabytes:.0f} MB"),
            ("CPU of a core while all train", f"{100 * sum(self.idle) / len(self.idle):.1f} %"),
            *((f"{name}: {what}", f"{1e3 * value:.1f} ms") for name, what, value in self._quantiles()),
        ]

    def _quantiles(self) -> list[tuple[str, str, float]]:
        shares = (("median", 0.5), ("99th percentile", 0.99), ("worst", 1.0))
        told = (("a death is told", self.change), ("an epoch is told", self.form))
        return [(name, what, quantile(values, share)) for name, values in told for what, share in shares]


def quantile(values: Sequence[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


class Process:
    """A child that talks in lines of JSON."""

    def __init__(self, arguments: list[str], cores: set[int]) -> None:
        self.process = subprocess.Popen(
            [sys.executable, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
            preexec_fn=lambda: os.sched_setaffinity(0, cores),
        )

    def tell(self, **message: object) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(message) + "\n")
        self.process.stdin.flush()

    def hear(self) -> Any:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(f"a process of the measurement has ended with {self.process.wait(DEADLINE_S)}")
        return json.loads(line)

    def end(self) -> None:
        self.process.kill()
        self.process.communicate(timeout=DEADLINE_S)


def measure(hosts: int, members: int, seconds: int, changes: int) -> Figures:
    cores = sorted(os.sched_getaffinity(0))
    own, others = {cores[0]}, set(cores[1:]) or {cores[0]}
    with tempfile.TemporaryDirectory() as folder:
        token = Path(folder) / "token"
        make_token(token)
        slots = hosts * members
        coordinator = Process(
            ["-m", "pycomms", "coordinator", "--listen", "127.0.0.1:0", "--token-file", str(token), "--json",
             "--state-dir", folder, "--max-ranks", str(slots), "--recovery-deadline", "120"],
            own,
        )  # fmt: skip
        children = [coordinator]
        try:
            address = coordinator.hear()["listening"]
            begin = time.monotonic()
            ranges = ((0, PROBES), (PROBES, hosts))
            for first, last in ranges:
                role = ["-m", "bench.coordinator", "--role", f"{first}:{last}", "--members", str(members)]
                children.append(Process([*role, "--address", address, "--token", str(token)], others))
            probes, load = children[1:]
            for child in (probes, load):
                child.hear()
            start = time.monotonic() - begin
            pid = coordinator.process.pid
            idle = [_share_of_core(pid) for _ in range(seconds)]
            change: list[float] = []
            form: list[float] = []
            for number in range(changes):
                probes.tell(kill=number)
                told = [child.hear() for child in (probes, load)]
                last_ready = max(one["last_ready"] for one in told)
                change += [at - told[0]["died"] for at in told[0]["change"]]
                form += [at - last_ready for at in told[0]["form"]]
            return Figures(idle=idle, change=change, form=form, start=start, megabytes=_megabytes(pid))
        finally:
            for child in reversed(children):
                child.end()


def _share_of_core(pid: int) -> float:
    begin, used = time.monotonic(), _cpu_seconds(pid)
    time.sleep(1)
    return (_cpu_seconds(pid) - used) / (time.monotonic() - begin)


def _cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _megabytes(pid: int) -> float:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return int(next(line.split()[1] for line in lines if line.startswith("VmHWM"))) / 1024


# A process of hosts.


class Hosts:
    """Those with the numbers from first to last. One line on standard output for each time that all have settled."""

    def __init__(self, first: int, last: int, members: int, address: str, token: bytes) -> None:
        from pycomms.ft.core.messages import MemberId

        self._address, self._token = address, token
        self._names = [f"host-{number:05}" for number in range(first, last)]
        self._members = {
            name: [(MemberId(name, f"{slot:016x}"), slot) for slot in range(number * members, (number + 1) * members)]
            for number, name in enumerate(self._names, first)
        }
        self._channels: list[Any] = []  # each ends its calls when it is gone
        self._calls: dict[str, Any] = {}
        self._locks = {name: asyncio.Lock() for name in self._names}
        self._dead: set[MemberId] = set()
        self._times: dict[str, list[float]] = {"change": [], "form": []}
        self._ready_at = self._died_at = 0.0
        self._settled = 0

    async def run(self) -> None:
        import grpc.aio

        from pycomms.ft.coordinator import calls

        timeouts = _timeouts()
        for at in range(0, len(self._names), 50):
            names = self._names[at : at + 50]
            channels = [calls.channel(grpc.aio, self._address, timeouts, None) for _ in names]
            self._channels += channels
            attaching = (self._attach(name, calls.attach(one)) for name, one in zip(names, channels, strict=True))
            await asyncio.gather(*attaching)
        tasks = [asyncio.create_task(run(name)) for name in self._names for run in (self._beat, self._hear)]
        tasks.append(asyncio.create_task(self._obey()))
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()

    async def _attach(self, name: str, method: Any) -> None:
        from pycomms.ft.coordinator.auth import proof
        from pycomms.ft.coordinator.calls import ATTACH
        from pycomms.ft.core.messages import Announce, Position
        from pycomms.ft.wire import Hello, encode

        call = self._calls[name] = method(metadata=proof(self._token, ATTACH, name, time.time()))
        await call.write(encode(Hello(host=name, instance=name)))
        await call.read()
        for member, slot in self._of(name):
            handle = f"nccl2:1:{slot:032x}:0:-1:10.0.0.1:{slot}"
            told = Announce(member=member, slot=slot, pid=1, handle=handle, position=Position())
            await call.write(encode(told))

    async def _beat(self, name: str) -> None:
        from pycomms.ft.core.messages import Beat
        from pycomms.ft.wire import encode

        beat = encode(Beat(host=name))
        await asyncio.sleep(random.random() * BEAT_S)
        while True:
            await self._say(name, beat)
            await asyncio.sleep(BEAT_S)

    async def _say(self, name: str, *envelopes: bytes) -> None:
        """One after the other, as grpc demands."""
        async with self._locks[name]:
            for envelope in envelopes:
                await self._calls[name].write(envelope)

    async def _hear(self, name: str) -> None:
        """Does not decode a Form: what is in it is known, and to read it takes as long as for all members of a host."""
        from pycomms.ft.core.messages import Change, EpochId, Position, Ready, Settled, Standing
        from pycomms.ft.wire import decode, encode
        from pycomms.ft.wire import messages_pb2 as pb

        where = Position(committed=5, standing=Standing.LOADED)
        epoch = EpochId(0, 0)
        call = self._calls[name]
        while isinstance(data := await call.read(), bytes):
            now = time.monotonic()
            told = pb.Envelope.FromString(data)
            kind = told.WhichOneof("message")
            if kind == "change":
                change = decode(data).message
                assert isinstance(change, Change)
                self._times["change"].append(now)
                self._dead.update(change.died)
                said = []
                for member, slot in self._of(name):
                    handle = f"nccl2:1:{slot:032x}:{slot}:{epoch.uuid}:10.0.0.1:{slot}"
                    said.append(encode(Ready(member=member, epoch=epoch, handle=handle, position=where)))
                await self._say(name, *said)
                self._ready_at = max(self._ready_at, time.monotonic())
            elif kind in ("form", "form_delta"):
                self._times["form"].append(now)
                raw = getattr(told, kind).epoch
                epoch = EpochId(raw.boot, raw.counter)
                settled = (Settled(member=member, epoch=epoch, seconds=0.1) for member, _ in self._of(name))
                await self._say(name, *map(encode, settled))
                self._settled += 1
                if self._settled == len(self._names):
                    self._report()

    async def _obey(self) -> None:
        from pycomms.ft.core.messages import Died
        from pycomms.ft.wire import encode

        reader = asyncio.StreamReader()
        await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
        while line := await reader.readline():
            name = self._names[json.loads(line)["kill"] % len(self._names)]
            victim = next(member for member, _ in self._of(name))
            self._died_at = time.monotonic()
            await self._say(name, encode(Died(member=victim, how="signal 9 (SIGKILL)")))

    def _of(self, name: str) -> list[tuple[Any, int]]:
        return [one for one in self._members[name] if one[0] not in self._dead]

    def _report(self) -> None:
        told = {**self._times, "last_ready": self._ready_at, "died": self._died_at}
        print(json.dumps(told), flush=True)
        self._times = {"change": [], "form": []}
        self._settled = 0


def _timeouts() -> Any:
    from datetime import timedelta

    from pycomms.ft.core.timeouts import derive

    return derive(timedelta(seconds=120))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hosts", type=int, default=1250)
    parser.add_argument("--members", type=int, default=8, help="of each host")
    parser.add_argument("--seconds", type=int, default=20, help="to watch the coordinator while nothing happens")
    parser.add_argument("--changes", type=int, default=10)
    parser.add_argument("--json", type=Path, metavar="FILE")
    parser.add_argument("--role", help=argparse.SUPPRESS)
    parser.add_argument("--address", help=argparse.SUPPRESS)
    parser.add_argument("--token", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.role:
        from pycomms.ft.coordinator.auth import read_token

        first, last = map(int, arguments.role.split(":"))
        asyncio.run(Hosts(first, last, arguments.members, arguments.address, read_token(arguments.token)).run())
        return 0
    figures = measure(arguments.hosts, arguments.members, arguments.seconds, arguments.changes)
    print(f"{arguments.hosts} hosts, {arguments.hosts * arguments.members} members, {arguments.changes} changes")
    for name, value in figures.rows():
        print(f"  {name:40} {value:>12}")
    if arguments.json:
        arguments.json.write_text(json.dumps(figures.__dict__))
    return 0


if __name__ == "__main__":
    sys.exit(main())
