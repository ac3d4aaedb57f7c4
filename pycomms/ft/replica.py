"""Models that are sharded inside of replicas: the part of this process, and those that it shares it with."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from itertools import count
from typing import TYPE_CHECKING, cast
from zlib import crc32

import torch.distributed as dist
from torch import nn
from torch._C._distributed_c10d import HashStore
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import FSDPModule
from torch.distributed.tensor import DTensor

import pycomms
from pycomms._config import launch
from pycomms._config import membership as told_by_launcher
from pycomms.ft._arguments import expect_int
from pycomms.ft._checkpoint_parts import Part
from pycomms.ft._own_groups import lone_backend
from pycomms.ft.core import recovery, replicas
from pycomms.ft.core.messages import Seat
from pycomms.ft.errors import NothingToRestoreFrom
from pycomms.process_group import _tables
from pycomms.process_group._exchange import Deadline, share

if TYPE_CHECKING:
    from torch.distributed.distributed_c10d import GroupName

_numbers = count()


class Replica:
    """This process's shard of a model, one of ``shards``; as many neighbouring slots of the job hold a replica.

        replica = ft.Replica(shards=2)
        fully_shard(model, mesh=replica.mesh)
        session = ft.Session(model, optimizer, replica=replica, min_ranks=2)

    Making it says nothing to anybody, and no group in it communicates before the session's first step. In a step the
    members of a replica gather parameters and reduce gradients over :attr:`group`, as FSDP2 does; the session sums the
    gradients of equal shards over all replicas.

    When one member dies, its replica stops as a whole: the others of it wait in the session until the dead one's place
    is taken, and then fetch what they have missed. The other replicas do the step again at once. Each shard is fetched
    from members that have the same.

    Args:
        shards: members of a replica. The job should have a multiple of it; who has no whole replica waits.
        device_type: of the mesh.
        slot: of this process; None: what ``pycomms run`` says, or the rank.

    Attributes:
        shard: which one this process has, from 0.
        mesh: one-dimensional, over the members of the replica; its dimension is called "shard".
        group: of the mesh.

    Raises:
        ValueError: shards is less than 1, or slot less than 0.
        TypeError: one of them is no int.
        RuntimeError: this torch is older than 2.13: its FSDP2 cannot go on after a failure.
    """

    def __init__(self, shards: int, *, device_type: str = "cpu", slot: int | None = None) -> None:
        expect_int("Replica", "shards", shards, 1)
        if slot is not None:
            expect_int("Replica", "slot", slot, 0)
        if not hasattr(FSDPModule, "reset_iter_state"):
            raise RuntimeError("Replica: FSDP2 can go on after a failure since torch 2.13; this torch is older")
        self.shards = shards
        self.shard = (_own_slot() if slot is None else slot) % shards
        name = f"pycomms-replica-{next(_numbers)}"
        self._backend = lone_backend(self.shard, shards, name=name)
        self.group = _named_group(self._backend, name)
        self.mesh = _mesh(self.group, device_type)
        self._peers_backend = lone_backend(name=f"{name}-peers")
        self.peers = _named_group(self._peers_backend, f"{name}-peers")
        self._peer_ranks: Sequence[int] = (0,)
        self._first_rank = 0
        self._roots: list[FSDPModule] = []
        self._tag = ""

    # What a session asks for.

    def bind(self, model: nn.Module | None, micro_batches: int | None, timeout: timedelta) -> None:
        """Raises ValueError where a session with such a model cannot have a replica."""
        if micro_batches is not None and micro_batches % self.shards:
            raise ValueError(
                f"Session: micro_batches is {micro_batches}, expected a multiple of the replica's {self.shards} "
                "shards, whose members go through the model together"
            )
        if model is None:
            raise ValueError("Session: a replica needs the model that is sharded on its mesh")
        whole = [name for name, one in model.named_parameters() if one.requires_grad and not isinstance(one, DTensor)]
        if whole:
            raise ValueError(
                f"Session: the model's {', '.join(whole[:3])}: not sharded; with a replica, fully_shard() all of it "
                "on the replica's mesh"
            )
        self._roots = _outermost(model)
        for backend in (self._backend, self._peers_backend):
            backend.options._timeout = timeout

    @property
    def part(self) -> Part:
        """What this member writes of a checkpoint."""
        return Part(index=self.shard, of=self.shards, tag=self._tag)

    def lack(self, seats: Sequence[Seat]) -> replicas.Lack | None:
        return replicas.lack(seats, self.shards)

    def plan(self, seats: Sequence[Seat]) -> recovery.Plan:
        return replicas.plan(seats, self.shards)

    def choose(self, seats: Sequence[Seat], min_ranks: int) -> tuple[Seat, ...]:
        """Who of an epoch is in its group. Raises NothingToRestoreFrom."""
        try:
            return tuple(seats[rank] for rank in replicas.chosen(seats, self.shards, min_ranks))
        except recovery.NothingToRestoreFromError as err:
            raise NothingToRestoreFrom(str(err)) from err

    def form(self, group: dist.ProcessGroup, uuid: int, timeout: timedelta) -> None:
        """The group of the replica and that of the same shard, once the one of all stands. Collective over it."""
        deadline = Deadline(timeout)
        rank = group.rank()
        own = (self._backend.regroup_handle(), self._peers_backend.regroup_handle())
        handles = share(group, range(group.size()), own, deadline)
        self._first_rank = rank - rank % self.shards
        inner = range(self._first_rank, self._first_rank + self.shards)
        self._peer_ranks = range(self.shard, group.size(), self.shards)
        of_replica = [handles[one][0] for one in inner]
        self._tag = f"{uuid:x}.{crc32(' '.join(of_replica).encode()):08x}"  # of these processes, in this epoch
        works = [
            self._backend.regroup(uuid=uuid, handles=of_replica, timeout=deadline.left()),
            self._peers_backend.regroup(
                uuid=uuid, handles=[handles[one][1] for one in self._peer_ranks], timeout=deadline.left()
            ),
        ]
        for work in works:
            work.wait()
        _tables.set_ranks(self.group, inner)
        _tables.set_ranks(self.peers, self._peer_ranks)

    def give_up(self) -> None:
        """Whoever waits in one of the groups, here or elsewhere, raises."""
        self._backend.abort()
        self._peers_backend.abort()

    def put_in_order(self) -> None:
        """After an exception in the middle of a step: FSDP2 begins anew, and without its gradients."""
        for root in self._roots:
            root.reset_iter_state()
            _drop_gradients(root)

    def blame(self, error: BaseException | None) -> BaseException | None:
        """An error of one of the groups, as one of the group of all."""
        if not isinstance(error, pycomms.PycommsError):
            return error
        if error.group == self._backend.options.group_name:
            ranks = tuple(self._first_rank + rank for rank in error.ranks)
        elif error.group == self._peers_backend.options.group_name:
            ranks = tuple(self._peer_ranks[rank] for rank in error.ranks)
        else:
            return error
        return type(error)(str(error), ranks=ranks, op=error.op, seq=error.seq, group=error.group, rank=error.rank)


def _own_slot() -> int:
    told = told_by_launcher()
    if told.slot >= 0:
        return told.slot
    if dist.is_initialized():
        return dist.get_rank()
    return max(0, launch().rank)


def _named_group(backend: pycomms._C.Backend, name: str) -> dist.ProcessGroup:
    """One that torch's Python can find, as FSDP2 and DTensor want it; it follows no regroup but its own."""
    kind = _tables.Kind(backend_name="nccl2", backend_config="cpu:nccl2,cuda:nccl2", device=None)
    return _tables.new_group(
        backend,
        kind,
        store=HashStore(),
        name=cast("GroupName", name),
        description="replicas",
        tag=name,
        ranks=range(backend.size()),
        is_apart=True,
    )


def _mesh(group: dist.ProcessGroup, device_type: str) -> DeviceMesh:
    """torch would ask for the rank of this process among all, which it does not have yet."""
    mesh = DeviceMesh(
        device_type, list(range(group.size())), mesh_dim_names=("shard",), _init_backend=False, _rank=group.rank()
    )
    mesh._dim_group_names = [group.group_name]
    mesh._pg_registry[group.group_name] = group
    return mesh


def _drop_gradients(root: FSDPModule) -> None:
    """Gradients of whole parameters that were not reduced yet, which the next backward pass would add to.

    `reset_iter_state` says that it discards them, and up to torch 2.14 it does not.
    """
    for state in root._get_fsdp_state()._state_ctx.all_states:
        for group in state._fsdp_param_groups:
            for parameter in group.fsdp_params:
                if hasattr(parameter, "_unsharded_param"):
                    parameter._unsharded_param.grad = None
                if parameter.unsharded_accumulated_grad is not None:  # since torch 2.15 the same as the one above
                    parameter.unsharded_accumulated_grad = None


def _outermost(module: nn.Module) -> list[FSDPModule]:
    if isinstance(module, FSDPModule):
        return [module]
    return [root for child in module.children() for root in _outermost(child)]
