"""What kind of membership a process has: found out when its session is made."""

from __future__ import annotations

import os
import secrets
import socket
from datetime import timedelta
from typing import TYPE_CHECKING

import torch.distributed as dist
from torch._C._distributed_c10d import HashStore
from torch.distributed import distributed_c10d as c10d

import pycomms
from pycomms import _C
from pycomms._config import Membership as Told
from pycomms._config import inherited
from pycomms._config import membership as told_by_launcher
from pycomms.ft._membership import Identity
from pycomms.ft._membership import Membership as Elastic
from pycomms.ft._static import StaticMembership
from pycomms.ft.core.messages import MemberId
from pycomms.ft.core.timeouts import Timeouts
from pycomms.process_group._tables import own_backend

if TYPE_CHECKING:
    from pycomms.ft._member import Membership

_DEFAULT_DEADLINE = timedelta(seconds=10)


def deadline(given: timedelta | None) -> timedelta:
    if given is not None:
        return given
    seconds = told_by_launcher().recovery_deadline
    return timedelta(seconds=seconds) if seconds else _DEFAULT_DEADLINE


def membership(timeouts: Timeouts, min_ranks: int) -> Membership:
    """Elastic where a coordinator is, otherwise the program's own group, or the one that its launcher's variables make.

    Raises:
        NotImplementedError: there is a coordinator, and this torch, older than 2.14, has groups of one size for good.
        ValueError: there is a coordinator, and the default group is not this process's alone or not of pycomms; or
            nobody has told this process who it is.
    """
    told = told_by_launcher()
    if told.agent or told.coordinator:
        return _elastic(told, timeouts, min_ranks)
    if not dist.is_initialized():
        environment = inherited()
        missing = [name for name in ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT") if name not in environment]
        if missing:
            raise ValueError(
                f"Session: {', '.join(missing)} not set, so this process is no member of a job: start it with "
                "pycomms run or torchrun, or set PYCOMMS_COORDINATOR and PYCOMMS_JOB_TOKEN_FILE"
            )
        dist.init_process_group("nccl2", timeout=timeouts.operation)
    return StaticMembership(c10d._get_default_group())


def _elastic(told: Told, timeouts: Timeouts, min_ranks: int) -> Elastic:
    from pycomms.ft.link import connect

    if not _C.can_regroup:
        raise NotImplementedError(
            f"Session: members come and go with torch 2.14 or newer, this is torch {_C.torch_version}; use torchrun, "
            "which starts all again when one dies"
        )
    group = group_of_one(timeouts)
    member = _member(told)
    identity = Identity(member=member, slot=told.slot if told.slot >= 0 else None, pid=os.getpid())
    link = connect(told, member, timeouts)
    elastic = Elastic(link, identity, timeouts, min_ranks, group)
    link.on_reconnect(elastic.announcement)
    return elastic


def _member(told: Told) -> MemberId:
    """Its name. Without an agent each process is a host of its own, of which one machine may have many."""
    nonce = told.member or secrets.token_hex(8)
    if told.agent:
        return MemberId(told.host or socket.gethostname(), nonce)
    return MemberId(f"{told.host or socket.gethostname()}:{os.getpid()}:{nonce[:8]}", nonce)


def group_of_one(timeouts: Timeouts) -> dist.ProcessGroup:
    if not dist.is_initialized():
        dist.init_process_group(
            "nccl2",
            store=HashStore(),
            rank=0,
            world_size=1,
            timeout=timeouts.operation,
            pg_options=pycomms.Options(connect=pycomms.Connect.LAZY),
        )
    group = c10d._get_default_group()
    if group.size() != 1 or own_backend(group) is None:
        raise ValueError(
            f"Session: the default group has {group.size()} ranks and backend {dist.get_backend(group)!r}; where "
            "members come and go, the session forms it: call ft.Session() without init_process_group()"
        )
    return group
