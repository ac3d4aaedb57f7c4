"""A rank of the limit between hosts: two processes and one TCP connection.

    python -m bench.ranks.socket_rank --socket S --contestant sockets --rank 0 --address A --port P [--cores 0,1]

A thread of rank 1 takes what comes and answers with one word, asleep in the kernel in between, as a service does. A put
sends a header and the bytes; a get asks for bytes; an update is a header there and a word back: one round trip.
"""

from __future__ import annotations

import argparse
import os
import platform
import socket
import struct
import threading
import time
from functools import partial
from typing import Any, NoReturn, cast

import numpy as np

from bench.protocol import Hello, connect
from bench.ranks.loop import Rank, pin, serve
from bench.ranks.one_sided import VALUE
from bench.ranks.operations import Buffer, Call, Endpoint, Unsupported

HEADER = struct.Struct("<QQ")  # what, bytes
PUT, GET, UPDATE, WAIT, OPEN = range(5)
ADD, KEEP = 1, 0
PATIENCE_S = 60.0
CHUNK = 1 << 20


def receive(connection: socket.socket, into: memoryview) -> None:
    done = 0
    while done < len(into):
        got = connection.recv_into(into[done : done + CHUNK])
        if got == 0:
            raise EOFError
        done += got


def send(connection: socket.socket, head: bytes, data: memoryview) -> None:
    sent = connection.sendmsg([head, data]) - len(head)
    connection.sendall(data[sent:])


class Target(threading.Thread):
    """Rank 1's memory, and who serves it."""

    def __init__(self, connection: socket.socket) -> None:
        super().__init__(daemon=True)
        self._connection = connection
        self.memory = np.zeros(1, dtype=np.int64)

    def open(self, nbytes: int) -> None:
        self.memory = np.full(nbytes // 8, VALUE, dtype=np.int64)

    def run(self) -> None:
        head = memoryview(bytearray(HEADER.size))
        while True:
            try:
                receive(self._connection, head)
            except (EOFError, OSError):
                return
            what, count = HEADER.unpack(head)
            old = int(self.memory[0]).to_bytes(8, "little")
            if what == PUT:
                receive(self._connection, self.memory.data.cast("B"))
            elif what == UPDATE:
                self.memory[0] += count
            elif what == OPEN:
                self.open(count)
            if what == GET:
                self._connection.sendall(self.memory.data.cast("B"))
            else:
                self._connection.sendall(old)


class SocketWindow:
    """The origin's side asks; the target's looks at what has come. Neither side needs the other to be there."""

    def __init__(self, connection: socket.socket, target: Target | None, nbytes: int) -> None:
        self._connection = connection
        self._answer = memoryview(bytearray(8))
        if target is None:
            self.local: Buffer = np.zeros(nbytes // 8, dtype=np.int64)
            self._ask(HEADER.pack(OPEN, nbytes))
        else:
            self.local = np.zeros(0, dtype=np.int64)  # it is the thread's, and verified by the origin

    def buffer(self, count: int) -> Buffer:
        return np.zeros(count, dtype=np.int64)

    def put(self, data: Buffer) -> Call:
        head, view = HEADER.pack(PUT, data.nbytes), memoryview(data).cast("B")

        def call() -> None:
            send(self._connection, head, view)
            receive(self._connection, self._answer)

        return call

    def get(self, data: Buffer) -> Call:
        head, view = HEADER.pack(GET, data.nbytes), memoryview(data).cast("B")

        def call() -> None:
            self._connection.sendall(head)
            receive(self._connection, view)

        return call

    def fetch_add(self, value: int) -> Call:
        return partial(self._ask, HEADER.pack(UPDATE, value))

    def compare_swap(self, expected: int, desired: int) -> Call:
        return partial(self._ask, HEADER.pack(UPDATE, KEEP))

    def old(self, _: Any) -> int:
        return int.from_bytes(self._answer, "little")

    def copy(self, _: Buffer) -> Call:
        raise Unsupported("there is no mapped memory here")

    def rest(self) -> Call:
        return lambda: None

    def meet(self) -> None:
        """Every call has ended at the target when it returns."""

    def close(self) -> None:
        """The connection is for all windows."""

    def _ask(self, head: bytes) -> None:
        self._connection.sendall(head)
        receive(self._connection, self._answer)


class SocketEndpoint:
    """Rank 0 listens, rank 1 comes."""

    def __init__(self, rank: int, address: str, port: int) -> None:
        self.rank = rank
        self.world = 2
        self._connection = _listen(address, port) if rank == 0 else _come(address, port)
        self._connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._target = Target(self._connection) if rank == 1 else None
        if self._target is not None:
            self._target.start()

    def window(self, nbytes: int) -> SocketWindow:
        return SocketWindow(self._connection, self._target, nbytes)

    def __getattr__(self, name: str) -> NoReturn:
        raise Unsupported(f"two sockets have no {name}")


def _listen(address: str, port: int) -> socket.socket:
    with socket.create_server((address, port)) as listener:
        listener.settimeout(PATIENCE_S)
        connection, _ = listener.accept()
    connection.settimeout(None)
    return connection


def _come(address: str, port: int) -> socket.socket:
    deadline = time.monotonic() + PATIENCE_S
    while True:
        try:
            connection = socket.create_connection((address, port), timeout=PATIENCE_S)
        except ConnectionRefusedError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)
        else:
            connection.settimeout(None)
            return connection


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--socket", required=True)
    parser.add_argument("--contestant", required=True)
    parser.add_argument("--rank", type=int, required=True)
    parser.add_argument("--address", required=True)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--cores", default="")
    args = parser.parse_args()
    pin(args.cores, args.rank)
    endpoint = SocketEndpoint(args.rank, args.address, args.port)
    version = f"Linux {platform.release()}"
    hello = Hello(contestant=args.contestant, rank=args.rank, pid=os.getpid(), version=version)
    serve(connect(args.socket, hello), Rank(cast("Endpoint", endpoint)))


if __name__ == "__main__":
    main()
