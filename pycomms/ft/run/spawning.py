"""Starting a process of a slot: which command, with whose output going where."""

from __future__ import annotations

import asyncio
import json
import socket
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress

from pycomms.ft.run.logs import Destination
from pycomms.ft.run.options import Kind, Program
from pycomms.ft.run.output import Stream
from pycomms.ft.run.process import Ending, Process
from pycomms.ft.run.writer import Writer

STDOUT, STDERR = 1, 2
_CONSOLE_ONLY = Destination(file=None, console=True)
_SPARE = "from pycomms.ft.run._spare import main; main({})"


def command_of(program: Program, environment: Mapping[str, str]) -> list[str]:
    """Python's output is not buffered: what a worker has printed before it dies is not lost."""
    if program.kind is Kind.PROGRAM:
        return [program.name, *program.arguments]
    module = ["-m"] if program.kind is Kind.MODULE else []
    return [_python(environment), "-u", *module, program.name, *program.arguments]


def _python(environment: Mapping[str, str]) -> str:
    return environment.get("PYTHON_EXEC", sys.executable)


class Child:
    """A process with its two streams."""

    def __init__(self, process: Process, stdout: Stream, stderr: Stream) -> None:
        self.process, self.stdout, self.stderr = process, stdout, stderr
        stdout.started()
        stderr.started()

    async def drained(self, within: float) -> None:
        await self.stdout.drained(within)
        await self.stderr.drained(within)


def spawn(
    command: list[str], environment: Mapping[str, str], stdout: Stream, stderr: Stream, pass_fds: tuple[int, ...] = ()
) -> Child:
    process = Process(command, environment, stdout=stdout.write_end, stderr=stderr.write_end, pass_fds=pass_fds)
    return Child(process, stdout, stderr)


class Spare:
    """A process that has imported torch and pycomms, or is about to, and waits to be told which worker it is."""

    def __init__(
        self,
        environment: Mapping[str, str],
        writer: Writer,
        *,
        ready: Callable[[], None],
        ended: Callable[[Spare, Ending], None],
    ) -> None:
        ours, its = socket.socketpair()
        with its:
            its.set_inheritable(True)
            self.child = spawn(
                [_python(environment), "-u", "-c", _SPARE.format(its.fileno())],
                environment,
                Stream(_CONSOLE_ONLY, writer, STDOUT, b"[spare]:"),
                Stream(_CONSOLE_ONLY, writer, STDERR, b"[spare]:"),
                pass_fds=(its.fileno(),),
            )
        ours.setblocking(False)
        self._socket = ours
        self.ready = False  # it has imported all, and lives
        self._ready = ready
        self._ended: Callable[[Ending], None] = lambda ending: ended(self, ending)
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(ours, self._spoken)
        self.child.process.watch(self._process_ended)

    def _spoken(self) -> None:
        self._loop.remove_reader(self._socket)
        with suppress(OSError):
            if self._socket.recv(1) == b"r":
                self.ready = True
                self._ready()

    def _process_ended(self, ending: Ending) -> None:
        self.ready = False
        self._ended(ending)

    def become(self, program: Program, environment: Mapping[str, str], ended: Callable[[Ending], None]) -> Child:
        """It runs the program now, as a worker with this environment. It must be ready."""
        self._ended = ended
        order = {
            "kind": program.kind.value,
            "name": program.name,
            "arguments": program.arguments,
            "environment": dict(environment),
        }
        data = json.dumps(order).encode()
        self._socket.setblocking(True)
        self._socket.settimeout(5.0)
        with suppress(OSError):  # it has died meanwhile: its end is seen as a worker's
            self._socket.sendall(len(data).to_bytes(4, "little") + data)
        self._socket.close()
        return self.child

    def close(self) -> None:
        self.child.process.kill()
        self._loop.remove_reader(self._socket)
        self._socket.close()


def free_port() -> int:
    """One that nobody uses at this moment."""
    with socket.create_server(("", 0)) as probe:
        port: int = probe.getsockname()[1]
        return port
