"""Going on without some ranks: a smaller group in the place of one that has lost members."""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING

import torch.distributed as dist
from torch._C._distributed_c10d import PrefixStore
from torch.distributed import distributed_c10d as c10d

from pycomms import _C
from pycomms.process_group import _tables

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from torch._C._distributed_c10d import Backend


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
        TypeError: the group is not one of pycomms, or ranks_to_exclude is not of ints.
        pycomms.CollectiveTimeout: some did not come; ``ranks`` has them.
        pycomms.CollectiveMismatch: the callers want to exclude different ranks.
    """
    excluded = _checked(ranks_to_exclude)
    shrunk = group if group is not None else c10d._get_default_group()
    backend = _tables.backend_of(shrunk, "shrink_group")
    smaller = backend.shrink(excluded, int(bool(abort)), options)
    stay = [rank for index, rank in enumerate(dist.get_process_group_ranks(shrunk)) if index not in excluded]
    if shrunk is not c10d._get_default_group():
        return _exchange(shrunk, smaller, stay)
    for other in [one for one in list(c10d._world.pg_map) if one is not shrunk]:
        other.abort()
        _tables.forget(other)
    return _exchange(shrunk, smaller, range(len(stay)))


def _checked(ranks: Iterable[int]) -> list[int]:
    try:
        return sorted(operator.index(rank) for rank in ranks)
    except TypeError:
        raise TypeError(f"shrink_group: ranks_to_exclude must be ranks of the group, got {ranks!r}") from None


def _exchange(old: dist.ProcessGroup, backend: _C.Backend, ranks: Sequence[int]) -> dist.ProcessGroup:
    """Ends the old group and tells torch about the new one, under the name and with the tag of its own."""
    is_default = old is c10d._get_default_group()
    kind, description = _tables.Kind.of(old), f"{old.group_desc}:shrunk"
    _, store = c10d._world.pg_map[old]
    old.abort()  # not shutdown(): that would wait for ranks that are gone
    _tables.forget(old)
    name = backend.options.group_name
    new = _tables.new_group(
        backend,
        kind,
        store=PrefixStore(f"{name}/", store),
        name=name,
        description=description,
        tag=f"ptd:{name}",
        ranks=ranks,
    )
    if is_default:
        c10d._update_default_pg(new)
    return new
