"""A replica of torchft: a group of one process, with its manager in it, as in its train_ddp.py."""

from __future__ import annotations

import os
import time
from datetime import timedelta
from typing import Any

from torch._C._distributed_c10d import TCPStore

# In an environment of its own, which the type checker does not see.
from torchft import DistributedDataParallel, Manager, Optimizer, ProcessGroupGloo  # type: ignore[import-not-found]

from bench.ft.workers.work import Log, Training, parser


def main() -> None:
    found = parser()
    found.add_argument("--gloo-timeout", type=float, required=True)
    found.add_argument("--timeout", type=float, required=True)
    arguments = found.parse_args()
    slot = int(os.environ["REPLICA_GROUP_ID"])
    training = Training(arguments)
    log = Log(arguments.log, slot)
    log.say("joining", at=time.monotonic_ns())

    def load(state: dict[str, Any]) -> None:
        training.load(state)
        log.say("restored")

    store = TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)  # of this replica alone
    manager = Manager(
        pg=ProcessGroupGloo(timeout=timedelta(seconds=arguments.gloo_timeout)),
        min_replica_size=1,
        load_state_dict=load,
        state_dict=training.state,
        replica_id=f"bench_{slot}",
        timeout=timedelta(seconds=arguments.timeout),
        store_addr="127.0.0.1",
        store_port=store.port,
        rank=0,
        world_size=1,
        hostname="127.0.0.1",
    )
    optimizer = Optimizer(manager, training.optimizer)
    training.model = DistributedDataParallel(manager, training.model)
    while True:
        before = manager.current_step()
        optimizer.zero_grad()
        training.loss().backward()
        optimizer.step()
        log.step(manager.current_step(), manager.current_step() > before, manager.num_participants())


if __name__ == "__main__":
    main()
