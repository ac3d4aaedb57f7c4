"""What a function that runs on a rank may ask for beside its arguments. Lives in the worker process only."""

from __future__ import annotations

import importlib
import signal
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import torch.distributed as dist
from torch._C._distributed_c10d import FileStore, PrefixStore, Store

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

    from .job import Job

_STORE_TIMEOUT = timedelta(seconds=60)


def register_backend() -> None:
    """Before a rank makes a group of ours by itself."""
    importlib.import_module("pycomms")


class Context:
    def __init__(self, job: Job, parent: Connection) -> None:
        self._job = job
        self._parent = parent

    @property
    def backend(self) -> str:
        return self._job.backend

    def store(self, name: str) -> Store:
        """A store of this run, shared by its ranks. In a file, so that it outlives any rank."""
        file = FileStore(self._job.store_path)
        file.set_timeout(_STORE_TIMEOUT)
        return PrefixStore(name, file)

    def init(self, name: str = "world", timeout: float | None = None, **options: Any) -> None:
        """init_process_group over all ranks of this run."""
        if self.backend == "nccl2":
            register_backend()
        dist.init_process_group(
            self.backend,
            store=self.store(name),
            rank=self._job.rank,
            world_size=self._job.world,
            timeout=timedelta(seconds=timeout or self._job.group_timeout),
            **options,
        )

    def signpost(self, name: str) -> None:
        """Lets ranks that are in `await_signpost(name)` go on."""
        self._signposts().set(name, "1")

    def await_signpost(self, name: str) -> None:
        self._signposts().wait([name], _STORE_TIMEOUT)

    def meet(self, name: str) -> None:
        """Returns when all ranks have called it; the group is not used."""
        self.signpost(f"{name}, rank {self._job.rank}")
        for rank in range(self._job.world):
            self.await_signpost(f"{name}, rank {rank}")

    def await_death(self) -> None:
        """Of this process, by the test. Not at a signpost: whoever dies while it writes to a FileStore leaves half an
        entry, which all others then read for ever.
        """
        while True:
            signal.pause()

    def _signposts(self) -> Store:
        return self.store("signposts")

    def let_go(self) -> None:
        """In a forked child that lives on: the test is to hear when the process ends, and not when the child does."""
        self._parent.close()

    def tell(self, message: Any) -> None:
        """Hands a message to the parent: `Run.told(rank)` waits for it."""
        self._parent.send(("told", message))

    def hear(self) -> Any:
        """Waits for the next message that the parent gave to `Run.send`. For functions on fresh workers."""
        return self._parent.recv()  # ends when the parent does


_current: Context | None = None


def context() -> Context:
    if _current is None:
        raise RuntimeError("context() is for functions that run on a rank")
    return _current


def set_context(current: Context | None) -> None:
    global _current
    _current = current
