"""A rank is killed and the others train on; a new one joins them. None of them is started again.

    python examples/survive.py [--ranks 4] [--steps 300] [--json]

Four processes train a small network with DistributedDataParallel. After a third of the steps one of them is killed:
the others get `PeerFailure`, regroup without it, and repeat the step. After two thirds a newcomer joins, gets the
weights from the others, and takes part. The process that has started them tells the members who is in, through pipes;
in a larger job that is the launcher's or the scheduler's part.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import signal
import tempfile
import time
from dataclasses import asdict, dataclass
from datetime import timedelta
from multiprocessing.connection import Connection
from typing import Any

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import FileStore, HashStore
from torch.nn.parallel import DistributedDataParallel

import pycomms

WAIT = timedelta(seconds=20)


@dataclass(frozen=True)
class Event:
    """A regroup, as one member has seen it."""

    step: int
    what: str
    size: int  # of the group afterwards
    milliseconds: float


class Member:
    """One process of the job. `parent` says who is in, whenever that changes."""

    def __init__(self, parent: Connection, steps: int) -> None:
        self._parent = parent
        self._steps = steps
        self._step = 0
        self.events: list[Event] = []
        torch.manual_seed(0)
        torch.set_num_threads(1)
        self._network = torch.nn.Sequential(torch.nn.Linear(16, 64), torch.nn.Tanh(), torch.nn.Linear(64, 1))
        self._optimizer = torch.optim.SGD(self._network.parameters(), lr=0.05)
        self._wanted = torch.randn(16, 1)

    def wrap(self) -> None:
        """All get the weights of rank 0."""
        self._model = DistributedDataParallel(self._network)

    def train(self) -> float:
        loss = float("nan")
        while self._step < self._steps:
            try:
                loss = self._train_step()
                if self._somebody_waits():
                    self.regroup("a newcomer joined")
            except pycomms.PeerFailure as failure:
                self.regroup(f"rank {failure.ranks[0]} was killed")
        return loss

    def _train_step(self) -> float:
        inputs = torch.randn(64, 16)
        self._optimizer.zero_grad()
        loss = torch.nn.functional.mse_loss(self._model(inputs), inputs @ self._wanted)
        loss.backward()  # averages the gradients over whoever is in the group
        self._optimizer.step()
        self._step += 1
        self._parent.send(("step", self._step))
        return float(loss.detach())

    def _somebody_waits(self) -> bool:
        """Whether the parent has said so to anybody: all have to leave the loop at the same step."""
        told = torch.tensor([int(self._parent.poll())])
        dist.all_reduce(told, dist.ReduceOp.MAX)
        return bool(told)

    def regroup(self, why: str) -> None:
        self._parent.send(("handle", pycomms.regroup_handle()))
        while (answer := self._parent.recv()) == "somebody waits":
            pass
        uuid, handles = answer
        began = time.perf_counter()
        pycomms.regroup(uuid=uuid, handles=handles, timeout=WAIT).wait()
        took = 1e3 * (time.perf_counter() - began)
        # Rank 0 is the oldest member: the others go on from where it is.
        step = torch.tensor([self._step])
        dist.broadcast(step, src=0)
        self._step = int(step)
        self.wrap()
        self.events.append(Event(self._step, why, dist.get_world_size(), took))


def member(rank: int, world: int, parent: Connection, steps: int, path: str) -> None:
    newcomer = rank >= world
    store: Any = HashStore() if newcomer else FileStore(path, world)
    options = pycomms.Options(connect=pycomms.Connect.LAZY) if newcomer else None
    place = (0, 1) if newcomer else (rank, world)
    dist.init_process_group("nccl2", store=store, rank=place[0], world_size=place[1], timeout=WAIT, pg_options=options)
    own = Member(parent, steps)
    if newcomer:
        own.regroup("it joined")
    else:
        parent.recv()  # "begin"
        own.wrap()
    loss = own.train()
    parent.send(("done", (loss, [asdict(event) for event in own.events])))
    dist.destroy_process_group()


class Job:
    """Starts the members and tells them who is in."""

    def __init__(self, world: int, steps: int, path: str) -> None:
        self._context = multiprocessing.get_context("spawn")
        self._world, self._steps, self._path = world, steps, path
        self._uuid = 0
        self._members = {rank: self.start(rank) for rank in range(world)}
        self._spare = self.start(world)  # boots meanwhile

    def start(self, rank: int) -> tuple[Any, Connection]:
        ours, theirs = self._context.Pipe()
        args = (rank, self._world, theirs, self._steps, self._path)
        process = self._context.Process(target=member, args=args, daemon=True)
        process.start()
        theirs.close()
        return process, ours

    def kill(self, rank: int) -> None:
        process, _ = self._members.pop(rank)
        os.kill(process.pid, signal.SIGKILL)
        process.join(WAIT.total_seconds())

    def hear(self, rank: int, kind: str) -> Any:
        """The next message of that kind from a member; what comes before it is of no interest."""
        _, connection = self._members[rank]
        while True:
            if not connection.poll(WAIT.total_seconds()):
                raise TimeoutError(f"process {rank} did not say '{kind}'")
            said, value = connection.recv()
            if said == kind:
                return value

    def begin(self) -> None:
        """When all have booted, the spare too."""
        process, connection = self._spare
        while not connection.poll(0.1):
            if not process.is_alive():
                raise RuntimeError("the spare process ended")
        self.tell("begin")

    def await_step(self, step: int) -> None:
        while self.hear(0, "step") < step:
            pass

    def tell(self, message: str) -> None:
        for _, connection in self._members.values():
            connection.send(message)

    def let_spare_in(self) -> None:
        self.tell("somebody waits")
        self._members[self._world] = self._spare
        self.regroup()

    def regroup(self) -> None:
        """Tells all members who is in: the oldest first."""
        handles = [self.hear(rank, "handle") for rank in sorted(self._members)]
        self._uuid += 1
        for _, connection in self._members.values():
            connection.send((self._uuid, handles))

    def finish(self) -> dict[int, tuple[float, list[dict[str, Any]]]]:
        done = {rank: self.hear(rank, "done") for rank in self._members}
        for process, _ in self._members.values():
            process.join(WAIT.total_seconds())
        return done


def run(world: int, steps: int) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        job = Job(world, steps, f"{folder}/store")
        job.begin()
        job.await_step(steps // 3)
        job.kill(1)
        job.regroup()
        job.await_step(2 * steps // 3)
        job.let_spare_in()
        done = job.finish()
    return {"losses": {rank: loss for rank, (loss, _) in done.items()}, "events": done[0][1]}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--ranks", type=int, default=4)
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    if arguments.ranks < 2 or arguments.steps < 6:
        parser.error("at least 2 ranks and 6 steps are needed")
    result = run(arguments.ranks, arguments.steps)
    if arguments.json:
        print(json.dumps(result))
        return
    for event in result["events"]:
        took = f"{event['milliseconds']:.1f} ms"
        print(f"step {event['step']:4}: {event['what']}; regrouped to {event['size']} ranks in {took}")
    print(f"all {len(result['losses'])} ranks came to step {arguments.steps}")


if __name__ == "__main__":
    main()
