"""Groups beside the default group, on a process whose default group changes. They are known by their names in torch."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import torch.distributed as dist
from torch._C._distributed_c10d import _resolve_process_group
from torch.distributed import distributed_c10d as c10d

from . import _member_steps as steps

_NAMES = ("all", "even", "odd")
_torch_names: dict[str, str] = {}


def make_subgroups() -> None:
    """One of all ranks, one of the even and one of the odd ones."""
    world = dist.get_world_size()
    _torch_names.clear()
    for name, ranks in zip(_NAMES, (range(world), range(0, world, 2), range(1, world, 2)), strict=True):
        if not ranks:
            continue
        group: Any = dist.new_group(list(ranks), group_desc=name)
        if group is not dist.GroupMember.NON_GROUP_MEMBER:
            _torch_names[name] = group.group_name


def _groups() -> dict[str, Any]:
    """Those that this process is in, by what they were called when they were made. On a newcomer, too."""
    return {group.group_desc: group for group in c10d._world.pg_map if group.group_desc in _NAMES}


def check_subgroups(expected: dict[str, list[int]]) -> None:
    """This process is in these groups, of these ranks of the default group, and in no others; they work."""
    groups = _groups()
    found = {name: dist.get_process_group_ranks(group) for name, group in groups.items()}
    assert found == expected
    for name in _NAMES:
        if name in groups:
            _check(groups[name], name, expected[name])


def check_subgroup(name: str, ranks: list[int]) -> None:
    assert dist.get_process_group_ranks(_groups()[name]) == ranks
    _check(_groups()[name], name, ranks)


def _check(group: Any, name: str, ranks: list[int]) -> None:
    mine = ranks.index(dist.get_rank())
    assert (dist.get_rank(group), dist.get_world_size(group)) == (mine, len(ranks))
    assert [dist.get_global_rank(group, one) for one in range(len(ranks))] == ranks
    assert [dist.get_group_rank(group, one) for one in ranks] == list(range(len(ranks)))
    assert _resolve_process_group(group.group_name) is group
    assert _torch_names.get(name, group.group_name) == group.group_name
    steps.check_collectives(group, mine, len(ranks))


def handle_of(name: str) -> str:
    import pycomms

    return pycomms.regroup_handle(_groups()[name])


def regroup(name: str, uuid: int, handles: list[str]) -> None:
    import pycomms

    pycomms.regroup(_groups()[name], uuid=uuid, handles=handles, timeout=timedelta(seconds=10)).wait()


_heard: list[tuple[str, int, int, int]] = []
_listening: list[Any] = []


def listen() -> None:
    import pycomms

    def note(group: Any, generation: int) -> None:
        _heard.append((group.group_desc, generation, dist.get_rank(group), dist.get_world_size(group)))

    _listening.append(pycomms.on_regroup(note))


def stop_listening() -> None:
    _listening.pop().remove()


def heard() -> list[tuple[str, int, int, int]]:
    return list(_heard)
