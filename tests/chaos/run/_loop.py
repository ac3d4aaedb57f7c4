"""A worker without torch, for faults that do not need it: steps, and messages to the other rank over TCP if wanted.

python _loop.py STEPS [PORT]: rank 0 listens at the port, rank 1 connects; each step is then one message there and back.
"""

from __future__ import annotations

import os
import select
import socket
import sys
import threading

STEPS = int(sys.argv[1])
PORT = int(sys.argv[2]) if len(sys.argv) > 2 else 0
RANK = int(os.environ["RANK"])
LIMIT_S = 60.0
worker = sys.modules["_pycomms_chaos"].worker


def connected() -> socket.socket:
    """It does not block, as those of torch's backends do not."""
    found = accepted()
    found.setblocking(False)
    return found


def accepted() -> socket.socket:
    if RANK == 0:
        with socket.create_server(("127.0.0.1", PORT)) as server:
            return server.accept()[0]
    while True:
        try:
            return socket.create_connection(("127.0.0.1", PORT))
        except ConnectionRefusedError:
            threading.Event().wait(0.01)


def swapped(peer: socket.socket | None) -> bytes:
    """Stands for an operation."""
    if peer is None:
        threading.Event().wait(0.005)
        return b"x"
    try:
        peer.sendall(b"x")
        select.select([peer], [], [], LIMIT_S)
        heard = peer.recv(1)
    except OSError:
        return b""
    if heard not in (b"x", b""):
        worker.record({"kind": "note", "text": f"heard {heard!r}"})
    return heard


peer = connected() if PORT else None
for number in range(1, STEPS + 1):
    worker.step(number, "program")
    if not worker.operation("all_reduce", swapped, (peer,), {}):
        sys.exit(3)
    try:
        os.close(os.open(os.devnull, os.O_RDONLY))
    except OSError as error:
        worker.record({"kind": "note", "text": error.strerror})
worker.record({"kind": "finished", "step": STEPS, "digest": 0})
