"""The host with the coordinator is lost: the next one in the list takes over, and gives way when the first is back."""

from __future__ import annotations

import os
import signal
import socket
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

from pycomms.ft.coordinator.auth import make_token
from pycomms.ft.run.spawning import free_port

from ._running import Running, wait_for

pytestmark = pytest.mark.needs_torch("2.14", "elastic sessions")

PROGRAM = """
    import os
    import torch
    from torch import nn
    from pycomms import ft

    torch.set_num_threads(1)
    torch.manual_seed(1)
    model = nn.Linear(4, 2)
    session = ft.Session(model, torch.optim.SGD(model.parameters(), lr=0.01), min_ranks=2)
    world, first = 0, 0
    for step in session.steps(until=1_000_000):
        with step:
            model(torch.ones(3, 4)).square().mean().backward()
            step.optimizer_step()
        if step.committed and step.world != world:
            world = step.world
            print("slot", session.slot, "world", world, "step", step.number, flush=True)
"""


def listens(port: int) -> bool:
    with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
        return True
    return False


def test_the_host_of_the_coordinator_is_lost_and_comes_back(tmp_path: Path, warm_python: str) -> None:
    make_token(tmp_path / "token")
    ports = free_port(), free_port()
    options = (
        "--nnodes=3",
        "--rdzv-backend=c10d",
        f"--rdzv-endpoint=127.0.0.1:{ports[0]},127.0.0.1:{ports[1]}",
        f"--token-file={tmp_path / 'token'}",
        "--recovery-deadline=4",
        "--no-prefix",
        f"--log-dir={tmp_path / 'logs'}",
        "--no-python",
        warm_python,
    )
    with ExitStack() as stack:

        def start(name: str) -> Running:
            (tmp_path / name).mkdir()
            return stack.enter_context(Running(tmp_path / name, PROGRAM, *options))

        first = start("first")
        assert wait_for(lambda: listens(ports[0]))
        others = [start("second")]
        assert wait_for(lambda: listens(ports[1]))
        others.append(start("third"))
        for job in (first, *others):
            job.line("world 3")
        os.kill(first.process.pid, signal.SIGKILL)
        for job in others:
            job.line("world 2")
        again = start("again")
        again.line("world 3")
        for job in others:
            job.line("world 3", count=2)
            assert job.count("started again") == 0, job.lines
