"""The standard job of `pycomms chaos` over torch's gloo with enable_reconfigure: whoever gets an error from a step says
so to the launcher, and goes on with the members that this names. Started by `python -m bench.chaos.reconfigure`.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import sys
import time
from datetime import timedelta

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import TCPStore

from bench.ft.workers.with_gloo import next_group
from pycomms import chaos
from pycomms.bench.protocol import Hello, Link, LinkError, connect
from pycomms.chaos.workload import Tally

GROUP_TIMEOUT = timedelta(seconds=3)
REGROUP_TIMEOUT = timedelta(seconds=10)
TRIES = 5
SAMPLES = 4


class Member:
    def __init__(self, slot: int, link: Link, arguments: argparse.Namespace) -> None:
        self._slot = slot
        self._link = link
        self._pause: float = arguments.pause
        self._tally = Tally(arguments.elements, torch.float64)
        self._place = 0

    def train(self, until: int) -> None:
        self._regroup()
        while self._tally.steps < until:
            try:
                has_to_stop = self._step(self._tally.steps + 1)
            except RuntimeError as error:  # as gloo raises it
                print(f"rank {self._slot}: {error}", file=sys.stderr, flush=True)
                has_to_stop = True
            if has_to_stop:
                self._regroup()
        self._link.send(json.dumps({"done": True}))
        chaos.record("finished", step=self._tally.steps, digest=self._tally.digest)

    def _step(self, number: int) -> bool:
        """Whether all stop behind this step: somebody wants to join."""
        chaos.step(number)
        first = self._place + SAMPLES * dist.get_rank()
        time.sleep(self._pause)
        wants = torch.tensor([0.0 if self._link.quiet() else 1.0], dtype=torch.float64)
        flat = torch.cat([self._tally.contribution(number, self._slot), wants])
        dist.all_reduce(flat)
        self._tally.hold(flat[:-1], list(range(first, first + SAMPLES)))
        self._tally.step()
        self._place += SAMPLES * dist.get_world_size()
        return bool(flat[-1])

    def _regroup(self) -> None:
        """Raises RuntimeError where it does not succeed in any of the tries, and the process ends."""
        for number in range(TRIES):
            try:
                next_group(self._link, REGROUP_TIMEOUT)
                self._catch_up()
            except RuntimeError:
                if number == TRIES - 1:
                    raise
            else:
                return

    def _catch_up(self) -> None:
        """Who has taken fewer steps than others takes the state of the first of those."""
        own = torch.tensor([self._tally.steps, self._place, self._tally.digest])
        states = [torch.zeros_like(own) for _ in range(dist.get_world_size())]
        dist.all_gather(states, own)
        best = max(states, key=lambda state: int(state[0]))
        if int(best[0]) > self._tally.steps:
            self._tally.steps, self._place, self._tally.digest = (int(one) for one in best)
            chaos.record("restored", step=self._tally.steps)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.chaos.member")
    parser.add_argument("--number", type=int, required=True, help="of this process: never used before")
    parser.add_argument("--store-port", type=int, required=True)
    parser.add_argument("--socket", required=True)
    parser.add_argument("--elements", type=int, default=4096)
    parser.add_argument("--pause", type=float, default=0.005)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    slot = int(os.environ["RANK"])
    store = TCPStore("127.0.0.1", arguments.store_port, None, False)
    number = arguments.number  # its handles are unique only if the first ranks are
    dist.init_process_group(
        "gloo", store=store, rank=number, world_size=number + 1, timeout=GROUP_TIMEOUT, enable_reconfigure=True
    )
    hello = Hello(contestant="chaos", rank=slot, pid=os.getpid(), version=f"torch {torch.__version__}")
    try:
        Member(slot, connect(arguments.socket, hello), arguments).train(chaos.steps(60))
    except LinkError:
        sys.exit("the launcher is gone")
    gc.freeze()


if __name__ == "__main__":
    main()
