"""python _server.py DOOR: forks interpreters that have torch; see __init__.py. Ends when its standard input does.

One thread, for it forks. Each client is a connection: if it ends early, its process is killed.
"""

from __future__ import annotations

import ctypes
import gc
import importlib
import json
import os
import runpy
import selectors
import signal
import socket
import sys
import warnings
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_LENGTH = 8
# What programs of tests import, and torch's compiler, which it imports for the first optimizer.
_IMPORTED = ("torch", "torch.distributed", "torch.distributed.run", "torch._dynamo", "pytest")
_FILES = 6  # standard input, output and error, and namespaces: net, uts, mnt
_NAMESPACE_NAMES = ("net", "uts", "mnt")


@dataclass(frozen=True)
class Order:
    arguments: list[str]
    environment: dict[str, str]
    folder: str
    files: list[int]


@dataclass(frozen=True)
class Child:
    pid: int
    end: int  # pidfd
    client: socket.socket


def serve(door: str) -> Order | None:
    """Returns in each child, with what it is to do; in the server, None at the end."""
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listener.bind(door)
    listener.listen(64)
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    children: set[Child] = set()
    events = selectors.DefaultSelector()
    events.register(0, selectors.EVENT_READ, "over")
    events.register(listener, selectors.EVENT_READ, "new")
    while True:
        for key, _ in events.select():
            what: Any = key.data
            if what == "over":
                for child in children:
                    os.kill(child.pid, signal.SIGKILL)
                return None
            if what == "new":
                client = listener.accept()[0]
                order = _receive(client)
                if order is None:
                    client.close()
                    continue
                pid = os.fork()
                if pid == 0:
                    events.close()
                    for open_file in (listener, client, *(child.client for child in children)):
                        open_file.close()
                    for child in children:
                        os.close(child.end)
                    return order
                for file in order.files:
                    os.close(file)
                child = Child(pid, os.pidfd_open(pid), client)
                children.add(child)
                _tell(client, pid)
                events.register(child.end, selectors.EVENT_READ, child)
                events.register(client, selectors.EVENT_READ, child)
            elif isinstance(what, Child) and what in children:
                if key.fd != what.end:  # its client is gone
                    os.kill(what.pid, signal.SIGKILL)
                _tell(what.client, os.waitstatus_to_exitcode(os.waitpid(what.pid, 0)[1]))
                events.unregister(what.end)
                events.unregister(what.client)
                os.close(what.end)
                what.client.close()
                children.remove(what)


def _receive(client: socket.socket) -> Order | None:
    client.settimeout(10.0)
    with suppress(OSError, ValueError):
        length, files, _, _ = socket.recv_fds(client, _LENGTH, _FILES)
        text = b""
        while len(text) < int.from_bytes(length, "little"):
            text += client.recv(1 << 20) or b"\0"  # which is no JSON
        return Order(**json.loads(text), files=files)
    return None


def _tell(client: socket.socket, number: int) -> None:
    with suppress(OSError):  # it is gone, which its connection says
        client.sendall(f"{number}\n".encode())


def become(order: Order) -> None:
    """This process goes on as `python *arguments` of the one who asked."""
    os.setsid()
    libc = ctypes.CDLL(None, use_errno=True)
    for name, file in zip(_NAMESPACE_NAMES, order.files[3:], strict=True):
        same = os.path.samestat(Path(f"/proc/self/ns/{name}").stat(), os.fstat(file))
        if not same and libc.setns(file, 0) != 0:
            sys.exit(f"setns to another {name} namespace: {os.strerror(ctypes.get_errno())}")
    os.chdir(order.folder)
    for standard, file in enumerate(order.files[:3]):
        os.dup2(file, standard)
    for file in order.files:
        os.close(file)
    os.environ.clear()
    os.environ.update(order.environment)
    _run(order.arguments)


def _run(arguments: list[str]) -> None:
    if arguments[0] == "-u":
        sys.stdout.reconfigure(write_through=True)  # type: ignore[union-attr]  # a TextIOWrapper
        arguments = arguments[1:]
    if arguments[0] == "-W":
        warnings.simplefilter(arguments[1])  # type: ignore[arg-type]  # one of its words
        arguments = arguments[2:]
    _customize()
    how, *rest = arguments
    sys.path[0] = str(Path.cwd() if how.startswith("-") else Path(how).resolve().parent)
    sys.path[1:1] = [path for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path]
    if how == "-c":
        sys.argv = ["-c", *rest[1:]]
        exec(compile(rest[0], "<string>", "exec"), {"__name__": "__main__"})
    elif how == "-m":
        sys.argv = ["-m", *rest[1:]]
        runpy.run_module(rest[0], run_name="__main__", alter_sys=True)
    else:
        sys.argv = [how, *rest]
        runpy.run_path(how, run_name="__main__")


def _customize() -> None:
    """As an interpreter does at its start, where PYTHONPATH has something for that."""
    for folder in os.environ.get("PYTHONPATH", "").split(os.pathsep):
        if folder and (Path(folder) / "sitecustomize.py").exists():
            sys.path.insert(1, folder)
            sys.modules.pop("sitecustomize", None)
            importlib.import_module("sitecustomize")
            break


def main() -> None:
    for name in _IMPORTED:
        importlib.import_module(name)
    gc.collect()
    gc.freeze()  # what is here stays: no child has to look at it again, which would copy all of it
    order = serve(sys.argv[1])
    if order is not None:
        become(order)


if __name__ == "__main__":
    main()
