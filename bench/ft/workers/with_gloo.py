"""A training over torch's gloo with enable_reconfigure, kept alive by hand: it notices a death by the error that an
all_reduce raises, tells the launcher that it stands still, and goes on with the list of members that this gives it.
"""

from __future__ import annotations

import json
import os
import time
from datetime import timedelta

import torch
import torch.distributed as dist
from torch import Tensor
from torch._C._distributed_c10d import Store, TCPStore
from torch.distributed import distributed_c10d as c10d

from bench.ft.workers.work import Log, Training, parser
from pycomms.bench.protocol import Hello, Link, connect

GROUP_TIMEOUT = timedelta(seconds=3)
REGROUP_TIMEOUT = timedelta(seconds=20)


class Member:
    def __init__(self, training: Training, link: Link, log: Log) -> None:
        self._training = training
        self._link = link
        self._log = log
        self.committed = 0

    def train(self) -> None:
        self._regroup()
        while True:
            try:
                has_to_stop = self._step()
            except RuntimeError:  # as gloo raises it
                self._log.step(self.committed + 1, False, dist.get_world_size())
                has_to_stop = True
            if has_to_stop:
                self._regroup()

    def _step(self) -> bool:
        """Whether all stop behind this step: somebody wants to join."""
        training = self._training
        training.optimizer.zero_grad()
        training.loss().backward()
        gradient = training.parameter.grad
        assert gradient is not None
        wants = torch.tensor([0.0 if self._link.quiet() else 1.0])
        flat = torch.cat([gradient.reshape(-1), wants])
        dist.all_reduce(flat)
        gradient.copy_(flat[:-1].view_as(gradient).div_(dist.get_world_size()))
        training.optimizer.step()
        self.committed += 1
        self._log.step(self.committed, True, dist.get_world_size())
        return bool(flat[-1])

    def _regroup(self) -> None:
        """Raises RuntimeError when a death comes upon this, and the process ends: no trial kills here."""
        next_group(self._link, REGROUP_TIMEOUT)
        self._catch_up()

    def _catch_up(self) -> None:
        """Who has committed less than others takes the state of the first of those."""
        counts = [torch.zeros(1, dtype=torch.int64) for _ in range(dist.get_world_size())]
        dist.all_gather(counts, torch.tensor([self.committed]))
        committed = [int(count) for count in counts]
        highest = max(committed)
        if min(committed) == highest:
            return
        source = committed.index(highest)
        momentum = self._momentum()
        for tensor in (self._training.parameter.data, momentum):
            dist.broadcast(tensor, source)
        if self.committed < highest:
            self._training.optimizer.state[self._training.parameter]["momentum_buffer"] = momentum
            self._log.say("restored")
        self.committed = highest

    def _momentum(self) -> Tensor:
        parameter = self._training.parameter
        found: Tensor | None = self._training.optimizer.state[parameter].get("momentum_buffer")
        return torch.zeros_like(parameter.data) if found is None else found


def next_group(link: Link, timeout: timedelta) -> None:
    """Tells the launcher that this process stands still, and forms the group that it names.

    Raises:
        RuntimeError: it cannot be formed.
        LinkError: the launcher is gone.
    """
    link.send(json.dumps({"handle": c10d._get_reconfigure_handle()}))
    while "handles" not in (told := json.loads(link.receive(None))):
        pass  # asked to stop: it does
    c10d._reconfigure(told["uuid"], told["handles"], timeout=timeout).wait()


def main() -> None:
    found = parser()
    found.add_argument("--number", type=int, required=True, help="of this process: never used before")
    found.add_argument("--slot", type=int, required=True)
    found.add_argument("--store-port", type=int, required=True)
    found.add_argument("--socket", required=True)
    found.add_argument("--job", required=True)
    arguments = found.parse_args()
    training = Training(arguments)
    log = Log(arguments.log, arguments.slot)
    log.say("joining", at=time.monotonic_ns())
    store: Store = TCPStore("127.0.0.1", arguments.store_port, None, False)
    number = arguments.number  # its handles are unique only if the first ranks are
    dist.init_process_group(
        "gloo", store=store, rank=number, world_size=number + 1, timeout=GROUP_TIMEOUT, enable_reconfigure=True
    )
    hello = Hello(contestant=arguments.job, rank=arguments.slot, pid=os.getpid(), version=f"torch {torch.__version__}")
    Member(training, connect(arguments.socket, hello), log).train()


if __name__ == "__main__":
    main()
