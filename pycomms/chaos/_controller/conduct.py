"""One run: from the start of the job to its end, whatever happens, with nothing left behind."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from io import FileIO
from pathlib import Path
from typing import Any, BinaryIO

from pycomms.chaos import _inside
from pycomms.chaos._controller import gauge, ports
from pycomms.chaos._controller.desk import Desk, Member
from pycomms.chaos._controller.folder import Folder, RunError
from pycomms.chaos._controller.injector import Injector
from pycomms.chaos._controller.journal import Journal
from pycomms.chaos._controller.keeper import Keeper
from pycomms.chaos._controller.processes import MARK, Marked, Target, command_of
from pycomms.chaos.core.plan import Plan

_GRACE_S = 5.0
"""For a job that is told to end, and for processes of one that has ended."""
_INSIDE = Path(_inside.__file__).parent


class CannotStartError(Exception):
    """The command cannot be run."""


async def conduct(
    plan: Plan, command: Sequence[str], folder: Folder, environment: Mapping[str, str], *, quiet: bool = False
) -> None:
    """Everything that is known afterwards is in the folder. Raises CannotStartError, or RunError if it is full."""
    try:
        run = _Run(plan, folder)
    except OSError as error:
        raise RunError(f"{error.filename or folder.path}: cannot be written: {error.strerror}") from error
    try:
        await run.go(command, environment, quiet)
    finally:
        await run.clean_up()
    run.check()


class _Run:
    def __init__(self, plan: Plan, folder: Folder) -> None:
        self._plan = plan
        self._folder = folder
        self._began = time.monotonic()
        self._interrupted = asyncio.Event()
        self._journal = Journal(folder.events, self._began, self._interrupted.set)
        self._output = folder.output.open("wb", buffering=0)
        self._desk = Desk(self._came, self._said, self._went)
        self._marked = Marked(MARK, str(self._desk.door))
        self._keeper = Keeper(str(self._desk.door))
        self._injector = Injector(plan, self._desk, self._journal, self._service, self._whereto)
        self._pids: set[int] = set()
        self._root: Target | None = None
        self._coordinator: Target | None = None  # that is watched
        self._process: subprocess.Popen[bytes] | None = None
        self._stops = [signal.SIGINT, signal.SIGTERM]
        if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # nohup
            self._stops.append(signal.SIGHUP)
        self._shared = _shared_memory()
        self._ports: dict[str, int] = {}  # by the socket's inode

    async def go(self, command: Sequence[str], environment: Mapping[str, str], quiet: bool) -> None:
        await self._desk.open()
        loop = asyncio.get_running_loop()
        for number in self._stops:
            loop.add_signal_handler(number, self._interrupted.set)
        path = os.pathsep.join(filter(None, (str(_INSIDE), environment.get("PYTHONPATH", ""))))
        told = {
            **environment,
            "PYTHONPATH": path,
            MARK: str(self._desk.door),
            "PYCOMMS_FR_DIR": str(self._folder.records),
            "PYCOMMS_FR_DUMP_DIR": str(self._folder.records),
        }
        if self._plan.hosts:
            told["PYCOMMS_CHAOS_HOSTS"] = str(self._plan.hosts)
        if any(fault.kind == "clock" for fault in self._plan.faults):
            told["PYCOMMS_CHAOS_CLOCKS"] = "1"
        self._journal.write("begin", command=list(command))
        try:
            self._process = subprocess.Popen(
                list(command),
                env=told,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # Ctrl-C is for the controller, which ends the job in order
            )
        except OSError as error:
            raise CannotStartError(f"{command[0]}: {error.strerror}") from error
        self._root = Target(self._process.pid)
        output = loop.create_task(self._copy_output(quiet))
        watching = loop.create_task(gauge.watch(self._journal, self._watched))
        how = await self._await_end()
        watching.cancel()
        if how != "exited":
            await self._stop()
            self._marked.kill_all(_GRACE_S)
        code = self._process.poll()
        await self._desk.drained(2.0)
        self._journal.write("end", how=how, code=code)
        await asyncio.wait([output], timeout=2.0)
        output.cancel()

    async def _await_end(self) -> str:
        assert self._root is not None
        loop = asyncio.get_running_loop()
        ending = loop.create_task(self._root.ended(self._plan.duration))
        interrupting = loop.create_task(self._interrupted.wait())
        await asyncio.wait((ending, interrupting), return_when=asyncio.FIRST_COMPLETED)
        has_ended = ending.done() and ending.result()
        for wait in (ending, interrupting):
            wait.cancel()
        await asyncio.wait((ending, interrupting))  # until the pidfd is free for others to wait at
        if has_ended:
            return "exited"
        return "interrupted" if self._interrupted.is_set() else "deadline"

    async def _stop(self) -> None:
        assert self._root is not None
        self._injector.close()
        for number in (signal.SIGTERM, signal.SIGKILL):
            self._root.send(signal.SIGCONT)
            self._root.send(number)
            if await self._root.ended(_GRACE_S):
                return

    async def _copy_output(self, quiet: bool) -> None:
        assert self._process is not None
        assert self._process.stdout is not None
        loop = asyncio.get_running_loop()
        reader = asyncio.StreamReader()
        await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), self._process.stdout)
        sinks: list[BinaryIO | FileIO] = [self._output] if quiet else [self._output, sys.stderr.buffer]
        while data := await reader.read(1 << 16):  # to its end: whoever writes to a full pipe stands still
            for sink in list(sinks):
                try:
                    sink.write(data)
                    sink.flush()
                except OSError:  # a full disk, or nobody reads
                    sinks.remove(sink)

    async def clean_up(self) -> None:
        """Whatever has gone wrong before."""
        loop = asyncio.get_running_loop()
        self._injector.close()
        if self._has_exited():
            await self._marked.end(_GRACE_S)  # what ends with the job may take its time
        for member in list(self._desk.members.values()):  # one whose environment does not show where it belongs
            member.target.send(signal.SIGKILL)
        left = self._marked.kill_all(_GRACE_S)
        await self._desk.close()
        self._keeper.dismiss()
        if self._process is not None:
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(_GRACE_S)
            if self._process.stdout is not None:
                self._process.stdout.close()
        for target in (self._root, self._coordinator):
            if target is not None:
                target.close()
        shared = [name for name in _shared_memory() - self._shared if any(str(pid) in name for pid in self._pids)]
        open_ports = [port for inode, port in ports.listening().items() if inode in self._ports]
        self._journal.write("left", processes=left, shared_memory=sorted(shared), ports=sorted(open_ports))
        self._journal.close()
        self._output.close()
        for number in self._stops:
            loop.remove_signal_handler(number)

    def check(self) -> None:
        """Raises RunError where something that has happened could not be written down."""
        if self._journal.error is not None:
            raise RunError(
                f"{self._folder.events}: cannot be written: {self._journal.error.strerror}; the job was ended"
            )

    def _has_exited(self) -> bool:
        return self._process is not None and self._process.poll() is not None

    def _watched(self) -> dict[int, dict[str, Any]]:
        found: dict[int, dict[str, Any]] = {member.pid: member.who for member in self._desk.members.values()}
        if self._root is not None:
            found[self._root.pid] = {"rank": -1, "process": "agent"}
        if self._coordinator is not None and not self._coordinator.send(0):
            self._coordinator.close()
            self._coordinator = None
        self._coordinator = self._coordinator or self._service("coordinator")
        if self._coordinator is not None:
            found[self._coordinator.pid] = {"rank": -1, "process": "coordinator"}
        self._ports.update(ports.held_by(found))
        return found

    def _service(self, name: str) -> Target | None:
        if name == "agent":
            return self._root
        return self._marked.find("pycomms", "coordinator") or self._marked.find("__main__.py", "coordinator")

    def _whereto(self, process: str) -> Path | None:
        """The agent's is that of logs, or where they would be; the coordinator's has its state. Raises OSError."""
        if process == "":
            return self._folder.records
        if process == "agent":
            told = self._marked.variable("TORCHELASTIC_ERROR_FILE")
            return Path(told).parents[2] if told else None
        target = self._service(process)
        if target is None:
            return None
        words = command_of(target.pid)
        target.close()
        state = next((word for word in words if word.startswith("--state-dir=")), "")
        return Path(state.partition("=")[2]).parent if state else None

    def _came(self, member: Member, t: float) -> None:
        self._pids.add(member.pid)
        self._journal.write("worker", t=t, world=member.world, **member.who)
        self._injector.welcome(member)

    def _said(self, member: Member, said: dict[str, Any]) -> None:
        kind, t = said.pop("kind"), said.pop("t")
        if kind == "claim":
            self._injector.claimed(member, {**said, "t": t})
            return
        if kind in ("step", "operation"):
            self._injector.begun()
        self._journal.write(kind, t=t, **{**said, **member.who})

    def _went(self, member: Member) -> None:
        self._journal.write("gone", **member.who)


def _shared_memory() -> set[str]:
    with suppress(OSError):
        return {path.name for path in Path("/dev/shm").iterdir()}
    return set()
