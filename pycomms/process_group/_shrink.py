"""Going on without some ranks: a smaller group in the place of one that has lost members."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import PrefixStore, _register_process_group, _unregister_process_group
from torch.distributed import distributed_c10d as c10d

from pycomms import _C

if TYPE_CHECKING:
    from collections.abc import Iterable

    from torch._C._distributed_c10d import Backend

_DEVICES = ("cpu", "cuda")


def shrink_group(
    ranks_to_exclude: Iterable[int],
    group: dist.ProcessGroup | None = None,
    *,
    abort: bool = False,
    options: Backend.Options | None = None,
) -> dist.ProcessGroup:
    """A group of the members of ``group`` that stay, in the same order. ``group`` itself ends.

    Collective over the ranks that stay; the others must not call it and need not be alive. If the default group is
    shrunk, the new one is the default group, ranks are numbered anew, and all other groups end, for they are made of
    ranks of the old one. The new group works on CPU and GPU tensors, as the old one did.

    The store of the default group must be alive: it is where the ranks that stay agree. If they do not all come before
    the timeout of ``options`` or of the group, or disagree, the error says who, and the group is as before.

    Args:
        ranks_to_exclude: ranks of ``group``; at least one stays.
        group: the group to shrink; None: the default group.
        abort: cancel what is in flight in ``group``, instead of waiting for it. For a group with dead members.
        options: of the new group; None: those of the old one.

    Raises:
        ValueError: a rank is not of the group, is named twice, or is the caller; or nobody would stay.
        TypeError: the group is not one of pycomms.
        pycomms.CollectiveTimeout: some did not come; ``ranks`` has them.
        pycomms.CollectiveMismatch: the callers want to exclude different ranks.
    """
    shrunk = group if group is not None else c10d._get_default_group()
    backend = _backend_of(shrunk)
    excluded = sorted(ranks_to_exclude)
    smaller = backend.shrink(excluded, int(abort), options)
    stay = [rank for index, rank in enumerate(dist.get_process_group_ranks(shrunk)) if index not in excluded]
    if shrunk is not c10d._get_default_group():
        return _exchange(shrunk, smaller, {rank: index for index, rank in enumerate(stay)})
    for other in [one for one in list(c10d._world.pg_map) if one is not shrunk]:
        other.abort()
        _forget(other)
    return _exchange(shrunk, smaller, {rank: rank for rank in range(len(stay))})


def _backend_of(group: dist.ProcessGroup) -> _C.Backend:
    backend = group._get_backend(torch.device("cpu"))
    if not isinstance(backend, _C.Backend):
        raise TypeError(f"shrink_group: the group's backend is {type(backend).__name__}, not one of pycomms")
    return backend


def _exchange(old: dist.ProcessGroup, backend: _C.Backend, group_rank_of: dict[int, int]) -> dist.ProcessGroup:
    """Ends the old group and tells torch about the new one, under the name and with the tag of its own."""
    world = c10d._world
    is_default = old is c10d._get_default_group()
    backend_name, store = world.pg_map[old]
    backend_config, device = world.pg_backend_config[old], old.bound_device_id
    description = f"{old.group_desc}:shrunk"
    old.abort()  # not shutdown(): that would wait for ranks that are gone
    _forget(old)

    name = backend.options.group_name
    new = dist.ProcessGroup(PrefixStore(f"{name}/", store), backend.rank(), backend.size())
    kind = dist.ProcessGroup.BackendType.CUSTOM
    new._set_default_backend(kind)
    if device is not None:
        new.bound_device_id = device
    for each in _DEVICES:
        new._register_backend(torch.device(each), kind, backend)
    new._set_group_name(name)
    new._set_group_desc(description)
    world.pg_map[new] = (backend_name, store)
    world.pg_names[new] = name
    world.pg_backend_config[new] = backend_config
    world.pg_group_ranks[new] = group_rank_of
    world.pg_to_tag[new] = f"ptd:{name}"
    for tag in ("", f"ptd:{name}"):
        world.tags_to_pg.setdefault(tag, []).append(new)
    _register_process_group(name, new)
    if is_default:
        c10d._update_default_pg(new)
    return new


def _forget(group: dist.ProcessGroup) -> None:
    world = c10d._world
    _unregister_process_group(world.pg_names.pop(group))
    for known in (world.pg_map, world.pg_group_ranks, world.pg_backend_config, world.pg_coalesce_state):
        known.pop(group, None)
    world.pg_to_tag.pop(group, None)
    for tag, groups in list(world.tags_to_pg.items()):
        world.tags_to_pg[tag] = [one for one in groups if one is not group]
        if not world.tags_to_pg[tag]:
            del world.tags_to_pg[tag]
