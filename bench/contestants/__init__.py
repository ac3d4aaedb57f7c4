"""Who takes part: name, how its ranks are started, and why it cannot be when it cannot."""

from __future__ import annotations

from bench.contestants.limits import Limits
from bench.contestants.mpi import FLAVOURS, Mpi
from bench.contestants.oneccl import OneCcl
from bench.contestants.sockets import Sockets
from bench.contestants.torch_backends import TorchBackend
from pycomms.bench.contestants import Contestant, Setting, Unavailable

#: In the order of the report's columns; the first that took part is the one that others are compared with.
CONTESTANTS: tuple[Contestant, ...] = (
    TorchBackend("nccl2"),
    TorchBackend("gloo"),
    *(Mpi(flavour) for flavour in FLAVOURS),
    OneCcl(),
    TorchBackend("empty"),
    Limits(),
    Sockets(),
)

__all__ = ["CONTESTANTS", "Contestant", "Setting", "Unavailable"]
