"""torch's Python tables of groups: what get_process_group_ranks() and its like look up. No other file writes them."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from types import GeneratorType
from typing import TYPE_CHECKING
from weakref import WeakSet, ref

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import Store, _register_process_group, _unregister_process_group
from torch.distributed import distributed_c10d as c10d

from pycomms import _C

if TYPE_CHECKING:
    from torch.distributed.distributed_c10d import GroupName

    Block = GeneratorType[object, None, None]
    """What is behind ``with _coalescing_manager():``."""

_DEVICES = ("cpu", "cuda")
_apart: WeakSet[dist.ProcessGroup] = WeakSet()
_open_blocks: set[ref[Block]] = set()


@dataclass(frozen=True, kw_only=True)
class Kind:
    """What a group has in common with the one that it comes from."""

    backend_name: str
    backend_config: str
    device: torch.device | None

    @staticmethod
    def of(group: dist.ProcessGroup) -> Kind:
        world = c10d._world
        return Kind(
            backend_name=world.pg_map[group][0],
            backend_config=world.pg_backend_config[group],
            device=group.bound_device_id,
        )


def new_group(
    backend: _C.Backend,
    kind: Kind,
    *,
    store: Store,
    name: GroupName,
    description: str,
    tag: str,
    ranks: Sequence[int],
    is_apart: bool = False,
) -> dist.ProcessGroup:
    """A group of torch around a backend.

    Args:
        ranks: of the default group, in the order of its own.
        is_apart: it does not follow the regroups of the default group.
    """
    world = c10d._world
    group = dist.ProcessGroup(store, backend.rank(), backend.size())
    custom = dist.ProcessGroup.BackendType.CUSTOM
    group._set_default_backend(custom)
    if kind.device is not None:
        group.bound_device_id = kind.device
    for each in _DEVICES:
        group._register_backend(torch.device(each), custom, backend)
    group._set_group_name(name)
    group._set_group_desc(description)
    world.pg_map[group] = (kind.backend_name, store)
    world.pg_names[group] = name
    world.pg_backend_config[group] = kind.backend_config
    world.pg_to_tag[group] = tag
    for each in dict.fromkeys(("", tag)):
        world.tags_to_pg.setdefault(each, []).append(group)
    set_ranks(group, ranks)
    _register_process_group(name, group)
    if is_apart:
        _apart.add(group)
    return group


def is_apart(group: dist.ProcessGroup) -> bool:
    return group in _apart


def set_ranks(group: dist.ProcessGroup, ranks: Sequence[int]) -> None:
    """Which ranks of the default group are in `group`, in the order of its own."""
    c10d._world.pg_group_ranks[group] = {rank: index for index, rank in enumerate(ranks)}


def forget(group: dist.ProcessGroup) -> None:
    world = c10d._world
    _unregister_process_group(world.pg_names.pop(group))
    for known in (world.pg_map, world.pg_group_ranks, world.pg_backend_config, world.pg_coalesce_state):
        known.pop(group, None)
    world.pg_to_tag.pop(group, None)
    for tag, groups in list(world.tags_to_pg.items()):
        world.tags_to_pg[tag] = [one for one in groups if one is not group]
        if not world.tags_to_pg[tag]:
            del world.tags_to_pg[tag]


def backend_of(group: dist.ProcessGroup, caller: str) -> _C.Backend:
    """Ours, of a group that is alive.

    Raises:
        TypeError: it is not a group of this process, or of another backend.
        ValueError: the group has ended.
    """
    if not isinstance(group, dist.ProcessGroup):
        raise TypeError(f"{caller}: group must be a ProcessGroup that this rank is a member of, got {group!r}")
    if group not in c10d._world.pg_map:
        raise ValueError(f"{caller}: group {group.group_name} has ended: it was destroyed, or shrunk before")
    backend = own_backend(group)
    if backend is None:
        kinds = sorted({type(group._get_backend(device)).__name__ for device in group._device_types})
        raise TypeError(f"{caller}: the group's backend is {', '.join(kinds)}, not one of pycomms")
    return backend


def own_backend(group: dist.ProcessGroup) -> _C.Backend | None:
    """Ours, if the group has it. It is one for all devices."""
    backends = [group._get_backend(device) for device in group._device_types]
    return next((backend for backend in backends if isinstance(backend, _C.Backend)), None)


def block_of_caller() -> ref[Block] | None:
    """For our C++: the generator behind a ``with`` that it was called in. None: it was called elsewhere."""
    frame = sys._getframe(1)
    entering = None if frame.f_back is None else frame.f_back.f_locals.get("self")
    block = entering.gen if isinstance(entering, contextlib._GeneratorContextManager) else None
    return ref(block) if isinstance(block, GeneratorType) and block.gi_frame is frame else None


def forget_block_when_left(block: Block) -> None:
    """torch takes a group out of its table of open blocks at the end of the block, and not when an exception leaves it:
    whatever is called after that is put aside for a block that never ends, and returns without having done anything.
    """
    table = c10d._world.pg_coalesce_state
    group, operations = _entry_of(block)
    if group is None:
        return

    def has_gone(watch: ref[Block]) -> None:
        _open_blocks.discard(watch)
        if table.get(group) is operations:
            del table[group]

    _open_blocks.add(ref(block, has_gone))


def forget_block(block: Block) -> None:
    """At once: it has been refused."""
    group, _ = _entry_of(block)
    if group is not None:
        del c10d._world.pg_coalesce_state[group]


def _entry_of(block: Block) -> tuple[dist.ProcessGroup | None, object]:
    """The group of a block of torch, and what has been put aside there; no group: it is somebody else's."""
    frame = block.gi_frame
    operations = None if frame is None else frame.f_locals.get("op_list")
    for group, aside in c10d._world.pg_coalesce_state.items():
        if aside is operations:
            return group, operations
    return None, operations
