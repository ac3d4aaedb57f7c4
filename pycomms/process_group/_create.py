"""What torch.distributed calls to make the backend of a group."""

from __future__ import annotations

import atexit
from functools import cache
from typing import TYPE_CHECKING

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import Backend
from torch.distributed import distributed_c10d as c10d

from pycomms import _C
from pycomms._config import config, turn_nvls_off
from pycomms.flight_recorder._process import open_ring
from pycomms.process_group._memberships import agree_on_first
from pycomms.process_group._rebuild import connect_over
from pycomms.process_group._tables import own_backend

if TYPE_CHECKING:
    from torch._C._distributed_c10d import _DistributedBackendOptions


def create_backend(opts: _DistributedBackendOptions, options: object | None) -> Backend | None:
    """The backend of a new group. Collective over its members.

    Raises:
        TypeError: ``options`` are not the options of a backend.
        pycomms.CollectiveTimeout: the first rank of the group did not come.
    """
    own = _options(options)
    own._timeout = opts.timeout
    if own.nan_check is None:
        own.nan_check = _C.NanCheck.__members__[config().nan_check.upper()]
    own.group_name = opts.group_id
    own.register_segments = own.register_segments or config().register_segments
    own.global_ranks_in_group = opts.global_ranks_in_group
    if own.ranks_per_root < 0:
        own.ranks_per_root = config().ranks_per_root
    if getattr(opts, "enable_reconfigure", False):  # torch >= 2.14: it connects when it is regrouped
        own.enable_reconfigure = True
    if config().deterministic or torch.are_deterministic_algorithms_enabled():
        turn_nvls_off()
    open_ring(opts.group_rank if not opts.global_ranks_in_group else None)  # first: it is closed when groups are left
    _leave_at_exit()
    _name_membership(opts)
    parent = getattr(opts, "split_from", None)  # torch >= 2.14 splits groups of a bound device
    if isinstance(parent, _C.Backend):
        return parent.split(opts.store, opts.global_ranks_in_group, own)
    default = _regrouped_default(opts)
    if default is not None:
        return connect_over(default, opts.global_ranks_in_group, own, opts.timeout)
    return _C.create(opts.store, opts.group_rank, opts.group_size, own, str(config().engine), config().vector_width)


def _name_membership(opts: _DistributedBackendOptions) -> None:
    """Of a default group of several: what it is called when it regroups, for groups may merge."""
    group = getattr(opts, "process_group", None)
    if group is not None and not opts.global_ranks_in_group and opts.group_size > 1:
        agree_on_first(group, opts.store, opts.group_rank)


def _regrouped_default(opts: _DistributedBackendOptions) -> dist.ProcessGroup | None:
    """The default group, if this is to be a group of some of its members and they may have no store in common."""
    if not opts.global_ranks_in_group:
        return None
    default = c10d._get_default_group()
    backend = own_backend(default)
    return default if backend is not None and backend.generation > 0 else None


@cache
def _leave_at_exit() -> None:
    """Groups that nobody destroys end while there is still an interpreter for their callbacks to run in."""
    atexit.register(_C.leave_all_groups)


def _options(given: object | None) -> _C.Options:
    if given is None:
        return _C.Options(connect=_C.Connect.__members__[config().connect.upper()])
    if isinstance(given, _C.Options):
        return given
    if isinstance(given, Backend.Options):
        return _C.Options()  # those of another backend: what they have in common, torch gives us by itself
    raise TypeError(f"pg_options must be pycomms.Options, not {type(given).__name__}")
