"""What a spare runs: it imports what takes long, waits for its order on a socket, and becomes a worker.

Its agent starts it by way of _boot.py, so it ends with the agent, as workers do.
"""

from __future__ import annotations

import json
import runpy
import socket
import sys
from pathlib import Path
from typing import Any

from pycomms._config import set_in_environment

_LENGTH = 4


def main(descriptor: int) -> None:
    """Returns or raises as the program does; ends silently when the agent wants no spare any more."""
    with socket.socket(fileno=descriptor) as agent:
        _import()
        agent.sendall(b"r")
        order = _order(agent)
    if order is not None:
        _become(order)


def _import() -> None:
    import torch
    import torch.distributed
    import torch.nn.parallel
    import torch.optim

    import pycomms
    import pycomms.flight_recorder._process
    import pycomms.ft._unix_line
    import pycomms.ft.link
    import pycomms.ft.session
    import pycomms.process_group._create
    import pycomms.rma

    # The first optimizer of a process imports torch's compiler, which takes nearly as long as torch itself.
    torch.optim.SGD([torch.nn.Parameter(torch.empty(1))])
    pycomms.flight_recorder._process.prepare()


def _order(agent: socket.socket) -> Any:
    # The only wait without a deadline of its own: it ends with the agent, whose end closes the socket.
    head = _exactly(agent, _LENGTH)
    body = _exactly(agent, int.from_bytes(head, "little")) if head else b""
    return json.loads(body) if body else None


def _exactly(agent: socket.socket, count: int) -> bytes:
    data = b""
    while len(data) < count:
        piece = agent.recv(count - len(data))
        if not piece:
            return b""
        data += piece
    return data


def _become(order: dict[str, Any]) -> None:
    set_in_environment(order["environment"])
    safe = getattr(sys.flags, "safe_path", False)  # from 3.11 on: nothing is put before the path
    if order["kind"] == "module":
        sys.argv = [order["name"], *order["arguments"]]
        runpy.run_module(order["name"], run_name="__main__", alter_sys=True)
        return
    sys.argv = [order["name"], *order["arguments"]]
    if not safe:
        sys.path[0] = str(Path(order["name"]).resolve().parent)
    runpy.run_path(order["name"], run_name="__main__")
