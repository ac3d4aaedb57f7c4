"""After the default group has regrouped: its subgroups do, and torch's tables tell of it.

Every process tells all others which groups it is in and how they are made (`_recipes`); all come to the same plan. Who
takes the place of a dead member makes a group of that name; then all regroup, each group with a uuid that follows from
the one of the default group. Groups of other backends than ours are left alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any, cast

import torch.distributed as dist
from torch._C._distributed_c10d import HashStore
from torch.distributed import distributed_c10d as c10d

from pycomms import _C
from pycomms._config import config
from pycomms.process_group import _tables
from pycomms.process_group._exchange import Deadline, share
from pycomms.process_group._memberships import Memory
from pycomms.process_group._recipes import (
    Contribution,
    Gist,
    Place,
    Plan,
    Recipe,
    Seat,
    derived_uuid,
    membership_of,
    plan,
)

if TYPE_CHECKING:
    from torch.distributed.distributed_c10d import GroupName


def contribution(default: dist.ProcessGroup, memory: Memory) -> Contribution:
    """What this process will bring; from before the regroup."""
    groups = _subgroups(default)
    for group in groups:
        if group not in memory.recipes:
            memory.recipes[group] = _recipe(group, default, memory.membership)
    return Contribution(
        fresh=not memory.settled,
        ranks=dict(memory.ranks),
        names=frozenset(c10d._world.pg_names.values()) - {default.group_name},
        recipes=tuple(memory.recipes[group] for group in groups),
        groups_made=c10d._world.group_count,
    )


def rebuild(
    default: dist.ProcessGroup, memory: Memory, own: Contribution, uuid: int, handles: Sequence[str], deadline: Deadline
) -> None:
    """Collective over the members of the new default group."""
    everyone = range(default.size())
    _tables.set_ranks(default, everyone)
    memory.learn(membership_of(uuid, handles), _backend(default).generation, default.rank())
    gist = Gist.of(_backend(default).regroup_notes)
    c10d._world.group_count = gist.groups_made  # of which torch makes the names of groups
    if gist.recipes == 0:
        memory.settle()
        return
    brought = [Contribution.from_json(raw) for raw in share(default, everyone, own.to_json(), deadline)]
    groups = {}
    for one in plan(brought, memory.membership):
        if default.rank() in one.members:
            group = _group(one.recipe, default, memory)
            memory.recipes[group] = one.recipe
            _tables.set_ranks(group, one.members)
            groups[one] = group
    memory.settle()
    own_handles = {one.recipe.key: _backend(group).regroup_handle() for one, group in groups.items()}
    of_all: list[Mapping[str, str]] = share(default, everyone, own_handles, deadline)
    _regroup(groups, of_all, uuid, deadline)


def _regroup(
    groups: Mapping[Plan, dist.ProcessGroup], handles: Sequence[Mapping[str, str]], uuid: int, deadline: Deadline
) -> None:
    """All at once, so that no order of groups can make two processes wait for each other."""
    works = {}
    for one, group in groups.items():
        key = one.recipe.key
        listed = [handles[member][key] for member in one.members]
        derived = derived_uuid(one.recipe.membership, str(uuid), key)
        works[one] = _backend(group).regroup(uuid=derived, handles=listed, timeout=deadline.left())
    for one, work in works.items():
        work.wait()
        # Not earlier: the regroup reads them.
        _backend(groups[one]).options.global_ranks_in_group = list(one.members)


def connect_over(default: dist.ProcessGroup, ranks: Sequence[int], own: _C.Options, timeout: timedelta) -> _C.Backend:
    """The backend of a new group of members of a default group that has regrouped: they may share no store."""
    deadline = Deadline(timeout)
    backend = _alone(own)
    handles = share(default, ranks, backend.regroup_handle(), deadline)
    backend.regroup(uuid=derived_uuid(*handles), handles=handles, timeout=deadline.left()).wait()
    return backend


def _group(recipe: Recipe, default: dist.ProcessGroup, memory: Memory) -> dist.ProcessGroup:
    """The group that is to regroup: the one that there is, or, on a newcomer, one of this process alone."""
    for group, known in memory.recipes.items():
        if known.key == recipe.key and group in c10d._world.pg_map:
            return group
    settings = recipe.settings
    own = _C.Options(**{name: settings[name] for name in _PLAIN}, nan_check=_nan_check(settings["nan_check"]))
    own._timeout = timedelta(seconds=settings["timeout"])
    name = cast("GroupName", recipe.name)
    own.group_name = name
    return _tables.new_group(
        _alone(own),
        _tables.Kind.of(default),
        store=HashStore(),
        name=name,
        description=settings["description"],
        tag=settings["tag"],
        ranks=[default.rank()],
    )


def _alone(own: _C.Options) -> _C.Backend:
    own.connect = _C.Connect.LAZY
    return _C.create(HashStore(), 0, 1, own, str(config().engine), config().vector_width)


# The options that a recipe carries, beside those that JSON does not know.
_PLAIN = ("is_high_priority_stream", "blocking_wait", "ranks_per_root", "register_segments")


def _recipe(group: dist.ProcessGroup, default: dist.ProcessGroup, membership: str) -> Recipe:
    ranks = dist.get_process_group_ranks(group)
    options: Any = _backend(group).options
    settings = {name: getattr(options, name) for name in _PLAIN}
    return Recipe(
        name=group.group_name,
        born=membership,
        of_all=len(ranks) == len(dist.get_process_group_ranks(default)),
        membership=membership,
        version=0,
        places=tuple(Place(seat=Seat(membership=membership, rank=rank)) for rank in ranks),
        settings={
            **settings,
            "nan_check": "" if options.nan_check is None else options.nan_check.name,
            "timeout": options._timeout.total_seconds(),
            "description": group.group_desc,
            "tag": c10d._world.pg_to_tag[group],
        },
    )


def _nan_check(name: str) -> _C.NanCheck | None:
    return _C.NanCheck.__members__[name] if name else None


def _subgroups(default: dist.ProcessGroup) -> list[dist.ProcessGroup]:
    known = [group for group in c10d._world.pg_map if group is not default and not _tables.is_apart(group)]
    return [group for group in known if _tables.own_backend(group) is not None]


def _backend(group: dist.ProcessGroup) -> _C.Backend:
    return _tables.backend_of(group, "regroup")
